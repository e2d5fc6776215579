"""swe: repair a repository in a container; SWE-bench's own rule decides."""

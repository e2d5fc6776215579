"""code_gen: programs that must pass tests, run in a sandbox."""

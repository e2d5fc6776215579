"""The embedded default model: a small language model inside the host process, without key and server."""

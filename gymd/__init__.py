"""gymd: a gRPC service mesh for reinforcement-learning environments of language models."""

__all__ = ["__version__"]

# The one place of the version: the build reads it here. Installed metadata would cost each start 40 ms.
__version__ = "0.1.0"

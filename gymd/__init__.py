"""gymd: a gRPC service mesh for reinforcement-learning environments of language models."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("gymd")

"""What the server process and the workers that score for it tell each other."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONFIG_KEY", "BadTask", "Scored"]

CONFIG_KEY = "dataset_config"
"""In a row's metadata: the configuration that its puzzle was made with, if it was not the default."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A verdict.

    Attributes:
        value: the library's score, from 0 to 1.
        error: what its scorer raised because of the answer; "" if nothing.
    """

    value: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class BadTask:
    """The row cannot be scored, whatever the answer."""

    reason: str

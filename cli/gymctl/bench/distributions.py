"""Numbers that look random and depend only on what they are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Distribution", "share"]

_FORMS = "a number, fixed:N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEDIAN:SIGMA"
_COUNTS = {"fixed": 1, "uniform": 2, "exponential": 1, "lognormal": 2}


@dataclass(frozen=True)
class Distribution:
    """A distribution as it is written on the command line; the simulated model reads the same forms.

    Attributes:
        kind: fixed, uniform, exponential or lognormal.
        numbers: what follows the kind.
    """

    kind: str
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Distribution:
        """Reads a form; raises ValueError for one that is unknown."""
        kind, *parts = text.split(":")
        if not parts:
            kind, parts = "fixed", [kind]
        try:
            numbers = tuple(float(part) for part in parts)
        except ValueError:
            numbers = ()
        if len(numbers) != _COUNTS.get(kind) or not all(0 <= number < math.inf for number in numbers):
            raise ValueError(f"{text!r} must be {_FORMS}, without negative numbers")
        return cls(kind, numbers)

    def __str__(self) -> str:
        return ":".join([self.kind, *(f"{number:g}" for number in self.numbers)])

    def at(self, part: float) -> float:
        """The number below which this share (between 0 and 1) of all drawn ones lies."""
        first, *more = self.numbers
        if self.kind == "fixed":
            return first
        if self.kind == "uniform":
            return first + (more[0] - first) * part
        if self.kind == "exponential":
            return -first * math.log(1.0 - part)
        from statistics import NormalDist  # not loaded for --help

        return first * math.exp(more[0] * NormalDist().inv_cdf(part))


def share(seed: int, *parts: object) -> float:
    """A number between 0 and 1, both excluded, the same for the same arguments in every process."""
    from hashlib import blake2b

    digest = blake2b(repr((seed, *parts)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest) + 0.5) / float(1 << 64)

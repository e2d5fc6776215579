"""Statistics that are taken in parts and merged without loss: moments of numbers, distinct values."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from operator import mul
from typing import Any

__all__ = ["Distinct", "Moments", "digest", "finite", "pack"]

DIGEST_BYTES = 8
"""A value is known by 64 bits of its hash: two of a million fall together once in 37 million runs."""

_PARTS = 32
_SHIFT = 8 - _PARTS.bit_length() + 1
_BOUNDS = [bytes([part << _SHIFT]) for part in range(_PARTS)]
_SMALLEST_COMPACTION_BYTES = 1 << 14


@dataclass(slots=True)
class Moments:
    """Count, sum, sum of squares and range of numbers, all exact: it does not matter how they are merged.

    A float is a whole number divided by a power of two; so sums of floats are kept as whole numbers.
    """

    count: int = 0
    total: int = 0
    """The sum, times 2 to the `scale`."""
    squares: int = 0
    """The sum of the squares, times 4 to the `scale`."""
    scale: int = 0
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """The moments of at least one number, none infinite."""
        if type(total := sum(values)) is int:
            squares = sum(map(mul, values, values))
            return cls(len(values), total, int(squares), 0, min(values), max(values))
        # Settings such as a temperature have few values.
        ratios = [(*value.as_integer_ratio(), times) for value, times in Counter(values).items()]
        scale = max(below for _, below, _ in ratios).bit_length() - 1
        wholes = [(above << scale - below.bit_length() + 1, times) for above, below, times in ratios]
        return cls(
            count=len(values),
            total=sum(whole * times for whole, times in wholes),
            squares=sum(whole * whole * times for whole, times in wholes),
            scale=scale,
            low=min(values),
            high=max(values),
        )

    def merge(self, other: Moments) -> None:
        """Adds what another one has seen."""
        scale = max(self.scale, other.scale)
        mine, theirs = scale - self.scale, scale - other.scale
        self.count += other.count
        self.total = (self.total << mine) + (other.total << theirs)
        self.squares = (self.squares << 2 * mine) + (other.squares << 2 * theirs)
        self.scale = scale
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def times(self, repeats: int) -> Moments:
        """The moments of the same numbers, each so many times."""
        return replace(
            self,
            count=self.count * repeats,
            total=self.total * repeats,
            squares=self.squares * repeats,
        )

    @property
    def mean(self) -> float:
        """The average, correctly rounded; 0 for no number."""
        return self.total / (self.count << self.scale) if self.count else 0.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the sample; 0 for fewer than two numbers."""
        if self.count < 2:
            return 0.0
        spread = self.count * self.squares - self.total * self.total
        try:
            return math.sqrt(spread / (self.count * (self.count - 1) << 2 * self.scale))
        except OverflowError:
            return math.inf


class Distinct:
    """How many different values there were among how many; 8 bytes of memory for each different one."""

    def __init__(self) -> None:
        self.total = 0
        self._parts = [b""] * _PARTS
        self._new = [bytearray() for _ in range(_PARTS)]
        self._limits = [_SMALLEST_COMPACTION_BYTES] * _PARTS

    def add(self, total: int, packed: Sequence[bytes]) -> None:
        """Adds the digests of `pack`, of values that were seen `total` times in all."""
        self.total += total
        for part, digests in enumerate(packed):
            new = self._new[part]
            new += digests
            if len(new) > self._limits[part]:
                self._compact(part)

    def merge(self, other: Distinct, repeats: int = 1) -> None:
        """Adds what another one has seen, each occurrence counted `repeats` times."""
        self.add(0, other._parts)
        self.add(other.total * repeats, [bytes(new) for new in other._new])

    @property
    def count(self) -> int:
        """How many different values there were."""
        for part in range(_PARTS):
            self._compact(part)
        return sum(map(len, self._parts)) // DIGEST_BYTES

    def _compact(self, part: int) -> None:
        """Throws doubles away; what is gathered until the next time may be as much as what is kept."""
        if not self._new[part]:
            return
        digests = _split(self._parts[part])
        digests.update(_split(self._new[part]))
        self._parts[part] = b"".join(digests)
        self._new[part] = bytearray()
        self._limits[part] = max(len(self._parts[part]), _SMALLEST_COMPACTION_BYTES)


def digest(data: bytes) -> bytes:
    """The hash that a value is known by."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def pack(digests: Collection[bytes]) -> list[bytes]:
    """Digests in the form that `Distinct.add` takes: one text for each range of first bytes."""
    ordered = sorted(digests)
    starts = [bisect_left(ordered, bound) for bound in _BOUNDS]
    return [b"".join(ordered[start:end]) for start, end in pairwise([*starts, len(ordered)])]


def _split(digests: bytes | bytearray) -> set[bytes]:
    data = bytes(digests)
    return {data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)}


def finite(value: float) -> Any:
    """A number for JSON: nine digits of it; None if it is no finite one."""
    if isinstance(value, int):
        return value
    return float(f"{value:.9g}") if math.isfinite(value) else None

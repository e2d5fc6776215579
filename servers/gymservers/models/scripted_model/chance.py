"""Numbers that look random and depend only on what they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from statistics import NormalDist

__all__ = ["parse_distribution", "share"]

_RANGE = float(1 << 64)
_NORMAL = NormalDist()
_FORMS = "a number, fixed:N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEDIAN:SIGMA"


def share(seed: int, *parts: object) -> float:
    """A number between 0 and 1, both excluded, the same for the same arguments in every process."""
    digest = blake2b(repr((seed, *parts)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest) + 0.5) / _RANGE


@cache
def parse_distribution(text: str | float) -> Callable[[float], float]:
    """A function from a share to a number of seconds or tokens; raises ValueError for a form that is unknown.

    Forms: a number, fixed:N, uniform:LOW:HIGH, exponential:MEAN, lognormal:MEDIAN:SIGMA.
    """
    kind, *numbers = str(text).split(":")
    try:
        if not numbers:
            kind, numbers = "fixed", [kind]
        first, *more = (float(number) for number in numbers)
    except ValueError:
        raise ValueError(f"{text!r} must be {_FORMS}") from None
    if not all(0 <= number < math.inf for number in (first, *more)):
        raise ValueError(f"{text!r} must be {_FORMS}, without negative numbers")
    if kind == "fixed" and not more:
        return lambda _: first
    if kind == "exponential" and not more:
        return lambda part: -first * math.log(1.0 - part)
    if kind == "uniform" and len(more) == 1:
        return lambda part: first + (more[0] - first) * part
    if kind == "lognormal" and len(more) == 1:
        return lambda part: first * math.exp(more[0] * _NORMAL.inv_cdf(part))
    raise ValueError(f"{text!r} must be {_FORMS}")

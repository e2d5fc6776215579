"""What many rows come to: figures and histogram. For tasks see tasks.py."""

from __future__ import annotations

import statistics
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gymctl.viewer.columns import Columns
from gymctl.viewer.query import RowId, by_file

__all__ = ["figures", "histogram"]

_MOST_VALUES = 12
"""Up to so many different rewards each one has a bar of its own."""
_BARS = 20


def figures(files: Sequence[Columns], rows: Sequence[RowId]) -> dict[str, Any]:
    """Counts and means; `outcomes` counts by the number of the name."""
    rewards = _rewards(files, rows)
    outcomes: Counter[int] = Counter()
    seconds = array("d")
    tokens = 0
    for columns, own in by_file(files, rows):
        outcomes.update(map(columns.outcome.__getitem__, own))
        tokens += sum(count for count in map(columns.output_tokens.__getitem__, own) if count > 0)
        seconds.extend(taken for taken in map(columns.seconds.__getitem__, own) if taken == taken)
    return {
        "rows": len(rows),
        "scored": len(rewards),
        "mean": statistics.fmean(rewards) if rewards else None,
        "median_seconds": statistics.median(seconds) if seconds else None,
        "output_tokens": tokens,
        "outcomes": outcomes,
    }


def histogram(files: Sequence[Columns], rows: Sequence[RowId]) -> list[dict[str, float | None]]:
    """Bars: `count` rewards from `min` to `max`, both included, so that they select exactly these rows.

    `low` and `high` are the edges of the bar; they are equal where every bar is one value.
    """
    rewards = _rewards(files, rows)
    counts = Counter(rewards)
    if len(counts) <= _MOST_VALUES:
        return [_bar(value, value, [value] * count) for value, count in sorted(counts.items())]
    low, high = min(counts), max(counts)
    width = high / _BARS - low / _BARS  # the difference itself may be more than a float holds
    bars = [array("d") for _ in range(_BARS)]
    for value in rewards:
        bars[int(min((value - low) / width, _BARS - 1)) if width else 0].append(value)
    return [_bar(low + at * width, low + (at + 1) * width, bar) for at, bar in enumerate(bars)]


def _bar(low: float, high: float, values: Sequence[float]) -> dict[str, float | None]:
    least, most = min(values, default=None), max(values, default=None)
    return {"low": low, "high": high, "min": least, "max": most, "count": len(values)}


def _rewards(files: Sequence[Columns], rows: Sequence[RowId]) -> array[float]:
    """The rewards of the scored ones."""
    found = array("d")
    for columns, own in by_file(files, rows):
        found.extend(value for value in map(columns.reward.__getitem__, own) if value == value)
    return found

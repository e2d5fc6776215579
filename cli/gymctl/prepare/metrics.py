"""The metrics of a dataset: gathered from reports of chunks, merged, and written in NeMo Gym's form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gymctl.prepare.measure import (
    NUMBERS,
    TOKENS,
    TOOL_TOKENS,
    TOOLS,
    TURNS,
    UNIQUE_MESSAGES,
    UNIQUE_PARAMS,
    WORDS,
    ChunkReport,
)
from gymctl.prepare.stats import Distinct, Moments, finite

__all__ = ["EXAMPLES", "TOKENIZER", "Metrics"]

EXAMPLES = "Number of examples"
TOKENIZER = "Tokenizer"

# In this order; the names of the first five are NeMo Gym's.
_BLOCKS = (TOOLS, WORDS, TURNS, "Temperature", TOKENS, TOOL_TOKENS)
_MORE_BLOCKS = tuple(name for name in NUMBERS.values() if name != "Temperature")
_COUNTS = (UNIQUE_PARAMS, UNIQUE_MESSAGES)
# A dataset whose rows have ever new keys would need memory for each.
_MOST_FIELDS = 1_000


@dataclass(slots=True)
class _Field:
    """What is known of the values under one key of the rows."""

    numbers: Moments = field(default_factory=Moments)
    texts: Distinct = field(default_factory=Distinct)


class Metrics:
    """Of one dataset, or of several that are written to one file."""

    def __init__(self) -> None:
        self.examples = 0
        self._numbers: dict[str, Moments] = {}
        self._unique: dict[str, Distinct] = {}
        self._fields: dict[str, _Field] = {}

    def add(self, report: ChunkReport) -> None:
        """Adds what a chunk came to."""
        self.examples += report.rows - len(report.bad_lines)
        for name, moments in report.numbers.items():
            self._numbers.setdefault(name, Moments()).merge(moments)
        for name, (total, packed) in report.unique.items():
            self._unique.setdefault(name, Distinct()).add(total, packed)
        for key, (numbers, total, packed) in report.fields.items():
            if (found := self._field(key)) is not None:
                if numbers is not None:
                    found.numbers.merge(numbers)
                found.texts.add(total, packed)

    def merge(self, other: Metrics, repeats: int = 1) -> None:
        """Adds a dataset whose rows are written `repeats` times."""
        self.examples += other.examples * repeats
        for name, moments in other._numbers.items():
            self._numbers.setdefault(name, Moments()).merge(moments.times(repeats))
        for name, distinct in other._unique.items():
            self._unique.setdefault(name, Distinct()).merge(distinct, repeats)
        for key, theirs in other._fields.items():
            if (found := self._field(key)) is not None:
                found.numbers.merge(theirs.numbers.times(repeats))
                found.texts.merge(theirs.texts, repeats)

    def document(self, tokenizer: str | None, repeats: int = 1) -> dict[str, Any]:
        """The metrics as JSON.

        Args:
            tokenizer: what identifies the tokenizer; None: tokens were not counted.
            repeats: how often each row is written.
        """
        found: dict[str, Any] = {EXAMPLES: self.examples * repeats}
        for name in (*_BLOCKS, *_MORE_BLOCKS):
            if tokenizer or name not in (TOKENS, TOOL_TOKENS):
                found[name] = _block(self._numbers.get(name, Moments()).times(repeats))
        for name in _COUNTS:
            found[name] = self._unique[name].count if name in self._unique else 0
        if tokenizer:
            found[TOKENIZER] = tokenizer
        for key, values in self._fields.items():
            if key not in found:
                found[key] = _field_block(values, repeats)
        return found

    def _field(self, key: str) -> _Field | None:
        found = self._fields.get(key)
        if found is None and len(self._fields) < _MOST_FIELDS:
            found = self._fields[key] = _Field()
        return found


def _block(moments: Moments) -> dict[str, Any]:
    has_any = moments.count > 0
    return {
        "Total # non-null values": moments.count,
        "Average": finite(moments.mean) if has_any else 0.0,
        "Min": finite(moments.low) if has_any else 0.0,
        "Max": finite(moments.high) if has_any else 0.0,
        "Standard deviation": finite(moments.deviation),
    }


def _field_block(values: _Field, repeats: int) -> dict[str, Any]:
    block = _block(values.numbers.times(repeats)) if values.numbers.count else {}
    if values.texts.total:
        block |= {"unique_count": values.texts.count, "total_count": values.texts.total * repeats}
    return block

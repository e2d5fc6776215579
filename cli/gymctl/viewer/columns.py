"""The index of a file: one compact array per fact, about 80 bytes a row."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Columns", "Names"]

_MOST_NAMES = 1000
OTHER = "(other)"


class Columns:
    """Rows in the order of their lines. Only ever grows, so that other threads may read what they counted."""

    def __init__(self) -> None:
        # Where the line is; lines count from 1.
        self.offset = array("Q")
        self.length = array("Q")
        self.line = array("Q")
        # What it says: rows.Facts, in that order.
        self.flags = array("H")
        self.reward = array("d")
        self.seconds = array("f")
        self.input_tokens = array("i")
        self.output_tokens = array("i")
        self.turns = array("i")
        self.tool_calls = array("i")
        self.tool_errors = array("i")
        self.tools = array("i")
        self.agent = array("H")
        self.outcome = array("H")
        self.task = array("q")
        self.task_index = array("i")
        self.rollout_index = array("i")
        self._arrays: tuple[array[Any], ...] = tuple(vars(self).values())

    def __len__(self) -> int:
        # The last array: all others are at least as long while a row is being added.
        return len(self.rollout_index)

    def append(self, values: Sequence[Any]) -> None:
        """Adds a row."""
        for column, value in zip(self._arrays, values, strict=True):
            column.append(value)

    def extend(self, more: Columns, *, replace_last: bool = False) -> None:
        """Adds rows; the first may take the place of the last one here."""
        first = 0
        if replace_last and len(more):
            first = 1
            for column, new in zip(self._arrays, more._arrays, strict=True):
                column[-1] = new[0]
        for column, new in zip(self._arrays, more._arrays, strict=True):
            column.extend(new[first:] if first else new)

    def dump(self) -> Iterator[bytes]:
        """The arrays one after the other, for `load` on the same machine."""
        return (column.tobytes() for column in self._arrays)

    @classmethod
    def load(cls, data: bytes) -> Columns:
        """Reads what `dump` gave."""
        columns = cls()
        count = len(data) // sum(column.itemsize for column in columns._arrays)
        at, view = 0, memoryview(data)
        for column in columns._arrays:
            size = count * column.itemsize
            column.frombytes(view[at : at + size])
            at += size
        return columns


class Names:
    """Names as numbers. A file that holds names without end cannot fill the memory: most share one number."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.known: list[str] = []
        self._numbers: dict[str, int] = {}
        for name in known:
            self.number(name)

    def number(self, name: str) -> int:
        """The number of a name, a new one if need be."""
        found = self._numbers.get(name)
        if found is not None:
            return found
        if len(self.known) >= _MOST_NAMES and name != OTHER:
            return self.number(OTHER)
        self._numbers[name] = len(self.known)
        self.known.append(name)
        return self._numbers[name]

    def find(self, name: str) -> int | None:
        """The number of a name that is known."""
        return self._numbers.get(name)

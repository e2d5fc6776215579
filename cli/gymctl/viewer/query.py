"""Filters and order: from the columns to the rows of a list."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymctl.viewer.columns import Columns
from gymctl.viewer.rows import FAILED, IMAGES, MALFORMED, OVERSIZE, REASONING, TOKENS

__all__ = ["HAS", "SORTS", "Filter", "RowId", "by_file", "make_id", "select", "sort_rows", "split"]

RowId = int
"""A row of one of the files: number of the file in the upper bits, row in the lower."""

_FILE_SHIFT = 40
_ROW_MASK = (1 << _FILE_SHIFT) - 1

Test = Callable[[Columns, int], bool]

HAS: Mapping[str, Test] = {
    "calls": lambda columns, row: columns.tool_calls[row] > 0,
    "errors": lambda columns, row: columns.tool_errors[row] > 0,
    "tools": lambda columns, row: columns.tools[row] > 0,
    "reasoning": lambda columns, row: bool(columns.flags[row] & REASONING),
    "images": lambda columns, row: bool(columns.flags[row] & IMAGES),
    "tokens": lambda columns, row: bool(columns.flags[row] & TOKENS),
    "failure": lambda columns, row: bool(columns.flags[row] & FAILED),
    "unscored": lambda columns, row: math.isnan(columns.reward[row]),
    "malformed": lambda columns, row: bool(columns.flags[row] & (MALFORMED | OVERSIZE)),
}
"""What a row may be asked to have."""


@dataclass(frozen=True)
class Filter:
    """Which rows; what is not set does not matter."""

    agent: int | None = None
    outcome: int | None = None
    file: int | None = None
    task: int | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    has: frozenset[str] = frozenset()
    """Keys of HAS; all must hold."""

    def without_reward(self) -> Filter:
        """The same, whatever the reward."""
        return Filter(self.agent, self.outcome, self.file, self.task, has=self.has)


def make_id(file: int, row: int) -> RowId:
    """The id of a row of a file."""
    return file << _FILE_SHIFT | row


def split(row: RowId) -> tuple[int, int]:
    """File and row."""
    return row >> _FILE_SHIFT, row & _ROW_MASK


def by_file(files: Sequence[Columns], rows: Sequence[RowId]) -> Iterator[tuple[Columns, Sequence[int]]]:
    """The columns of each file, with the rows of it."""
    if len(files) == 1:
        yield files[0], rows  # the file 0: ids are rows
        return
    for number, columns in enumerate(files):
        yield columns, [row & _ROW_MASK for row in rows if row >> _FILE_SHIFT == number]


def select(
    files: Sequence[Columns], wanted: Filter, found: Sequence[Sequence[int]] | None = None
) -> list[RowId]:
    """The rows that pass, in the order of the files.

    Args:
        files: the columns of each file.
        wanted: the filter.
        found: of each file the rows that a search found; None: nobody searches.
    """
    rows: list[RowId] = []
    for number, columns in enumerate(files):
        if wanted.file is not None and number != wanted.file:
            continue
        candidates: Sequence[int] = range(len(columns)) if found is None else list(found[number])
        base = number << _FILE_SHIFT
        rows += [base | row for row in _passing(columns, candidates, wanted)]
    return rows


def _passing(columns: Columns, rows: Sequence[int], wanted: Filter) -> Sequence[int]:
    for column, value in (
        (columns.agent, wanted.agent),
        (columns.outcome, wanted.outcome),
        (columns.task, wanted.task),
    ):
        if value is not None:
            rows = [row for row in rows if column[row] == value]
    rewards = columns.reward
    # NaN, no reward, fails both.
    if (low := wanted.reward_min) is not None:
        rows = [row for row in rows if rewards[row] >= low]
    if (high := wanted.reward_max) is not None:
        rows = [row for row in rows if rewards[row] <= high]
    for name in sorted(wanted.has):
        test = HAS[name]
        rows = [row for row in rows if test(columns, row)]
    return rows


def _tokens(columns: Columns) -> array[int]:
    pairs = zip(columns.input_tokens, columns.output_tokens, strict=False)
    return array(
        "q", [-1 if read < 0 and wrote < 0 else max(read, 0) + max(wrote, 0) for read, wrote in pairs]
    )


SORTS: Mapping[str, Callable[[Columns], Sequence[Any]]] = {
    "reward": lambda columns: columns.reward,
    "duration": lambda columns: columns.seconds,
    "tokens": _tokens,
    "turns": lambda columns: columns.turns,
    "calls": lambda columns: columns.tool_calls,
    "tools": lambda columns: columns.tools,
    "size": lambda columns: columns.length,
    "task": lambda columns: columns.task_index,
}
"""What a list may be sorted by, besides the line."""


def sort_rows(files: Sequence[Columns], rows: list[RowId], key: str, *, descending: bool) -> list[RowId]:
    """Sorts by "line" or a key of SORTS; equal ones by line, and those without a value last."""
    if key == "line":
        return rows[::-1] if descending else rows
    values = [SORTS[key](columns) for columns in files]
    if len(files) == 1:
        only = values[0]
        keys = [only[row] for row in rows]
    else:
        keys = [values[row >> _FILE_SHIFT][row & _ROW_MASK] for row in rows]
    # Numbers: below zero or NaN stands for none, except that a reward may well be below zero.
    known = [value == value and (value >= 0 or key == "reward") for value in keys]
    order = [at for at, there in enumerate(known) if there]
    order.sort(key=keys.__getitem__, reverse=descending)
    return [rows[at] for at in order] + [row for row, there in zip(rows, known, strict=True) if not there]

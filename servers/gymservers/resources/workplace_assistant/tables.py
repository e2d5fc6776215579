"""The office's tables. Rows and lists of rows never change, so that thousands of sessions share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gymd.sdk import ToolError

__all__ = ["Cells", "Office", "Row", "Table"]

Cells = dict[str, str | None]

CASE_SENSITIVE = frozenset({"status", "list_name", "board"})
"""Columns whose upper and lower case counts when end states are compared."""
LONGEST_ID = 18
"""Digits of an id that still counts when the next one is chosen."""


class Row:
    """One row; never changed once it is made.

    Attributes:
        cells: text by column, the id first; None where the cell is missing.
        folded: the same as end states compare it: in lower case, but for some columns.
        number: the id as a number, 0 if it is none.
    """

    __slots__ = ("cells", "folded", "number")

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.folded: Cells = {
            name: cell if cell is None or name in CASE_SENSITIVE else cell.lower()
            for name, cell in cells.items()
        }
        row_id = next(iter(cells.values())) or ""
        self.number = int(row_id) if row_id.isdecimal() and len(row_id) <= LONGEST_ID else 0

    def text(self, column: str) -> str:
        """A cell, "" where it is missing."""
        return self.cells[column] or ""


class Table:
    """Rows in order. A change puts a new list in the place of the old one, which others may still hold.

    Args:
        columns: their names; the first one is the id.
        rows: the rows, each with these columns.
    """

    __slots__ = ("columns", "key", "rows")

    def __init__(self, columns: Sequence[str], rows: Sequence[Row] = ()) -> None:
        self.columns = columns
        self.key = columns[0]
        self.rows = rows

    def fork(self) -> Table:
        """A table with the same rows, which may change without this one."""
        return Table(self.columns, self.rows)

    def find(self, row_id: str) -> Row | None:
        """The first row of an id."""
        return next((row for row in self.rows if row.cells[self.key] == row_id), None)

    def next_id(self) -> int:
        """One more than the largest id."""
        return max([row.number for row in self.rows], default=0) + 1

    def add(self, cells: Cells) -> None:
        """Adds a row at the end."""
        self.rows = [*self.rows, Row({name: cells[name] for name in self.columns})]

    def set(self, row_id: str, column: str, value: str) -> None:
        """Sets a cell of the rows of an id."""
        key = self.key
        self.rows = [
            Row({**row.cells, column: value}) if row.cells[key] == row_id else row for row in self.rows
        ]

    def remove(self, row_id: str) -> None:
        """Removes the rows of an id."""
        self.rows = [row for row in self.rows if row.cells[self.key] != row_id]

    def same_as(self, other: Table) -> bool:
        """Whether both hold the same rows in the same order, upper and lower case aside."""
        if self.rows is other.rows:
            return True
        if len(self.rows) != len(other.rows):
            return False
        pairs = zip(self.rows, other.rows, strict=True)
        return all(one is another or one.folded == another.folded for one, another in pairs)


@dataclass(slots=True)
class Office:
    """All that the tools see.

    Attributes:
        directory: the email addresses of the staff.
        visits: the visits to the web site, whose `user_engaged` is a bool; nothing changes them.
        changes_left: how many more calls may change the other tables.
    """

    directory: Sequence[str]
    visits: Sequence[dict[str, Any]]
    emails: Table
    events: Table
    plots: Table
    tasks: Table
    customers: Table
    changes_left: int = 0

    def fork(self, max_changes: int) -> Office:
        """The same office for one session or replay, which may change it without this one."""
        tables = {name: getattr(self, name).fork() for name in TABLES}
        return replace(self, changes_left=max_changes, **tables)

    def count_change(self) -> None:
        """Counts a call that may change a table; raises ToolError when there were too many."""
        if not self.changes_left:
            raise ToolError('{"output": "This session has made all the changes that it may make."}')
        self.changes_left -= 1

    def differences(self, other: Office) -> list[str]:
        """The names of the tables that differ."""
        return [name for name in TABLES if not getattr(self, name).same_as(getattr(other, name))]


TABLES = ("emails", "events", "plots", "tasks", "customers")
"""The tables that tools change, as Office names them."""

"""What the daemon would otherwise remember about results that wait long: a file beside the journal.

The journal has the results themselves; this file has where they stand in the account, by number, so that a
client that stalls costs disk, not memory. It serves one run of the daemon: the next one starts without it and
makes its own from the journal, so nothing here is ever synchronised to the disk, and losing it loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gymd.daemon.journal.schema import NUMBER_MASK, row_id

__all__ = ["Shelf", "ShelfFile", "Shelved"]

log = logging.getLogger(__name__)

CACHE_KIB = 1024
SLICE = 1024
"""Rows of a session that has ended that are dropped at a time: some milliseconds of the event loop."""
PAUSE_S = 0.01
"""Between two slices: a million rows take seconds, most of which is for others."""

# It fails on a file that another daemon left, if that could not be removed: nothing in it is believed.
_BEGIN = f"""
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -{CACHE_KIB};
CREATE TABLE shelved (
    id INTEGER PRIMARY KEY, mark INTEGER NOT NULL, size INTEGER NOT NULL, outcome INTEGER NOT NULL,
    retried INTEGER NOT NULL, task_id TEXT, task INTEGER NOT NULL, group_tasks BLOB, group_results BLOB,
    group_size INTEGER NOT NULL, news BLOB);
CREATE INDEX by_task ON shelved (task_id) WHERE task_id IS NOT NULL;
"""
_ADD = "INSERT INTO shelved VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_READ = "SELECT * FROM shelved WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
_FIND = "SELECT task FROM shelved WHERE task_id = ? AND id >= ? AND id < ?"
_TASK_IDS = "SELECT task_id FROM shelved WHERE id >= ? AND id < ? AND task_id IS NOT NULL ORDER BY id"
_SIZE = "SELECT coalesce(sum(size), 0) FROM shelved WHERE id >= ? AND id < ?"
_NEWS = "SELECT id, news FROM shelved WHERE id >= ? AND id < ? AND news IS NOT NULL ORDER BY id"
_DELETE = "DELETE FROM shelved WHERE id >= ? AND id < ?"
_DELETE_SOME = (
    "DELETE FROM shelved WHERE id IN (SELECT id FROM shelved WHERE id >= ? AND id < ? ORDER BY id LIMIT ?)"
)


class Shelved(NamedTuple):
    """A result's place in the account; see `gymd.daemon.results.Result`.

    Attributes:
        sequence: its number.
        task_id, task: the task that ends with it: its id and number in the journal; None and 0: none does.
        group_tasks, group_results, group_size: of the group that ends with it; see `gymd.daemon.groups.Rows`.
    """

    sequence: int
    mark: int
    size: int
    outcome: int
    retried: int
    task_id: str | None
    task: int
    group_tasks: bytes | None
    group_results: bytes | None
    group_size: int
    news: bytes | None


class ShelfFile:
    """The file of one daemon, for all its sessions; made when it is needed first.

    Args:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._unwanted: deque[tuple[int, int]] = deque()  # ranges of keys
        self._connection: sqlite3.Connection | None = None
        self._told = False
        self._remove()  # of a daemon that was killed

    def open(self) -> sqlite3.Connection:
        """The connection; raises sqlite3.Error."""
        if self._connection is None:
            self._remove()
            connection = sqlite3.connect(self._path, isolation_level=None)
            try:
                self._path.chmod(0o600)
                connection.executescript(_BEGIN)
            except (sqlite3.Error, OSError):
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def add(self, rows: Sequence[Sequence[object]]) -> bool:
        """Takes rows, all or none; False: the disk does not take them now, and that was logged."""
        try:
            with self.open() as connection:
                connection.execute("BEGIN")
                connection.executemany(_ADD, rows)
        except (sqlite3.Error, OSError) as failure:
            self._tell(failure)
            return False
        self._told = False
        return True

    def delete(self, first: int, end: int) -> int:
        """Drops rows by their keys; returns how many: none if the disk does not take it, and that was
        logged."""
        return self._delete(_DELETE, first, end)

    def discard(self, first: int, end: int) -> None:
        """Drops rows by their keys, which nobody asks for any more, slice by slice."""
        self._unwanted.append((first, end))
        if len(self._unwanted) == 1:
            self._loop.call_soon(self._sweep)

    def _sweep(self) -> None:
        if self._unwanted and self._delete(_DELETE_SOME, *self._unwanted[0], SLICE) < SLICE:
            self._unwanted.popleft()
        if self._unwanted:
            self._loop.call_later(PAUSE_S, self._sweep)

    def _delete(self, statement: str, *values: int) -> int:
        try:
            return self.open().execute(statement, values).rowcount
        except (sqlite3.Error, OSError) as failure:
            self._tell(failure)
            return 0

    def _tell(self, failure: Exception) -> None:
        if not self._told:
            log.warning("shelf_cannot_write", extra={"path": str(self._path), "why": str(failure)})
        self._told = True

    def close(self) -> None:
        """Removes it."""
        self._unwanted.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):  # what cannot be removed cannot be used either: `open` says why
            self._path.unlink()


class Shelf:
    """One session's part of the file.

    Everything is asked on the event loop: rows by their key, some microseconds each.
    """

    def __init__(self, file: ShelfFile, session_number: int) -> None:
        self._file = file
        self._session = session_number
        self._count = 0
        self._first = 0  # rows before it were dropped, those that the disk did not let go included

    def __len__(self) -> int:
        """Results in it; while there are none, nothing touches the file."""
        return self._count

    def put(self, results: Sequence[Shelved]) -> bool:
        """Takes results, all or none; False: the disk does not take them now."""
        rows = [(self._key(result.sequence), *result[1:]) for result in results]
        if not self._file.add(rows):
            return False
        self._count += len(rows)
        return True

    def read(self, sequence: int, limit: int) -> list[Shelved]:
        """Results from a number on, in order, at most so many."""
        rows = self._select(_READ, sequence, None, limit)
        return [Shelved(key & NUMBER_MASK, *facts) for key, *facts in rows]

    def find(self, task_id: str) -> int | None:
        """The number of a task that ended with a result in it; None: there is none of that id."""
        if not self._count:
            return None
        row = self._file.open().execute(_FIND, (task_id, self._key(self._first), self._end)).fetchone()
        return int(row[0]) if row is not None else None

    def task_ids(self) -> list[str]:
        """The tasks that ended with results in it."""
        return [task_id for (task_id,) in self._select(_TASK_IDS, self._first, None)]

    def size(self, through: int) -> int:
        """Bytes of the results up to a number."""
        rows = self._select(_SIZE, self._first, through)
        return int(rows[0][0]) if rows else 0

    def news(self, through: int) -> dict[int, bytes]:
        """What there is to tell behind the results up to a number, by number."""
        return {key & NUMBER_MASK: news for key, news in self._select(_NEWS, self._first, through)}

    def drop(self, through: int | None = None) -> None:
        """Forgets the results up to a number; None: all of them, for good."""
        if not self._count:
            return
        if through is None:
            self._count = 0
            self._file.discard(self._key(0), self._end)
        else:
            self._first = through + 1
            self._count -= self._file.delete(self._key(0), self._key(self._first))

    @property
    def _end(self) -> int:
        return row_id(self._session + 1, 0)

    def _key(self, sequence: int) -> int:
        return row_id(self._session, sequence)

    def _select(self, statement: str, first: int, through: int | None, *more: int) -> list[tuple]:
        if not self._count:
            return []
        end = self._end if through is None else self._key(through + 1)
        return self._file.open().execute(statement, (self._key(first), end, *more)).fetchall()

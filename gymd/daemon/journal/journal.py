"""The journal: SQLite in WAL mode, one writer thread, one transaction for everything that waits (group
commit).

Callers note what has to be kept and go on; what must not be told to a client before it is kept (that a task
is accepted, a result) waits until `committed` reached the mark that was current when it was noted.

With WAL and `synchronous=NORMAL` a kill -9 of the daemon at any moment loses nothing that was committed. A
power failure may lose the last moments before it, never the consistency of the file
(https://www.sqlite.org/wal.html, https://www.sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from gymd.daemon.journal import schema
from gymd.daemon.journal.records import StoredSession
from gymd.daemon.journal.shelf import Shelf, ShelfFile
from gymd.errors import GymdError, error

__all__ = ["Journal"]

log = logging.getLogger(__name__)

FILE = "journal.db"
SHELF_FILE = "shelf.db"
RETRY_S = 1.0
"""How long the writer waits before it tries again when the disk took nothing."""
READ_RESULTS = 64
READ_BYTES = 8 * 1024 * 1024

Operation = tuple[str, Sequence[Any]]


class Journal:
    """The journal of one daemon.

    Args:
        folder: where the database is; made if it is not there.
        max_bytes: size of the results and tasks that wait; beyond it `trouble` says so and sessions refuse
        tasks.

    Raises:
        LimitReached: STORAGE_FULL, the disk is full.
        InternalError: the file is no journal, or of another version.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._path = folder / FILE
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._fresh: list[Operation] = []
        self._noted = 0
        self._pending: list[Operation] = []  # this and the two after it belong to both threads
        self._writing: list[Operation] = []
        self._handed = 0
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._ending = False
        self._listeners: list[Callable[[], None]] = []
        self._failure: GymdError | None = None
        self.committed = 0
        """The mark up to which everything is kept."""
        self.bytes = 0
        """Size of the payloads that are kept, in bytes."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._reader = schema.connect(self._path)
            self._writer = schema.connect(self._path)
        except sqlite3.Error as failure:
            raise _told(self._path, failure) from None
        self._path.chmod(0o600)
        self._shelf = ShelfFile(folder / SHELF_FILE)
        self._thread = threading.Thread(target=self._write_loop, name="journal", daemon=True)

    def load(self) -> list[StoredSession]:
        """What the last daemon left, oldest first; then starts the writer. Call it once, before anything
        else."""
        try:
            sessions = schema.load(self._reader)
        except sqlite3.Error as failure:
            raise _told(self._path, failure) from None
        self.bytes = sum(len(task.submission) for session in sessions for task in session.tasks)
        self.bytes += sum(result.size for session in sessions for result in session.results)
        self._thread.start()
        return sessions

    # Notes.

    @property
    def mark(self) -> int:
        """Names everything that was noted so far."""
        return self._noted

    @property
    def trouble(self) -> GymdError | None:
        """Why nothing new should be accepted now, or None."""
        if self._failure is None and self.bytes > self._max_bytes:
            text = (
                f"the journal holds {self.bytes} bytes that no client has stored, and its limit is "
                f"{self._max_bytes}; let clients read their results, or raise gymd.journal_max_bytes"
            )
            return error("STORAGE_FULL", text, size_bytes=self.bytes, limit_bytes=self._max_bytes)
        return self._failure

    def note(self, operations: Iterable[Operation]) -> None:
        """Queues statements of `schema`.

        Whatever is noted before the event loop turns is committed together: a task never without the counters
        of its session.
        """
        before = len(self._fresh)
        self._fresh += operations
        self._noted += len(self._fresh) - before
        if not before and self._fresh:
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            self._pending += self._fresh
            self._handed = self._noted
        self._fresh.clear()
        self._work.set()

    def listen(self, changed: Callable[[], None]) -> None:
        """Calls `changed` on the event loop after every commit and when writing fails."""
        self._listeners.append(changed)

    def read(self, session_number: int, sequence: int) -> list[tuple[int, bytes]]:
        """Committed payloads from a result on, up to READ_RESULTS or READ_BYTES: number and Rollout.

        They are read on the event loop: rows by their key, some microseconds each.
        """
        first = schema.row_id(session_number, sequence)
        last = schema.row_id(session_number + 1, 0)
        found, size = [], 0
        for row_id, payload in self._reader.execute(schema.READ_RESULTS, (first, last, READ_RESULTS)):
            found.append((row_id & schema.NUMBER_MASK, payload))
            size += len(payload)
            if size >= READ_BYTES:
                break
        return found

    def read_task(self, session_number: int, number: int) -> bytes:
        """The serialized submission of a task, committed or on its way."""
        key = schema.row_id(session_number, number)
        with self._lock:
            waiting = [*self._writing, *self._pending, *self._fresh]
        for statement, values in waiting:
            if statement == schema.ADD_TASK and values[0] == key:
                return bytes(values[1])
        row = self._reader.execute(schema.READ_TASK, (key,)).fetchone()
        return bytes(row[0])

    def shelf(self, session_number: int) -> Shelf:
        """Where a session puts away what it would otherwise remember about results that wait."""
        return Shelf(self._shelf, session_number)

    async def close(self) -> None:
        """Commits what is noted and closes the file; what the disk does not take now is lost."""
        self._ending = True
        self._hand_over()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)
        self._reader.close()
        self._writer.close()
        self._shelf.close()

    # The writer's thread.

    def _write_loop(self) -> None:
        while True:
            self._work.wait()
            self._work.clear()
            with self._lock:
                batch = self._writing = self._pending
                self._pending = []
                mark = self._handed
            if batch and not self._commit(batch):
                return
            with self._lock:
                self._writing = []
            self._tell(mark, None)
            if self._ending and not self._pending:
                return

    def _commit(self, batch: list[Operation]) -> bool:
        """Writes a batch, trying until the disk takes it; False: the daemon ends and it never did."""
        while True:
            try:
                with self._writer:
                    self._writer.execute("BEGIN IMMEDIATE")
                    for statement, group in groupby(batch, key=lambda operation: operation[0]):
                        self._writer.executemany(statement, [values for _, values in group])
                return True
            except sqlite3.Error as failure:
                told = _told(self._path, failure)
                if self._failure is None:
                    log.error("journal_cannot_write", extra={"why": told.message})
                self._tell(None, told)
                if self._ending:
                    return False
                threading.Event().wait(RETRY_S)

    def _tell(self, mark: int | None, failure: GymdError | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            self._loop.call_soon_threadsafe(self._changed, mark, failure)

    def _changed(self, mark: int | None, failure: GymdError | None) -> None:
        if mark is not None:
            self.committed = mark
        self._failure = failure
        for changed in list(self._listeners):
            changed()


def _told(path: Path, failure: sqlite3.Error) -> GymdError:
    """The error of the contract for one of SQLite's."""
    code = getattr(failure, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        text = (
            f"the disk of the journal {path} is full or broken ({failure}); make room: it goes on by itself"
        )
        return error("STORAGE_FULL", text, path=path)
    text = (
        f"the journal {path} cannot be used ({failure}); move it away, or choose another folder with "
        "gymd.journal_dir=..."
    )
    return error("INTERNAL", text, path=path)

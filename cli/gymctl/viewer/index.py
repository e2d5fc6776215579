"""The index of one file: built in the background, and kept up while the file grows."""

from __future__ import annotations

import asyncio
import os
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymctl.viewer.columns import Columns, Names
from gymctl.viewer.pool import INDEX, Pool, ReaderError
from gymctl.viewer.rows import FAILED, MALFORMED, OVERSIZE, RESPONSE

__all__ = ["PART_BYTES", "FileIndex"]

PART_BYTES = 4 << 20
"""How much of a file one job reads: some 30 ms of work, so that urgent jobs need not wait long."""

_FIRST_BYTES = 256 << 10
"""The first part is small: its rows are on the page at once."""
_LOOK_S = 0.5
"""How often a file is looked at for growth."""
_HEAD_BYTES = 4096


class FileIndex:
    """Columns of a file's rows.

    Args:
        path: the file; may be replaced by another while it is read.
        descriptor: the file, open for reading; belongs to the index from now on.
        agents: names shared by all files.
        outcomes: names shared by all files.
    """

    def __init__(self, path: Path, descriptor: int, agents: Names, outcomes: Names) -> None:
        self.path = path
        self.descriptor = descriptor
        self.columns = Columns()
        self.version = 0
        """Grows with every change of the columns."""
        self.size = os.fstat(descriptor).st_size
        """Bytes of the file, as last seen."""
        self.position = 0
        """Up to where it is indexed."""
        self.malformed = 0
        """Rows that could not be read."""
        self.rollouts = 0
        """Rows with a response or a failure: rollouts."""
        self.problem = ""
        """Why the index ends before the file does."""
        self._lines = 0
        # Where the last line begins, if no newline ends it: the rest of it may come.
        self._open: int | None = None
        self._agents = agents
        self._outcomes = outcomes
        self._head = os.pread(descriptor, _HEAD_BYTES, 0)

    @property
    def done(self) -> bool:
        """Whether the index covers the file as last seen, or never will."""
        return self.position >= self.size or bool(self.problem)

    @property
    def open_row(self) -> tuple[int, int] | None:
        """Row and length of the last row, if no newline ends it."""
        row = len(self.columns) - 1
        return (
            (row, self.columns.length[row]) if row >= 0 and self.columns.offset[row] == self._open else None
        )

    def find(self, line: int) -> int | None:
        """The row on a line; None: there is none."""
        row = bisect_left(self.columns.line, line)
        return row if row < len(self.columns) and self.columns.line[row] == line else None

    def row_at(self, offset: int) -> int | None:
        """The row that begins at an offset; None: there is none (yet)."""
        row = bisect_left(self.columns.offset, offset)
        return row if row < len(self.columns) and self.columns.offset[row] == offset else None

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)

    async def run(self, pool: Pool, replaced: Callable[[], None]) -> None:
        """Indexes, then follows the file for ever; returns after `replaced` was called, or on a problem."""
        try:
            while True:
                await self._scan(pool)
                if not await self._grown():
                    replaced()
                    return
        except Exception as problem:  # whatever it is: a file that is not read must not look unfinished
            what = (
                str(problem) if isinstance(problem, ReaderError) else f"{type(problem).__name__}: {problem}"
            )
            self.problem = f"{what}, reading {self.path.name} from byte {self.position:,} on"
            self.version += 1

    async def _scan(self, pool: Pool) -> None:
        """Indexes up to the size last seen: several parts at a time, taken in their order."""
        if self._open is not None:
            self.position = self._open
        running: deque[tuple[int, asyncio.Task[tuple[dict[str, Any], bytes]]]] = deque()
        start, length = self.position, _FIRST_BYTES
        try:
            while start < self.size or running:
                while start < self.size and len(running) <= pool.size:
                    end = min(start + length, self.size)
                    job = pool.run("index", INDEX, fd=self.descriptor, start=start, end=end)
                    running.append((end, asyncio.create_task(job)))
                    start, length = end, min(2 * length, PART_BYTES)
                end, task = running[0]
                head, body = await task
                running.popleft()
                self._take(head, Columns.load(body), end)
        finally:
            for _, task in running:
                task.cancel()
            await asyncio.gather(*(task for _, task in running), return_exceptions=True)

    def _take(self, head: dict[str, Any], rows: Columns, end: int) -> None:
        """Adds the rows of a part."""
        again = self.open_row is not None and len(rows) > 0
        if again:
            # The first row is the last one of before, with what has been written since.
            self._count(self.columns.flags[-1:], -1)
        if head["lines"]:
            self._lines -= self._open is not None
            self._open = head["open"]
        self._renumber(rows, head)
        self.columns.extend(rows, replace_last=again)
        self._count(rows.flags, 1)
        self._lines += head["lines"]
        self.position = end
        self.version += 1

    def _count(self, flags: array[int], sign: int) -> None:
        for flag in flags:
            self.malformed += sign * bool(flag & (MALFORMED | OVERSIZE))
            self.rollouts += sign * bool(flag & (RESPONSE | FAILED))

    def _renumber(self, rows: Columns, head: dict[str, Any]) -> None:
        """From the numbers of a part to those of the whole."""
        base = self._lines + 1
        rows.line[:] = array("Q", [base + number for number in rows.line])
        agents = [self._agents.number(name) for name in head["agents"]]
        outcomes = [self._outcomes.number(name) for name in head["outcomes"]]
        rows.agent[:] = array("H", [agents[number] for number in rows.agent])
        rows.outcome[:] = array("H", [outcomes[number] for number in rows.outcome])

    async def _grown(self) -> bool:
        """Waits until the file has grown; False: it is another file now."""
        while True:
            await asyncio.sleep(_LOOK_S)
            opened = os.fstat(self.descriptor)
            try:
                named = self.path.stat()
            except OSError:  # deleted: what we have stays
                named = opened
            if (named.st_ino, named.st_dev) != (opened.st_ino, opened.st_dev) or opened.st_size < self.size:
                return False
            if opened.st_size > self.size:
                head = os.pread(self.descriptor, _HEAD_BYTES, 0)
                if not head.startswith(self._head):
                    return False
                self._head = head
                self.size = opened.st_size
                return True

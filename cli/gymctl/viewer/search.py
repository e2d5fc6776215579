"""Full-text search: reads the files through once, part by part, as long as somebody asks for the result."""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any

from gymctl.viewer.index import PART_BYTES, FileIndex
from gymctl.viewer.pool import SEARCH, Pool, ReaderError

__all__ = ["LONGEST_TEXT", "Search", "needles_of"]

LONGEST_TEXT = 500
"""Characters that may be searched for."""

_PATIENCE_S = 5.0
"""A search that nobody has asked for so long pauses."""


class Search:
    """The rows that hold a text, found so far.

    Args:
        text: what to look for; see needles_of.
        files: where.
        pool: who reads.
    """

    def __init__(self, text: str, files: Sequence[FileIndex], pool: Pool) -> None:
        self.text = text
        self.rows: list[array[int]] = [array("Q") for _ in files]
        """Of each file, ascending."""
        self.version = 0
        """Grows with every change of the rows."""
        self.problem = ""
        self._needles = needles_of(text)
        self._files = files
        self._pool = pool
        self._positions = [0] * len(files)
        # The open row that was searched, by file: what has been written to it since must be searched too.
        self._open: list[tuple[int, int] | None] = [None] * len(files)
        self._asked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def scanned_bytes(self) -> int:
        """How much has been read."""
        return sum(self._positions)

    @property
    def done(self) -> bool:
        """Whether all that is indexed has been read."""
        return bool(self.problem) or all(map(self._is_current, range(len(self._files))))

    def ask(self) -> None:
        """Somebody wants the result: goes on if there is more to read."""
        self._asked_at = time.monotonic()
        if not self.done and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="search")

    async def close(self) -> None:
        """Stops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _is_current(self, number: int) -> bool:
        file = self._files[number]
        return self._positions[number] >= file.position and self._open[number] in (None, file.open_row)

    async def _run(self) -> None:
        try:
            for number in range(len(self._files)):
                while not self._is_current(number):
                    if time.monotonic() - self._asked_at > _PATIENCE_S:
                        return
                    await self._advance(number)
        except ReaderError as problem:
            self.problem = str(problem)

    async def _advance(self, number: int) -> None:
        """Reads a few parts of a file."""
        file = self._files[number]
        self._rewind(number)
        start, until, open_row = self._positions[number], file.position, file.open_row
        running: deque[tuple[int, asyncio.Task[Any]]] = deque()
        for _ in range(self._pool.size):
            if start < until:
                end = min(start + PART_BYTES, until)
                job = self._pool.run(
                    "search", SEARCH, fd=file.descriptor, start=start, end=end, needles=self._needles
                )
                running.append((end, asyncio.create_task(job)))
                start = end
        try:
            while running:
                end, task = running[0]
                _, body = await task
                running.popleft()
                self._take(number, body)
                self._positions[number] = end
        finally:
            for _, task in running:
                task.cancel()
            await asyncio.gather(*(task for _, task in running), return_exceptions=True)
        if self._positions[number] == until:
            self._open[number] = open_row

    def _rewind(self, number: int) -> None:
        """Forgets the open row if more has been written to it."""
        file, open_row = self._files[number], self._open[number]
        if open_row is None or open_row == file.open_row:
            return
        row = open_row[0]
        self._positions[number] = file.columns.offset[row]
        self._open[number] = None
        if self.rows[number] and self.rows[number][-1] == row:
            self.rows[number].pop()
            self.version += 1

    def _take(self, number: int, body: bytes) -> None:
        offsets = array("Q")
        offsets.frombytes(body)
        found = [row for offset in offsets if (row := self._files[number].row_at(offset)) is not None]
        if found:
            self.rows[number].extend(found)
            self.version += 1


def needles_of(text: str) -> list[str]:
    """The byte strings to look for, in hexadecimal: the text as JSON may hold it.

    Upper and lower case are the same in ASCII; other letters match as they are written, all in capitals or
    all in small letters. Non-ASCII letters may be escaped in the file or not.
    """
    found: dict[bytes, None] = {}
    for cased in (text, text.lower(), text.upper()):
        quoted = json.dumps(cased, ensure_ascii=False)[1:-1]
        for written in (cased, quoted, json.dumps(cased)[1:-1], quoted.replace("/", "\\/")):
            found[written.encode(errors="replace").lower()] = None
    return [needle.hex() for needle in found]

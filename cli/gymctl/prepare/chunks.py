"""A JSONL file as chunks of whole lines, and as rows, without ever holding more than one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gymctl.errors import CliError

__all__ = ["BOM", "Chunk", "Span", "find_span", "read_lines", "rows_of"]

BOM = b"\xef\xbb\xbf"
"""What some editors write at the beginning of a UTF-8 file."""

CHUNK_BYTES = 1 << 20
"""Starting on a chunk costs nothing beside it, and its values fit into a few megabytes."""

MOST_LINE_BYTES = 1 << 26
_COPY_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a file."""

    path: str
    offset: int
    size: int

    @property
    def is_first(self) -> bool:
        """Whether the file begins here."""
        return self.offset == 0


@dataclass(frozen=True)
class Span:
    """The rows of a file that a dataset uses, and how to notice that the file was changed meanwhile."""

    path: Path
    start: int
    end: int
    """Offsets in bytes, at the beginnings of lines or at the end of the file."""
    first_line: int
    """Number of the first line, from 1."""
    state: tuple[int, int, int]

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.end - self.start

    def chunks(self, size: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """The span, cut behind the first line end after each so many bytes.

        Raises:
            CliError: a line is too long to be a row.
        """
        with self.path.open("rb") as file:
            start = self.start
            while start < self.end:
                file.seek(min(start + size, self.end) - 1)
                rest = file.readline(MOST_LINE_BYTES)
                if len(rest) >= MOST_LINE_BYTES and not rest.endswith(b"\n"):
                    hint = "Write one JSON object a line (JSONL), not one JSON document."
                    raise CliError(f"{self.path} has a line of more than {MOST_LINE_BYTES >> 20} MB", hint)
                end = min(file.tell(), self.end)
                yield Chunk(str(self.path), start, end - start)
                start = end

    def blocks(self) -> Iterator[bytes]:
        """Some thousand lines at a time, as they are; without the newline of the last."""
        for chunk in self.chunks(_COPY_BYTES):
            data = _read(chunk).removesuffix(b"\n")
            yield data.lstrip().removeprefix(BOM) if chunk.is_first else data

    def check_unchanged(self) -> None:
        """Makes sure that the file is still the one that was checked.

        Raises:
            CliError: it was changed.
        """
        if _state(self.path) != self.state:
            hint = "Run the command again when nobody writes to it. Nothing was written."
            raise CliError(f"{self.path} was changed while it was read", hint)


def find_span(path: Path, start_idx: int, end_idx: int | None) -> Span:
    """The rows from `start_idx` up to and without `end_idx`, counted from 0 without blank lines.

    Raises:
        CliError: the file has fewer rows than that.
    """
    state = _state(path)
    if start_idx == 0 and end_idx is None:
        return Span(path, 0, path.stat().st_size, 1, state)
    offset, rows, start, first_line = 0, 0, -1, 1
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                if rows == start_idx:
                    start, first_line = offset, number
                if rows == end_idx:
                    break
                rows += 1
            offset += len(line)
    if start < 0:
        hint = "Correct start_idx; rows are counted from 0."
        raise CliError(f"{path} has {rows:,} rows, so none is left from start_idx {start_idx}", hint)
    if end_idx is not None and rows < end_idx:
        hint = "Correct end_idx, or leave it out to use all rows to the end."
        raise CliError(f"{path} has {rows:,} rows, fewer than end_idx {end_idx}", hint)
    return Span(path, start, offset, first_line, state)


def read_lines(chunk: Chunk) -> list[bytes]:
    """The lines of a chunk, without their newlines."""
    lines = _read(chunk).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def rows_of(block: bytes) -> Iterator[bytes]:
    """The rows of a block of lines, without blanks at their ends and without newlines."""
    return filter(None, map(bytes.strip, block.split(b"\n")))


def _read(chunk: Chunk) -> bytes:
    descriptor = os.open(chunk.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        offset, end = chunk.offset, chunk.offset + chunk.size
        while offset < end and (part := os.pread(descriptor, end - offset, offset)):
            parts.append(part)
            offset += len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns

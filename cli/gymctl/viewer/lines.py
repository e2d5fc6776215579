"""Whole lines of a part of a file, so that several processes can share one file without knowing its lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MAX_ROW_BYTES", "Line", "Part", "read_line", "read_part"]

MAX_ROW_BYTES = 32 << 20
"""A longer line is not parsed: as Python objects it could take ten times its size."""

_BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line, without its newline."""

    offset: int
    """Where it begins in the file."""
    length: int
    """In bytes, without the newline."""
    number: int
    """Counted from 0 within the part, blank lines included."""
    data: bytes
    """Its bytes; of a line above MAX_ROW_BYTES only the first."""
    finished: bool
    """Whether a newline ends it; a writer may be about to write the rest of one that is not."""


@dataclass(frozen=True, slots=True)
class Part:
    """The lines that begin in a range of a file; the last one may end beyond it."""

    first: int
    """Where the first line begins."""
    data: bytes
    """The lines with their newlines."""
    missing: int = 0
    """Bytes of the last line that are too many to be in `data`."""
    finished: bool = True
    """Whether a newline ends the last line."""

    def lines(self) -> Iterator[Line]:
        """The lines in their order."""
        pieces = self.data.split(b"\n")
        if not pieces[-1]:
            pieces.pop()
        offset, last = self.first, len(pieces) - 1
        for number, piece in enumerate(pieces):
            length = len(piece) + (self.missing if number == last else 0)
            yield Line(offset, length, number, piece, self.finished or number != last)
            offset += length + 1


def read_part(descriptor: int, start: int, end: int) -> Part:
    """Reads the lines that begin in [start, end). Neighbouring ranges give every line exactly once."""
    data, first = _from_first_line(descriptor, start, end)
    if not data or data.endswith(b"\n"):
        return Part(first, data)
    last = len(data) - (data.rfind(b"\n") + 1)
    rest, length, finished = _rest_of_line(descriptor, first + len(data), MAX_ROW_BYTES - last)
    return Part(first, data + rest, length - len(rest), finished)


def read_line(descriptor: int, offset: int, length: int) -> bytes:
    """One line whose place is known; of one above MAX_ROW_BYTES only the first."""
    data = _read(descriptor, offset, min(length, MAX_ROW_BYTES))
    return data.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else data


def _from_first_line(descriptor: int, start: int, end: int) -> tuple[bytes, int]:
    """What follows the first beginning of a line in the range, up to the end of the range."""
    if start == 0:
        return _read(descriptor, 0, end), 0
    # With the byte before: it says whether a line begins right at the start.
    data = _read(descriptor, start - 1, end - start + 1)
    newline = data.find(b"\n")
    if newline < 0:
        return b"", end
    return data[newline + 1 :], start + newline


def _rest_of_line(descriptor: int, offset: int, limit: int) -> tuple[bytes, int, bool]:
    """The bytes up to the next newline: at most `limit` of them, how many there are, and whether it came."""
    kept: list[bytes] = []
    length = 0
    while block := _read(descriptor, offset + length, _BLOCK_BYTES):
        newline = block.find(b"\n")
        piece = block if newline < 0 else block[:newline]
        kept.append(piece[: max(0, limit - length)])
        length += len(piece)
        if newline >= 0:
            return b"".join(kept), length, True
    return b"".join(kept), length, False


def _read(descriptor: int, offset: int, length: int) -> bytes:
    """Up to `length` bytes; fewer only at the end of the file."""
    data = os.pread(descriptor, length, offset)
    while (
        data and len(data) < length and (more := os.pread(descriptor, length - len(data), offset + len(data)))
    ):
        data += more
    return data

"""Writes the prepared files: every row byte for byte, with its agent's name added, in the order wanted."""

from __future__ import annotations

import errno
import heapq
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from random import Random

import orjson

from gymctl.errors import CliError
from gymctl.prepare.check import AGENT_REF
from gymctl.prepare.chunks import rows_of

__all__ = ["Part", "Tagger", "blended", "repeated", "write_rows"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BUFFER_BYTES = 1 << 20
_TELL_EVERY_ROWS = 20_000
_KEY = AGENT_REF.encode()
_BETWEEN = b"}\n{"


class Part:
    """The rows of one dataset on their way to the prepared file.

    Args:
        blocks: every row once, in blocks of lines without the last one's newline.
        count: how many rows that are.
        repeats: how often each is written.
        agent: whose name is added.
    """

    def __init__(self, blocks: Callable[[], Iterator[bytes]], count: int, repeats: int, agent: str) -> None:
        self._blocks = blocks
        self._repeats = repeats
        self._tagger = Tagger(agent)
        self.count = count * repeats
        """How many rows it has."""

    def rows(self) -> Iterator[bytes]:
        """Its rows, each `repeats` times in a row, with the agent's name."""
        rows = chain.from_iterable(map(rows_of, self._blocks()))
        return repeated(map(self._tagger.tag, rows), self._repeats)

    def blocks(self) -> Iterator[bytes]:
        """The same, in blocks where that is possible: a fraction of the time."""
        if self._repeats != 1:
            yield from self.rows()
            return
        for block in self._blocks():
            tagged = self._tagger.tag_block(block)
            if tagged is None:
                yield from map(self._tagger.tag, rows_of(block))
            else:
                yield tagged

    def first(self, count: int) -> Iterator[bytes]:
        """The first so many of them."""
        for number, row in enumerate(self.rows()):
            if number == count:
                return
            yield row

    def sample(self, count: int, random: Random) -> Iterator[bytes]:
        """So many of them by chance, in their order; every choice is equally likely."""
        left, wanted = self.count, count
        for row in self.rows():
            if not wanted:
                return
            if random.random() * left < wanted:
                yield row
                wanted -= 1
            left -= 1


class Tagger:
    """Gives rows the agent_ref of an agent; other members keep their text."""

    def __init__(self, agent: str) -> None:
        self._reference = orjson.dumps({"type": "responses_api_agents", "name": agent})
        self._ending = b',"agent_ref":' + self._reference + b"}"

    def tag(self, row: bytes) -> bytes:
        """A row with it."""
        # A key may be written with escapes: what is added at the end counts then, as the last of its name.
        if _KEY not in row:
            return row[:-1] + self._ending
        if row.endswith(self._ending):
            return row
        return _replace(row, self._reference.decode())

    def tag_block(self, block: bytes) -> bytes | None:
        """A block of lines with it; None if they have to be looked at one by one."""
        # No line end is inside a row, and no blank beside one: then all are like the first and the last.
        if block.count(b"\n") != block.count(_BETWEEN) or _KEY in block:
            return None
        if not (block.startswith(b"{") and block.endswith(b"}")):
            return None
        return block[:-1].replace(_BETWEEN, self._ending + b"\n{") + self._ending


def _replace(row: bytes, reference: str) -> bytes:
    # Here, because it is large and most rows come without.
    from gymd.client.rows import parse_row

    members = parse_row(row.decode()).members
    if AGENT_REF in members and json.loads(members[AGENT_REF]) == json.loads(reference):
        return row
    members[AGENT_REF] = reference
    parts = [f"{_quote(key)}:{value}" for key, value in members.items()]
    return ("{" + ",".join(parts) + "}").encode()


def _quote(key: str) -> str:
    try:
        return json.dumps(key, ensure_ascii=False).encode().decode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be written
        return json.dumps(key)


def repeated(rows: Iterator[bytes], repeats: int) -> Iterator[bytes]:
    """Each row so many times: abc becomes aabbcc."""
    if repeats == 1:
        return rows
    return (row for row in rows for _ in range(repeats))


def blended(parts: Sequence[Iterator[bytes]], counts: Sequence[int]) -> Iterator[bytes]:
    """The rows of several parts, each spread evenly over the whole."""

    def due(rows: Iterator[bytes], at: int) -> Iterator[tuple[float, int, bytes]]:
        for number, row in enumerate(rows):
            yield (number + 0.5) / counts[at], at, row

    streams = [due(rows, at) for at, rows in enumerate(parts) if counts[at]]
    return (row for _, _, row in heapq.merge(*streams, key=lambda entry: entry[:2]))


def write_rows(path: Path, rows: Iterable[bytes], tell: Callable[[int], None]) -> tuple[int, int]:
    """Writes rows, or blocks of them, to a file; returns how many rows, and their bytes.

    Raises:
        CliError: the disk is full.
        OSError: a file cannot be opened, read or written.
    """
    count = size = told = 0
    try:
        with path.open("wb", _BUFFER_BYTES) as file:
            for row in rows:
                size += file.write(row) + file.write(b"\n")
                count += 1 + row.count(b"\n")
                if count - told >= _TELL_EVERY_ROWS:
                    told = count
                    tell(count)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        if problem.errno not in _FULL:
            raise
        hint = "Make room, or name another --output-dir. Nothing that was there was changed."
        raise CliError(f"cannot write to {path.parent}: {problem.strerror}", hint) from None
    return count, size

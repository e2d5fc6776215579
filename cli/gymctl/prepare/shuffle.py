"""Shuffles more rows than fit into memory: by chance into files, and each file by itself."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import BinaryIO

__all__ = ["shuffled"]

BUCKET_BYTES = 1 << 24
"""What is shuffled in memory at a time."""

_MOST_BUCKETS = 128
_BUFFER_BYTES = 1 << 16


def shuffled(rows: Iterable[bytes], size: int, seed: int, folder: Path) -> Iterator[bytes]:
    """The rows in random order; every order is equally likely.

    The same rows, size and seed give the same order, on every machine. What does not fit into memory is kept
    in a folder of its own inside `folder`, which goes away at the end.

    Args:
        size: about how many bytes the rows have together.
    """
    random = Random(seed)
    if size <= BUCKET_BYTES:
        kept = list(rows)
        random.shuffle(kept)
        yield from kept
        return
    place = Path(tempfile.mkdtemp(prefix=".shuffle-", dir=folder))
    try:
        yield from _by_buckets(rows, size, random, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _by_buckets(rows: Iterable[bytes], size: int, random: Random, place: Path) -> Iterator[bytes]:
    count = min(size // BUCKET_BYTES + 1, _MOST_BUCKETS)
    paths = [place / str(number) for number in range(count)]
    with ExitStack() as stack:
        files: list[BinaryIO] = [stack.enter_context(path.open("wb", _BUFFER_BYTES)) for path in paths]
        draw = random.random
        for row in rows:
            files[int(draw() * count)].write(row + b"\n")
    for path in paths:
        seed = random.getrandbits(64)
        length = path.stat().st_size
        with path.open("rb") as file:
            lines = (line[:-1] for line in file)
            # Larger than memory again only after a hundred times as much: then the same once more.
            yield from shuffled(lines, min(length, size // 2), seed, place)
        path.unlink()

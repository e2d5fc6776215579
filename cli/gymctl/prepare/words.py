"""Counts the tokens of many texts at once: their words are looked up in a table, by a few array operations.

A dictionary of a hundred thousand words does not fit into the processor's cache, and asking it word by word
waits for memory each time. Here the words of a thousand rows are asked for together, by numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["WordTable"]

Array = npt.NDArray[Any]

# A word with the blank before it, filled up with zeros. Longer ones are counted each time.
_KEY_BYTES = 32
_KEY = np.dtype((np.void, _KEY_BYTES))
_KEY_PARTS = _KEY_BYTES // 8
_SLOT_BITS = 18
# Beyond that the arrays would take more memory than they save time.
_MOST_CHARACTERS = 1 << 22

_BLANK = 0x20
# No cut beside these; zero stands between two texts.
_SOLID = np.ones(256, dtype=np.bool_)
_SOLID[[0, _BLANK, *range(0x09, 0x0E), *range(0x1C, 0x20)]] = False
_NEWLINE = 0x0A
_LETTERS = np.zeros(256, dtype=np.bool_)
_LETTERS[list(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] = True
# By length of a word: which bits of its key are its own.
_MASKS = np.frombuffer(
    b"".join(b"\xff" * size + b"\0" * (_KEY_BYTES - size) for size in range(_KEY_BYTES + 1)), dtype=_KEY
)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class WordTable:
    """Counts by word, in a table of fixed size: about 10 MB. A word may be in one of two slots.

    Args:
        count: the tokens of a word, with the blank before it if there is one. A word whose tokens depend on
            others counts so much that no sum with it is taken for a count.
        cuts_lines: a word also begins with an ASCII letter or digit at the beginning of a line.
    """

    def __init__(self, count: Callable[[str], int], *, cuts_lines: bool) -> None:
        self._count = count
        self._cuts_lines = cuts_lines
        # An empty slot has the key of the empty text, and its count.
        self._keys = np.zeros(1 << _SLOT_BITS, dtype=_KEY)
        self._counts = np.zeros(1 << _SLOT_BITS, dtype=np.int64)

    def count(self, texts: Sequence[str]) -> list[int] | None:
        """The tokens of each text; None if these texts must be counted one by one."""
        if not texts or sum(map(len, texts)) > _MOST_CHARACTERS:
            return None
        try:
            data = "\0".join(("", *texts, "")).encode()
        except UnicodeEncodeError:  # a lone surrogate
            return None
        signs = np.frombuffer(data, dtype=np.uint8)
        borders = signs == 0
        if np.count_nonzero(borders) != len(texts) + 1:
            return None
        # A blank with a space beside it is no cut: it belongs to the word around it.
        solid = _SOLID.take(signs)
        borders[1:-1] |= (signs[1:-1] == _BLANK) & solid[:-2] & solid[2:]
        if self._cuts_lines:
            borders[1:] |= (signs[:-1] == _NEWLINE) & _LETTERS.take(signs[1:])
        edges = np.flatnonzero(borders)
        counts = self._look_up(data, edges)
        firsts = np.flatnonzero(signs[edges[:-1]] == 0)
        found: list[int] = np.add.reduceat(counts, firsts).tolist()
        return found

    def _look_up(self, data: bytes, edges: Array) -> Array:
        """The counts of the words between edges; the first of a text begins with a zero."""
        starts, sizes = edges[:-1], np.diff(edges)
        # Overlapping: one key for each byte of the data.
        windows: Array = np.ndarray(len(data), dtype=_KEY, buffer=data + bytes(_KEY_BYTES), strides=(1,))
        masks = _MASKS[np.minimum(sizes, _KEY_BYTES)]
        keys = (_parts(windows[starts]) & _parts(masks)).view(_KEY).ravel()
        slots = _slots(keys)
        counts = self._counts[slots]
        fits = sizes <= _KEY_BYTES
        missed = np.flatnonzero(~(_equal(self._keys[slots], keys) & fits))
        others = slots[missed] ^ 1
        counts[missed] = self._counts[others]
        missed = missed[~(_equal(self._keys[others], keys[missed]) & fits[missed])]
        counts[missed] = self._count_words(data, starts[missed].tolist(), edges[missed + 1].tolist())
        self._keep(slots, keys, counts, missed[fits[missed]])
        return counts

    def _count_words(self, data: bytes, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        fresh: dict[bytes, int] = {}
        counts = []
        for start, end in zip(starts, ends, strict=True):
            word = data[start:end]
            count = fresh.get(word)
            if count is None:
                count = fresh[word] = self._count(word.decode().removeprefix("\0"))
            counts.append(count)
        return counts

    def _keep(self, slots: Array, keys: Array, counts: Array, fresh: Array) -> None:
        """Puts new words into their slots; those that were there go to the slots beside."""
        slots = slots[fresh]
        self._keys[slots ^ 1], self._counts[slots ^ 1] = self._keys[slots], self._counts[slots]
        self._keys[slots], self._counts[slots] = keys[fresh], counts[fresh]


def _parts(keys: Array) -> Array:
    """Keys as numbers, a row for each."""
    return keys.view("<u8").reshape(-1, _KEY_PARTS)


def _equal(some: Array, others: Array) -> Array:
    same: Array = _parts(some) == _parts(others)
    # Four truth values are one number: quicker than `all`.
    return same.view("<u4").ravel() == 0x01010101


def _slots(keys: Array) -> Array:
    """Where each key belongs, by chance but always the same."""
    parts = _parts(keys)
    mixed = parts[:, 0] * _FACTOR
    for column in range(1, _KEY_PARTS):
        mixed ^= mixed >> np.uint64(29)
        mixed = (mixed + parts[:, column]) * _FACTOR
    mixed ^= mixed >> np.uint64(32)
    mixed *= _FACTOR
    return (mixed >> np.uint64(64 - _SLOT_BITS)).astype(np.intp)

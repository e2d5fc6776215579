"""The numbers in vLLM's list of logprobs, found with numpy (see gymd.convert.packed)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gymd.convert._json import loads

__all__ = ["numbers_of"]

# One entry is these, with the id, the logprob and the bytes between them; a comma is between entries.
_HEAD, _MIDDLE, _TAIL, _END = b'{"token":"token_id:', b'","logprob":', b',"bytes":[', b'],"top_logprobs":[]}'
_SHORTEST = len(_HEAD + _MIDDLE + _TAIL + _END)
_QUOTES = (_HEAD + _MIDDLE + _TAIL + _END).count(b'"')
_WORD = 8
_NUMERIC = b"0123456789+-.,eE"


def numbers_of(data: bytes, start: int, end: int) -> tuple[bytes, bytes] | None:
    """The ids and the logprobs of the entries, packed; None if an entry has another form.

    Args:
        data: the text; 64 bytes or more stand behind the entries.
        start: where the first entry begins.
        end: where the last one ends.

    Every opening brace must begin an entry, with the fixed pieces in their places, and there must be no
    quote beside theirs: so nothing is nested, repeated or hidden. The numbers in `bytes` are not looked at.
    """
    page = np.frombuffer(data, dtype=np.uint8)
    starts = np.flatnonzero(page[start:end] == ord("{")) + start
    if not len(starts) or starts[0] != start:
        return None
    if np.count_nonzero(page[start:end] == ord('"')) != _QUOTES * len(starts):
        return None
    ends = np.append(starts[1:] - 1, end)
    if not (page[ends[:-1]] == ord(",")).all() or int((ends - starts).min()) < _SHORTEST:
        return None
    heads = _rows(data, starts, 4 * _WORD)
    digits = heads[:, len(_HEAD) : len(_HEAD) + _WORD]
    digit_count = _length(digits, b'"')
    middle = starts + len(_HEAD) + digit_count
    middles = _rows(data, middle, 5 * _WORD)
    numbers = middles[:, len(_MIDDLE) :]
    number_count = _length(numbers, b",")
    tail = middle + len(_MIDDLE) + number_count
    last = ends - len(_END)
    if not (tail + len(_TAIL) <= last).all():
        return None
    tails, lasts = _rows(data, tail, 2 * _WORD), _rows(data, last, 3 * _WORD)
    pieces = ((heads, _HEAD), (middles, _MIDDLE), (tails, _TAIL), (lasts, _END))
    if not all(_begin_with(rows, piece) for rows, piece in pieces):
        return None
    ids = _integers(digits, digit_count)
    logprobs = _floats(numbers, number_count)
    return None if ids is None or logprobs is None else (ids, logprobs)


def _rows(data: bytes, places: Any, width: int) -> Any:
    """The bytes from each place on, one row each: gathered as one item, which is as fast as a single word."""
    windows = np.ndarray(len(data) - width + 1, dtype=f"V{width}", buffer=data, strides=(1,))
    return windows[places].view(np.uint8).reshape(-1, width)


def _begin_with(rows: Any, piece: bytes) -> bool:
    """Whether every row begins with a piece; compared eight bytes at a time."""
    words = rows.view("<u8")
    for number in range(-(-len(piece) // _WORD)):
        part = piece[number * _WORD : (number + 1) * _WORD]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        if not (words[:, number] & mask == int.from_bytes(part, "little")).all():
            return False
    return True


def _length(rows: Any, mark: bytes) -> Any:
    """How many bytes of each row come before the mark; 0 if it has none."""
    return (rows == ord(mark)).argmax(axis=1)


def _integers(rows: Any, lengths: Any) -> bytes | None:
    """The numbers that the first bytes of the rows write, packed; None if one is no id."""
    values = np.zeros(len(rows), dtype=np.int32)
    written = lengths > 0
    for column in range(int(lengths.max())):
        inside = lengths > column
        digit = rows[:, column] - np.uint8(ord("0"))  # bytes below wrap around to large ones
        written &= (digit <= 9) | ~inside
        values = np.where(inside, values * 10 + digit, values)
    return values.astype("<i4").tobytes() if written.all() else None


def _floats(rows: Any, lengths: Any) -> bytes | None:
    """The numbers that the first bytes of the rows write, packed; None if one is none."""
    # Each with the comma behind it.
    text = rows[np.arange(rows.shape[1]) <= lengths[:, None]].tobytes()
    if text.translate(None, _NUMERIC):
        return None
    try:
        values = loads(b"[" + text[:-1] + b"]")
    except ValueError:
        return None
    return np.array(values, dtype="<f4").tobytes() if len(values) == len(rows) else None

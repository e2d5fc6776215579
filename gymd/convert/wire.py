"""Protobuf's wire form by hand, where a large packed field is moved as it is instead of being parsed.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["delimited", "delimited_fields", "varint"]

_VARINT, _DELIMITED = 0, 2
_FIXED = {1: 8, 5: 4}  # what is left has no content: the begin and the end of a group


def varint(number: int) -> bytes:
    """A number of at least 0."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def delimited(field: int, *parts: bytes) -> bytes:
    """A field of bytes, text, packed numbers or a message, whose content is given in parts."""
    size = sum(map(len, parts))
    return b"".join((varint(field << 3 | _DELIMITED), varint(size), *parts))


def delimited_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each such field of a message; others are skipped."""
    at = 0
    while at < len(message):
        tag, at = _read(message, at)
        kind = tag & 7
        if kind == _DELIMITED:
            size, at = _read(message, at)
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _read(message, at)
        else:
            at += _FIXED.get(kind, 0)


def _read(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7

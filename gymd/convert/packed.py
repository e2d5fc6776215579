"""Reads the logprobs of long answers straight from JSON text into packed arrays.

vLLM writes an object per generated token: 3.4 MB for 32,768, of which two numbers are wanted. Building the
objects takes four times as long as finding the numbers with numpy. The text must have vLLM's exact form for
that; any other is parsed as JSON is. Without numpy everything is. Only the first long answer imports it:
that takes a fifth of the time in which a host starts, and most hosts never see token ids.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gymd.convert._errors import ConvertError
from gymd.convert._json import loads

__all__ = ["PackedLogprobs", "load_chat", "pack_floats", "pack_ids", "unpack_ids"]

_WORTHWHILE = 1 << 16
_LIST = b'"logprobs":{"content":['
_END = b'],"top_logprobs":[]}'
_LAST = _END + b"]"
# Stands for the entries in the text that is parsed: no engine writes it.
_CUT = b"true"
_ROOM = 64
"""Bytes behind the end that a window of the last entry may reach into."""


@dataclass(frozen=True, slots=True)
class PackedLogprobs:
    """The logprobs of a choice, in the place of the JSON object.

    Attributes:
        ids: of the generated tokens, as packed by `pack_ids`; None where the engine names tokens by text.
        logprobs: theirs, as packed by `pack_floats`.
    """

    ids: bytes | None
    logprobs: bytes


def load_chat(data: bytes) -> Any:
    """Parses a chat completion; long logprobs in vLLM's form become PackedLogprobs.

    Raises:
        ValueError: it is no JSON.
    """
    if len(data) < _WORTHWHILE or (found := _find(data)) is None:
        return loads(data)
    try:
        from gymd.convert._entries import numbers_of
    except ImportError:  # numpy is an optional dependency
        return loads(data)
    start, end = found
    if (numbers := numbers_of(data, start, end)) is None:
        return loads(data)
    packed = PackedLogprobs(*numbers)
    chat = loads(b"".join((data[:start], _CUT, data[end:])))
    try:
        [choice] = chat["choices"]
        if choice["logprobs"]["content"] == [True]:
            choice["logprobs"] = packed
            return chat
    except (KeyError, TypeError, ValueError):
        pass
    return loads(data)


def pack_ids(ids: Sequence[int], name: str) -> bytes:
    """Ids as the bytes of a packed field: 4 each, little-endian. `name` is theirs in a ConvertError."""
    return _packed("i", ids, name)


def unpack_ids(packed: bytes) -> list[int]:
    """The ids that `pack_ids` packed."""
    ids = array("i", packed)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tolist()


def pack_floats(values: Sequence[float], name: str) -> bytes:
    """Numbers as the bytes of a packed field of float32, little-endian."""
    return _packed("f", values, name)


def _packed(code: str, values: Sequence[Any], name: str) -> bytes:
    try:
        packed = array(code, values)
    except (TypeError, OverflowError) as problem:
        raise ConvertError(f"expected a list of numbers: {problem}", name) from None
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _find(data: bytes) -> tuple[int, int] | None:
    """Where the entries of the logprobs begin and end.

    The quotes within the pattern are not escaped, so that it cannot be part of a string of valid JSON; that
    the rest is valid, and that this was the right list, is seen when it is parsed.
    """
    start = data.find(_LIST) + len(_LIST)
    end = data.rfind(_LAST, start) + len(_END)
    # Room behind the end, so that every window stays inside.
    return (start, end) if len(_LIST) <= start < end < len(data) - _ROOM else None

"""JSON text for the parts of an object that are carried as text."""

from __future__ import annotations

import json
from typing import Any

import orjson

__all__ = ["dumps", "kind_of", "load_text", "loads", "text_of"]

_NAMES = {dict: "an object", list: "a list", type(None): "null"}


def loads(data: bytes | str) -> Any:
    """Parses JSON; accepts lone surrogates, which orjson refuses and models sometimes write."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)


def dumps(value: Any) -> bytes:
    """Writes JSON as compact UTF-8; integers of any size and lone surrogates are kept."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def text_of(value: Any) -> str:
    """Writes a value as text for a `..._json` field; `load_text` gives back an equal value."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # Integers beyond 64 bits, lone surrogates. The leading space tells load_text to avoid orjson, which
        # would read such an integer as a float without a word.
        return " " + json.dumps(value, separators=(",", ":"), allow_nan=False)


def load_text(text: str) -> Any:
    """Parses the text of a `..._json` field."""
    if text.startswith(" "):
        return json.loads(text)
    return loads(text)


def kind_of(value: Any) -> str:
    """Names the JSON type of a value for an error text, with the value itself if it is short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:37] + "..."
        return f"a string {json.dumps(shown, ensure_ascii=False)}"
    return _NAMES.get(type(value)) or str(value)

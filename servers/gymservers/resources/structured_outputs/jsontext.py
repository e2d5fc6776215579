"""JSON as RFC 8259 has it: without Python's NaN and Infinity."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["parse_json"]


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def parse_json(text: str) -> Any:
    """Parses a JSON text.

    Raises:
        ValueError: it is none, or an integer in it has more digits than Python converts (4,300).
        RecursionError: it is nested more deeply than Python follows.
    """
    return _DECODER.decode(text)

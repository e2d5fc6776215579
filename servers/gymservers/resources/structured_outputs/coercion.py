"""XML and CSV hold nothing but text: what the schema wants as a number or a boolean is read as one.

Text that cannot be read so stays text, and the schema refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["csv_columns", "typed_csv", "typed_xml"]

# As XML Schema writes them, so no 1_000, no nan, no digits of other scripts, all of which Python would read.
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def typed_xml(value: Any, schema: Any) -> Any:
    """A part of an XML document, with the types that the schema asks for.

    An element that the schema has as an array may be a run of equal elements, or one element that wraps them.
    An empty element is an empty text or an empty array where the schema wants one.
    """
    if not isinstance(schema, dict) or "type" not in schema:
        return value
    kind = _kind(schema["type"], value)
    if kind == "object" and isinstance(value, dict):
        properties = _object(schema.get("properties"))
        return {
            name: typed_xml(inner, properties[name]) if name in properties else inner
            for name, inner in value.items()
        }
    if kind == "array":
        if isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        if not isinstance(value, list):
            value = [] if value is None else [value]
        return [typed_xml(item, schema.get("items")) for item in value]
    if value is None and kind == "string":
        return ""
    return typed_text(value, kind) if isinstance(value, str) else value


def _kind(types: Any, value: Any) -> Any:
    """Which type a value is read as, where the schema has a list of them."""
    if not isinstance(types, list):
        return types
    if value is None and "null" in types:
        return "null"
    named = [name for name in types if name != "null"]
    if len(named) == 1:
        return named[0]
    if "string" in named or not isinstance(value, str):
        return "string" if isinstance(value, str) else None
    fitting = (name for name in named if not isinstance(typed_text(value, name), str))
    return next(fitting, None)


def typed_csv(rows: Sequence[Mapping[Any, Any]], schema: Any) -> list[dict[Any, Any]]:
    """The rows of a table, with the types that the schema asks for, column by column."""
    properties = _object(_row_schema(schema).get("properties"))
    types = {name: _object(inner).get("type", "string") for name, inner in properties.items()}
    return [{name: _cell(cell, types.get(name, "string")) for name, cell in row.items()} for row in rows]


def csv_columns(schema: Any) -> set[str] | None:
    """The columns that a strict schema wants; None if it does not say."""
    properties = _row_schema(schema).get("properties")
    return set(properties) if isinstance(properties, dict) else None


def _row_schema(schema: Any) -> Mapping[str, Any]:
    schema = _object(schema)
    return _object(schema.get("items", schema))


def _cell(cell: Any, types: Any) -> Any:
    if not isinstance(types, list):
        return typed_text(cell, types) if isinstance(cell, str) else cell
    if cell in (None, "") and "null" in types:
        return None
    for name in types:
        if name == "null":
            continue
        typed = _cell(cell, name)
        if name == "string" or not isinstance(typed, str):
            return typed
    return cell


def typed_text(text: str, kind: Any) -> Any:
    """A text as a value of a type; the text itself if it is none."""
    if kind == "integer" and _INTEGER.fullmatch(text):
        try:
            return int(text)
        except ValueError:  # more digits than Python converts
            return text
    if kind == "number" and _NUMBER.fullmatch(text):
        return float(text)
    if kind == "boolean":
        return _BOOLEANS.get(text.lower(), text)
    return text


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

"""Arguments for a tool out of nothing but its JSON schema."""

from __future__ import annotations

from typing import Any

__all__ = ["synthesise"]

_MAX_DEPTH = 6
_TEXT = "text"


def synthesise(schema: Any, top: Any = None, depth: int = 0) -> Any:
    """The smallest value that fits a schema, as far as common keywords say; defaults and examples first."""
    top = schema if top is None else top
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return _TEXT
    if isinstance(reference := schema.get("$ref"), str):
        return synthesise(_resolve(reference, top), top, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(values := schema.get(key), list) and values:
            return values[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := schema.get(key), list) and options:
            return synthesise(options[0], top, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind == "object" or "properties" in schema:
        return _object(schema, top, depth)
    if kind == "array":
        count = schema.get("minItems", 0)
        return [synthesise(schema.get("items", {}), top, depth + 1) for _ in range(min(count, 16))]
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    return _TEXT.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 1 << 16)]


def _object(schema: dict[str, Any], top: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    required = schema.get("required")
    names = [name for name in required if name in properties] if isinstance(required, list) else properties
    return {name: synthesise(properties[name], top, depth + 1) for name in names}


def _number(schema: dict[str, Any]) -> int | float:
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + 1
    return min(1, schema.get("maximum", 1))


def _resolve(reference: str, top: Any) -> Any:
    for step in reference.removeprefix("#").split("/")[1:]:
        top = top.get(step) if isinstance(top, dict) else None
    return top

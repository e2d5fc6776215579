"""The schemas of the rows: read, made strict, and kept for the next answer to the same task."""

from __future__ import annotations

import functools
from typing import Any

from gymservers.resources.structured_outputs.jsontext import parse_json
from gymservers.resources.structured_outputs.plain import Check, compile_plain

__all__ = ["BadSchema", "Schema", "load", "make_strict"]

CACHED_SCHEMAS = 256
MOST_CACHED_CHARS = 100_000
"""A longer schema is read anew for each answer, so that the cache stays within a few hundred megabytes."""

# Keywords that map names to schemas: the map itself is no schema, even if a name in it is `properties`.
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


class BadSchema(Exception):
    """The row's schema cannot be used: a mistake in the data, whatever the answer."""


class Schema:
    """A schema of a row.

    Attributes:
        document: the strict schema.
        plain: checks documents in time linear in their size; None if the schema needs the general validator.
    """

    __slots__ = ("document", "full", "plain")

    def __init__(self, text: str) -> None:
        try:
            self.document: Any = parse_json(text)
            make_strict(self.document)
            self.plain: Check | None = compile_plain(self.document)
        except (ValueError, RecursionError) as failure:
            raise BadSchema(f"the schema cannot be read: {type(failure).__name__}: {failure}") from None
        if not isinstance(self.document, dict | bool):
            raise BadSchema("the schema is neither an object nor true or false")
        # Set by the general validator for itself.
        self.full: Any = None


def load(text: str) -> Schema:
    """The schema in a row's `schema_str`; raises BadSchema."""
    return Schema(text) if len(text) > MOST_CACHED_CHARS else _load(text)


_load = functools.lru_cache(CACHED_SCHEMAS)(Schema)


def make_strict(schema: Any) -> None:
    """Makes every object schema closed, in place: all its properties are required, and there are no others.

    It goes into the values of objects and not into lists: the branches of anyOf, oneOf and allOf stay as they
    are. What stands under `const` is a value, not a schema.
    """
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["required"] = list(properties)
        schema["additionalProperties"] = False
    for keyword, value in schema.items():
        if keyword == "const":
            continue
        if keyword in _MAPS and isinstance(value, dict):
            for inner in value.values():
                make_strict(inner)
        else:
            make_strict(value)

"""The general validator: any OpenAPI 3.1 schema, that is JSON Schema 2020-12 with discriminators.

Importing it takes a third of a second, and a pattern or a chain of references in a schema may keep it busy
for ever: so it runs in worker processes only. It never fetches anything: a reference to what is not in the
schema itself, nor in JSON Schema's own, is a mistake in the row.
"""

from __future__ import annotations

import re
from typing import Any

from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from jsonschema_specifications import REGISTRY
from openapi_schema_validator import OAS31Validator
from referencing.exceptions import Unresolvable

from gymservers.resources.structured_outputs.schemas import BadSchema, Schema

__all__ = ["first_mismatch"]

SHALLOW = 50
"""A document of fewer levels cannot use up Python's stack; if it does, the schema refers to itself."""


def first_mismatch(schema: Schema, document: Any) -> str | None:
    """What is wrong in a document; None if it fits.

    Raises:
        BadSchema: the schema cannot be used.
    """
    if schema.full is None:
        schema.full = _validator(schema)
    try:
        mismatch = next(schema.full.iter_errors(document), None)
    except (Unresolvable, UnknownType, re.error) as failure:
        raise BadSchema(f"the schema cannot be used: {type(failure).__name__}: {failure}") from None
    except RecursionError:
        if _levels(document) < SHALLOW:
            raise BadSchema("the schema refers to itself without end") from None
        return "the document is nested too deeply"
    except MemoryError:
        raise
    except Exception as failure:  # such as a key of a YAML mapping that is no text
        return f"{type(failure).__name__}: {failure}"
    return None if mismatch is None else _text(mismatch)


def _validator(schema: Schema) -> Any:
    try:
        OAS31Validator.check_schema(schema.document)
        return OAS31Validator(schema.document, registry=REGISTRY)
    except SchemaError as failure:
        raise BadSchema(f"the schema is none: {_text(failure)}") from None
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None
    except Unresolvable as failure:
        raise BadSchema(f"the schema cannot be used: {failure}") from None


def _text(mismatch: ValidationError | SchemaError) -> str:
    place = "".join(f"[{part!r}]" for part in mismatch.absolute_path)
    return f"{place or 'the document'}: {mismatch.message}"


def _levels(document: Any) -> int:
    """How deeply lists and objects are nested, as far as SHALLOW."""
    level, found = [document], 0
    while level and found < SHALLOW:
        found += 1
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list | tuple | set):
                inner += value
        level = inner
    return found

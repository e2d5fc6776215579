"""Checks one answer against one schema: in place or in a worker process, as the server decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymservers.resources.structured_outputs.coercion import csv_columns, typed_csv, typed_xml
from gymservers.resources.structured_outputs.documents import Malformed, Table, parse
from gymservers.resources.structured_outputs.jsontext import parse_json
from gymservers.resources.structured_outputs.plain import Mismatch
from gymservers.resources.structured_outputs.schemas import BadSchema, Schema, load

__all__ = ["SCHEMA_ERROR", "Finding", "check_arguments", "check_text"]

SCHEMA_ERROR = "schema_error"
"""The row's fault; everything else is the answer's."""
MESSAGE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong.

    Attributes:
        error_type: parse_error, validation_error and so on.
        message: for people.
    """

    error_type: str
    message: str


def check_text(schema_text: str, kind: str, text: str, coerce_xml: bool = True) -> Finding | None:
    """What is wrong with a text that should be a document of a format; None: nothing.

    Args:
        schema_text: the row's schema_str.
        kind: json, yaml, xml, toml or csv.
        text: all of it must be the document.
        coerce_xml: read XML's texts as the types that the schema asks for.
    """
    try:
        schema = load(schema_text)
        document = parse(kind, text)
        return _check(schema, _typed(kind, document, schema, coerce_xml))
    except BadSchema as failure:
        return _finding(SCHEMA_ERROR, failure)
    except Malformed as failure:
        return _finding("parse_error", failure)
    except Mismatch as failure:
        return _finding("validation_error", failure)
    except RecursionError:
        return Finding("validation_error", "the document is nested too deeply")


def check_arguments(schema_text: str, arguments: str, payload_key: str | None) -> Finding | None:
    """What is wrong with the arguments of the tool call that is the answer; None: nothing.

    Args:
        payload_key: the argument that holds the document; None: the arguments are the document.
    """
    try:
        document = parse_json(arguments)
    except (ValueError, RecursionError) as failure:
        return _finding("tool_arguments_parse_error", f"{type(failure).__name__}: {failure}")
    if payload_key:
        if not isinstance(document, dict) or payload_key not in document:
            return _finding("missing_tool_payload_key", f"the arguments have no {payload_key!r}")
        document = document[payload_key]
    try:
        return _check(load(schema_text), document)
    except BadSchema as failure:
        return _finding(SCHEMA_ERROR, failure)
    except Mismatch as failure:
        return _finding("validation_error", failure)


def _typed(kind: str, document: Any, schema: Schema, coerce_xml: bool) -> Any:
    if kind == "xml" and coerce_xml:
        return typed_xml(document, schema.document)
    if kind != "csv":
        return document
    assert isinstance(document, Table)
    wanted = csv_columns(schema.document)
    # Any sentence is a header without rows, and no rows break no rule of a schema for rows.
    if not document and wanted is not None and set(document.header) != wanted:
        raise Mismatch("is a header without rows, and not the header that the schema asks for")
    return typed_csv(document, schema.document)


def _check(schema: Schema, document: Any) -> Finding | None:
    if schema.plain is not None:
        schema.plain(document)
        return None
    # Only here, for it brings the general validator, which plain schemas do without.
    from gymservers.resources.structured_outputs.full import first_mismatch

    mismatch = first_mismatch(schema, document)
    return None if mismatch is None else _finding("validation_error", mismatch)


def _finding(error_type: str, what: object) -> Finding:
    return Finding(error_type, str(what)[:MESSAGE_CHARS])

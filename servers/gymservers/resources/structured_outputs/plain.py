"""Compiles plain JSON schemas into functions: some thirty times faster than a general validator.

Plain means: types, properties, required, additionalProperties, items, enumerations of scalars, and bounds.
Most schemas of structured-output tasks are. A plain schema is well-formed by construction (each keyword is
looked at here), and checking a document takes time linear in its size. Anything else is left to the general
validator. The verdicts are those of JSON Schema 2020-12 as `jsonschema` gives them; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Check", "Mismatch", "compile_plain"]

Check = Callable[[Any], None]
"""Raises Mismatch for a document that does not fit."""
Schema = Mapping[str, Any]
Builder = Callable[[Any, Schema], Check]
"""Makes the check of a keyword from its value and the schema around it."""


class Mismatch(Exception):
    """A document does not fit its schema.

    Attributes:
        what: what is wrong.
        path: keys and indices down to the place, innermost first.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[Any] = []

    def __str__(self) -> str:
        place = "".join(f"[{part!r}]" for part in reversed(self.path))
        return f"{place or 'the document'} {self.what}"


class _NotPlain(Exception):
    """The schema uses more than this module knows, or is malformed."""


def compile_plain(schema: Any) -> Check | None:
    """The function that checks documents; None if the schema is not plain."""
    try:
        return _compile(schema)
    except _NotPlain:
        return None


def _compile(schema: Any) -> Check:
    if schema is True:
        return _anything
    if schema is False:
        return _nothing
    if not isinstance(schema, dict):
        raise _NotPlain
    checks = []
    for keyword, value in schema.items():
        if keyword in _ANNOTATIONS:
            if not isinstance(value, _ANNOTATIONS[keyword]):
                raise _NotPlain
        elif keyword in _KEYWORDS:
            checks.append(_KEYWORDS[keyword](value, schema))
        else:
            raise _NotPlain
    return checks[0] if len(checks) == 1 else _all(checks)


def _anything(document: Any) -> None:
    return


def _nothing(document: Any) -> None:
    raise Mismatch("is not allowed")


def _all(checks: list[Check]) -> Check:
    def check(document: Any) -> None:
        for one in checks:
            one(document)

    return check


# Types. Integers may be written with a point (2.0); booleans are no numbers.


def _is_number(document: Any) -> bool:
    return isinstance(document, int | float) and not isinstance(document, bool)


def _is_integer(document: Any) -> bool:
    if isinstance(document, float):
        return document.is_integer()
    return isinstance(document, int) and not isinstance(document, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda document: isinstance(document, str),
    "object": lambda document: isinstance(document, dict),
    "array": lambda document: isinstance(document, list),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda document: isinstance(document, bool),
    "null": lambda document: document is None,
}


def _type(value: Any, schema: Schema) -> Check:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _NotPlain
    if len(set(names)) != len(names) or not _TYPES.keys() >= set(names):
        raise _NotPlain
    tests = [_TYPES[name] for name in names]
    what = f"is not of type {' or '.join(names)}"
    only = tests[0] if len(tests) == 1 else None

    def check(document: Any) -> None:
        if not (only(document) if only is not None else any(test(document) for test in tests)):
            raise Mismatch(what)

    return check


# Objects.


def _properties(value: Any, schema: Schema) -> Check:
    if not isinstance(value, dict):
        raise _NotPlain
    checks = [(name, _compile(inner)) for name, inner in value.items()]

    def check(document: Any) -> None:
        if not isinstance(document, dict):
            return
        for name, one in checks:
            if name in document:
                try:
                    one(document[name])
                except Mismatch as mismatch:
                    mismatch.path.append(name)
                    raise

    return check


def _required(value: Any, schema: Schema) -> Check:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _NotPlain
    if len(set(value)) != len(value):
        raise _NotPlain

    def check(document: Any) -> None:
        if not isinstance(document, dict):
            return
        for name in value:
            if name not in document:
                raise Mismatch(f"has no {name!r}")

    return check


def _additional(value: Any, schema: Schema) -> Check:
    one = _compile(value)
    known = schema.get("properties", {}).keys() if isinstance(schema.get("properties", {}), dict) else ()

    def check(document: Any) -> None:
        if not isinstance(document, dict):
            return
        for name in document:
            if name not in known:
                if value is False:
                    raise Mismatch(f"has {name!r}, which the schema does not know")
                try:
                    one(document[name])
                except Mismatch as mismatch:
                    mismatch.path.append(name)
                    raise

    return check


# Arrays.


def _items(value: Any, schema: Schema) -> Check:
    one = _compile(value)

    def check(document: Any) -> None:
        if not isinstance(document, list):
            return
        for index, item in enumerate(document):
            try:
                one(item)
            except Mismatch as mismatch:
                mismatch.path.append(index)
                raise

    return check


# Values and bounds.


def _enum(value: Any, schema: Schema) -> Check:
    if not isinstance(value, list):
        raise _NotPlain
    allowed = {_scalar(one) for one in value}

    def check(document: Any) -> None:
        if not isinstance(document, _SCALARS) or (isinstance(document, bool), document) not in allowed:
            raise Mismatch("is none of the values that the schema lists")

    return check


def _const(value: Any, schema: Schema) -> Check:
    return _enum([value], schema)


_SCALARS = (str, int, float, type(None))


def _scalar(value: Any) -> tuple[bool, Any]:
    """A value that can be looked up; true and 1 are different, 1 and 1.0 are not."""
    if not isinstance(value, _SCALARS):
        raise _NotPlain
    return isinstance(value, bool), value


_Sized = type[str] | type[list[Any]] | type[dict[Any, Any]]


def _size(kind: _Sized, least: bool, what: str) -> Builder:
    def build(value: Any, schema: Schema) -> Check:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _NotPlain

        def check(document: Any) -> None:
            if isinstance(document, kind) and (len(document) < value if least else len(document) > value):
                raise Mismatch(f"is {what} than {value}")

        return check

    return build


def _bound(wrong: Callable[[Any, Any], bool], what: str) -> Builder:
    def build(value: Any, schema: Schema) -> Check:
        if not _is_number(value):
            raise _NotPlain

        def check(document: Any) -> None:
            if _is_number(document) and wrong(document, value):
                raise Mismatch(f"is {what} {value}")

        return check

    return build


_KEYWORDS: dict[str, Builder] = {
    "type": _type,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "enum": _enum,
    "const": _const,
    "minLength": _size(str, True, "shorter"),
    "maxLength": _size(str, False, "longer"),
    "minItems": _size(list, True, "shorter"),
    "maxItems": _size(list, False, "longer"),
    "minProperties": _size(dict, True, "smaller"),
    "maxProperties": _size(dict, False, "larger"),
    "minimum": _bound(lambda number, bound: number < bound, "less than"),
    "maximum": _bound(lambda number, bound: number > bound, "greater than"),
    "exclusiveMinimum": _bound(lambda number, bound: number <= bound, "not greater than"),
    "exclusiveMaximum": _bound(lambda number, bound: number >= bound, "not less than"),
}

# What says nothing about a document, and the type that it must have itself. `format` is an annotation too.
_ANNOTATIONS: dict[str, type] = {
    "title": str,
    "description": str,
    "$comment": str,
    "format": str,
    "default": object,
    "example": object,
    "examples": list,
    "nullable": object,
    "deprecated": bool,
    "readOnly": bool,
    "writeOnly": bool,
}

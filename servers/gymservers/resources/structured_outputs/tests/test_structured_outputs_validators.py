"""The fast ways agree with the slow ones: plain schemas with jsonschema, YAML's C parser with the other."""

import json
import random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gymservers.resources.structured_outputs.coercion import typed_text
from gymservers.resources.structured_outputs.documents import _FastLoader, _is_usual_yaml
from gymservers.resources.structured_outputs.full import first_mismatch
from gymservers.resources.structured_outputs.plain import Mismatch, compile_plain
from gymservers.resources.structured_outputs.schemas import BadSchema, Schema, make_strict

NAMES = st.sampled_from(["a", "b", "properties"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, -1, 1.0, 2.5, 1e300, 10**30, "", "a", "aa", "1"])
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TYPES = ["string", "object", "array", "number", "integer", "boolean", "null"]
SEVERAL_TYPES = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True)
NUMBERS = st.sampled_from([0, 1, 2.5, -1])
SIZES = st.integers(0, 2)


def schema_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES) | SEVERAL_TYPES,
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": st.booleans() | inner,
            "enum": st.lists(SCALARS, max_size=3),
            "const": SCALARS,
            "minLength": SIZES,
            "maxItems": SIZES,
            "minProperties": SIZES,
            "maximum": NUMBERS,
            "exclusiveMinimum": NUMBERS,
            "description": st.just("text"),
            "format": st.just("date"),
        },
    )


SCHEMAS = st.recursive(schema_of(st.booleans()), schema_of, max_leaves=4)


def fits_plainly(schema: Schema, document: Any) -> bool:
    assert schema.plain is not None
    try:
        schema.plain(document)
    except Mismatch:
        return False
    return True


@settings(max_examples=300, deadline=None, derandomize=True)
@given(SCHEMAS, DOCUMENTS)
def test_plain_schemas_judge_as_the_general_validator(document_schema: Any, document: Any) -> None:
    schema = Schema(json.dumps(document_schema))
    assert fits_plainly(schema, document) == (first_mismatch(schema, document) is None)


BROKEN = st.sampled_from([None, [], "x", 1, True, {"a": 1}, {"type": "x"}, [1], ["a", "a"], -1, 2.5])
KEYWORDS = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "title",
    "minLength",
    "maxItems",
    "maxProperties",
    "minimum",
    "exclusiveMaximum",
    "examples",
    "readOnly",
]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(KEYWORDS), BROKEN, max_size=2))
def test_what_is_plain_is_a_schema(document_schema: Any) -> None:
    schema = Schema(json.dumps(document_schema))
    if schema.plain is not None:
        first_mismatch(schema, None)  # raises BadSchema for what is none


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"$ref": "#"},
        {"anyOf": [{}]},
        {"multipleOf": 2},
        {"uniqueItems": True},
        {"enum": [[1]]},
        {"$defs": {}},
        {"items": [{}]},
        {"type": "text"},
        {"properties": {"a": {"not": {}}}},
        {"madeUp": 1},
    ],
)
def test_everything_else_is_not_plain(schema: Any) -> None:
    assert compile_plain(schema) is None


def test_a_mismatch_names_its_place() -> None:
    check = compile_plain({"properties": {"a": {"items": {"type": "string"}}}})
    assert check is not None
    with pytest.raises(Mismatch, match=r"^\['a'\]\[1\] is not of type string$"):
        check({"a": ["x", 1]})


def test_strict_schemas_are_closed_at_every_level_but_not_in_lists() -> None:
    inner: Any = {"properties": {"x": {}}}
    schema: Any = {
        "properties": {"a": inner},
        "$defs": {"properties": inner},
        "anyOf": [{"properties": {"y": {}}}],
    }
    make_strict(schema)
    assert schema["required"] == ["a"]
    assert schema["$defs"]["properties"]["additionalProperties"] is False
    assert schema["anyOf"] == [{"properties": {"y": {}}}]


def test_a_schema_that_is_no_schema_is_told_every_time() -> None:
    schema = Schema('{"type": "text"}')
    for _ in range(2):
        with pytest.raises(BadSchema, match="text"):
            first_mismatch(schema, 1)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("12", "integer", 12),
        (" -12 ", "integer", -12),
        ("+007", "integer", 7),
        ("1.0", "integer", "1.0"),
        ("1_000", "integer", "1_000"),
        ("١٢", "integer", "١٢"),
        ("9" * 5_000, "integer", "9" * 5_000),
        (".5", "number", 0.5),
        ("1.e2", "number", 100.0),
        ("1,5", "number", "1,5"),
        ("inf", "number", "inf"),
        ("0x10", "number", "0x10"),
        ("True", "boolean", True),
        ("0", "boolean", False),
        ("no", "boolean", "no"),
        ("12", "string", "12"),
        ("12", None, "12"),
    ],
)
def test_texts_as_values(text: str, kind: Any, value: Any) -> None:
    found = typed_text(text, kind)
    assert found == value
    assert type(found) is type(value)


USUAL = [
    'name: Report\nitems:\n  - title: A b\n    price: 3.5\n    tags: []\n  - title: "x: y"\n    meta: {}\n',
    "- a\n-  - b\n   - c\n- - d\n  - e: f\n",
    "text: |\n  line one\n\n  line two\nfolded: >-\n  a b\n  c\nend: 'it''s'\n",
    "long: a scalar\n  on two lines\nnote: it's (so) [y] # no\nlist: [a, b, {c: d}]\ndate: 2020-01-01\n",
    '{"a": [1, 2.5, "x", null, true], "b": {"c": "d"}}\n',
]
PIECES = [
    *" \n:-,[]{}#\"'|>?&*!%@`ab01\\.~=+_</()\t\r",
    "  ",
    "\n- ",
    ": ",
    " #",
    "|\n",
    "é",
    "日",
    "\u2028",
    "\ufeff",
]


def mutated(chance: random.Random) -> str:
    text = chance.choice(USUAL)
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        place = chance.randrange(len(text) + 1)
        cut = chance.choice([0, 0, 0, 1, 2])
        text = text[:place] + (chance.choice(PIECES) if not cut else "") + text[place + cut :]
    return text


def loaded(loader: Any, text: str) -> str:
    try:
        return repr(yaml.load(text, Loader=loader))
    except Exception:
        return "no document"


def test_what_goes_to_the_c_parser_is_read_as_by_the_other() -> None:
    chance = random.Random(7)
    texts = [text for text in (mutated(chance) for _ in range(1_500)) if _is_usual_yaml(text)]
    assert len(texts) > 500
    for text in texts:
        assert loaded(_FastLoader, text) == loaded(yaml.SafeLoader, text), text


@pytest.mark.parametrize(
    "text",
    [
        "- " * 200 + "a",
        " " * 200 + "a",
        "[" * 501 + "]" * 501,
        "a:\tb",
        "a: &x b",
        "a: *x",
        "a: !!str 1",
        "%YAML 1.1",
        "a: >-#\n  b",
        "[a:]",
        "{a?: 1}",
        "? a",
        "\ufeffa: b",
    ],
)
def test_what_may_be_read_otherwise_does_not_go_to_the_c_parser(text: str) -> None:
    assert not _is_usual_yaml(text)


@pytest.mark.parametrize("text", USUAL)
def test_usual_texts_go_to_the_c_parser(text: str) -> None:
    assert _is_usual_yaml(text)

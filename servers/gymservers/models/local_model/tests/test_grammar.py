"""Tool schemas as grammars, and calls back out of texts; nothing here needs the engine."""

import json
import re
from typing import Any

import pytest

from gymservers.models.local_model.grammar import call_text, parse_calls, schema_grammar, tool_grammar

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def rules_of(grammar: str) -> dict[str, str]:
    return dict(line.split(" ::= ", 1) for line in grammar.strip().splitlines())


def check(grammar: str) -> None:
    """Every rule that is used is defined."""
    rules = rules_of(grammar)
    for body in rules.values():
        bare = re.sub(r'"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]', " ", body)
        for name in re.findall(r"[a-zA-Z][a-zA-Z0-9-]*", bare):
            assert name in rules, f"{name} is not defined"


def test_one_tool_begins_and_ends_outside_the_grammar() -> None:
    grammar = tool_grammar([("get_weather", CITY)], 1)
    assert grammar.begin == '{"name": "get_weather", "arguments": {"city": "'
    assert grammar.end == "}}"
    assert rules_of(grammar.rules)["root"] == r'char{0,64} "\""'
    assert parse_calls(f'{grammar.begin}Paris"{grammar.end}') == [("get_weather", '{"city": "Paris"}')]


def test_several_tools_leave_the_name_to_the_model() -> None:
    grammar = tool_grammar([("a", CITY), ("b", {"type": "object", "properties": {}})], 1)
    check(grammar.rules)
    assert grammar.begin == '{"name": "'
    assert parse_calls(grammar.begin + 'b", "arguments": {}' + grammar.end) == [("b", "{}")]


def test_several_calls_are_a_list() -> None:
    grammar = tool_grammar([("a", CITY)], 3)
    check(grammar.rules)
    text = (
        grammar.begin
        + 'a", "arguments": {"city": "x"}}, {"name": "a", "arguments": {"city": "y"}'
        + grammar.end
    )
    assert parse_calls(text) == [("a", '{"city": "x"}'), ("a", '{"city": "y"}')]


@pytest.mark.parametrize(
    "text",
    ["", "hello", "[]", "[", '{"name": "a"}', '{"name": 3, "arguments": {}}', '{"name": "a", "argu', "[1]"],
)
def test_texts_that_are_no_calls(text: str) -> None:
    assert parse_calls(text) is None


def test_calls_are_read_as_written() -> None:
    arguments = '{"a": "}]\\"\\u00e9ö", "b": [1, {"c": null}]}'
    text = call_text("näme", arguments)
    assert parse_calls(text) == [("näme", arguments)]
    assert parse_calls(f"[{text}, {text}]") == [("näme", arguments)] * 2
    assert parse_calls(f"[{text}") is None
    assert parse_calls(text + " ") is None


ODD: list[Any] = [
    None,
    True,
    {},
    [],
    {"type": "object"},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"$ref": "http://elsewhere/x"}}},
    {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "required": ["node"],
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    },
    {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?=a)[", "minLength": 500}}},
    {
        "type": "object",
        "properties": {"x": {"enum": ['a"b', "c\\d", "e\nf", 1, None, {"k": [1]}]}},
        "required": ["x"],
    },
    {
        "type": "object",
        "properties": {"x": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["x"],
    },
    {
        "type": "object",
        "properties": {"x": {"allOf": [{"type": "string"}, {"maxLength": 3}]}},
        "required": ["x"],
    },
    {"type": "object", "properties": {"x": {"not": {}}, "y": {"if": {}, "then": {}}}},
    {"type": "object", "properties": {"x": {"type": ["string", "number"]}}, "required": ["x", "unknown"]},
    {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "integer", "minimum": 0}}}},
    {"type": "object", "properties": {"x": {"type": "array", "prefixItems": [{"type": "string"}, {}]}}},
    {
        "type": "object",
        "properties": {"x": {"type": "array", "minItems": 2, "maxItems": 2}},
        "required": ["x"],
    },
    {"type": "object", "properties": {"x": {"type": "array", "maxItems": 0}}, "required": ["x"]},
    {"type": "object", "properties": {"x": {"type": "weird"}, "a b-ö": {"type": "boolean"}}},
    {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}},
        "required": ["n"],
    },
    {"type": "object", "properties": {"o": {"type": "object", "properties": {"i": {"type": "string"}}}}},
    {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(60)}},
]


@pytest.mark.parametrize("schema", ODD, ids=lambda schema: json.dumps(schema)[:40])
def test_odd_schemas_give_whole_grammars(schema: Any) -> None:
    for calls in (1, 3):
        check(tool_grammar([("t", schema)], calls).rules)
        check(tool_grammar([("t", schema), ("u", CITY)], calls).rules)
    check(schema_grammar(schema))


def test_deep_schemas_end() -> None:
    schema: Any = {"type": "string"}
    for _ in range(50):
        schema = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    check(tool_grammar([("t", schema)], 1).rules)

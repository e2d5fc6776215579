"""JSON Schema to GBNF, the grammar language of llama.cpp, for tool calls by constrained decoding.

Own rules rather than the engine's converter: that one accepts any schema and, for what it does not support,
generates unconstrained text without a word. These rules cover what tools use; keywords beyond that are
ignored, which widens the grammar and never breaks it. Every text, list and number is bounded, so that a small
model comes to an end, and white space is fixed, so that a call is written again exactly as it was generated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CallGrammar", "call_text", "parse_calls", "schema_grammar", "tool_grammar"]

_MAX_STRING = 64
_LONGEST_STRING = 400
_MAX_ITEMS = 8
_MOST_ITEMS = 32
_MAX_DEPTH = 8
_MAX_RULES = 2_000
_MAX_RANGE = 24
_BEGIN = '{"name": "'

# Keywords that leave open how a value begins.
_OPEN = frozenset({"$ref", "const", "enum", "anyOf", "oneOf", "allOf"})

_BASE = r"""char ::= [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4})
integer ::= "-"? natural
natural ::= "0" | [1-9] [0-9]{0,11}
number ::= integer ("." [0-9]{1,6})?
boolean ::= "true" | "false"
string ::= "\"" char{0,64} "\""
scalar ::= string | number | boolean | "null"
free ::= "{" (string ": " scalar (", " string ": " scalar){0,7})? "}"
"""


@dataclass(frozen=True, slots=True)
class CallGrammar:
    """A text that calls tools: `begin`, then what the model writes by `rules`, then `end`.

    Begin and end are the same in any case. They are not generated: that costs nothing, they keep their
    natural tokens, and no token that the model had no choice about counts as one of its actions.
    """

    begin: str
    rules: str
    end: str


def tool_grammar(tools: Sequence[tuple[str, Any]], most_calls: int) -> CallGrammar:
    """The text of a call of one of the tools, given as pairs of name and schema of the arguments.

    With `most_calls` above 1 it is a list of one to so many calls.
    """
    rules = _Rules()
    if len(tools) == 1 and most_calls == 1:
        name, schema = tools[0]
        begin, rest, end = rules.opened_arguments(schema)
        return CallGrammar(call_text(name, begin)[:-1], rules.text(rest), end + "}")
    calls = []
    for name, schema in tools:
        head = call_text(name, "")[:-1].removeprefix(_BEGIN)
        calls.append(f"{_quote(head)} {rules.arguments(schema)}")
    rules.rules["call"] = " | ".join(calls)
    if most_calls == 1:
        return CallGrammar(_BEGIN, rules.text("call"), "}")
    more = f'("}}, " {_quote(_BEGIN)} call){{0,{most_calls - 1}}}'
    return CallGrammar(f"[{_BEGIN}", rules.text(f"call {more}"), "}]")


def schema_grammar(schema: Any) -> str:
    """The grammar of a JSON text that fits a schema, as far as grammars can say it."""
    rules = _Rules()
    rules.top = schema
    return rules.text(rules.value(schema, 0))


def call_text(name: str, arguments_json: str) -> str:
    """A call as the model writes it."""
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments_json}}}'


def parse_calls(text: str) -> list[tuple[str, str]] | None:
    """The calls in a text of the grammar: name and arguments as written. None: it is cut off, or no call."""
    decoder = json.JSONDecoder()
    position = 1 if text.startswith("[") else 0
    calls = []
    while True:
        try:
            value, end = decoder.raw_decode(text, position)
            name = value["name"]
        except (ValueError, TypeError, KeyError):
            return None
        head = call_text(name, "")[:-1] if isinstance(name, str) else ""
        if not head or not text.startswith(head, position):
            return None
        calls.append((name, text[position + len(head) : end - 1]))
        if position and text.startswith(", ", end):
            position = end + 2
            continue
        rest = text[end:]
        return calls if rest == ("]" if text.startswith("[") else "") else None


class _Rules:
    """Collects rules while walking a schema."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = {}
        self.references: dict[str, str] = {}
        self.top: Any = {}

    def text(self, root: str) -> str:
        """The whole grammar."""
        lines = [f"root ::= {root}", *(f"{name} ::= {body}" for name, body in self.rules.items())]
        return "\n".join(lines) + "\n" + _BASE

    def named(self, body: str) -> str:
        """A rule of that body; alternatives need a name where they are part of a sequence."""
        name = f"r{len(self.rules)}"
        self.rules[name] = body
        return name

    def arguments(self, schema: Any) -> str:
        """The rule of a tool's arguments: always an object."""
        self.top, self.references = schema, {}
        if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
            is_closed = isinstance(schema, dict) and schema.get("type") == "object"
            if not is_closed or schema.get("additionalProperties") is False:
                return _quote("{}")
            return "free"
        return self.object_rule(schema, 0)

    def opened_arguments(self, schema: Any) -> tuple[str, str, str]:
        """What all arguments begin with, the rule of what is free, what all end with."""
        self.top, self.references = schema, {}
        begin, rest, end = self.opened(schema, 0)
        return (begin, rest, end) if begin.startswith("{") else ("", self.arguments(schema), "")

    def opened(self, schema: Any, depth: int) -> tuple[str, str, str]:
        """A value as the beginning that it has in any case, an expression for its rest, and its end."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or not _OPEN.isdisjoint(schema):
            return "", self.value(schema, depth), ""
        properties = schema.get("properties")
        if schema.get("type") == "object" and isinstance(properties, dict) and properties:
            (name, part), *others = properties.items()
            wanted = _required(schema)
            if name in wanted:
                begin, rest, end = self.opened(part, depth + 1)
                begin = f"{{{_dump(name)}: {begin}"
                if not others:
                    return begin, rest, end + "}"
                _, after = self.pairs(others, wanted, depth)
                return begin, f"{rest} {_quote(end)} {after}", "}"
        if schema.get("type") == "string":
            return '"', self.value(schema, depth).removeprefix('"\\"" '), ""
        return "", self.value(schema, depth), ""

    def value(self, schema: Any, depth: int) -> str:
        """An expression for a value."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or len(self.rules) > _MAX_RULES:
            return "scalar"
        if isinstance(reference := schema.get("$ref"), str):
            return self.reference(reference, depth)
        if "const" in schema:
            return _quote(_dump(schema["const"]))
        if isinstance(choices := schema.get("enum"), list) and choices:
            return self.named(" | ".join(_quote(_dump(choice)) for choice in choices))
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), list) and options:
                rest = {name: part for name, part in schema.items() if name != key}
                merged = [{**rest, **option} if isinstance(option, dict) else option for option in options]
                return self.named(" | ".join(self.value(option, depth + 1) for option in merged))
        if isinstance(parts := schema.get("allOf"), list) and parts:
            return self.value(_merge(schema, parts), depth + 1)
        return self.typed(schema, depth)

    def typed(self, schema: dict[str, Any], depth: int) -> str:
        """An expression for a schema that says no more than a type and its limits."""
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            return self.named(" | ".join(self.value({**schema, "type": one}, depth + 1) for one in kind))
        if kind == "object" or (kind is None and isinstance(schema.get("properties"), dict)):
            return self.object_rule(schema, depth)
        if kind == "array" or (kind is None and "items" in schema):
            return self.array_rule(schema, depth)
        if kind == "string":
            low, high = _bounds(schema, "minLength", "maxLength", _MAX_STRING, _LONGEST_STRING)
            return f'"\\"" char{{{low},{high}}} "\\""'
        if kind == "integer":
            return self.integer_rule(schema)
        return {"number": "number", "boolean": "boolean", "null": '"null"'}.get(str(kind), "scalar")

    def integer_rule(self, schema: dict[str, Any]) -> str:
        """Small ranges are spelled out; larger ones keep only the sign."""
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _MAX_RANGE:
            return self.named(" | ".join(_quote(str(number)) for number in range(low, high + 1)))
        return "natural" if isinstance(low, int | float) and low >= 0 else "integer"

    def object_rule(self, schema: dict[str, Any], depth: int) -> str:
        """Properties in the order of the schema; those that are not required may be left out."""
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return _quote("{}") if schema.get("additionalProperties") is False else "free"
        if not properties:
            return _quote("{}")
        first, _ = self.pairs(list(properties.items()), _required(schema), depth)
        return f'"{{" {first} "}}"'

    def pairs(self, properties: list[tuple[str, Any]], wanted: set[str], depth: int) -> tuple[str, str]:
        """Rules for a sequence of properties, at the beginning of an object and after another property."""
        # Two rules for the rest of the object from each property on: with nothing before it, and with some.
        first = after = '""'
        for name, part in reversed(properties):
            value = self.value(part, depth + 1)
            pair = f"{_quote(_dump(name) + ': ')} {value}"
            rest_first, rest_after = first, after
            first, after = f"{pair} {rest_after}", f'", " {pair} {rest_after}'
            if name not in wanted:
                first, after = f"{first} | {rest_first}", f"{after} | {rest_after}"
            first, after = self.named(first), self.named(after)
        return first, after

    def array_rule(self, schema: dict[str, Any], depth: int) -> str:
        """A bounded list."""
        items = schema.get("prefixItems")
        if isinstance(items, list) and items:
            return '"[" ' + ' ", " '.join(self.value(item, depth + 1) for item in items) + ' "]"'
        low, high = _bounds(schema, "minItems", "maxItems", _MAX_ITEMS, _MOST_ITEMS)
        if high == 0:
            return _quote("[]")
        item = self.named(self.value(schema.get("items", {}), depth + 1))
        more = f'{item} (", " {item}){{{max(low - 1, 0)},{high - 1}}}'
        return f'"[" {more} "]"' if low else f'"[" ({more})? "]"'

    def reference(self, reference: str, depth: int) -> str:
        """A part of the same schema; recursion becomes recursion of the grammar."""
        if reference in self.references:
            return self.references[reference]
        target: Any = self.top
        for step in reference.removeprefix("#").split("/")[1:]:
            target = (
                target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
            )
        if not reference.startswith("#") or not isinstance(target, dict):
            return "scalar"
        name = f"ref{len(self.references)}"
        self.references[reference] = name = f"{name}-{len(self.rules)}"
        self.rules[name] = "scalar"
        self.rules[name] = self.value(target, depth + 1)
        return name


def _merge(schema: dict[str, Any], parts: list[Any]) -> dict[str, Any]:
    """One schema for an allOf: properties and required are joined, later keywords win."""
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts:
        if not isinstance(part, dict):
            continue
        for key, value in part.items():
            before = merged.get(key)
            if isinstance(before, dict) and isinstance(value, dict):
                merged[key] = {**before, **value}
            elif isinstance(before, list) and isinstance(value, list):
                merged[key] = [*before, *value]
            else:
                merged[key] = value
    return merged


def _required(schema: dict[str, Any]) -> set[str]:
    required = schema.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def _bounds(schema: dict[str, Any], low_key: str, high_key: str, usual: int, most: int) -> tuple[int, int]:
    low, high = schema.get(low_key), schema.get(high_key)
    low = min(low, most) if isinstance(low, int) and low > 0 else 0
    high = high if isinstance(high, int) and high >= 0 else max(usual, low)
    return low, max(low, min(high, most))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _quote(text: str) -> str:
    """A literal of the grammar language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'

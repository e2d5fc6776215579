"""Strict checks of create params, for people: run over a dataset before anything is spent.

The conversion itself keeps whatever it is given. This says in plain English what a model server cannot
use.
"""

from __future__ import annotations

import difflib
import math
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gymapi.v1 import responses_pb2 as pb
from gymd.convert._json import kind_of
from gymd.convert._schema import (
    PLAIN_TYPES,
    bare_arm,
    descriptor,
    is_list,
    is_map,
    is_raw,
    is_union,
    is_wrapper,
    json_key,
    map_value,
    object_key,
)

__all__ = ["validate_params"]

_ROLES = ("user", "assistant", "system", "developer")
_RANGES: dict[str, tuple[int, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "max_output_tokens": (1, math.inf),
    "max_tool_calls": (0, math.inf),
    "top_logprobs": (0, 20),
}
_NAMES = {str: "a string", bool: "true or false", float: "a number", int: "an integer"}
_LIMITS = {FieldDescriptor.TYPE_INT32: 31, FieldDescriptor.TYPE_INT64: 63}
# Values that have to be there although a oneof or a list holds them.
_NEEDED = {
    "MessageItem": ("content",),
    "FunctionCallOutput": ("output",),
    "CustomToolCallOutput": ("output",),
}
_TOKEN_KEYS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")


def validate_params(obj: Any) -> list[str]:
    """Lists every problem of a `responses_create_params`, each with its JSON path; empty if there is none."""
    if type(obj) is not dict:
        return [f"expected an object, got {kind_of(obj)}"]
    check = _Check()
    check.object(descriptor(pb.ResponseCreateParams), obj, "")
    known = _fields_by_key(descriptor(pb.ResponseCreateParams))
    for key in obj:
        if key not in known:
            check.report(str(key), "unknown parameter; the Responses API has none of this name")
    if obj.get("input") is None:
        check.report("input", "missing; a string or a list of items is needed")
    elif obj["input"] in ("", []):
        check.report("input", "is empty")
    elif isinstance(obj["input"], str) and not _is_text(obj["input"]):
        check.report("input", "holds half a surrogate pair, such as \\ud83d alone, which is no text")
    for key, (low, high) in _RANGES.items():
        value = obj.get(key)
        if isinstance(value, int | float) and not low <= value <= high:
            wanted = f"at least {low}" if high == math.inf else f"{low} to {high}"
            check.report(key, f"must be {wanted}, got {value}")
    if obj.get("stream") is True:
        check.report("stream", "must be absent or false; rollouts do not stream over HTTP")
    _check_tools(obj, check)
    return check.problems


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_tools(obj: dict[str, Any], check: _Check) -> None:
    tools = obj.get("tools") if isinstance(obj.get("tools"), list) else []
    names: dict[str, int] = {}
    for index, tool in enumerate(tools or []):
        name = (
            tool.get("name")
            if isinstance(tool, dict) and tool.get("type") in ("function", "custom")
            else None
        )
        if not isinstance(name, str):
            continue
        if not name:
            check.report(f"tools[{index}].name", "is empty")
        elif name in names:
            check.report(f"tools[{index}].name", f"{name!r} is declared twice, first in tools[{names[name]}]")
        names.setdefault(name, index)
    choice = obj.get("tool_choice")
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        check.report("tool_choice", f"must be none, auto, required or an object, got {kind_of(choice)}")
    if choice == "required" and not tools:
        check.report("tool_choice", '"required" needs at least one tool')
    forced = choice.get("name") if isinstance(choice, dict) and choice.get("type") == "function" else None
    if isinstance(forced, str) and forced not in names:
        check.report("tool_choice.name", f"no tool is called {forced!r}")


class _Check:
    """Walks JSON beside the descriptors and collects problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def report(self, path: str, problem: str) -> None:
        self.problems.append(f"{path}: {problem}" if path else problem)

    def object(self, message: Descriptor, value: dict[str, Any], path: str) -> None:
        """Checks the values of the known keys, then that the required keys are there."""
        fields = _fields_by_key(message)
        for key, element in value.items():
            if key in fields:
                self.value(fields[key], element, _join(path, key))
        for key in _required_keys(message):
            if key not in value:
                self.report(_join(path, key), "missing")
        if message.name == "MessageItem":
            self.message(value, path)
        if message.name == "InputVideo" and (value.get("video") is None) == (value.get("video_url") is None):
            self.report(path, "needs exactly one of video_url and video")

    def message(self, value: dict[str, Any], path: str) -> None:
        """Checks what only messages have: the role, and content that the role can have."""
        role = value.get("role")
        if isinstance(role, str) and role not in _ROLES and not (role == "tool" and "tool_call_id" in value):
            self.report(_join(path, "role"), f"unknown role {role!r}; expected {', '.join(_ROLES)}")
        if "content" in value and value["content"] is None and not value.get("tool_calls"):
            self.report(_join(path, "content"), "is null; a string or a list of parts is needed")

    def value(self, fields: tuple[FieldDescriptor, ...], value: Any, path: str) -> None:
        """Checks a value against the one field, or the arms of a oneof, that may hold it."""
        if value is None:
            if any(not f.has_presence and not f.is_repeated for f in fields):
                self.report(path, f"is null; {_expected(fields)} is needed")
            return
        for field in fields:
            if _takes(field, value):
                self.content(field, value, path)
                return
        self.report(path, f"expected {_expected(fields)}, got {kind_of(value)}")

    def content(self, field: FieldDescriptor, value: Any, path: str) -> None:
        """Checks what is inside a value of the right JSON type."""
        if is_map(field):
            for key, element in value.items():
                self.value((map_value(field),), element, _join(path, key))
        elif is_list(field):
            self.elements(field, value, path)
        elif field.message_type is not None:
            message = field.message_type
            if is_wrapper(message):
                self.elements(message.fields[0], value, path)
            elif is_union(message):
                self.union(message, value, path)
            else:
                self.object(message, value, path)
        elif field.type in _LIMITS and not -(1 << _LIMITS[field.type]) <= value < 1 << _LIMITS[field.type]:
            self.report(path, f"{value} is out of range")

    def elements(self, field: FieldDescriptor, value: list[Any], path: str) -> None:
        for index, element in enumerate(value):
            here = f"{path}[{index}]"
            if field.message_type is not None:
                if is_union(field.message_type):
                    self.union(field.message_type, element, here)
                elif type(element) is dict:
                    self.object(field.message_type, element, here)
                else:
                    self.report(here, f"expected an object, got {kind_of(element)}")
            elif not _fits(PLAIN_TYPES[field.type], element):
                self.report(here, f"expected {_NAMES[PLAIN_TYPES[field.type]]}, got {kind_of(element)}")

    def union(self, message: Descriptor, value: Any, path: str) -> None:
        """Checks an object by its `type`."""
        if type(value) is not dict:
            if not (type(value) is str and bare_arm(message)):
                self.report(path, f"expected an object, got {kind_of(value)}")
            return
        tag = value.get("type")
        if message.name == "Item":
            self.tokens(value, path)
            if tag is None:
                if "role" in value:
                    tag = "message"
                elif len(value) == 1 + ("type" in value) and "id" in value:
                    tag = "item_reference"
                else:
                    self.report(path, "has neither a type nor a role")
                    return
        arms = _arms(message)
        if tag is None:
            self.report(_join(path, "type"), "missing")
        elif not isinstance(tag, str):
            self.report(_join(path, "type"), f"expected a string, got {kind_of(tag)}")
        elif tag not in arms:
            close = difflib.get_close_matches(tag, arms, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            self.report(_join(path, "type"), f"unknown type {tag!r}{hint}")
        else:
            self.object(arms[tag], value, path)

    def tokens(self, value: dict[str, Any], path: str) -> None:
        """Checks the token keys of an item: all arrays or none, of numbers, as many ids as logprobs."""
        there = [key for key in _TOKEN_KEYS[:3] if value.get(key) is not None]
        if there and len(there) < 3:
            missing = [key for key in _TOKEN_KEYS[:3] if key not in there]
            self.report(path, f"has {' and '.join(there)} but not {' and '.join(missing)}")
        for key in there:
            if not isinstance(value[key], list):
                self.report(_join(path, key), f"expected a list of numbers, got {kind_of(value[key])}")
                return
            kind = float if key == "generation_log_probs" else int
            if not all(_fits(kind, element) for element in value[key]):
                self.report(_join(path, key), f"expected {_NAMES[kind][2:].strip()}s only")
        if len(there) == 3 and len(value[there[1]]) != len(value[there[2]]):
            self.report(path, "generation_token_ids and generation_log_probs differ in length")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _fits(plain: type, value: Any) -> bool:
    return type(value) is plain or (plain is float and type(value) is int)


def _takes(field: FieldDescriptor, value: Any) -> bool:
    """Whether the JSON type of a value is one that the field holds."""
    if is_map(field):
        return type(value) is dict
    if is_list(field):
        return type(value) is list
    if field.message_type is not None:
        if is_wrapper(field.message_type):
            return type(value) is list
        return type(value) is dict or (
            is_union(field.message_type) and type(value) is str and bool(bare_arm(field.message_type))
        )
    if is_raw(field):
        # Schemas are objects; other opaque values may be anything.
        return type(value) is dict or not (field.name == "parameters_json" or "schema" in field.name)
    return _fits(PLAIN_TYPES[field.type], value)


def _expected(fields: tuple[FieldDescriptor, ...]) -> str:
    names = []
    for field in fields:
        if is_map(field) or is_raw(field):
            names.append("an object")
        elif is_list(field) or (field.message_type is not None and is_wrapper(field.message_type)):
            names.append("a list")
        elif field.message_type is not None:
            if is_union(field.message_type) and bare_arm(field.message_type):
                names.append("a string")
            names.append("an object")
        else:
            names.append(_NAMES[PLAIN_TYPES[field.type]])
    return " or ".join(dict.fromkeys(names))


@cache
def _fields_by_key(message: Descriptor) -> dict[str, tuple[FieldDescriptor, ...]]:
    fields: dict[str, tuple[FieldDescriptor, ...]] = {}
    for field in message.fields:
        if field.name != "json_form":
            key = object_key(field)
            fields[key] = (*fields.get(key, ()), field)
    return fields


@cache
def _required_keys(message: Descriptor) -> tuple[str, ...]:
    scalars = [
        json_key(field)
        for field in message.fields
        if field.name != "json_form" and not field.is_repeated and not field.has_presence
    ]
    return (*scalars, *_NEEDED.get(message.name, ()))


@cache
def _arms(message: Descriptor) -> dict[str, Descriptor]:
    return {
        field.name: field.message_type
        for field in message.oneofs_by_name["kind"].fields
        if field.message_type is not None and field.name != "unknown"
    }

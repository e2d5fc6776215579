"""The mapping rules of responses.proto, read off the descriptors."""

from __future__ import annotations

import re
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

__all__ = [
    "PLAIN_TYPES",
    "bare_arm",
    "descriptor",
    "is_list",
    "is_map",
    "is_raw",
    "is_union",
    "is_wrapper",
    "json_key",
    "map_value",
    "object_key",
    "required",
]

# Lists and maps that OpenAI requires: written when empty. The comments in responses.proto say the same.
REQUIRED_LISTS: dict[str, frozenset[str]] = {
    "AdditionalTools": frozenset({"tools"}),
    "AllowedToolsChoice": frozenset({"tools"}),
    "ComputerCall": frozenset({"pending_safety_checks"}),
    "DragAction": frozenset({"path"}),
    "FileSearchCall": frozenset({"queries"}),
    "FileSearchTool": frozenset({"vector_store_ids"}),
    "ImageModerationDetails": frozenset({"categories"}),
    "KeypressAction": frozenset({"keys"}),
    "LocalShellAction": frozenset({"command", "env"}),
    "McpListTools": frozenset({"tools"}),
    "ModerationResult": frozenset({"categories", "category_scores", "category_applied_input_types"}),
    "NamespaceTool": frozenset({"tools"}),
    "NetworkAllowlist": frozenset({"allowed_domains"}),
    "OutputLogprob": frozenset({"bytes", "top_logprobs"}),
    "OutputText": frozenset({"annotations"}),
    "ReasoningItem": frozenset({"summary"}),
    "Response": frozenset({"output", "tools"}),
    "ShellAction": frozenset({"commands"}),
    "ShellCallOutput": frozenset({"output"}),
    "ToolSearchOutput": frozenset({"tools"}),
    "TopLogprob": frozenset({"bytes"}),
}

# Keys with one possible value: written even when the field is unset. The comments say the same.
CONSTANTS: dict[str, dict[str, str]] = {
    "CodeInterpreterContainer": {"type": "auto"},
    "ComputerScreenshot": {"type": "computer_screenshot"},
    "LocalShellAction": {"type": "exec"},
    "Response": {"object": "response"},
    "WebSearchSource": {"type": "url"},
}

PLAIN_TYPES: dict[int, type] = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_DOUBLE: float,
    FieldDescriptor.TYPE_INT64: int,
    FieldDescriptor.TYPE_INT32: int,
}
_ZERO: dict[type, Any] = {str: "", bool: False, float: 0.0, int: 0}


def descriptor(cls: type[Message]) -> Descriptor:
    """The descriptor of a message class, under the name that type checkers know it by."""
    return cast(Descriptor, cls.DESCRIPTOR)


def map_value(field: FieldDescriptor) -> FieldDescriptor:
    """The field that holds the values of a map field."""
    assert field.message_type is not None
    return field.message_type.fields_by_name["value"]


def json_key(field: FieldDescriptor) -> str:
    """The JSON key of a field: its json_name if one is written in the proto, else its name."""
    camel = re.sub(r"_(.)", lambda m: m.group(1).upper(), field.name)
    if field.json_name != camel:
        return field.json_name
    return field.name.removesuffix("_json") if is_raw(field) else field.name


def is_raw(field: FieldDescriptor) -> bool:
    """True for a field that holds a JSON value as text."""
    camel = re.sub(r"_(.)", lambda m: m.group(1).upper(), field.name)
    return field.name.endswith("_json") and field.json_name == camel


def is_map(field: FieldDescriptor) -> bool:
    """True for a map field."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_list(field: FieldDescriptor) -> bool:
    """True for a repeated field that is not a map."""
    return field.is_repeated and not is_map(field)


def is_union(message: Descriptor) -> bool:
    """True for a tagged union: the message's oneof is called `kind`."""
    return "kind" in message.oneofs_by_name


def is_wrapper(message: Descriptor) -> bool:
    """True for a message that stands for a JSON list."""
    return len(message.fields) == 1 and is_list(message.fields[0])


def object_key(field: FieldDescriptor) -> str:
    """The key of the JSON object that the field stands for: that of its oneof, if a real one holds it."""
    oneof = field.containing_oneof
    # protoc makes a oneof `_name` for each field marked `optional`.
    return json_key(field) if oneof is None or oneof.name.startswith("_") else oneof.name


def bare_arm(message: Descriptor) -> str:
    """The arm of a tagged union that takes a bare string; "" if there is none."""
    for field in message.oneofs_by_name["kind"].fields:
        if field.message_type is None:
            return field.name
    return ""


def required(message: Descriptor) -> list[tuple[str, int, Any]]:
    """Key, number and zero value of the fields that are written even when they are zero."""
    lists = REQUIRED_LISTS.get(message.name, frozenset())
    constants = CONSTANTS.get(message.name, {})
    found: list[tuple[str, int, Any]] = []
    for field in message.fields:
        if field.name == "json_form":
            continue
        if field.name in constants:
            found.append((field.name, field.number, constants[field.name]))
        elif field.is_repeated:
            if field.name in lists:
                found.append((json_key(field), field.number, {} if is_map(field) else []))
        elif not field.has_presence:
            found.append((json_key(field), field.number, _ZERO[PLAIN_TYPES[field.type]]))
    return found

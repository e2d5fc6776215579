"""The contract holds everything that the openai package knows about the Responses API."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
import typing_extensions
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from openai.types import responses
from openai.types.responses import response_create_params

from gymapi.v1 import responses_pb2 as pb
from gymd.convert import _schema

SCALARS = {
    str: {FieldDescriptor.TYPE_STRING},
    bool: {FieldDescriptor.TYPE_BOOL},
    float: {FieldDescriptor.TYPE_DOUBLE},
    int: {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_INT32},
}
QUALIFIERS = (typing.Annotated, typing.Required, typing_extensions.Required)
LISTS = (list, collections.abc.Iterable, collections.abc.Sequence)


def members(annotation: Any) -> Iterator[Any]:
    """The members of a union, without null and without qualifiers."""
    origin = typing.get_origin(annotation)
    if origin in QUALIFIERS:
        yield from members(typing.get_args(annotation)[0])
    elif origin in (typing.Union, types.UnionType):
        for argument in typing.get_args(annotation):
            yield from members(argument)
    elif annotation is not type(None):
        yield annotation


def keys(cls: Any) -> dict[str, Any]:
    """The keys of a model or typed dict with their types."""
    if isinstance(cls, type) and issubclass(cls, pydantic.BaseModel):
        return {field.alias or name: field.annotation for name, field in cls.model_fields.items()}
    return typing_extensions.get_type_hints(cls, include_extras=True)


def is_object(cls: Any) -> bool:
    if not inspect.isclass(cls):
        return False
    return issubclass(cls, pydantic.BaseModel) or typing_extensions.is_typeddict(cls)


class Comparison:
    """Compares openai's types with messages, and collects what has no place."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, str]] = set()
        self.gaps: list[str] = []

    def object(self, cls: Any, message: Descriptor, path: str, tagged: bool = False) -> None:
        if (cls, message.full_name) in self.seen:
            return
        self.seen.add((cls, message.full_name))
        fields: dict[str, list[FieldDescriptor]] = {}
        for field in message.fields:
            fields.setdefault(_schema.object_key(field), []).append(field)
        for key, annotation in keys(cls).items():
            if tagged and key == "type":
                continue
            if key not in fields:
                self.gaps.append(f"{path}.{key}: no field in {message.name}")
                continue
            for member in members(annotation):
                self.value(member, fields[key], f"{path}.{key}")

    def tagged(self, cls: Any, message: Descriptor, path: str) -> None:
        for literal in members(keys(cls)["type"]):
            for tag in typing.get_args(literal):
                arm = message.fields_by_name.get(tag)
                if arm is None:
                    self.gaps.append(f"{path}: no arm {tag} in {message.name}")
                else:
                    self.object(cls, arm.message_type, f"{path}<{tag}>", tagged=True)

    def value(self, kind: Any, fields: list[FieldDescriptor], path: str) -> None:
        if any(_schema.is_raw(field) for field in fields):
            return
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Literal:
            kind = type(arguments[0])
        if not any(self.takes(kind, origin, arguments, field, path) for field in fields):
            self.gaps.append(f"{path}: nothing takes {kind}")

    def takes(self, kind: Any, origin: Any, arguments: Any, field: FieldDescriptor, path: str) -> bool:
        message = field.message_type
        if origin in LISTS or origin is dict:
            if message is not None and _schema.is_wrapper(message):
                field = message.fields[0]
            if not (_schema.is_map(field) if origin is dict else _schema.is_list(field)):
                return False
            for member in members(arguments[-1]):
                self.element(member, _schema.map_value(field) if origin is dict else field, f"{path}[]")
            return True
        if _schema.is_map(field) or _schema.is_list(field):
            return False
        if kind in SCALARS:
            if message is not None and _schema.is_union(message):
                return kind is str and bool(_schema.bare_arm(message))
            return field.type in SCALARS[kind]
        if is_object(kind) and message is not None and not _schema.is_wrapper(message):
            self.element(kind, field, path)
            return True
        return False

    def element(self, kind: Any, field: FieldDescriptor, path: str) -> None:
        message = field.message_type
        if typing.get_origin(kind) is typing.Literal:
            kind = type(typing.get_args(kind)[0])
        if message is None:
            if field.type not in SCALARS.get(kind, ()):
                self.gaps.append(f"{path}: {kind} in {field.name}")
        elif is_object(kind):
            compare = self.tagged if _schema.is_union(message) else self.object
            compare(kind, message, path)
        elif _schema.is_wrapper(message):
            self.value(kind, [field], path)


def gaps_of(union: Any, message: type[Any]) -> list[str]:
    comparison = Comparison()
    for cls in members(union):
        comparison.tagged(cls, message.DESCRIPTOR, message.__name__)
    return comparison.gaps


@pytest.mark.parametrize(
    ("union", "message"),
    [
        (responses.ResponseInputItem, pb.Item),
        (responses.ResponseOutputItem, pb.Item),
        (responses.ResponseItem, pb.Item),
        (responses.ResponseInputItemParam, pb.Item),
        (responses.Tool, pb.Tool),
        (responses.ToolParam, pb.Tool),
        (responses.ResponseInputContent, pb.ContentPart),
    ],
    ids=["input item", "output item", "item", "input item param", "tool", "tool param", "content part"],
)
def test_every_member_of_a_union_has_an_arm_with_all_its_fields(union: Any, message: type[Any]) -> None:
    assert gaps_of(union, message) == []


def test_every_field_of_a_response_is_typed() -> None:
    comparison = Comparison()
    comparison.object(responses.Response, pb.Response.DESCRIPTOR, "Response")
    assert comparison.gaps == []


def test_every_create_param_is_typed() -> None:
    comparison = Comparison()
    params = response_create_params.ResponseCreateParamsNonStreaming
    comparison.object(params, pb.ResponseCreateParams.DESCRIPTOR, "params")
    assert comparison.gaps == []


def test_the_comparison_would_see_a_gap() -> None:
    class Extra(responses.Response):
        shoe_size: int

    comparison = Comparison()
    comparison.object(Extra, pb.Response.DESCRIPTOR, "Response")
    assert comparison.gaps == ["Response.shoe_size: no field in Response"]


def test_the_rules_at_the_head_of_the_proto_hold() -> None:
    special = {"JsonForm", "UnknownVariant", "TokenTrace", "SamplingParams"}
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        if message.name in special or _schema.is_wrapper(message):
            assert "json_form" not in message.fields_by_name
        elif _schema.is_union(message):
            assert message.fields_by_name["unknown"].message_type.name == "UnknownVariant", message.name
        else:
            assert message.fields_by_name["json_form"].number == 15, message.name
    lists = {name for names in _schema.REQUIRED_LISTS for name in [names]}
    assert lists <= set(pb.DESCRIPTOR.message_types_by_name)
    for name, fields in _schema.REQUIRED_LISTS.items():
        message = pb.DESCRIPTOR.message_types_by_name[name]
        assert all(message.fields_by_name[field].is_repeated for field in fields)

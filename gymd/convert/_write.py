"""Messages of responses.proto to JSON values, by tables compiled from the descriptors.

A writer walks the fields that are set. Tables are compiled once per message type, on first use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from gymapi.v1 import responses_pb2 as pb
from gymd.convert._json import load_text
from gymd.convert._schema import (
    descriptor,
    is_list,
    is_map,
    is_raw,
    is_union,
    is_wrapper,
    map_value,
    object_key,
    required,
)
from gymd.convert.tokens import token_keys

__all__ = ["write_message"]

Writer = Callable[[Any], Any]

_UNSET = object()


class _Writers:
    """Compiled writers."""

    def __init__(self) -> None:
        self.done: dict[tuple[str, str], Any] = {}

    def writer(self, message: Descriptor) -> Writer:
        """The writer of a message, whatever it mirrors."""
        if is_union(message):
            return self.union_writer(message)
        if is_wrapper(message):
            field = message.fields[0]
            items = self.value_writer(field) or list
            name = field.name
            return lambda value: items(getattr(value, name))
        return self.object_writer(message, None)

    def value_writer(self, field: FieldDescriptor) -> Writer | None:
        """Writes the value of a set field; None if the value is JSON already."""
        if is_map(field):
            element = self.value_writer(map_value(field))
            if element is None:
                return dict
            return lambda value: {key: element(entry) for key, entry in value.items()}
        if field.message_type is not None:
            write = self.writer(field.message_type)
            if is_list(field):
                return lambda value: [write(element) for element in value]
            return write
        if is_list(field):
            return list
        return load_text if is_raw(field) else None

    def union_writer(self, message: Descriptor) -> Writer:
        """Writes the arm that is set."""
        if (done := ("write", message.full_name)) in self.done:
            return self.done[done]
        arms: dict[FieldDescriptor, Writer | None] = {}
        trace_field = message.fields_by_name.get("token_trace")

        def write_union(value: Any) -> Any:
            written: Any = _UNSET
            trace = None
            for field, content in value.ListFields():
                if field is trace_field:
                    trace = content
                else:
                    write = arms[field]
                    written = content if write is None else write(content)
            if written is _UNSET:
                # An arm of a newer peer. It cannot be shown, but its place in the list can.
                written = {"type": "unknown"}
            if trace is not None and type(written) is dict:
                written.update(token_keys(trace))
            return written

        self.done[done] = write_union
        for field in message.oneofs_by_name["kind"].fields:
            if field.message_type is None:
                arms[field] = None
            elif field.name == "unknown":
                arms[field] = _write_unknown
            else:
                arms[field] = self.object_writer(field.message_type, field.name)
        return write_union

    def object_writer(self, message: Descriptor, tag: str | None) -> Writer:
        """Writes the set fields, then what json_form adds, then the required fields that are zero."""
        if (done := (f"write {tag}", message.full_name)) in self.done:
            return self.done[done]
        table: dict[FieldDescriptor, tuple[str, Writer | None]] = {}
        keys: dict[int, tuple[str, Any]] = {}
        needed: list[tuple[str, int, Any]] = []
        no_form: frozenset[int] = frozenset()

        def write_object(value: Any) -> Any:
            written: dict[str, Any] = {} if tag is None else {"type": tag}
            for field, content in value.ListFields():
                key, write = table[field]
                written[key] = content if write is None else write(content)
            form = written.pop("", None)
            absent = no_form if form is None else _apply(form, written, keys)
            for key, number, zero in needed:
                if key not in written and number not in absent:
                    written[key] = type(zero)() if type(zero) in (list, dict) else zero
            return written

        self.done[done] = write_object
        if tag is not None:
            keys[0] = ("type", None)
        for field in message.fields:
            if field.name == "json_form":
                table[field] = ("", None)
                continue
            key = object_key(field)
            table[field] = (key, self.value_writer(field))
            empty: Any = {} if is_map(field) else [] if is_list(field) else None
            keys[field.number] = (key, empty)
        needed.extend(required(message))
        return write_object


def _write_unknown(value: pb.UnknownVariant) -> Any:
    return load_text(value.raw_json) if value.raw_json else {"type": value.type}


def _apply(form: pb.JsonForm, written: dict[str, Any], keys: dict[int, tuple[str, Any]]) -> Iterable[int]:
    """Adds what the form says, except where a field has a value; returns the absent fields."""
    absent: Iterable[int] = ()
    for field, content in form.ListFields():
        name = field.name
        if name == "extra_json":
            for key, value in load_text(content).items():
                written.setdefault(key, value)
        elif name == "null_fields":
            for number in content:
                if number == 0:
                    written["type"] = None
                elif number in keys:
                    written.setdefault(keys[number][0], None)
        elif name == "empty_fields":
            for number in content:
                if number in keys and (empty := keys[number][1]) is not None:
                    written.setdefault(keys[number][0], type(empty)())
        elif name == "integer_fields":
            for number in content:
                key = keys[number][0] if number in keys else ""
                value = written.get(key, 0.0 if number in keys else None)
                if type(value) is float and value.is_integer():
                    written[key] = int(value)
        else:
            absent = content
            if 0 in content:
                written.pop("type", None)
    return absent


_LOCK = threading.Lock()
_ALL = _Writers()
_WRITERS: dict[type[Message], Writer] = {}


def write_message(message: Message) -> Any:
    """Writes a message as the JSON value that it mirrors."""
    cls = type(message)
    return (_WRITERS.get(cls) or _compile(cls))(message)


def _compile(cls: type[Message]) -> Writer:
    """Compiles under a lock and publishes when finished, so that no thread sees a half-filled table."""
    with _LOCK:
        if cls not in _WRITERS:
            _WRITERS[cls] = _ALL.writer(descriptor(cls))
        return _WRITERS[cls]

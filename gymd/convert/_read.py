"""JSON values to messages of responses.proto, by tables compiled from the descriptors.

A reader turns a JSON value into keyword arguments, so that one constructor call in C builds the whole tree.
Tables are compiled once per message type, on first use, because most types never occur in a process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from gymapi.v1 import responses_pb2 as pb
from gymd.convert._errors import ConvertError
from gymd.convert._json import kind_of, text_of
from gymd.convert._schema import (
    PLAIN_TYPES,
    bare_arm,
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
from gymd.convert.tokens import split_token_keys

__all__ = ["read_message"]

Reader = Callable[[Any], Any]
# By the Python type of the JSON value: the field that takes it, and its reader (None: the value as it is).
Forms = dict[type, tuple[str, Any]]

_MISFIT = object()  # the value does not fit the field: keep it in extra_json
_EMPTY = object()  # [] or {}
_INTEGER = object()  # an integer for a field of type double
_EXACT = 1 << 53  # integers up to here are doubles without loss
_JSON_TYPES = (dict, list, str, int, float, bool)
_TOKEN_KEYS = frozenset({"prompt_token_ids", "generation_token_ids", "generation_log_probs"})


class _Readers:
    """Compiled readers, fast or careful."""

    def __init__(self, careful: bool) -> None:
        self.careful = careful
        self.done: dict[tuple[str, str], Any] = {}

    def reader(self, message: Descriptor) -> Reader:
        """The reader of a message, whatever it mirrors."""
        if is_union(message):
            return self.union_reader(message)
        if is_wrapper(message):
            field = message.fields[0]
            items = self.list_reader(field)
            name = field.name

            def read_wrapper(value: Any) -> Any:
                got = items(value)
                if got is _EMPTY:
                    return {}
                return got if got is _MISFIT else {name: got}

            return read_wrapper
        return self.object_reader(message, tagged=False)

    def forms(self, field: FieldDescriptor) -> Forms:
        """What a field takes, by the type of the JSON value."""
        name = field.name
        if is_map(field):
            return {dict: (name, self.map_reader(field))}
        if is_list(field):
            return {list: (name, self.list_reader(field))}
        if field.message_type is not None:
            read = self.reader(field.message_type)
            if is_wrapper(field.message_type):
                return {list: (name, read)}
            if is_union(field.message_type) and bare_arm(field.message_type):
                return {dict: (name, read), str: (name, read)}
            return {dict: (name, read)}
        if is_raw(field):
            return dict.fromkeys(_JSON_TYPES, (name, text_of))
        plain = PLAIN_TYPES[field.type]
        forms: Forms = {plain: (name, self.checker(field))}
        if plain is float:
            forms[int] = (name, _INTEGER)
        return forms

    def checker(self, field: FieldDescriptor) -> Reader | None:
        """The check of a scalar. The fast tables have none: the constructor raises, and all is read anew."""
        if not self.careful:
            return None
        if field.type == FieldDescriptor.TYPE_STRING:
            return lambda value: value if _encodes(value) else _MISFIT
        bits = {FieldDescriptor.TYPE_INT64: 63, FieldDescriptor.TYPE_INT32: 31}.get(field.type)
        if bits is None:
            return None
        limit = 1 << bits
        return lambda value: value if -limit <= value < limit else _MISFIT

    def list_reader(self, field: FieldDescriptor) -> Reader:
        """Reads a JSON list into a repeated field."""
        if field.message_type is not None:
            read = self.reader(field.message_type)
            if is_union(field.message_type):

                def read_union_list(value: Any) -> Any:
                    try:
                        return [read(element) for element in value] or _EMPTY
                    except ConvertError:
                        for index, element in enumerate(value):
                            try:
                                read(element)
                            except ConvertError as error:
                                raise error.under(f"[{index}]") from None
                        raise

                return read_union_list

            def read_messages(value: Any) -> Any:
                for element in value:
                    if type(element) is not dict:
                        return _MISFIT
                return [read(element) for element in value] or _EMPTY

            return read_messages
        plain = PLAIN_TYPES[field.type]
        check = self.checker(field)

        def read_scalars(value: Any) -> Any:
            for element in value:
                if type(element) is not plain or (check is not None and check(element) is _MISFIT):
                    return _MISFIT
            return value or _EMPTY

        return read_scalars

    def map_reader(self, field: FieldDescriptor) -> Reader:
        """Reads a JSON object into a map field."""
        forms = self.forms(map_value(field))
        careful = self.careful

        def read_map(value: Any) -> Any:
            entries = {}
            for key, element in value.items():
                form = forms.get(type(element))
                if form is None or form[1] is _INTEGER or (careful and not _encodes(key)):
                    return _MISFIT
                got = element if form[1] is None else form[1](element)
                if got is _MISFIT:
                    return _MISFIT
                entries[key] = got
            return entries or _EMPTY

        return read_map

    def union_reader(self, message: Descriptor) -> Reader:
        """Reads an object by its `type`."""
        if message.full_name == pb.Item.DESCRIPTOR.full_name:
            return self.item_reader(message)
        return self.tagged_reader(message)

    def tagged_reader(self, message: Descriptor) -> Reader:
        """Reads an object by its `type`; what has no arm is kept in `unknown`."""
        if (key := ("read", message.full_name)) in self.done:
            return self.done[key]
        arms: dict[str, Reader] = {}
        bare = bare_arm(message)
        careful = self.careful

        def read_tagged(value: Any) -> Any:
            if type(value) is dict:
                tag = value.get("type")
                if type(tag) is str:
                    read = arms.get(tag)
                    if read is not None:
                        return {tag: read(value)}
                    if careful and not _encodes(tag):
                        tag = ""
                    return {"unknown": {"type": tag, "raw_json": text_of(value)}}
            elif bare and type(value) is str and (not careful or _encodes(value)):
                return {bare: value}
            return {"unknown": {"raw_json": text_of(value)}}

        self.done[key] = read_tagged
        for field in message.oneofs_by_name["kind"].fields:
            if field.message_type is not None and field.name != "unknown":
                arms[field.name] = self.object_reader(field.message_type, tagged=True)
        return read_tagged

    def item_reader(self, message: Descriptor) -> Reader:
        """Reads a conversation item: a tagged object that may lack its `type` and may have tokens."""
        if (key := ("item", message.full_name)) in self.done:
            return self.done[key]

        def read_item(value: Any) -> Any:
            if type(value) is not dict:
                return tagged(value)
            if not _TOKEN_KEYS.isdisjoint(value):
                trace, value = split_token_keys(value)
            else:
                trace = None
            if value.get("type") is not None:
                item = tagged(value)
            elif "role" in value:
                item = {"message": read_message_item(value)}
            elif "id" in value and len(value) == 1 + ("type" in value):
                item = {"item_reference": read_reference(value)}
            else:
                item = tagged(value)
            if trace is not None:
                item["token_trace"] = trace
            return item

        self.done[key] = read_item
        tagged = self.tagged_reader(message)
        read_message_item = self.object_reader(descriptor(pb.MessageItem), tagged=True)
        read_reference = self.object_reader(descriptor(pb.ItemReference), tagged=True)
        return read_item

    def object_reader(self, message: Descriptor, tagged: bool) -> Reader:
        """Reads a JSON object into the arguments of the message's constructor."""
        if (done := ("tagged" if tagged else "object", message.full_name)) in self.done:
            return self.done[done]
        table: dict[str, Forms] = {}
        numbers: dict[str, int] = {}
        needed: dict[str, int] = {}
        needed_keys: frozenset[str] = frozenset()

        def read_object(value: Any) -> Any:
            kwargs: dict[str, Any] = {}
            form: dict[str, Any] | None = None
            key = ""
            try:
                for key, element in value.items():
                    forms = table.get(key)
                    if forms is not None:
                        target = forms.get(type(element))
                        if target is not None:
                            name, read = target
                            if read is None:
                                kwargs[name] = element
                                continue
                            if read is _INTEGER:
                                if -_EXACT <= element <= _EXACT:
                                    kwargs[name] = element
                                    form = _note(form, "integer_fields", numbers[key])
                                    continue
                            else:
                                got = read(element)
                                if got is _EMPTY:
                                    if key not in needed:
                                        form = _note(form, "empty_fields", numbers[key])
                                    continue
                                if got is not _MISFIT:
                                    kwargs[name] = got
                                    continue
                        elif element is None:
                            form = _note(form, "null_fields", numbers[key])
                            continue
                    form = {} if form is None else form
                    form.setdefault("extra_json", {})[key] = element
            except ConvertError as error:
                raise error.under(key) from None
            if tagged and kwargs.pop("", None) is None and "type" not in value:
                form = _note(form, "absent_fields", 0)
            if needed_keys and not needed_keys <= value.keys():
                for missing, number in needed.items():
                    if missing not in value:
                        form = _note(form, "absent_fields", number)
            if form is not None:
                if "extra_json" in form:
                    form["extra_json"] = text_of(form["extra_json"])
                kwargs["json_form"] = form
            return kwargs

        self.done[done] = read_object
        if tagged:
            table["type"] = {str: ("", None)}
            numbers["type"] = 0
        for field in message.fields:
            if field.name == "json_form":
                continue
            key = object_key(field)
            for kind, target in self.forms(field).items():
                table.setdefault(key, {}).setdefault(kind, target)
            numbers[key] = min(field.number, numbers.get(key, field.number))
        needed.update({key: number for key, number, _ in required(message)})
        needed_keys = frozenset(needed)
        return read_object


def _note(form: dict[str, Any] | None, entry: str, number: int) -> dict[str, Any]:
    if form is None:
        return {entry: [number]}
    form.setdefault(entry, []).append(number)
    return form


def _encodes(text: str) -> bool:
    """False for text that has no UTF-8 form, because of a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_LOCK = threading.Lock()
_FAST = _Readers(careful=False)
_CAREFUL = _Readers(careful=True)
_FAST_READERS: dict[type[Message], Reader] = {}
_CAREFUL_READERS: dict[type[Message], Reader] = {}


def read_message(cls: type[Message], value: Any) -> Any:
    """Builds a message of class `cls` from a JSON object; raises ConvertError if it is none."""
    if type(value) is not dict:
        raise ConvertError(f"expected an object, got {kind_of(value)}")
    arguments = (_FAST_READERS.get(cls) or _compile(cls, _FAST, _FAST_READERS))(value)
    try:
        return cls(**arguments)
    except (ValueError, TypeError, OverflowError):
        # Some scalar does not fit (an integer beyond 64 bits, a lone surrogate). Rare, so it is found by
        # reading everything again with a check on each scalar instead of checking each scalar always.
        careful = _CAREFUL_READERS.get(cls) or _compile(cls, _CAREFUL, _CAREFUL_READERS)
        return cls(**careful(value))


def _compile(cls: type[Message], readers: _Readers, into: dict[type[Message], Reader]) -> Reader:
    """Compiles under a lock and publishes when finished, so that no thread sees a half-filled table."""
    with _LOCK:
        if cls not in into:
            into[cls] = readers.reader(descriptor(cls))
        return into[cls]

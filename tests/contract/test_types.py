"""gymapi.v1.types: the dataclasses have the same wire form as the protobuf messages."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from gymapi.v1 import (
    agent_service_pb2,
    errors_pb2,
    link_service_pb2,
    model_service_pb2,
    registry_service_pb2,
    resources_service_pb2,
    responses_pb2,
    rollout_pb2,
    rollout_service_pb2,
    types,
)
from gymd.convert import (
    item_from_json,
    params_from_json,
    response_from_json,
    tool_from_json,
    usage_from_json,
)
from tests.contract.sources import ROOT

FILES = (
    agent_service_pb2,
    errors_pb2,
    link_service_pb2,
    model_service_pb2,
    registry_service_pb2,
    resources_service_pb2,
    responses_pb2,
    rollout_pb2,
    rollout_service_pb2,
)
ROWS = ROOT.parent / "shared" / "data"
"""Published task rows; absent outside the maintainers' machines."""
GOLDEN = ROOT / "tests" / "golden"
DEPTH = 3
"""How deep the made-up messages go; the contract is recursive."""

EXAMPLES: dict[int, Any] = {
    FieldDescriptor.TYPE_DOUBLE: -0.1,
    FieldDescriptor.TYPE_FLOAT: 1.5,
    FieldDescriptor.TYPE_INT64: -(2**62) - 1,
    FieldDescriptor.TYPE_INT32: -(2**31),
    FieldDescriptor.TYPE_SFIXED32: 2**31 - 1,
    FieldDescriptor.TYPE_BOOL: True,
    FieldDescriptor.TYPE_STRING: "Grüße 你好 🙂\n\x00",
    FieldDescriptor.TYPE_BYTES: bytes(range(256)),
    FieldDescriptor.TYPE_ENUM: 1,
}


def descriptors() -> dict[str, Descriptor]:
    """Every message of the contract by name."""
    return {d.name: d for file in FILES for d in file.DESCRIPTOR.message_types_by_name.values()}


def dataclass_of(message: Message) -> Any:
    return getattr(types, message.DESCRIPTOR.name)


def check_wire_equal(message: Message) -> None:
    """Both directions: protobuf's bytes through the dataclass and back are the same bytes."""
    wire = message.SerializeToString(deterministic=True)
    view = dataclass_of(message).parse(wire)
    assert_same_bytes(message, bytes(view))
    assert dataclass_of(message).parse(bytes(view)) == view


def assert_same_bytes(message: Message, written: bytes) -> None:
    """`written` holds the same fields, and protobuf writes it as it writes `message`."""
    back = type(message).FromString(written)
    assert back == message
    assert back.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
    assert len(written) == message.ByteSize()


def filled(descriptor: Descriptor, depth: int, *, arm: int = 0, zero: bool = False) -> Message:
    """A message with every field set; of each oneof the arm of that number."""
    message = GetMessageClass(descriptor)()
    if isinstance(message, Timestamp | Duration):
        message.FromMicroseconds(0 if zero else 1_234_567_890_123_456)
        return message
    skipped = {
        field.name
        for group in descriptor.oneofs
        if len(group.fields) > 1
        for index, field in enumerate(group.fields)
        if index != arm % len(group.fields)
    }
    for field in descriptor.fields:
        if field.name in skipped:
            continue
        inner = field.message_type
        if inner is None:
            set_scalar(message, field, zero)
        elif depth and inner.GetOptions().map_entry:
            set_map(message, field.name, inner.fields_by_name["value"], depth)
        elif depth:
            child = filled(inner, depth - 1, arm=arm, zero=zero)
            target = getattr(message, field.name)
            target.append(child) if field.is_repeated else target.CopyFrom(child)
    return message


def set_scalar(message: Message, field: FieldDescriptor, zero: bool) -> None:
    value = type(EXAMPLES[field.type])() if zero else EXAMPLES[field.type]
    if field.is_repeated:
        getattr(message, field.name).extend([value, value])
    elif field.has_presence or not zero:
        setattr(message, field.name, value)


def set_map(message: Message, name: str, value: FieldDescriptor, depth: int) -> None:
    entries = getattr(message, name)
    if value.message_type is not None:
        entries["key"].CopyFrom(filled(value.message_type, depth - 1))
    else:
        entries["key"] = EXAMPLES[value.type]  # one entry: the order of several is not defined


def arms_of(descriptor: Descriptor) -> int:
    return max((len(group.fields) for group in descriptor.oneofs), default=1)


def task_rows() -> list[Path]:
    return sorted(ROWS.glob("*/example.jsonl")) + sorted(
        (ROOT / "servers" / "gymservers").glob("*/*/data/example.jsonl")
    )


def golden_message(path: Path) -> Message:
    """The message of a golden file `<kind>.<name>.json`; small kinds inside the object that holds them."""
    kind = path.name.partition(".")[0]
    value = json.loads(path.read_text(encoding="utf-8"))
    if kind == "part":
        return item_from_json({"type": "message", "role": "user", "content": [value]})
    if kind == "tool_choice":
        return params_from_json({"input": "hi", "tool_choice": value})
    readers: dict[str, Callable[[Any], Message]] = {
        "item": item_from_json,
        "params": params_from_json,
        "response": response_from_json,
        "tool": tool_from_json,
        "usage": usage_from_json,
    }
    return readers[kind](value)


@pytest.mark.parametrize("name", sorted(descriptors()))
def test_every_message_is_wire_equal(name: str) -> None:
    descriptor = descriptors()[name]
    for arm in range(arms_of(descriptor)):
        check_wire_equal(filled(descriptor, DEPTH if arms_of(descriptor) < 8 else 1, arm=arm))
        check_wire_equal(filled(descriptor, 1, arm=arm, zero=True))
    check_wire_equal(GetMessageClass(descriptor)())


def test_published_task_rows_are_wire_equal() -> None:
    if not task_rows():
        pytest.skip("no task rows here: neither published ones nor those of the built-in servers")
    count = 0
    for path in task_rows():
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.strip():
                continue
            row = json.loads(line)
            agent = (row.get("agent_ref") or {}).get("name", "")
            params = params_from_json(row.pop("responses_create_params"))
            task = rollout_pb2.Task(agent=agent, create_params=params, fields_json=json.dumps(row))
            check_wire_equal(task)
            check_wire_equal(
                rollout_service_pb2.StreamRolloutsRequest(
                    submit={"tasks": [{"task_id": "t", "task": task, "rollout_count": 4}]}
                )
            )
            count += 1
    assert count >= len(task_rows())


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_golden_files_are_wire_equal(path: Path) -> None:
    check_wire_equal(golden_message(path))


def test_token_segments_are_wire_equal() -> None:
    trajectory = rollout_pb2.Trajectory(
        segments=[
            {
                "token_ids": range(2000),
                "sampled_spans": [{"start": 1500, "length": 500}],
                "logprobs": [-0.25] * 500,
                "policy_version": 0,
                "finish_reason": "stop",
                "drift": rollout_pb2.DRIFT_CLEAN,
            },
            {"parent": 0, "token_ids": [1, -1, 2**31 - 1]},
        ]
    )
    check_wire_equal(trajectory)
    view = types.Trajectory.parse(trajectory.SerializeToString())
    assert view.segments[0].parent is None
    assert view.segments[1].parent == 0
    assert view.segments[0].policy_version == 0


def test_times_keep_their_microseconds() -> None:
    # The dataclasses show times as datetime and timedelta, which know nothing smaller.
    timing = rollout_pb2.Timing(end_time={"seconds": 1_700_000_000, "nanos": 123_456_789})
    timing.model_duration.FromNanoseconds(1_500_000_999)
    view = types.Timing.parse(timing.SerializeToString())
    back = rollout_pb2.Timing.FromString(bytes(view))
    assert back.end_time.ToMicroseconds() == timing.end_time.ToMicroseconds()
    assert abs(back.model_duration.ToNanoseconds() - timing.model_duration.ToNanoseconds()) < 1000


def test_the_dataclasses_come_only_when_asked_for() -> None:
    # Half a second of import that no host, daemon or client should pay.
    names = ("gymd", "gymd.sdk", "gymd.client", "gymd.mesh", "gymd.convert", "gymd.config", "gymd.daemon")
    lines = [f"import {name}" for name in names]
    lines += ["import sys", "late = {'gymapi.v1.types', 'betterproto2', 'openai'} & set(sys.modules)"]
    code = "\n".join([*lines, "assert not late, late", "import gymapi.v1.types"])
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, env=environment
    )
    assert done.returncode == 0, done.stderr

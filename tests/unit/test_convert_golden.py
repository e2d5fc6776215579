"""OpenAI JSON to messages and back is the identity, over the wire and down to the types of numbers."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types import responses as openai_responses
from pydantic import TypeAdapter

from gymapi.v1 import responses_pb2 as pb
from gymd.convert import (
    ConvertError,
    item_from_json,
    item_to_json,
    params_from_json,
    params_to_json,
    response_from_json,
    response_to_json,
    tool_from_json,
    tool_to_json,
)

GOLDEN = Path(__file__).parent.parent / "golden"
KINDS = ("item", "part", "tool", "tool_choice", "params", "response")
FILES = sorted(path for kind in KINDS for path in GOLDEN.glob(f"{kind}.*.json"))
# Older forms, NeMo Gym's own ones and damaged ones, which OpenAI's current models do not describe.
NOT_OPENAI = {
    "item.item_reference_bare",
    "item.mcp_call_error_text",
    "item.unknown",
    "params.odd",
    "response.engine",
    "response.minimal",
    "tool.unknown",
}
OPENAI_FILES = [
    path
    for path in FILES
    if path.stem not in NOT_OPENAI and not path.stem.startswith(("part.", "tool_choice."))
]


def load(path: Path) -> tuple[str, Any]:
    """The kind of a golden file, and its JSON inside the smallest object that can be converted."""
    kind = path.name.split(".")[0]
    value = json.loads(path.read_text())
    if kind == "part":
        return "item", {"type": "message", "role": "user", "content": [value]}
    if kind == "tool_choice":
        return "params", {"input": "hi", "tool_choice": value}
    return kind, value


def round_trip(kind: str, value: Any) -> Any:
    read, write, cls = {
        "item": (item_from_json, item_to_json, pb.Item),
        "tool": (tool_from_json, tool_to_json, pb.Tool),
        "params": (params_from_json, params_to_json, pb.ResponseCreateParams),
        "response": (response_from_json, response_to_json, pb.Response),
    }[kind]
    return write(cls.FromString(read(value).SerializeToString()))


def same(a: Any, b: Any) -> bool:
    """Equality that tells 1 from 1.0 and from true."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_file_comes_back_as_it_was(path: Path) -> None:
    kind, value = load(path)
    before = copy.deepcopy(value)
    assert same(round_trip(kind, value), value)
    assert value == before, "the source must not change"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_file_uses_the_arm_of_its_name(path: Path) -> None:
    kind, name = path.stem.split(".")
    if kind in ("item", "tool"):
        message = (item_from_json if kind == "item" else tool_from_json)(load(path)[1])
        assert name.startswith(message.WhichOneof("kind"))
    elif kind == "part":
        assert item_from_json(load(path)[1]).message.content_parts.parts[0].WhichOneof("kind") == name
    elif kind == "tool_choice":
        assert params_from_json(load(path)[1]).tool_choice.WhichOneof("kind") == name


@functools.cache
def openai_type(kind: str) -> TypeAdapter[Any]:
    """OpenAI's own reader of an item or a tool; making one takes longer than any reading."""
    union = openai_responses.ResponseInputItem | openai_responses.ResponseOutputItem
    return TypeAdapter(union if kind == "item" else openai_responses.Tool)


@pytest.mark.parametrize("path", OPENAI_FILES, ids=lambda path: path.stem)
def test_openai_accepts_the_json_of_known_types(path: Path) -> None:
    kind = path.stem.split(".")[0]
    value = round_trip(*load(path))
    if kind in ("item", "tool"):
        openai_type(kind).validate_python(value)
    elif kind == "response":
        openai_responses.Response.model_validate(value)
    else:
        for item in value["input"] if isinstance(value["input"], list) else []:
            openai_type("item").validate_python(item)


def test_typed_fields_are_filled_not_only_kept_as_text() -> None:
    params = params_from_json(load(GOLDEN / "params.full.json")[1])
    for field in params.DESCRIPTOR.fields:
        if field.name in ("tools", "metadata", "input_text", "conversation_id"):
            continue
        assert params.HasField(field.name) if field.has_presence else getattr(params, field.name), field.name
    assert params.json_form.extra_json == ""
    response = response_from_json(load(GOLDEN / "response.full.json")[1])
    assert response.json_form.extra_json == ""
    assert response.usage.input_tokens_details.cached_tokens == 60


def test_a_common_response_costs_few_bytes_beyond_its_text() -> None:
    message = response_from_json(load(GOLDEN / "response.completed.json")[1])
    assert message.json_form.ByteSize() < 40


def test_a_field_that_is_set_wins_over_its_form() -> None:
    value = {"input": "hi", "temperature": None, "tools": [], "top_p": 1, "max_output_tokens": "many"}
    params = params_from_json(value)
    params.temperature = 0.5
    params.tools.add().function.name = "f"
    params.top_p = 0.25
    params.max_output_tokens = 7
    assert params_to_json(params) == {
        "input": "hi",
        "temperature": 0.5,
        "tools": [{"type": "function", "name": "f"}],
        "top_p": 0.25,
        "max_output_tokens": 7,
    }


def test_a_message_built_by_hand_gets_the_keys_that_openai_requires() -> None:
    response = pb.Response(id="r", model="m", created_at=1.5)
    text = response.output.add().message
    text.id, text.role, text.status = "msg_1", "assistant", "completed"
    text.content_parts.parts.add().output_text.text = ""
    response.tool_choice.mode = "auto"
    response.parallel_tool_calls = True
    written = response_to_json(response)
    openai_responses.Response.model_validate(written)
    assert written["object"] == "response"
    assert written["tools"] == []
    assert written["output"][0]["content"] == [{"type": "output_text", "text": "", "annotations": []}]


def test_an_arm_of_a_newer_peer_keeps_its_place() -> None:
    item = pb.Item.FromString(bytes.fromhex("a23f00"))  # field 1012, which no build has
    assert item_to_json(item) == {"type": "unknown"}


def test_a_form_of_a_newer_peer_is_harmless() -> None:
    params = pb.ResponseCreateParams(input_text="hi")
    params.json_form.null_fields.append(900)
    params.json_form.empty_fields.append(901)
    params.json_form.integer_fields.append(902)
    params.json_form.absent_fields.append(903)
    assert params_to_json(params) == {"input": "hi"}


@pytest.mark.parametrize("value", [None, 5, "text", [], True])
def test_what_is_no_object_cannot_be_read(value: Any) -> None:
    for read in (params_from_json, response_from_json, item_from_json, tool_from_json):
        with pytest.raises(ConvertError, match="expected an object, got"):
            read(value)


class TestTokens:
    ITEM: ClassVar = {"role": "assistant", "content": "hi"}
    TOKENS: ClassVar = {
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [3],
        "generation_log_probs": [-0.1],
    }

    def test_logprobs_are_float32(self) -> None:
        item = item_from_json({**self.ITEM, **self.TOKENS})
        assert list(item.token_trace.prompt_token_ids) == [1, 2]
        back = item_to_json(item)
        assert back["generation_log_probs"] == [pytest.approx(-0.1, abs=1e-8)]
        assert back["generation_token_ids"] == [3]
        assert not item.message.json_form.extra_json

    def test_nulls_stay_keys(self) -> None:
        value = {**self.ITEM, **dict.fromkeys(self.TOKENS)}
        item = item_from_json(value)
        assert not item.HasField("token_trace")
        assert item_to_json(item) == value

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"generation_log_probs": None}, r"input\[1\]: generation_log_probs missing"),
            ({"generation_log_probs": []}, r"input\[1\]: 1 generation_token_ids but 0 logprobs"),
            ({"prompt_token_ids": ["a"]}, r"input\[1\].prompt_token_ids: expected a list of numbers"),
            ({"prompt_token_ids": [1 << 31]}, r"input\[1\].prompt_token_ids: expected a list of numbers"),
            ({"generation_log_probs": [None]}, r"input\[1\].generation_logprobs: expected a list of numbers"),
            ({"generation_token_ids": 5}, r"input\[1\].generation_token_ids: expected a list of numbers"),
        ],
    )
    def test_broken_tokens_name_their_place(self, change: dict[str, Any], text: str) -> None:
        with pytest.raises(ConvertError, match=text):
            params_from_json({"input": [self.ITEM, {**self.ITEM, **self.TOKENS, **change}]})


# ---- the identity under random damage ----

BASES = [load(path) for path in FILES if "training" not in path.name]
ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(["", "日本語", "\ud800", "message", "unknown", "\x00"]),
    st.sampled_from(
        [[], {}, [None], [1, 1.0, True], {"type": "nope"}, {"type": None}, {"type": 7}, [{"type": "x"}]]
    ),
)
KEYS = st.one_of(
    st.sampled_from(["type", "role", "id", "content", "json_form", "extra_json", ""]), st.text(max_size=4)
)


def damage(value: Any, data: st.DataObject, depth: int = 0) -> Any:
    """Walks to a random place and replaces, drops or adds something there."""
    if isinstance(value, dict) and value and (depth == 0 or data.draw(st.booleans())):
        key = data.draw(st.sampled_from(sorted(value)))
        what = data.draw(st.sampled_from(["deeper", "deeper", "deeper", "replace", "drop", "add"]))
        if what == "drop":
            return {k: v for k, v in value.items() if k != key}
        if what == "add":
            return {**value, data.draw(KEYS): data.draw(ODD_VALUES)}
        new = data.draw(ODD_VALUES) if what == "replace" else damage(value[key], data, depth + 1)
        return {**value, key: new}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        index = data.draw(st.integers(min_value=0, max_value=len(value) - 1))
        return [damage(v, data, depth + 1) if i == index else v for i, v in enumerate(value)]
    if isinstance(value, list) and data.draw(st.booleans()):
        return [*value, data.draw(ODD_VALUES)]
    return data.draw(ODD_VALUES)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(base=st.sampled_from(BASES), data=st.data())
def test_the_identity_holds_for_damaged_json(base: tuple[str, Any], data: st.DataObject) -> None:
    kind, value = base
    for _ in range(data.draw(st.integers(min_value=1, max_value=3))):
        damaged = damage(value, data)
        value = damaged if isinstance(damaged, dict) else value
    assert same(round_trip(kind, value), value)

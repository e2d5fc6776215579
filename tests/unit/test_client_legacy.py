"""Rollouts as NeMo Gym's collection writes them."""

from __future__ import annotations

from typing import Any

from gymapi.v1.rollout_pb2 import FAILURE_CLASS_INFRA, Rollout
from gymd.client.legacy import item_tokens, legacy_rollout
from gymd.convert import item_from_json, params_from_json, response_from_json
from gymd.sdk.testing import make_response
from gymd.sdk.tokens import TokenRecorder

ROW = {
    "responses_create_params": {"input": "Weather?"},
    "agent_ref": {"type": "responses_api_agents", "name": "weather_agent"},
    "expected": "cold",
    "_ng_task_index": 7,
}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "cold"}
MESSAGE = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Cold.", "annotations": []}],
}
KEYS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


def finished(*calls: tuple[list[int], list[int]], items: tuple[int, ...] = (0, 2)) -> Rollout:
    """A rollout of a call, its output and a message, with the tokens of both model calls."""
    recorder = TokenRecorder()
    for (prompt, sampled), first in zip(calls, items, strict=False):
        recorder.add(make_response("x", tokens=(prompt, sampled)), first)
    rollout = Rollout(rollout_id="t/3", index=3, attempt=1, agent="weather_agent")
    rollout.response.CopyFrom(response_from_json({"output": [CALL, OUTPUT, MESSAGE], "model": "m"}))
    rollout.trajectory.MergeFrom(recorder.trajectory)
    return rollout


def tokens_of(line: dict[str, Any]) -> list[Any]:
    """What each output item says of its tokens."""
    return [
        tuple(item[key] for key in KEYS) if KEYS[0] in item else None for item in line["response"]["output"]
    ]


def test_a_line_is_the_row_and_what_came_of_it() -> None:
    rollout = finished(([1, 2], [3, 4]), ([1, 2, 3, 4, 5], [6]))
    rollout.reward.value = 1.0
    rollout.reward.components["format"] = 0.5
    rollout.reward.extras_json = '{"extracted": "cold", "response": "mine", "expected": "COLD"}'
    line = legacy_rollout(rollout, ROW)
    tokens = tokens_of(line)
    assert [found and found[:2] for found in tokens] == [
        ([1, 2], [3, 4]),
        None,  # the output of a tool is in the next call's prompt
        ([1, 2, 3, 4, 5], [6]),
    ]
    assert [found and len(found[2]) for found in tokens] == [2, None, 1]
    response = line.pop("response")
    assert (response["model"], response["output"][0]["name"], response["output"][1]) == ("m", "look", OUTPUT)
    assert line == {
        **ROW,
        "expected": "COLD",
        "_ng_rollout_index": 3,
        "extracted": "cold",
        "reward": 1.0,
        "reward_components": {"format": 0.5},
    }


def test_every_call_has_its_whole_prompt_whatever_its_branch() -> None:
    """Trainers walk the items, and see for themselves where a prompt does not continue the one before."""
    rollout = finished(([1, 2], [3, 4]), ([1, 2, 3, 9], [6]))
    assert rollout.trajectory.segments[1].dropped_token_count == 1
    assert [found and found[0] for found in tokens_of(legacy_rollout(rollout))] == [
        [1, 2],
        None,
        [1, 2, 3, 9],
    ]
    rollout = finished(([1, 2], [3, 4]), ([8, 9], [6]))
    assert [found and found[0] for found in tokens_of(legacy_rollout(rollout))] == [[1, 2], None, [8, 9]]


def test_the_items_are_read_back_with_their_tokens() -> None:
    line = legacy_rollout(finished(([1, 2], [3, 4]), ([1, 2, 3, 4, 5], [6])))
    item = item_from_json(line["response"]["output"][2])
    assert list(item.token_trace.prompt_token_ids) == [1, 2, 3, 4, 5]
    assert list(item.token_trace.generation_token_ids) == [6]
    again = params_from_json({"input": line["response"]["output"]})
    assert len(again.input_items.items) == 3


def test_no_reward_is_made_up() -> None:
    rollout = Rollout(index=1, attempt=3, agent="a")
    rollout.failure.failure_class = FAILURE_CLASS_INFRA
    rollout.failure.retriable = True
    assert legacy_rollout(rollout, {"responses_create_params": {"input": "x"}}, task_index=4) == {
        "responses_create_params": {"input": "x"},
        "agent_ref": {"type": "responses_api_agents", "name": "a"},
        "_ng_task_index": 4,
        "_ng_rollout_index": 1,
        "_ng_attempt_index": 2,
        "_ng_failure_class": "infra",
        "_ng_failure_terminal": False,
    }


def test_extras_that_are_no_object_are_kept_as_text() -> None:
    for text in ("oops", "[1]"):
        rollout = Rollout()
        rollout.reward.extras_json = text
        assert legacy_rollout(rollout)["verifier_extras"] == text


def test_calls_without_the_legacy_form_have_no_tokens() -> None:
    rollout = finished(([1, 2], [3, 4]), ([1, 2, 3, 4, 5], [6]))
    first, second = rollout.trajectory.segments
    del first.logprobs[:]
    second.sampled_spans[0].start = 0  # context at the end
    assert list(item_tokens(rollout.trajectory)) == []

"""Rows become tasks, rollouts become rows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gymapi.v1.rollout_pb2 import Reward, Rollout, Task
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.client.rows import RowError, failure_line, load_line, make_task, parse_row, rollout_line
from gymd.convert import response_from_json
from gymd.errors import error, to_status_message
from tests.fakes.daemon import rollout

ROW = (
    '{"id": 12345678901234567890123, "f": 1.0, "e":1e3, "s": "caf\\u00e9 \\ud800 ü", '
    '"responses_create_params": {"input": "hi", "temperature": 1}, '
    '"agent_ref": {"type": "responses_api_agents", "name": "a"}, "empty": [ ], "n": null}'
)


def finished(**fields: object) -> Rollout:
    return rollout(TaskSubmission(task_id="t", task=Task(agent="a")), 2, **fields)


def test_a_row_travels_byte_for_byte() -> None:
    row = parse_row(ROW)
    task = make_task(row)
    assert task.agent == "a"
    assert task.create_params.temperature == 1
    assert task.fields_json == (
        '{"id":12345678901234567890123,"f":1.0,"e":1e3,"s":"caf\\u00e9 \\ud800 ü","empty":[ ],"n":null}'
    )
    line = rollout_line(row, finished(), 7).decode()
    for piece in ('"id":12345678901234567890123', '"f":1.0', '"e":1e3', '"s":"caf\\u00e9 \\ud800 ü"'):
        assert piece in line
    assert '"responses_create_params":{"input": "hi", "temperature": 1}' in line


def test_an_output_line_holds_what_came_of_it() -> None:
    made = finished(reward=0.5, extras={"grade": "B", "reward": 9, "id": 1}, components={"b": 1, "a": 0})
    line = json.loads(rollout_line(parse_row(ROW), made, 7))
    assert line["reward"] == 0.5
    assert line["reward_components"] == {"a": 0, "b": 1}
    assert line["grade"] == "B"
    assert line["id"] == 1  # the verifier's word stands over the row's
    assert line["rollout"]["reward_extras"] == ["grade", "id"]
    assert (line["_ng_task_index"], line["_ng_rollout_index"]) == (7, 2)
    assert line["response"]["output"][2]["content"][0]["text"].startswith("It is")
    assert line["rollout"]["outcome"] == "completed"
    assert line["rollout"]["timing"]["seconds"] == 0.25
    assert line["agent_ref"]["name"] == "a"
    assert "failure" not in line


def test_what_a_rollout_is_good_for_stands_beside_it() -> None:
    made = finished(reward=0.5)
    made.reward.use_for_loss = False
    made.policy.start_version, made.policy.end_version, made.policy.stale = 3, 5, True
    facts = json.loads(rollout_line(parse_row(ROW), made, 7))["rollout"]
    assert (facts["use_for_loss"], facts["policy_versions"], facts["stale"]) == (False, [3, 5], True)
    assert "use_for_baseline" not in facts


def test_no_reward_without_a_verifier() -> None:
    assert "reward" not in json.loads(rollout_line(parse_row(ROW), finished(reward=None), 0))


def test_half_a_surrogate_pair_is_written_and_read() -> None:
    """A model's answer may hold one; it has no UTF-8 form, only an escape."""
    row = parse_row('{"responses_create_params": {"input": "hi"}, "note": "\\ud83d"}')
    content = [{"type": "output_text", "text": "\ud83d ü", "annotations": []}]
    made = finished()
    message = {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": content}
    made.response.CopyFrom(response_from_json({"output": [message]}))
    line = load_line(rollout_line(row, made, 0))
    assert line["note"] == "\ud83d"
    assert line["response"]["output"][0]["content"] == content


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "Expecting"),
        (b"\xff", "can't decode"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"reward": NaN}', "NaN is no JSON"),
    ],
)
def test_what_is_no_json_is_told(line: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        load_line(line)


def test_overrides_replace_create_params() -> None:
    row = parse_row(ROW)
    assert make_task(row, "", {"temperature": 0.5}).create_params.temperature == 0.5
    line = json.loads(rollout_line(row, finished(), 0, {"temperature": 0.5}))
    assert line["responses_create_params"] == {"input": "hi", "temperature": 0.5}


def test_the_default_agent_fills_only_rows_without_one() -> None:
    assert make_task(parse_row(ROW), "b").agent == "a"
    row = parse_row('{"responses_create_params": {"input": "hi"}}')
    assert make_task(row, "b").agent == "b"
    assert make_task(row, "b").fields_json == ""
    assert json.loads(rollout_line(row, finished(), 0))["agent_ref"]["name"] == "a"


def test_an_output_can_be_an_input_again() -> None:
    first = rollout_line(parse_row(ROW), finished(reward=0.0), 3)
    again = parse_row(first.decode())
    assert (again.task_index, again.rollout_index) == (3, 2)
    second = json.loads(rollout_line(again, finished(reward=1.0), 3))
    assert second["reward"] == 1.0


def test_foreign_extras_that_are_no_json_are_kept_as_text() -> None:
    made = finished()
    made.reward.CopyFrom(Reward(value=1, extras_json="oops"))
    assert json.loads(rollout_line(parse_row(ROW), made, 0))["verifier_extras"] == "oops"


def test_failures_carry_their_reason() -> None:
    problem = error("UPSTREAM_AUTH", "the endpoint refused the key", upstream_status=401)
    made = finished(outcome="MODEL_FAILED", failure=problem)
    made.failure.upstream_status = 401
    line = json.loads(rollout_line(parse_row(ROW), made, 0))
    assert line["failure"] == {
        "class": "infra",
        "stage": "model",
        "retriable": True,
        "code": 7,
        "reason": "UPSTREAM_AUTH",
        "message": "the endpoint refused the key",
        "metadata": {"upstream_status": "401"},
        "upstream_status": 401,
    }
    refused = json.loads(failure_line(parse_row(ROW), 1, to_status_message(problem), 4))
    assert refused["failure"]["class"] == "rejected"
    assert refused["_ng_rollout_index"] == 1


def test_tokens_come_back_under_the_legacy_keys() -> None:
    made = finished()
    first = made.trajectory.segments.add(token_ids=[1, 2, 3, 10, 11], logprobs=[-1, -2], item_indices=[0])
    first.sampled_spans.add(start=3, length=2)
    second = made.trajectory.segments.add(parent=0, token_ids=[4, 12], logprobs=[-3], item_indices=[2])
    second.sampled_spans.add(start=1, length=1)
    items = json.loads(rollout_line(parse_row(ROW), made, 0))["response"]["output"]
    assert items[0]["prompt_token_ids"] == [1, 2, 3]
    assert items[0]["generation_token_ids"] == [10, 11]
    assert items[0]["generation_log_probs"] == [-1, -2]
    assert "prompt_token_ids" not in items[1]
    assert items[2]["prompt_token_ids"] == [1, 2, 3, 10, 11, 4]
    assert items[2]["generation_token_ids"] == [12]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[1]", "no JSON object"),
        ("", "no JSON object"),
        ("{", "double quotes"),
        ('{"a" 1}', "':' is missing at column 6"),
        ('{"a": }', "expecting value"),
        ('{"a": 1', "',' or '}' is missing"),
        ('{"a": 1,}', "double quotes"),
        ('{"a": 1} x', "something follows"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": "x', "unterminated string"),
        ('{"a":' + "[" * 100_000, "nested too deeply"),
        ('{"a": 1}', "responses_create_params is missing"),
        ('{"responses_create_params": 3}', "must be an object"),
        ('{"responses_create_params": {}, "agent_ref": "x"}', "agent_ref must be"),
        ('{"responses_create_params": {}, "agent_ref": {"type": "t"}}', "agent_ref must be"),
        ('{"responses_create_params": {}, "_ng_task_index": -1}', "whole number"),
        ('{"responses_create_params": {}, "_ng_rollout_index": true}', "whole number"),
    ],
)
def test_bad_lines_are_named(line: str, why: str) -> None:
    with pytest.raises(RowError) as caught:
        parse_row(line)
    assert why in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), json_values, max_size=5), st.sampled_from([None, 2]))
def test_any_row_survives(fields: dict[str, object], indent: int | None) -> None:
    taken = {"responses_create_params", "agent_ref", "_ng_task_index", "_ng_rollout_index"}
    fields = {key: value for key, value in fields.items() if key not in taken}
    text = json.dumps({**fields, "responses_create_params": {"input": "x"}}, indent=indent)
    task = make_task(parse_row(text))
    assert (json.loads(task.fields_json) if task.fields_json else {}) == fields

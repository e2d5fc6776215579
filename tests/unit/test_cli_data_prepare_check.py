"""The quick check of rows never accepts what the strict one refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gymctl.prepare.check import check_line, is_usual, read_usual
from gymd.client.rows import RowError, parse_row
from gymd.convert import validate_params

HERE = Path(__file__).resolve()
GOLDEN = HERE.parents[1] / "golden"

USER = {"role": "user", "content": "Hi."}
TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}

USUAL: list[dict[str, Any]] = [
    {"input": "Hi."},
    {"input": [USER]},
    {"input": [{**USER, "type": "message"}, {"role": "assistant", "content": "Yes."}]},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi."}]}]},
    {"input": [USER, CALL, OUTPUT]},
    {"input": [USER, {**CALL, "id": None, "status": "completed"}, {**OUTPUT, "id": "x", "status": None}]},
    {"input": [USER], "tools": []},
    {"input": [USER], "tools": [TOOL, {**TOOL, "name": "g", "strict": None, "description": None}]},
    {"input": [USER], "tools": [{"type": "function", "name": "f"}], "tool_choice": "required"},
    {"input": "x", "temperature": 1, "top_p": 0.5, "max_output_tokens": 10, "top_logprobs": 0},
    {"input": "x", "parallel_tool_calls": False, "store": True, "metadata": {"a": "b"}, "max_tool_calls": 0},
    {
        "input": "x",
        "instructions": "",
        "model": "m",
        "user": "u",
        "truncation": "auto",
        "tool_choice": "auto",
    },
]


@pytest.mark.parametrize("params", USUAL)
def test_usual_forms_need_no_strict_check(params: dict[str, Any]) -> None:
    assert is_usual(params)
    assert validate_params(params) == []


# Values put into every place of the usual forms.
ODD = [
    None,
    True,
    0,
    -1,
    1,
    2.5,
    1e300,
    2**40,
    "",
    "x",
    "required",
    "function",
    "message",
    [],
    {},
    [1],
    [None],
]
ODD += [{"type": "x"}, {"role": "user"}, [USER], [{"type": "input_text"}], [TOOL, TOOL], {"a": 1}, {"a": "b"}]


def mutations(value: Any) -> Iterator[Any]:
    """A value with each of its parts replaced, left out, or joined by something unknown."""
    yield from ODD
    if isinstance(value, dict):
        for key, part in value.items():
            for other in mutations(part):
                yield {**value, key: other}
            yield {name: kept for name, kept in value.items() if name != key}
        for key in ("type", "id", "status", "role", "content", "unknown", "prompt_token_ids", "name"):
            for other in (None, 1, "x", []):
                yield {**value, key: other}
    if isinstance(value, list):
        for at, part in enumerate(value):
            for other in mutations(part):
                yield [*value[:at], other, *value[at + 1 :]]


def test_whatever_looks_usual_is_valid() -> None:
    accepted = 0
    for params in USUAL:
        for changed in mutations(params):
            if is_usual(changed):
                accepted += 1
                assert validate_params(changed) == [], changed
    assert accepted > 300


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["input", "tools", "temperature", "top_p", "metadata", "tool_choice", "stream", "text"]
)


@settings(max_examples=300, deadline=None)
@given(
    changes=st.dictionaries(KEYS, VALUES | st.sampled_from(ODD), max_size=3),
    at=st.integers(0, len(USUAL) - 1),
)
def test_whatever_looks_usual_is_valid_in_any_mixture(changes: dict[str, Any], at: int) -> None:
    params = {**USUAL[at], **changes}
    if is_usual(params):
        assert validate_params(params) == []


def test_golden_create_params_are_judged_alike() -> None:
    paths = sorted(GOLDEN.glob("params.*.json"))
    assert paths
    for path in paths:
        params = json.loads(path.read_text())
        assert not is_usual(params) or validate_params(params) == []


def line(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


P = '"responses_create_params":{"input":"x"}'
LINES = [
    "{" + P + "}",
    '{"a":1.50,' + P + ',"b":"\\u00e9"}',
    '{"a":1e400,' + P + "}",
    '{"a":' + "9" * 400 + "," + P + "}",
    '{"a":' + "9" * 25 + "," + P + "}",
    '{"a":' + "9" * 5000 + "," + P + "}",
    '{"a":NaN,' + P + "}",
    '{"a":"\\ud800",' + P + "}",
    '{"a":"\ud800",' + P + "}",
    '{"a":"\t",' + P + "}",
    '{"a":1,"a":2,' + P + "}",
    '{"a":' + "[" * 400 + "]" * 400 + "," + P + "}",
    '{"a":' + "[" * 700 + "]" * 700 + "," + P + "}",
    '{"a":' + "[" * 995 + "]" * 995 + "," + P + "}",
    '{"a":' + "[" * 2000 + "]" * 2000 + "," + P + "}",
    "{" + P + ",}",
    "{" + P + "} x",
    "[1]",
    "null",
    "{}",
    '{"responses_create_params":null}',
    '{"responses_create_params":{"input":[]}}',
    "{" + P + ',"agent_ref":null}',
    "{" + P + ',"agent_ref":{}}',
    "{" + P + ',"agent_ref":{"name":""}}',
    "{" + P + ',"agent_ref":{"name":"x"}}',
    "{" + P + ',"agent_ref":"x"}',
    "{" + P + ',"_ng_task_index":3}',
    "{" + P + ',"_ng_task_index":-3}',
    "{" + P + ',"_ng_rollout_index":"3"}',
    '{"responses_create_params":{"input":"x","temperature":1e400}}',
    '{"responses_create_params":{"input":"x","tools":[{"type":"function","name":"f","parameters":{"a":'
    + "[" * 450
    + "]" * 450
    + "}}]}}",
    '{"responses_create_params":{"input":"x","max_output_tokens":' + "9" * 30 + "}}",
]


@pytest.mark.parametrize("text", LINES, ids=range(len(LINES)))
def test_lines_are_judged_like_by_the_collector(text: str) -> None:
    data = line(text)
    try:
        expected = [f"responses_create_params.{found}" for found in validate_params(parse_row(text).params)]
    except RowError as problem:
        expected = [str(problem)]
    if any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):
        expected = ["the line is no UTF-8 (byte 7)"]
    if not expected and "[" * 600 in text:
        expected = ["the JSON is nested more than 500 levels deep"]
    row, problems = check_line(data)
    assert problems == expected
    assert bool(row) is not bool(problems)
    if read_usual(data) is not None:
        assert expected == []

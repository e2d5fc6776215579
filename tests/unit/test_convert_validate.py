"""The strict check of a dataset row's create params."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gymd.convert import validate_params

GOLDEN = Path(__file__).parent.parent / "golden"
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}

GOOD = {
    "string": {"input": "hi"},
    "easy": {"input": [USER, {"role": "assistant", "content": "hello"}], "temperature": 1},
    "tools": {"input": "hi", "tools": [TOOL], "tool_choice": {"type": "function", "name": "f"}},
    "nulls": {"input": "hi", "temperature": None, "tools": None, "metadata": None, "instructions": None},
    "chat form": {
        "input": [
            {"role": "assistant", "content": None, "tool_calls": [{}]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]
    },
    "tokens": {"input": [{"role": "assistant", "content": "hello", **TOKENS}]},
    "reference": {"input": [{"id": "msg_1"}]},
    "task": json.loads((GOLDEN / "params.task.json").read_text()),
}


@pytest.mark.parametrize("params", GOOD.values(), ids=GOOD)
def test_good_params_have_no_problems(params: dict[str, Any]) -> None:
    assert validate_params(params) == []


BAD = {
    "no object": ([], ["expected an object, got a list"]),
    "no input": ({}, ["input: missing; a string or a list of items is needed"]),
    "empty input": ({"input": []}, ["input: is empty"]),
    "half a character": (
        {"input": "hi \ud83d"},
        ["input: holds half a surrogate pair, such as \\ud83d alone, which is no text"],
    ),
    "input": ({"input": 5}, ["input: expected a string or a list, got 5"]),
    "item": ({"input": ["hi"]}, ['input[0]: expected an object, got a string "hi"']),
    "no type": ({"input": [{"text": "x"}]}, ["input[0]: has neither a type nor a role"]),
    "odd type": ({"input": [{"type": 5}]}, ["input[0].type: expected a string, got 5"]),
    "unknown item": (
        {"input": [{"type": "function_cal"}]},
        ["input[0].type: unknown type 'function_cal'; did you mean function_call?"],
    ),
    "unknown role": (
        {"input": [{"role": "bot", "content": "x"}]},
        ["input[0].role: unknown role 'bot'; expected user, assistant, system, developer"],
    ),
    "no content": ({"input": [{"role": "user"}]}, ["input[0].content: missing"]),
    "no role": ({"input": [{"type": "message", "content": "x"}]}, ["input[0].role: missing"]),
    "null content": (
        {"input": [{"role": "user", "content": None}]},
        ["input[0].content: is null; a string or a list of parts is needed"],
    ),
    "null role": (
        {"input": [{"role": None, "content": "x"}]},
        ["input[0].role: is null; a string is needed"],
    ),
    "text": (
        {"input": [USER, {"role": "user", "content": [{"type": "input_text", "text": 5}]}]},
        ["input[1].content[0].text: expected a string, got 5"],
    ),
    "part": (
        {"input": [{"role": "user", "content": [{"type": "input_txt", "text": "x"}, "y", {}]}]},
        [
            "input[0].content[0].type: unknown type 'input_txt'; did you mean input_text?",
            'input[0].content[1]: expected an object, got a string "y"',
            "input[0].content[2].type: missing",
        ],
    ),
    "video": (
        {"input": [{"role": "user", "content": [{"type": "input_video"}]}]},
        ["input[0].content[0]: needs exactly one of video_url and video"],
    ),
    "call": (
        {"input": [{"type": "function_call", "call_id": "c"}]},
        ["input[0].name: missing", "input[0].arguments: missing"],
    ),
    "arguments": (
        {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}]},
        ["input[0].arguments: expected a string, got an object"],
    ),
    "output": (
        {"input": [{"type": "function_call_output", "call_id": "c"}]},
        ["input[0].output: missing"],
    ),
    "settings": (
        {"input": "hi", "temperature": "hot", "top_p": 2, "max_output_tokens": 0, "top_logprobs": 1.5},
        [
            'temperature: expected a number, got a string "hot"',
            "top_logprobs: expected an integer, got 1.5",
            "top_p: must be 0 to 1, got 2",
            "max_output_tokens: must be at least 1, got 0",
        ],
    ),
    "huge": ({"input": "hi", "max_tool_calls": 2**64}, [f"max_tool_calls: {2**64} is out of range"]),
    "flag": ({"input": "hi", "store": "yes"}, ['store: expected true or false, got a string "yes"']),
    "metadata": ({"input": "hi", "metadata": {"a": 1}}, ["metadata.a: expected a string, got 1"]),
    "list": ({"input": "hi", "include": ["a", 1]}, ["include[1]: expected a string, got 1"]),
    "unknown": ({"input": "hi", "n": 2}, ["n: unknown parameter; the Responses API has none of this name"]),
    "stream": (
        {"input": "hi", "stream": True},
        ["stream: must be absent or false; rollouts do not stream over HTTP"],
    ),
    "tool": (
        {
            "input": "hi",
            "tools": [{"type": "function"}, {"type": "function", "name": ""}, {**TOOL, "parameters": "x"}],
        },
        [
            "tools[0].name: missing",
            'tools[2].parameters: expected an object, got a string "x"',
            "tools[1].name: is empty",
        ],
    ),
    "twice": (
        {"input": "hi", "tools": [TOOL, TOOL]},
        ["tools[1].name: 'f' is declared twice, first in tools[0]"],
    ),
    "choice word": (
        {"input": "hi", "tool_choice": "maybe"},
        ['tool_choice: must be none, auto, required or an object, got a string "maybe"'],
    ),
    "required": (
        {"input": "hi", "tool_choice": "required"},
        ['tool_choice: "required" needs at least one tool'],
    ),
    "forced": (
        {"input": "hi", "tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}},
        ["tool_choice.name: no tool is called 'g'"],
    ),
    "partial tokens": (
        {"input": [{"role": "assistant", "content": "x", "prompt_token_ids": [1]}]},
        ["input[0]: has prompt_token_ids but not generation_token_ids and generation_log_probs"],
    ),
    "odd tokens": (
        {"input": [{"role": "assistant", "content": "x", **TOKENS, "generation_token_ids": [2, "a"]}]},
        [
            "input[0].generation_token_ids: expected integers only",
            "input[0]: generation_token_ids and generation_log_probs differ in length",
        ],
    ),
}


@pytest.mark.parametrize(("params", "problems"), BAD.values(), ids=BAD)
def test_each_problem_is_named_with_its_place(params: Any, problems: list[str]) -> None:
    assert validate_params(params) == problems


def test_all_problems_of_a_row_come_at_once() -> None:
    row = {"input": [{"role": "bot"}], "tools": [{"type": "function"}], "temperature": []}
    assert len(validate_params(row)) == 4


def test_golden_params_have_only_intended_problems() -> None:
    full = json.loads((GOLDEN / "params.full.json").read_text())
    assert validate_params(full) == ["input: is empty"]

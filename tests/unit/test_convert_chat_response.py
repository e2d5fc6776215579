"""Chat completions to Responses, token sources and usage."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai.types.responses import Response

from gymapi.v1 import responses_pb2 as pb
from gymd.convert import (
    ChatOptions,
    ConvertError,
    empty_completion,
    item_to_json,
    output_text,
    params_from_json,
    response_from_chat,
    response_to_json,
    split_think,
    sum_usage,
    total_usage,
    usage_from_json,
    usage_to_json,
)

PARSER_OFF = ChatOptions(uses_reasoning_parser=False)
WITH_TOKENS = ChatOptions(return_token_id_information=True)
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def chat(message: dict[str, Any] | None = None, finish: str = "stop", **more: Any) -> dict[str, Any]:
    choice_keys = ("logprobs", "token_ids", "routed_experts")
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": "hi", **(message or {})},
    }
    choice.update({key: more.pop(key) for key in choice_keys if key in more})
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE, **more}


def call(name: str = "f", arguments: Any = "{}", call_id: Any = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def shape(response: pb.Response) -> list[Any]:
    """The output in short: the type of each item with what it says."""
    short: list[Any] = []
    for item in map(item_to_json, response.output):
        if item["type"] == "reasoning":
            short.append(("reasoning", *(part["text"] for part in item["summary"])))
        elif item["type"] == "message":
            short.append(("message", *(part.get("text", part.get("refusal")) for part in item["content"])))
        else:
            short.append((item["type"], item["name"], item.get("arguments", item.get("input"))))
    return short


OUTPUT = {
    "text": ({}, ChatOptions(), [("message", "hi")]),
    "nothing at all is an empty message": ({"content": None}, ChatOptions(), [("message", "")]),
    "reasoning, text and calls in this order": (
        {"content": "<think>a</think>so<think>b</think>", "tool_calls": [call(), call("g")]},
        ChatOptions(),
        [
            ("reasoning", "a", "b"),
            ("message", "so"),
            ("function_call", "f", "{}"),
            ("function_call", "g", "{}"),
        ],
    ),
    "a call alone has no message": (
        {"content": None, "tool_calls": [call()]},
        ChatOptions(),
        [("function_call", "f", "{}")],
    ),
    "reasoning alone has no message": (
        {"content": "<think>a\nb</think>"},
        ChatOptions(),
        [("reasoning", "a\nb")],
    ),
    "an unclosed think stays text": ({"content": "<think>a"}, ChatOptions(), [("message", "<think>a")]),
    "the reasoning field comes first": (
        {"reasoning_content": "a", "content": "b"},
        ChatOptions(),
        [("reasoning", "a"), ("message", "b")],
    ),
    "the newer reasoning field": ({"reasoning": "a", "content": None}, ChatOptions(), [("reasoning", "a")]),
    "without a parser tags stay": (
        {"content": "<think>a</think>b"},
        PARSER_OFF,
        [("message", "<think>a</think>b")],
    ),
    "a refusal": ({"content": None, "refusal": "no"}, ChatOptions(), [("message", "no")]),
    "content in parts": (
        {"content": [{"type": "text", "text": "a"}, {"text": "b"}]},
        ChatOptions(),
        [("message", "ab")],
    ),
    "arguments as an object": (
        {"content": "", "tool_calls": [call(arguments={"a": 1})]},
        ChatOptions(),
        [("function_call", "f", '{"a":1}')],
    ),
    "no arguments": (
        {"content": "", "tool_calls": [call(arguments=None)]},
        ChatOptions(),
        [("function_call", "f", "{}")],
    ),
    "broken arguments stay as they are": (
        {"content": "", "tool_calls": [call(arguments='{"a"')]},
        ChatOptions(),
        [("function_call", "f", '{"a"')],
    ),
    "a custom tool": (
        {
            "content": "",
            "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql", "input": "x"}}],
        },
        ChatOptions(),
        [("custom_tool_call", "sql", "x")],
    ),
}


@pytest.mark.parametrize(("message", "options", "expected"), OUTPUT.values(), ids=OUTPUT)
def test_output(message: dict[str, Any], options: ChatOptions, expected: list[Any]) -> None:
    assert shape(response_from_chat(chat(message), options=options)) == expected


@pytest.mark.parametrize(
    ("text", "blocks", "rest"),
    [
        ("", [], ""),
        ("<think>a</think>b", ["a"], "b"),
        ("a<think></think>b<think>\nc</think>", ["", "\nc"], "ab"),
        ("<think>a<think>b</think>c</think>", ["a<think>b"], "c</think>"),
        ("</think><think>a", [], "</think><think>a"),
        ("<think>a</think><think>b", ["a"], "<think>b"),
        # A pattern would take an hour.
        ("<think>" * 300_000, [], "<think>" * 300_000),
    ],
)
def test_think_blocks_are_split_off(text: str, blocks: list[str], rest: str) -> None:
    assert split_think(text) == (blocks, rest)


def test_ids_and_statuses() -> None:
    response = response_from_chat(
        chat({"content": "<think>a</think>b", "tool_calls": [call(call_id="call_9")]})
    )
    reasoning, message, function_call = map(item_to_json, response.output)
    assert re.fullmatch(r"resp_[0-9a-f]{32}", response.id)
    assert re.fullmatch(r"rs_[0-9a-f]{32}", reasoning["id"])
    assert "status" not in reasoning
    assert re.fullmatch(r"msg_[0-9a-f]{32}", message["id"])
    assert message["status"] == "completed"
    assert function_call["id"] == function_call["call_id"] == "call_9"


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", ""),
        ("tool_calls", "completed", ""),
        (None, "completed", ""),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_finish_reasons(finish: str, status: str, reason: str) -> None:
    response = response_from_chat(chat(finish=finish))
    assert (response.status, response.incomplete_details.reason) == (status, reason)
    assert response.HasField("incomplete_details") == bool(reason)


def test_openai_accepts_the_response() -> None:
    params = params_from_json(
        {
            "input": "hi",
            "temperature": 0.5,
            "instructions": "be brief",
            "metadata": {"a": "b"},
            "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
            "tool_choice": {"type": "function", "name": "f"},
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "text"}},
            "parallel_tool_calls": False,
        }
    )
    details = {"prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0}}
    usage = {**USAGE, **details, "completion_tokens_details": {"reasoning_tokens": 2}}
    completion = chat({"content": "<think>a</think>b", "tool_calls": [call()]}, usage=usage)
    written = response_to_json(response_from_chat(completion, params, ChatOptions(echo_tools=True)))
    read = Response.model_validate(written)
    assert read.output_text == "b"
    assert type(written["created_at"]) is int
    assert (written["temperature"], written["tool_choice"]["name"], written["parallel_tool_calls"]) == (
        0.5,
        "f",
        False,
    )
    assert (written["instructions"], written["metadata"], len(written["tools"])) == (
        "be brief",
        {"a": "b"},
        1,
    )
    short = response_to_json(response_from_chat(completion, params))
    assert short["tools"] == []
    assert "instructions" not in short


def test_an_empty_completion_is_an_incomplete_response() -> None:
    response = response_from_chat(empty_completion("length", "m"))
    assert (response.status, response.model, output_text(response)) == ("incomplete", "m", "")
    assert not response.HasField("usage")


ERRORS = {
    "no object": ([], {}, "expected a chat completion object, got a list"),
    "error body": ({"error": {"message": "busy"}}, {}, "choices: expected a list of choices, got null"),
    "no choices": ({"choices": []}, {}, "choices: expected a list of choices"),
    "no message": (
        {"choices": [{"message": None}]},
        {},
        r"choices\[0\].message: expected an object, got null",
    ),
    "content": (chat({"content": 5}), {}, r"choices\[0\].message.content: expected a string, got 5"),
    "calls": (chat({"tool_calls": {"a": 1}}), {}, r"tool_calls: expected a list, got an object"),
    "call": (chat({"tool_calls": [5]}), {}, r"tool_calls\[0\]: expected an object, got 5"),
    "function": (chat({"tool_calls": [{"id": "x"}]}), {}, r"tool_calls\[0\].function: expected an object"),
    "name": (chat({"tool_calls": [call("")]}), {}, r"tool_calls\[0\].function.name: expected the name"),
    "reasoning without parser": (
        chat({"reasoning": "a"}),
        {"options": PARSER_OFF},
        "although uses_reasoning_parser is false",
    ),
}


@pytest.mark.parametrize(("completion", "more", "text"), ERRORS.values(), ids=ERRORS)
def test_what_is_no_completion_names_its_place(completion: Any, more: dict[str, Any], text: str) -> None:
    with pytest.raises(ConvertError, match=text):
        response_from_chat(completion, **more)


# ---- token ids and logprobs ----


def logprobs(*ids: int, form: str = "token_id:{}") -> dict[str, Any]:
    return {"content": [{"token": form.format(n), "logprob": -0.5, "bytes": None} for n in ids]}


BUNDLE = {"prompt_token_ids": [1, 2], "generation_token_ids": [3, 4], "generation_log_probs": [-0.5, -0.5]}
SOURCES = {
    "bundle on the message": (chat(BUNDLE), None),
    "bundle beside equal ids": (chat(BUNDLE, prompt_token_ids=[1, 2], token_ids=[3, 4]), [1, 2]),
    "ids of the completion": (chat(prompt_token_ids=[1, 2], token_ids=[3, 4], logprobs=logprobs(3, 4)), None),
    "ids with text in logprobs": (
        chat(prompt_token_ids=[1, 2], token_ids=[3, 4], logprobs=logprobs(3, 4, form="t{}")),
        [1, 2],
    ),
    "ids in logprobs and a call of /tokenize": (chat(logprobs=logprobs(3, 4)), [1, 2]),
}


@pytest.mark.parametrize(("completion", "prompt"), SOURCES.values(), ids=SOURCES)
def test_token_sources(completion: dict[str, Any], prompt: list[int] | None) -> None:
    completion["choices"][0]["message"]["tool_calls"] = [call()]
    response = response_from_chat(completion, options=WITH_TOKENS, prompt_token_ids=prompt)
    assert len(response.output) == 2
    assert not response.output[0].HasField("token_trace")
    trace = response.output[-1].token_trace
    assert (list(trace.prompt_token_ids), list(trace.generation_token_ids)) == ([1, 2], [3, 4])
    assert list(trace.generation_logprobs) == [-0.5, -0.5]
    assert not trace.HasField("routed_experts")


@pytest.mark.parametrize("experts", ["AAEC", [[[0, 1]], [[2, 3]]]])
def test_routed_experts_come_along(experts: Any) -> None:
    for completion in (
        chat({**BUNDLE, "routed_experts": experts}),
        chat(prompt_token_ids=[1], token_ids=[3], logprobs=logprobs(3), routed_experts=experts),
    ):
        response = response_from_chat(completion, options=WITH_TOKENS)
        assert item_to_json(response.output[-1])["routed_experts"] == experts


def test_tokens_are_left_alone_unless_wanted() -> None:
    response = response_from_chat(chat(BUNDLE, prompt_token_ids=[1], token_ids=None))
    assert not response.output[-1].HasField("token_trace")


BROKEN = {
    "nothing": (chat(), None, "returned no logprobs"),
    "partial bundle": (
        chat({"prompt_token_ids": [1]}),
        None,
        r"choices\[0\].message: generation_token_ids and",
    ),
    "uneven bundle": (chat({**BUNDLE, "generation_log_probs": []}), None, "lengths must be equal"),
    "bundle against ids": (
        chat(BUNDLE, prompt_token_ids=[1, 2], token_ids=[9]),
        None,
        "generation_token_ids disagree",
    ),
    "bundle against prompt": (chat(BUNDLE), [7], "prompt_token_ids disagree"),
    "prompt without ids": (
        chat(prompt_token_ids=[1], logprobs=logprobs(3)),
        None,
        "not choices.0..token_ids",
    ),
    "ids without prompt": (chat(token_ids=[3], logprobs=logprobs(3)), [1], "not prompt_token_ids"),
    "ids without logprobs": (chat(prompt_token_ids=[1], token_ids=[3]), None, "returned no logprobs"),
    "ids against logprobs": (
        chat(prompt_token_ids=[1], token_ids=[3], logprobs=logprobs(4)),
        None,
        "token_ids disagree",
    ),
    "fewer logprobs than ids": (
        chat(prompt_token_ids=[1], token_ids=[3, 4], logprobs=logprobs(3, form="t{}")),
        None,
        "2 generation_token_ids but 1 logprobs",
    ),
    "text in logprobs": (chat(logprobs=logprobs(3, form="t{}")), [1], 'of the form "token_id:N"'),
    "no number": (chat(logprobs=logprobs(3, form="token_id:x{}")), [1], 'of the form "token_id:N"'),
    "no prompt": (chat(logprobs=logprobs(3)), None, "none came from /tokenize"),
    "entries": (chat(logprobs={"content": [5]}), [1], "expected objects with token and logprob"),
    "null logprob": (
        chat(logprobs={"content": [{"token": "token_id:1", "logprob": None}]}),
        [1],
        "list of numbers",
    ),
    "kind": (chat(prompt_token_ids="1", token_ids=[1]), None, "prompt_token_ids: expected a list of numbers"),
}


@pytest.mark.parametrize(("completion", "prompt", "text"), BROKEN.values(), ids=BROKEN)
def test_partial_or_disagreeing_tokens_raise(completion: Any, prompt: list[int] | None, text: str) -> None:
    with pytest.raises(ConvertError, match=text):
        response_from_chat(completion, options=WITH_TOKENS, prompt_token_ids=prompt)


def test_several_choices_have_no_tokens() -> None:
    completion = chat(BUNDLE)
    completion["choices"] *= 2
    with pytest.raises(ConvertError, match="n must be 1"):
        response_from_chat(completion, options=WITH_TOKENS)
    assert len(response_from_chat(completion).output) == 1


# ---- usage ----

UNKNOWN = {
    "input_tokens_details": {"cached_tokens": None},
    "output_tokens_details": {"reasoning_tokens": None},
}
USAGES = {
    "counts": (USAGE, {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, **UNKNOWN}),
    "nothing is invented": ({"prompt_tokens": 5, "total_tokens": None}, {"input_tokens": 5, **UNKNOWN}),
    "nested details": (
        {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 4}},
        {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 4}},
    ),
    "aliases": (
        {"prompt_cache_hit_tokens": 2, "reasoning_tokens": 1, "prompt_tokens_details": None},
        {"input_tokens_details": {"cached_tokens": 2}, "output_tokens_details": {"reasoning_tokens": 1}},
    ),
    "odd values are unknown": ({"prompt_tokens": True, "completion_tokens": 1.5}, UNKNOWN),
}


@pytest.mark.parametrize(("given", "expected"), USAGES.values(), ids=USAGES)
def test_usage(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert response_to_json(response_from_chat(chat(usage=given)))["usage"] == expected


def test_unknown_and_known_make_unknown() -> None:
    known = usage_from_json(
        {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 1},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7,
        }
    )
    partly = usage_from_json({"input_tokens": 1, "output_tokens": 0})
    twice = usage_to_json(sum_usage(known, known))
    assert twice["input_tokens"] == 10
    assert twice["input_tokens_details"] == {"cached_tokens": 2}
    assert twice["output_tokens_details"] == {"reasoning_tokens": 0}
    assert usage_to_json(sum_usage(known, partly)) == {"input_tokens": 6, "output_tokens": 2, **UNKNOWN}
    responses = [pb.Response(usage=known), pb.Response()]
    assert usage_to_json(total_usage(responses) or pb.Usage()) == UNKNOWN
    assert total_usage([]) is None
    assert total_usage(responses[:1]) == known


def test_output_text_joins_every_part_of_every_assistant_message() -> None:
    response = pb.Response()
    for role, texts in (("assistant", ["a", "b"]), ("user", ["x"]), ("assistant", ["c"])):
        message = response.output.add().message
        message.role = role
        for text in texts:
            message.content_parts.parts.add().output_text.text = text
    response.output.add().function_call.name = "f"
    response.output.add(message={"role": "assistant", "content_text": "d"})
    assert output_text(response) == "abcd"

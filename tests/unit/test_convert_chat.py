"""Create params to Chat Completions requests, case by case."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import completion_create_params
from pydantic import TypeAdapter

from gymd.convert import ChatOptions, ConvertError, chat_from_params, params_from_json, tokenize_request

KEEP = ChatOptions(preserve_reasoning_in_assistant_content=True)
TOOL = {
    "type": "function",
    "name": "f",
    "description": "does",
    "parameters": {"type": "object"},
    "strict": True,
}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "does", "parameters": {"type": "object"}},
}


def user(text: str = "hi") -> dict[str, Any]:
    return {"role": "user", "content": text}


def thought(*texts: str) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": text} for text in texts],
    }


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}


def call(call_id: str = "c1", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}


def chat_call(call_id: str = "c1", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def result(call_id: str = "c1", output: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def body(options: ChatOptions = ChatOptions(), **params: Any) -> dict[str, Any]:  # noqa: B008 - frozen
    return chat_from_params(params_from_json({"input": [user()], **params}), options)


MESSAGES = {
    "a string is one user message with one text part": (
        {"input": "hi"},
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    ),
    "a message needs no type": ({"input": [user()]}, [user()]),
    "parts become chat parts": (
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "look"},
                        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
                        {"type": "input_video", "video_url": "https://example.org/a.mp4"},
                        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                    ],
                }
            ]
        },
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
                    {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
                    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                ],
            }
        ],
    ),
    "assistant pieces become one message": (
        {
            "input": [
                user(),
                thought("a", "", "b"),
                said("so"),
                call("c1"),
                call("c2"),
                result("c1"),
                result("c2"),
            ]
        },
        [
            user(),
            {
                "role": "assistant",
                "content": "<think>a</think><think>b</think>so",
                "tool_calls": [chat_call("c1"), chat_call("c2")],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "tool", "tool_call_id": "c2", "content": "ok"},
        ],
    ),
    "a call alone has null content": (
        {"input": [call(arguments='{"broken"')]},
        [{"role": "assistant", "content": None, "tool_calls": [chat_call(arguments='{"broken"')]}],
    ),
    "text alone has no tool_calls": (
        {"input": [said("a"), said("b"), user()]},
        [{"role": "assistant", "content": "ab"}, user()],
    ),
    "an empty assistant message is dropped": (
        {"input": [user(), said(""), user("again")]},
        [user(), user("again")],
    ),
    "a refusal stays a refusal": (
        {"input": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]},
        [{"role": "assistant", "content": None, "refusal": "no"}],
    ),
    "instructions join the leading system messages": (
        {
            "instructions": "one",
            "input": [
                {"role": "system", "content": "two"},
                {"role": "developer", "content": [{"type": "input_text", "text": "three"}]},
                user(),
                {"role": "system", "content": "late"},
            ],
        },
        [{"role": "system", "content": "one\n\ntwo\n\nthree"}, user(), {"role": "system", "content": "late"}],
    ),
    "without instructions system messages stay apart": (
        {"input": [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}]},
        [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}],
    ),
    "instructions alone come first": (
        {"instructions": "one", "input": "hi"},
        [{"role": "system", "content": "one"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    ),
    "an image without detail is left to the engine": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "auto"}}],
            }
        ],
    ),
    "a tool result may be a list of texts": (
        {"input": [call(), result(output=[{"type": "input_text", "text": "a"}])]},
        [
            {"role": "assistant", "content": None, "tool_calls": [chat_call()]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
        ],
    ),
    "chat's own form is understood": (
        {
            "input": [
                {"role": "assistant", "content": None, "tool_calls": [chat_call()]},
                {"role": "tool", "tool_call_id": "c1", "content": "ok"},
                {"role": "user", "content": [{"type": "text", "text": "thanks"}]},
            ]
        },
        [
            {"role": "assistant", "content": None, "tool_calls": [chat_call()]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "user", "content": [{"type": "text", "text": "thanks"}]},
        ],
    ),
}


@pytest.mark.parametrize(("params", "messages"), MESSAGES.values(), ids=MESSAGES)
def test_messages(params: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    assert chat_from_params(params_from_json(params), KEEP)["messages"] == messages


HISTORY = [thought("a", "b"), said("so <think>c</think>now"), user()]
REASONING = {
    "the parser takes think tags out": (ChatOptions(), {"content": "so now"}),
    "interleaved reasoning sends the first block in both fields": (
        ChatOptions(uses_interleaved_reasoning=True),
        {"content": "so now", "reasoning_content": "a", "reasoning": "a"},
    ),
    "without a parser the tags stay": (
        ChatOptions(uses_reasoning_parser=False, uses_interleaved_reasoning=True),
        {"content": "<think>a</think><think>b</think>so <think>c</think>now"},
    ),
    "preserving keeps the tags": (
        ChatOptions(uses_interleaved_reasoning=True, preserve_reasoning_in_assistant_content=True),
        {"content": "<think>a</think><think>b</think>so <think>c</think>now"},
    ),
}


@pytest.mark.parametrize(("options", "expected"), REASONING.values(), ids=REASONING)
def test_reasoning_in_the_history(options: ChatOptions, expected: dict[str, Any]) -> None:
    message = body(options, input=HISTORY)["messages"][0]
    assert message == {"role": "assistant", **expected}


def test_developers_may_be_sent_as_system() -> None:
    options = ChatOptions(replace_developer_role_with_system=True)
    messages = body(options, input=[{"role": "developer", "content": "a"}, user()])["messages"]
    assert messages == [{"role": "system", "content": "a"}, user()]


def test_tokens_ride_on_the_assistant_message_they_belong_to() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2, 3], "generation_log_probs": [-0.5, -0.25]}
    history = [user(), said("a"), {**call(), **tokens}, result(), said("b"), user()]
    messages = body(ChatOptions(return_token_id_information=True), input=history)["messages"]
    assert messages[1] == {"role": "assistant", "content": "a", "tool_calls": [chat_call()], **tokens}
    assert "prompt_token_ids" not in messages[3], "tokens of one call must not spread to the next message"
    assert "prompt_token_ids" not in body(input=history)["messages"][1]


FIELDS = {
    "settings": (
        {
            "model": "m",
            "temperature": 0,
            "top_p": 0.5,
            "max_output_tokens": 7,
            "reasoning": {"effort": "low"},
        },
        {"model": "m", "temperature": 0.0, "top_p": 0.5, "max_tokens": 7, "reasoning_effort": "low"},
    ),
    "nothing is invented": ({"temperature": None, "tools": [], "reasoning": {}, "truncation": "auto"}, {}),
    "a tool loses strict": ({"tools": [TOOL]}, {"tools": [CHAT_TOOL]}),
    "a tool without parameters": (
        {"tools": [{"type": "function", "name": "g", "parameters": None}]},
        {"tools": [{"type": "function", "function": {"name": "g"}}]},
    ),
    "a word as tool choice": (
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        {"tools": [CHAT_TOOL], "tool_choice": "required", "parallel_tool_calls": False},
    ),
    "a function as tool choice": (
        {"tools": [TOOL], "tool_choice": {"type": "function", "name": "f"}},
        {"tools": [CHAT_TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    ),
    "no tools, no choice": ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}),
    "a JSON schema": (
        {
            "text": {
                "format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}, "strict": True}
            }
        },
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "object"}, "strict": True},
            }
        },
    ),
    "a JSON object": (
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}},
    ),
    "plain text": ({"text": {"format": {"type": "text"}}}, {}),
    "top_logprobs switches logprobs on": ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
    "unknown settings go along": ({"seed": 7, "n": 1}, {"seed": 7, "n": 1}),
    "metadata for the server is unpacked and never replaces a field": (
        {
            "temperature": 0.5,
            "metadata": {
                "chat_template_kwargs": '{"enable_thinking": false}',
                "extra_body": '{"temperature": 9, "top_k": 5}',
                "label": "x",
            },
        },
        {"temperature": 0.5, "chat_template_kwargs": {"enable_thinking": False}, "top_k": 5},
    ),
    "metadata of a stored completion": (
        {"store": True, "metadata": {"label": "x"}},
        {"store": True, "metadata": {"label": "x"}},
    ),
}


@pytest.mark.parametrize(("params", "expected"), FIELDS.values(), ids=FIELDS)
def test_fields(params: dict[str, Any], expected: dict[str, Any]) -> None:
    got = body(**params)
    assert got.pop("messages") == [user()]
    assert got == expected


def test_token_ids_are_asked_for() -> None:
    got = body(ChatOptions(return_token_id_information=True), top_logprobs=5)
    assert (got["logprobs"], got["top_logprobs"], got["return_tokens_as_token_ids"]) == (True, 0, True)
    assert "return_token_ids" not in got
    assert (
        body(ChatOptions(return_token_id_information=True, return_token_ids=True))["return_token_ids"] is True
    )


def test_the_tokenize_request_repeats_what_shapes_the_prompt() -> None:
    got = tokenize_request(body(model="m", tools=[TOOL], temperature=1.0, required_prefix_token_ids=[1]))
    assert got == {
        "model": "m",
        "messages": [user()],
        "tools": [CHAT_TOOL],
        "required_prefix_token_ids": [1],
    }


ERRORS = {
    "unknown item": ({"input": [user(), {"type": "dream"}]}, r"input\[1\]: .* item of type 'dream'"),
    "known item": (
        {"input": [{"type": "compaction", "encrypted_content": "x"}]},
        r"item of type 'compaction'",
    ),
    "no item at all": ({"input": [7]}, r"input\[0\]: .* type 'unknown'"),
    "role": ({"input": [{"role": "critic", "content": "x"}]}, r"input\[0\].role: .* no role 'critic'"),
    "content": (
        {"input": [{"role": "user", "content": 5}]},
        r"input\[0\].content: expected a string .*, got 5",
    ),
    "input": ({"input": 5}, r"input: expected a string or a list of items, got 5"),
    "part": (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        r"input\[0\].content\[0\]: .* content part of type 'input_file'",
    ),
    "image by id": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f", "detail": "low"}]}]},
        r"input\[0\].content\[0\]: .* image_url only",
    ),
    "video": (
        {"input": [{"role": "user", "content": [{"type": "input_video"}]}]},
        r"input\[0\].content\[0\]: needs exactly one of",
    ),
    "tool result": (
        {"input": [result(output=[{"type": "input_image", "image_url": "x", "detail": "low"}])]},
        r"input\[0\].output\[0\]: .* only hold input_text .*, got input_image",
    ),
    "tool": ({"tools": [TOOL, {"type": "web_search"}]}, r"tools\[1\]: .* tool of type 'web_search'"),
    "tool choice": ({"tools": [TOOL], "tool_choice": {"type": "shell"}}, r"tool_choice: .* type 'shell'"),
    "required without tools": (
        {"tool_choice": "required"},
        r"tool_choice: 'required' needs at least one tool",
    ),
    "a function without tools": (
        {"tool_choice": {"type": "function", "name": "f"}},
        r"tool_choice: 'function' needs at least one tool",
    ),
    "conversation": ({"conversation": {"id": "c"}}, r"conversation: .* keeps no state"),
    "state": ({"previous_response_id": "r"}, r"previous_response_id: .* keeps no state"),
    "misfit": ({"temperature": "hot"}, r'temperature: cannot be used as it is: a string "hot"'),
    "n": ({"n": 2}, r"n: must be 1, got 2"),
    "metadata": ({"metadata": {"extra_body": "{"}}, r"metadata.extra_body: is not JSON"),
    "metadata kind": (
        {"metadata": {"chat_template_kwargs": "[]"}},
        r"chat_template_kwargs: expected a JSON object",
    ),
    "format": ({"text": {"format": {"type": "yaml"}}}, r"text.format: unknown format 'yaml'"),
}


@pytest.mark.parametrize(("params", "text"), ERRORS.values(), ids=ERRORS)
def test_what_chat_cannot_express_names_its_place(params: dict[str, Any], text: str) -> None:
    with pytest.raises(ConvertError, match=text):
        body(**params)


def test_openai_accepts_the_request() -> None:
    got = body(
        input=[user(), thought("a"), said("b"), call(), result()],
        tools=[TOOL],
        tool_choice="auto",
        temperature=1,
    )
    TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming).validate_python(
        {"model": "m", **got}
    )

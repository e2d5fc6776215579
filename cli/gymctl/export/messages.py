"""A stored rollout as a conversation of chat messages, the form in which trainers take them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymapi.v1.responses_pb2 import ResponseCreateParams
from gymd.convert import (
    ChatOptions,
    ConvertError,
    chat_from_params,
    params_from_json,
    response_from_json,
    split_think,
)

__all__ = ["Conversation", "Unusable", "converse"]

# Reasoning comes inside the content, in think tags, and is taken out from there: nothing is lost on the way.
_REASONING_INSIDE = ChatOptions(uses_reasoning_parser=False)


class Unusable(ValueError):
    """A rollout that cannot become training data; the text says why, without what only this one has."""


@dataclass(frozen=True)
class Conversation:
    """What was said in one rollout."""

    prompt: list[dict[str, Any]]
    """The messages that the policy was given."""
    completion: list[dict[str, Any]]
    """What followed: messages of the policy, and the results of its calls."""
    tools: list[Any]
    """The tools that were offered, in chat form."""


def converse(line: Mapping[str, Any], *, reasoning: bool = False, as_text: bool = False) -> Conversation:
    """The conversation of a line that `gymctl rollouts collect` wrote.

    Args:
        line: the line's object.
        reasoning: keep reasoning, as `reasoning_content` of the messages; else it is left out.
        as_text: arguments of calls stay the text that the model wrote, and tools become JSON texts.

    Raises:
        Unusable: chat messages cannot express it.
    """
    params, both = _params(line)
    try:
        prompt = chat_from_params(params, _REASONING_INSIDE)["messages"]
        request = chat_from_params(both, _REASONING_INSIDE)
    except ConvertError as problem:
        raise Unusable(f"no chat form: {problem}") from None
    everything = request["messages"]
    if everything[: len(prompt)] != prompt:
        raise Unusable("the prompt ends with words of the policy")
    if len(everything) == len(prompt):
        raise Unusable("the policy said nothing")
    tools = request.get("tools", [])
    names: dict[str, str] = {}
    mended = [_mend(message, names, reasoning=reasoning, as_text=as_text) for message in everything]
    _require_order(mended)
    if as_text:
        tools = [json.dumps(tool, ensure_ascii=False) for tool in tools]
    return Conversation(mended[: len(prompt)], mended[len(prompt) :], tools)


def _params(line: Mapping[str, Any]) -> tuple[ResponseCreateParams, ResponseCreateParams]:
    """What the policy was asked, and the same with its answer behind the input."""
    given, response = line.get("responses_create_params"), line.get("response")
    if not isinstance(given, dict):
        raise Unusable("the line has no responses_create_params")
    if not isinstance(response, dict):
        raise Unusable("the line has no response")
    # What else a row asks for, such as a format of the answer, is no part of the conversation.
    kept = {key: given[key] for key in ("input", "instructions", "tools") if key in given}
    try:
        params, answer = params_from_json(kept), response_from_json(response)
    except ConvertError as problem:
        raise Unusable(f"no Responses API: {problem}") from None
    both = ResponseCreateParams()
    both.CopyFrom(params)
    if params.WhichOneof("input") == "input_text":
        both.input_items.items.add().message.role = "user"
        both.input_items.items[0].message.content_text = params.input_text
        params.input_items.CopyFrom(both.input_items)
    both.input_items.items.extend(answer.output)
    return params, both


def _mend(
    message: dict[str, Any], names: dict[str, str], *, reasoning: bool, as_text: bool
) -> dict[str, Any]:
    """One message in the form that chat templates read."""
    content = _plain(message["role"], message.get("content"))
    mended: dict[str, Any] = {"role": message["role"], "content": content}
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        mended |= {"tool_call_id": call_id}
        if call_id in names:
            mended["name"] = names[call_id]
    elif message["role"] == "assistant":
        blocks, text = split_think(content)
        mended["content"] = text.lstrip("\n") if blocks else text
        if reasoning and any(blocks):
            mended["reasoning_content"] = "\n\n".join(block.strip("\n") for block in blocks if block)
        if not text and message.get("refusal"):
            mended["content"] = message["refusal"]
        if calls := message.get("tool_calls"):
            mended["tool_calls"] = [_call(call, names, as_text=as_text) for call in calls]
    return mended


def _plain(role: str, content: Any) -> str:
    """The content as one text, so that all rows of a dataset have the same type."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if any(part.get("type") != "text" for part in content):
        raise Unusable(f"a message of the {role} holds more than text")
    return "".join(part["text"] for part in content)


def _call(call: Mapping[str, Any], names: dict[str, str], *, as_text: bool) -> dict[str, Any]:
    function = call["function"]
    arguments: Any = function["arguments"]
    if not as_text and isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise Unusable("the arguments of a call are no JSON object (--tool-json text keeps them)")
    names[call["id"]] = function["name"]
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _require_order(messages: list[dict[str, Any]]) -> None:
    """Every result belongs to a call just before it, and only the last calls may be without results."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise Unusable("a tool result belongs to no call before it")
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            raise Unusable("a call has no result, and the conversation goes on")
        open_calls = {call["id"] for call in message.get("tool_calls", ())}
        if len(open_calls) != len(message.get("tool_calls", ())):
            raise Unusable("two calls of a message have the same id")

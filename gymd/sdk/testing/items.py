"""Builds what a test needs by hand: items, responses, tasks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gymapi.v1.responses_pb2 import Item, Response, ResponseCreateParams
from gymapi.v1.rollout_pb2 import Task
from gymd.convert import dumps, params_from_json

__all__ = [
    "function_call",
    "make_params",
    "make_response",
    "make_task",
    "message",
    "reasoning",
    "tool_output",
]

_numbers = itertools.count(1)


def message(text: str) -> Item:
    """An assistant message."""
    item = Item()
    item.message.id = f"msg_{next(_numbers)}"
    item.message.role = "assistant"
    item.message.status = "completed"
    item.message.content_parts.parts.add().output_text.text = text
    return item


def reasoning(text: str) -> Item:
    """What a model thought."""
    item = Item()
    item.reasoning.id = f"rs_{next(_numbers)}"
    item.reasoning.summary.add().summary_text.text = text
    return item


def function_call(name: str, arguments: Mapping[str, Any] | str = "{}", call_id: str = "") -> Item:
    """A call of a tool; arguments as a dict, or as the text that a model wrote."""
    number = next(_numbers)
    item = Item()
    call = item.function_call
    call.id = f"fc_{number}"
    call.call_id = call_id or f"call_{number}"
    call.name = name
    call.arguments_json = arguments if isinstance(arguments, str) else dumps(dict(arguments)).decode()
    return item


def tool_output(call_id: str, output: str) -> Item:
    """What a tool answered."""
    item = Item()
    item.function_call_output.call_id = call_id
    item.function_call_output.output_text = output
    return item


def make_response(
    *items: Item | str,
    usage: tuple[int, int] | None = (10, 5),
    incomplete: str = "",
    tokens: tuple[Sequence[int], Sequence[int]] | None = None,
) -> Response:
    """A response of a model.

    Args:
        items: its output; a str is an assistant message.
        usage: input and output tokens; None: unknown.
        incomplete: reason why it is incomplete, such as max_output_tokens.
        tokens: ids of the prompt and of what was generated; logprobs are made up.
    """
    response = Response(
        id=f"resp_{next(_numbers)}",
        created_at=time.time(),
        model="fake",
        status="incomplete" if incomplete else "completed",
        output=[message(item) if isinstance(item, str) else item for item in items],
    )
    if usage is not None:
        response.usage.input_tokens, response.usage.output_tokens = usage
        response.usage.total_tokens = sum(usage)
    if incomplete:
        response.incomplete_details.reason = incomplete
    if tokens is not None:
        trace = response.output[-1].token_trace
        trace.prompt_token_ids.extend(tokens[0])
        trace.generation_token_ids.extend(tokens[1])
        trace.generation_logprobs.extend(-0.25 for _ in tokens[1])
    return response


def make_params(params: Mapping[str, Any] | str) -> ResponseCreateParams:
    """Create params from their OpenAI JSON; a str is one user message."""
    return params_from_json({"input": params} if isinstance(params, str) else dict(params))


def make_task(row: Mapping[str, Any], agent: str = "") -> Task:
    """The task of a dataset row: `responses_create_params`, perhaps `agent_ref`, and its own keys."""
    fields = dict(row)
    params = fields.pop("responses_create_params", {"input": ""})
    reference = fields.pop("agent_ref", None) or {}
    return Task(
        agent=reference.get("name", agent),
        create_params=make_params(params),
        fields_json=dumps(fields).decode() if fields else "",
    )

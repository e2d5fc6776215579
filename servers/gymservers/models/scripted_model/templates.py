"""Builds the responses of a script, once for each form; calls get copies with their own ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from gymapi.v1.responses_pb2 import FunctionTool, Item, Response
from gymd.convert import response_from_json, usage_from_json
from gymd.errors import error
from gymservers.models.scripted_model.request import Request
from gymservers.models.scripted_model.script import Answer, Call, Size, fill_in, fill_values
from gymservers.models.scripted_model.synth import synthesise

__all__ = ["build_response", "name_response"]

MODEL = "scripted"
_CREATED_AT = 1_700_000_000.0
# Ids of a made-up vocabulary: a fixed walk, so that a longer prompt begins with every shorter one.
_STEP = 2_654_435_761
_VOCABULARY = 50_000
_FIRST_ID = 100
_LOGPROB = -0.5
_FILLER = " etc"


def build_response(
    answer: Answer, request: Request, size: Size, with_tokens: bool, groups: Sequence[Any]
) -> Response:
    """The response for an answer; `groups` are those of the rule's regular expression."""
    if answer.response is not None:
        return response_from_json(answer.response)
    turn = request.turn
    values = {"turn": str(turn), "rollout_id": request.rollout_id, "user_text": request.user_text}
    values |= {str(number): group or "" for number, group in enumerate(groups, start=1)}
    response = Response(
        created_at=_CREATED_AT,
        model=MODEL,
        status="incomplete" if answer.incomplete else "completed",
        output=_items(answer, request, values, size),
        parallel_tool_calls=True,
        tool_choice={"mode": "auto"},
    )
    if answer.incomplete:
        response.incomplete_details.reason = answer.incomplete
    prompt, generated = size.prompt, size.generated
    if answer.usage is not None:
        response.usage.CopyFrom(usage_from_json(answer.usage))
    else:
        usage = response.usage
        usage.input_tokens, usage.output_tokens = prompt, generated
        usage.total_tokens = prompt + generated
        usage.input_tokens_details.cached_tokens = 0
        usage.output_tokens_details.reasoning_tokens = 0
    if with_tokens and response.output:
        trace = response.output[-1].token_trace
        ids = [_FIRST_ID + number * _STEP % _VOCABULARY for number in range(prompt + generated)]
        trace.prompt_token_ids.extend(ids[:prompt])
        trace.generation_token_ids.extend(ids[prompt:])
        trace.generation_logprobs.extend([_LOGPROB] * generated)
    return response


def name_response(prepared: Response, who: object, turn: int) -> Response:
    """A copy with ids that follow from rollout and turn: the same for the same call, and for no other."""
    response = Response()
    response.MergeFrom(prepared)  # not CopyFrom, which copies token ids one by one
    name = f"{who}_{turn}"
    response.id = f"resp_{name}"
    for number, item in enumerate(response.output):
        kind = item.WhichOneof("kind")
        if kind == "function_call":
            item.function_call.id = f"fc_{name}_{number}"
            item.function_call.call_id = f"call_{name}_{number}"
        elif kind == "message":
            item.message.id = f"msg_{name}_{number}"
        elif kind == "reasoning":
            item.reasoning.id = f"rs_{name}_{number}"
    return response


def _items(answer: Answer, request: Request, values: dict[str, str], size: Size) -> list[Item]:
    items = []
    if answer.reasoning is not None:
        summary = [{"summary_text": {"text": fill_in(answer.reasoning, values)}}]
        items.append(Item(reasoning={"summary": summary}))
    if answer.text is not None:
        text = fill_in(answer.text, values)
        if size.filler:
            text += (_FILLER * size.generated)[: max(0, 4 * size.generated - len(text))]
        parts = {"parts": [{"output_text": {"text": text}}]}
        message = {"role": "assistant", "status": "completed", "content_parts": parts}
        items.append(Item(message=message))
    for call in answer.all_calls:
        name, arguments = _call(call, request, values)
        items.append(Item(function_call={"name": name, "arguments_json": arguments, "status": "completed"}))
    return items


def _call(call: Call, request: Request, values: dict[str, str]) -> tuple[str, str]:
    if isinstance(call.arguments, str):
        arguments = fill_in(call.arguments, values)
    elif call.arguments is not None:
        arguments = orjson.dumps(fill_values(call.arguments, values)).decode()
    else:
        return (tool := _tool(call.name, request)).name, _made_up(tool)
    return call.name or _tool("", request).name, arguments


def _tool(name: str, request: Request) -> FunctionTool:
    tools = request.tools
    found = next((tool for tool in tools if not name or tool.name == name), None)
    if found is None:
        offered = ", ".join(tool.name for tool in tools) or "none"
        text = f"the script calls the tool {name or '(first)'!r}, but the task offers: {offered}"
        raise error("INVALID_REQUEST", text, tool=name, offered=offered)
    return found


def _made_up(tool: FunctionTool) -> str:
    schema = orjson.loads(tool.parameters_json) if tool.parameters_json else {}
    arguments = synthesise(schema)
    return orjson.dumps(arguments if isinstance(arguments, dict) else {}).decode()

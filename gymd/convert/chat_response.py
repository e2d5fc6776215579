"""A chat completion to a Response, by NeMo Gym's rules.

The items come in the order reasoning, message, function calls. Token ids and logprobs go on the last one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from gymapi.v1 import responses_pb2 as pb
from gymd.convert._errors import ConvertError
from gymd.convert._json import dumps, kind_of
from gymd.convert.options import ChatOptions
from gymd.convert.reasoning import fold_reasoning_fields, split_think
from gymd.convert.tokens import trace_from_chat
from gymd.convert.usage import usage_from_chat

__all__ = ["empty_completion", "items_from_chat_message", "response_from_chat"]

_DEFAULT = ChatOptions()
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ECHOED: tuple[str, ...] = (
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "max_output_tokens",
    "max_tool_calls",
    "top_logprobs",
    "service_tier",
    "user",
)


def response_from_chat(
    chat: dict[str, Any],
    params: pb.ResponseCreateParams | None = None,
    options: ChatOptions = _DEFAULT,
    *,
    prompt_token_ids: Sequence[int] | None = None,
) -> pb.Response:
    """Builds the Response for choice 0 of a chat completion; raises ConvertError if that cannot be done.

    `params` is the request, some of whose settings a Response repeats. `prompt_token_ids` are the ids from a
    separate call of /tokenize, for engines that report token ids only inside logprobs.
    """
    choice = _first_choice(chat, options)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ConvertError(f"expected an object, got {kind_of(message)}", "choices[0].message")
    response = pb.Response(
        id=f"resp_{uuid.uuid4().hex}",
        created_at=float(int(time.time())),
        status="completed",
        output=items_from_chat_message(message, options),
    )
    response.json_form.integer_fields.append(pb.Response.CREATED_AT_FIELD_NUMBER)
    reason = _INCOMPLETE.get(choice.get("finish_reason") or "")
    if reason is not None:
        response.status = "incomplete"
        response.incomplete_details.reason = reason
    if options.return_token_id_information:
        # Not CopyFrom: that copies packed fields number by number, which takes 20 times as long.
        response.output[-1].token_trace.MergeFrom(trace_from_chat(chat, choice, message, prompt_token_ids))
    if (usage := usage_from_chat(chat.get("usage"))) is not None:
        response.usage.CopyFrom(usage)
    _echo(params, chat, options, response)
    return response


def items_from_chat_message(message: dict[str, Any], options: ChatOptions = _DEFAULT) -> list[pb.Item]:
    """The items that an assistant message in chat form stands for, at least one."""
    content = fold_reasoning_fields(message, _text(message.get("content")), options)
    items: list[pb.Item] = []
    if options.uses_reasoning_parser:
        blocks, content = split_think(content)
        if blocks:
            summary = [{"summary_text": {"text": block}} for block in blocks]
            items.append(pb.Item(reasoning={"id": f"rs_{uuid.uuid4().hex}", "summary": summary}))
    calls = message.get("tool_calls") or []
    refusal = message.get("refusal")
    parts: list[dict[str, Any]] = []
    if content:
        parts.append({"output_text": {"text": content}})
    if isinstance(refusal, str) and refusal:
        parts.append({"refusal": {"refusal": refusal}})
    if not (parts or calls or items):
        parts.append({"output_text": {}})
    if parts:
        answer = {
            "id": f"msg_{uuid.uuid4().hex}",
            "role": "assistant",
            "status": "completed",
            "content_parts": {"parts": parts},
        }
        items.append(pb.Item(message=answer))
    if not isinstance(calls, list):
        raise ConvertError(f"expected a list, got {kind_of(calls)}", "choices[0].message.tool_calls")
    for index, call in enumerate(calls):
        try:
            items.append(_call_item(call))
        except ConvertError as error:
            raise error.under(f"choices[0].message.tool_calls[{index}]") from None
    return items


def empty_completion(finish_reason: str, model: str = "") -> dict[str, Any]:
    """A chat completion that says nothing: what stands for an answer that the endpoint could not begin.

    `length` for a prompt that fills the context window, `content_filter` for a turn that was cut short.
    """
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None},
                "finish_reason": finish_reason,
            }
        ],
    }


def _first_choice(chat: Any, options: ChatOptions) -> dict[str, Any]:
    if not isinstance(chat, dict):
        raise ConvertError(f"expected a chat completion object, got {kind_of(chat)}")
    choices = chat.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ConvertError(f"expected a list of choices, got {kind_of(choices)}", "choices")
    if len(choices) > 1 and options.return_token_id_information:
        raise ConvertError(f"n must be 1 when token ids are wanted, got {len(choices)} choices", "choices")
    return choices[0]


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    raise ConvertError(f"expected a string, got {kind_of(content)}", "choices[0].message.content")


def _call_item(call: Any) -> pb.Item:
    if not isinstance(call, dict):
        raise ConvertError(f"expected an object, got {kind_of(call)}")
    call_id = call.get("id") or f"call_{uuid.uuid4().hex}"
    if not isinstance(call_id, str):
        raise ConvertError(f"expected a string, got {kind_of(call_id)}", "id")
    custom = call.get("custom")
    if call.get("type") == "custom" and isinstance(custom, dict):
        arguments = {
            "call_id": call_id,
            "id": call_id,
            "name": _name(custom),
            "input": custom.get("input") or "",
        }
        return pb.Item(custom_tool_call=arguments)
    function = call.get("function")
    if not isinstance(function, dict):
        raise ConvertError(f"expected an object, got {kind_of(function)}", "function")
    text = function.get("arguments")
    if not isinstance(text, str):
        # Some engines send the arguments as an object, or none at all for a tool without parameters.
        text = "{}" if text is None else dumps(text).decode()
    return pb.Item(
        function_call={
            "call_id": call_id,
            "name": _name(function),
            "arguments_json": text,
            "id": call_id,
            "status": "completed",
        }
    )


def _name(tool: dict[str, Any]) -> str:
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise ConvertError(f"expected the name of a tool, got {kind_of(name)}", "function.name")
    return name


def _echo(
    params: pb.ResponseCreateParams | None, chat: dict[str, Any], options: ChatOptions, response: pb.Response
) -> None:
    """Repeats the settings of the request, as a Response does."""
    model = chat.get("model")
    response.model = model if isinstance(model, str) else ""
    response.parallel_tool_calls = True
    response.tool_choice.mode = "auto"
    if params is None:
        return
    if not response.model:
        response.model = params.model
    for name in _ECHOED:
        if params.HasField(name):
            setattr(response, name, getattr(params, name))
    if params.HasField("tool_choice"):
        response.tool_choice.CopyFrom(params.tool_choice)
    if params.HasField("reasoning"):
        response.reasoning.CopyFrom(params.reasoning)
    if params.HasField("text"):
        response.text.CopyFrom(params.text)
    if options.echo_tools:
        response.tools.MergeFrom(params.tools)
        response.metadata.update(params.metadata)
        if params.HasField("instructions"):
            response.instructions_text = params.instructions

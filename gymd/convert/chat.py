"""Create params to a Chat Completions request, by NeMo Gym's rules.

Neighbouring assistant pieces (reasoning, text, calls) are buffered and become one assistant message, and
`instructions` and the leading system messages one system message. What chat cannot say raises ConvertError.
"""

from __future__ import annotations

from typing import Any

from gymapi.v1 import responses_pb2 as pb
from gymd.convert._errors import ConvertError
from gymd.convert._json import kind_of, load_text, loads
from gymd.convert._schema import descriptor, object_key
from gymd.convert.options import ChatOptions
from gymd.convert.reasoning import move_reasoning_out, wrap_think
from gymd.convert.text import message_text
from gymd.convert.tokens import token_keys

__all__ = ["chat_from_params", "chat_messages", "tokenize_request"]

_SAME_NAME: tuple[str, ...] = (
    "model",
    "temperature",
    "top_p",
    "store",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
# State that only the provider of the Responses API has: by field, the JSON key.
_STATEFUL = {
    "previous_response_id": "previous_response_id",
    "prompt": "prompt",
    "conversation_id": "conversation",
    "conversation_object": "conversation",
}
# Metadata that is meant for the model server: JSON texts of request fields.
_TEMPLATE_KWARGS = "chat_template_kwargs"
_EXTRA_BODY = "extra_body"
_TOKENIZE_KEYS: tuple[str, ...] = (
    "model",
    "messages",
    "tools",
    "chat_template_kwargs",
    "mm_processor_kwargs",
    "required_prefix_token_ids",
)
_DEFAULT = ChatOptions()
_PARAMS = frozenset(object_key(field) for field in descriptor(pb.ResponseCreateParams).fields)


def chat_from_params(params: pb.ResponseCreateParams, options: ChatOptions = _DEFAULT) -> dict[str, Any]:
    """Builds the body of POST /v1/chat/completions; raises ConvertError for what chat cannot express."""
    for name, key in _STATEFUL.items():
        if params.HasField(name):
            raise ConvertError("a chat endpoint keeps no state and cannot follow it", key)
    body: dict[str, Any] = {"messages": chat_messages(params, options)}
    for name in _SAME_NAME:
        if params.HasField(name):
            body[name] = getattr(params, name)
    if params.HasField("max_output_tokens"):
        body["max_tokens"] = params.max_output_tokens
    if params.reasoning.HasField("effort"):
        body["reasoning_effort"] = params.reasoning.effort
    if params.HasField("text"):
        _set_text_format(params.text, body)
    _set_tools(params, body)
    _set_logprobs(params, options, body)
    _set_extras(params, body)
    return body


def tokenize_request(body: dict[str, Any]) -> dict[str, Any]:
    """The body of vLLM's /tokenize for the prompt of a chat request."""
    return {key: body[key] for key in _TOKENIZE_KEYS if key in body}


def chat_messages(params: pb.ResponseCreateParams, options: ChatOptions = _DEFAULT) -> list[dict[str, Any]]:
    """The messages of a chat request for the input and instructions of create params."""
    given = params.WhichOneof("input")
    if given == "input_text":
        text = [{"type": "text", "text": params.input_text}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    else:
        if given is None and "input" in (extras := _extras(params)):
            raise ConvertError(
                f"expected a string or a list of items, got {kind_of(extras['input'])}", "input"
            )
        history = _History(options)
        for index, item in enumerate(params.input_items.items):
            try:
                history.add(item)
            except ConvertError as error:
                raise error.under(f"input[{index}]") from None
        history.flush()
        messages = history.messages
    if params.instructions:
        messages = _merge_instructions(params.instructions, messages)
    return messages


class _History:
    """Collects chat messages; assistant pieces wait in buffers until another role speaks."""

    def __init__(self, options: ChatOptions) -> None:
        self.options = options
        self.messages: list[dict[str, Any]] = []
        self.clear()

    def clear(self) -> None:
        self.content = ""
        self.refusal = ""
        self.tool_calls: list[dict[str, Any]] = []
        self.trace: pb.TokenTrace | None = None

    def flush(self) -> None:
        """Turns the buffered pieces, if any, into one assistant message."""
        if not (self.content or self.tool_calls or self.refusal):
            # An empty assistant message is dropped, and with it the tokens that would have ridden on it.
            self.trace = None
            return
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None}
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        if self.refusal:
            message["refusal"] = self.refusal
        move_reasoning_out(message, self.options)
        if self.trace is not None:
            message.update(token_keys(self.trace))
        self.messages.append(message)
        self.clear()

    def add(self, item: pb.Item) -> None:
        """Adds one item."""
        kind = item.WhichOneof("kind")
        if kind == "message":
            self.add_message(item.message)
        elif kind == "function_call":
            call = item.function_call
            function = {"name": call.name, "arguments": call.arguments_json}
            self.tool_calls.append({"id": call.call_id, "type": "function", "function": function})
        elif kind == "function_call_output":
            self.flush()
            self.add_output(item.function_call_output)
        elif kind == "reasoning":
            self.content += wrap_think([part.summary_text.text for part in item.reasoning.summary])
        else:
            name = item.unknown.type or "unknown" if kind == "unknown" else kind
            raise ConvertError(f"chat completions cannot express an item of type {name!r}")
        if item.HasField("token_trace") and self.options.return_token_id_information:
            self.trace = item.token_trace

    def add_message(self, message: pb.MessageItem) -> None:
        """Adds a message of any role; accepts messages in chat's own form too."""
        role = message.role
        extras = _extras(message)
        if "content" in extras:
            raise ConvertError(
                f"expected a string or a list of parts, got {kind_of(extras['content'])}", "content"
            )
        if role == "assistant":
            self.content += message_text(message)
            self.refusal += "".join(part.refusal.refusal for part in message.content_parts.parts)
            self.tool_calls.extend(extras.get("tool_calls") or [])
        elif role in ("user", "system", "developer"):
            self.flush()
            if role == "developer" and self.options.replace_developer_role_with_system:
                role = "system"
            self.messages.append({"role": role, "content": _content(message)})
        elif role == "tool":
            self.flush()
            call_id = extras.get("tool_call_id", "")
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": _content(message)})
        else:
            raise ConvertError(f"chat completions have no role {role!r}", "role")

    def add_output(self, output: pb.FunctionCallOutput) -> None:
        """Adds the result of a call."""
        content: Any = output.output_text
        if output.WhichOneof("output") == "output_parts":
            content = []
            for index, part in enumerate(output.output_parts.parts):
                if (kind := part.WhichOneof("kind")) != "input_text":
                    raise ConvertError(
                        f"a tool result may only hold input_text for chat completions, got {kind}",
                        f"output[{index}]",
                    )
                content.append({"type": "text", "text": part.input_text.text})
        elif "output" in (extras := _extras(output)):
            raise ConvertError(
                f"expected a string or a list of parts, got {kind_of(extras['output'])}", "output"
            )
        self.messages.append({"role": "tool", "tool_call_id": output.call_id, "content": content})


def _content(message: pb.MessageItem) -> Any:
    """The content of a user, system or tool message."""
    if message.WhichOneof("content") != "content_parts":
        return message.content_text
    parts = []
    for index, part in enumerate(message.content_parts.parts):
        try:
            parts.append(_chat_part(part))
        except ConvertError as error:
            raise error.under(f"content[{index}]") from None
    return parts


def _chat_part(part: pb.ContentPart) -> dict[str, Any]:
    kind = part.WhichOneof("kind")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": getattr(part, kind).text}
    if kind == "input_image":
        image = part.input_image
        if not image.HasField("image_url"):
            raise ConvertError("chat completions take images by image_url only")
        return {"type": "image_url", "image_url": {"url": image.image_url, "detail": image.detail or "auto"}}
    if kind == "input_video":
        video = part.input_video
        if video.HasField("video_url") == video.HasField("video"):
            raise ConvertError("needs exactly one of video_url and video")
        return {"type": "video_url", "video_url": {"url": video.video_url or video.video}}
    if kind == "input_audio":
        audio = part.input_audio.input_audio
        return {"type": "input_audio", "input_audio": {"data": audio.data, "format": audio.format}}
    if kind == "unknown":
        raw = load_text(part.unknown.raw_json)
        # Parts in chat's own form pass.
        if part.unknown.type in ("text", "image_url", "video_url"):
            return raw
        kind = part.unknown.type or kind_of(raw)
    raise ConvertError(f"chat completions cannot express a content part of type {kind!r}")


def _merge_instructions(instructions: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One system message in front, of the instructions and the leading system and developer messages."""
    texts = [instructions]
    rest = 0
    while rest < len(messages) and messages[rest]["role"] in ("system", "developer"):
        content = messages[rest]["content"]
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        texts.append(content)
        rest += 1
    system = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [system, *messages[rest:]]


def _set_tools(params: pb.ResponseCreateParams, body: dict[str, Any]) -> None:
    choice = params.tool_choice.WhichOneof("kind") if params.HasField("tool_choice") else None
    if not params.tools:
        # Without tools a choice among them is dropped, unless it demands one.
        if choice is not None and params.tool_choice.mode not in ("auto", "none"):
            wanted = params.tool_choice.mode or choice
            raise ConvertError(f"{wanted!r} needs at least one tool", "tool_choice")
        return
    body["tools"] = [_chat_tool(tool, index) for index, tool in enumerate(params.tools)]
    if choice == "mode":
        body["tool_choice"] = params.tool_choice.mode
    elif choice == "function":
        body["tool_choice"] = {"type": "function", "function": {"name": params.tool_choice.function.name}}
    elif choice is not None:
        name = params.tool_choice.unknown.type if choice == "unknown" else choice
        raise ConvertError(f"chat completions cannot express a tool choice of type {name!r}", "tool_choice")
    if params.HasField("parallel_tool_calls"):
        body["parallel_tool_calls"] = params.parallel_tool_calls


def _chat_tool(tool: pb.Tool, index: int) -> dict[str, Any]:
    kind = tool.WhichOneof("kind")
    if kind != "function":
        name = tool.unknown.type if kind == "unknown" else kind
        raise ConvertError(f"chat completions cannot express a tool of type {name!r}", f"tools[{index}]")
    function: dict[str, Any] = {"name": tool.function.name}
    if tool.function.HasField("description"):
        function["description"] = tool.function.description
    if tool.function.HasField("parameters_json"):
        function["parameters"] = load_text(tool.function.parameters_json)
    return {"type": "function", "function": function}


def _set_text_format(text: pb.TextConfig, body: dict[str, Any]) -> None:
    kind = text.format.WhichOneof("kind")
    if kind == "json_schema":
        wanted = text.format.json_schema
        schema: dict[str, Any] = {"name": wanted.name}
        if wanted.HasField("schema_json"):
            schema["schema"] = load_text(wanted.schema_json)
        for name in ("description", "strict"):
            if wanted.HasField(name):
                schema[name] = getattr(wanted, name)
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind == "json_object":
        body["response_format"] = {"type": "json_object"}
    elif kind == "unknown":
        raise ConvertError(f"unknown format {text.format.unknown.type!r}", "text.format")
    if text.HasField("verbosity"):
        body["verbosity"] = text.verbosity


def _set_logprobs(params: pb.ResponseCreateParams, options: ChatOptions, body: dict[str, Any]) -> None:
    if options.return_token_id_information:
        body["logprobs"] = True
        body["top_logprobs"] = 0
        body["return_tokens_as_token_ids"] = True
        if options.return_token_ids:
            body["return_token_ids"] = True
    elif params.HasField("top_logprobs"):
        body["logprobs"] = True
        body["top_logprobs"] = params.top_logprobs


def _set_extras(params: pb.ResponseCreateParams, body: dict[str, Any]) -> None:
    """Adds the fields that the contract does not know, and those that the metadata carries.

    They never replace a field that is set already.
    """
    for key, value in _extras(params).items():
        if key in _PARAMS:
            raise ConvertError(f"cannot be used as it is: {kind_of(value)}", key)
        if key == "n" and value not in (1, None):
            raise ConvertError(f"must be 1, got {kind_of(value)}", "n")
        body.setdefault(key, value)
    metadata = dict(params.metadata)
    if text := metadata.pop(_TEMPLATE_KWARGS, ""):
        body.setdefault(_TEMPLATE_KWARGS, _metadata_object(_TEMPLATE_KWARGS, text))
    if text := metadata.pop(_EXTRA_BODY, ""):
        for key, value in _metadata_object(_EXTRA_BODY, text).items():
            body.setdefault(key, value)
    if metadata and params.store:
        # Endpoints refuse metadata on completions that they do not store.
        body["metadata"] = metadata


def _metadata_object(key: str, text: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except ValueError as error:
        raise ConvertError(f"is not JSON: {error}", f"metadata.{key}") from None
    if not isinstance(value, dict):
        raise ConvertError(f"expected a JSON object, got {kind_of(value)}", f"metadata.{key}")
    return value


def _extras(message: Any) -> dict[str, Any]:
    if message.HasField("json_form") and message.json_form.extra_json:
        return load_text(message.json_form.extra_json)
    return {}

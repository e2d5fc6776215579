"""Conversations for models whose chat template knows no tools: when to call one, how history is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymapi.v1.responses_pb2 import ResponseCreateParams
from gymd.convert import ConvertError
from gymservers.models.local_model.grammar import call_text

__all__ = ["ToolTurn", "flatten", "plain_text", "tool_turn"]

_DEFAULT_SYSTEM = "You are a helpful AI assistant."
_CALL_HELP = 'To call a tool, answer with a JSON object: {"name": <tool>, "arguments": <object>}'
_DESCRIPTION_CHARS = 300


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """What the tools of a request mean for the turn to come.

    Attributes:
        offered: the tools, as chat tool objects.
        callable: those that this turn has to call one of; empty for a turn in free text.
    """

    offered: list[dict[str, Any]]
    callable: list[dict[str, Any]]


def tool_turn(params: ResponseCreateParams, body: dict[str, Any]) -> ToolTurn:
    """Decides whether the turn is a tool call.

    It is one if there are tools, the choice is not "none", and no tool has answered since the last user
    message. That bounds every conversation: one round of tools for each user message.
    """
    offered = body.get("tools") or []
    choice = body.get("tool_choice", "auto")
    if not offered or choice == "none" or _answered(params):
        return ToolTurn(offered, [])
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        named = [tool for tool in offered if tool["function"]["name"] == name]
        if not named:
            raise ConvertError(f"there is no tool {name!r}", "tool_choice")
        return ToolTurn(offered, named)
    return ToolTurn(offered, offered)


def _answered(params: ResponseCreateParams) -> bool:
    for item in reversed(params.input_items.items):
        if item.HasField("function_call_output"):
            return True
        if item.HasField("message") and item.message.role in ("user", "tool"):
            return item.message.role == "tool"
    return False


def flatten(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages of plain text: tools in the system message, calls and results as text.

    A call is written as it was generated, so that later prompts continue the tokens of earlier turns.
    """
    flat: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in messages:
        role = message["role"]
        text = plain_text(message.get("content"))
        if role == "tool":
            name = names.get(message.get("tool_call_id", ""), "the tool")
            flat.append({"role": "user", "content": f"{name} returned: {text}\nAnswer in plain words."})
            continue
        if role == "developer":
            role = "system"
        calls = message.get("tool_calls") or []
        for call in calls:
            names[call["id"]] = call["function"]["name"]
        written = [call_text(call["function"]["name"], call["function"]["arguments"]) for call in calls]
        if written:
            joined = written[0] if len(written) == 1 else f"[{', '.join(written)}]"
            text = f"{text}\n{joined}" if text else joined
        flat.append({"role": role, "content": text})
    if tools:
        _describe(flat, tools)
    return flat


def plain_text(content: Any) -> str:
    """The text of chat content; raises ConvertError for images, audio and video."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part.get("type") != "text":
            raise ConvertError(f"the local model reads text only, got {part.get('type')}", "input")
        texts.append(part["text"])
    return "".join(texts)


def _describe(flat: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
    lines = []
    for tool in tools:
        function = tool["function"]
        parameters = function.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        names = ", ".join(properties) if isinstance(properties, dict) else ""
        description = " ".join((function.get("description") or "").split())[:_DESCRIPTION_CHARS]
        lines.append(f"{function['name']}({names}): {description}".rstrip(": "))
    told = "\n".join(["Tools:", *lines, _CALL_HELP])
    if flat and flat[0]["role"] == "system":
        flat[0] = {"role": "system", "content": f"{flat[0]['content']}\n\n{told}"}
    else:
        flat.insert(0, {"role": "system", "content": f"{_DEFAULT_SYSTEM}\n\n{told}"})

"""What a model wrote, taken apart: reasoning, tool calls and the text around them. All of it is untrusted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gymd.convert import dumps, loads

__all__ = ["TOOL_CALL_PARSERS", "split_answer"]

_OPEN, _CLOSE = "<think>", "</think>"
# A last call may lack its end tag: the model stopped there, or was cut off.
_HERMES = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)

Calls = list[dict[str, Any]]


def _hermes(text: str) -> tuple[str, Calls]:
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`; a block that is no call stays text."""
    calls: Calls = []

    def take(block: re.Match[str]) -> str:
        try:
            call = loads(block[1])
            name = call.get("name") if isinstance(call, dict) else None
            if not isinstance(name, str) or not name:
                return block[0]
            arguments = call.get("arguments", {})
            written = arguments if isinstance(arguments, str) else dumps(arguments).decode()
            (name + written).encode()  # JSON can say what is no text: half a surrogate pair
        except (ValueError, RecursionError):
            return block[0]
        calls.append({"type": "function", "function": {"name": name, "arguments": written}})
        return ""

    rest = _HERMES.sub(take, text)
    return (rest.strip() if calls else rest), calls


TOOL_CALL_PARSERS: dict[str, Callable[[str], tuple[str, Calls]]] = {
    "hermes": _hermes,
    "none": lambda text: (text, []),
}
"""By the name in the configuration: from a text what is left of it, and the calls in chat's form."""


def split_answer(text: str, parser: str, *, reasoning: bool, opened: bool) -> dict[str, Any]:
    """The assistant message in chat's form that a text stands for.

    Args:
        text: as the engine wrote it.
        parser: name of a tool-call parser.
        reasoning: whether text in think tags is taken out.
        opened: the prompt ended with an opening think tag already.
    """
    message: dict[str, Any] = {"role": "assistant"}
    if reasoning:
        thought, text = _split_reasoning(text, opened)
        if thought:
            message["reasoning_content"] = thought
    text, calls = TOOL_CALL_PARSERS[parser](text)
    message["content"] = text or None
    if calls:
        message["tool_calls"] = calls
    return message


def _split_reasoning(text: str, opened: bool) -> tuple[str, str]:
    """Reasoning at the beginning, and what follows. Where it is cut off, everything is reasoning."""
    begun = text.lstrip()
    if begun.startswith(_OPEN):
        begun = begun[len(_OPEN) :]
    elif not opened and _CLOSE not in text:
        return "", text
    thought, _, rest = begun.partition(_CLOSE)
    return thought.strip(), rest.lstrip("\n")

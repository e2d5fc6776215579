"""Reasoning in think tags and in the reasoning fields of chat messages."""

from __future__ import annotations

from typing import Any

from gymd.convert._errors import ConvertError
from gymd.convert.options import ChatOptions

__all__ = ["fold_reasoning_fields", "move_reasoning_out", "split_think", "wrap_think"]

_OPEN, _CLOSE = "<think>", "</think>"


def split_think(text: str) -> tuple[list[str], str]:
    """Takes the closed think blocks out of a text: the blocks, and what remains. Unclosed ones stay."""
    # No pattern: one takes time quadratic in a text that opens blocks and closes none.
    blocks, kept, place = [], [], 0
    while (start := text.find(_OPEN, place)) >= 0:
        end = text.find(_CLOSE, start)
        if end < 0:
            break
        kept.append(text[place:start])
        blocks.append(text[start + len(_OPEN) : end])
        place = end + len(_CLOSE)
    return blocks, "".join([*kept, text[place:]])


def wrap_think(texts: list[str]) -> str:
    """Puts each text in think tags; empty ones are left out."""
    return "".join(f"<think>{text}</think>" for text in texts if text)


def move_reasoning_out(message: dict[str, Any], options: ChatOptions) -> None:
    """Takes think tags out of the content of an earlier assistant message.

    Only the first block travels in the reasoning fields: what NeMo Gym sends and chat templates expect.
    """
    if not options.uses_reasoning_parser or options.preserve_reasoning_in_assistant_content:
        return
    content = message.get("content")
    if not isinstance(content, str):
        return
    blocks, message["content"] = split_think(content)
    if blocks and options.uses_interleaved_reasoning:
        message["reasoning_content"] = message["reasoning"] = blocks[0]


def fold_reasoning_fields(message: dict[str, Any], content: str, options: ChatOptions) -> str:
    """Returns the content of an answer with the endpoint's reasoning field in think tags in front of it."""
    for field in ("reasoning_content", "reasoning"):
        reasoning = message.get(field)
        if not reasoning:
            continue
        if not options.uses_reasoning_parser:
            raise ConvertError(
                "the endpoint returned reasoning although uses_reasoning_parser is false; set it to true, or "
                "start the engine without a reasoning parser",
                f"choices[0].message.{field}",
            )
        if not isinstance(reasoning, str):
            raise ConvertError("expected a string", f"choices[0].message.{field}")
        return wrap_think([reasoning]) + content
    return content

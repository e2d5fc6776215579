"""Reads the program out of a model's text, and looks whether its reasoning stands where it belongs."""

from __future__ import annotations

from gymapi.v1.responses_pb2 import Response

__all__ = ["extract_code", "reasoning_is_misplaced"]

_FENCE = "```"
_OPEN, _CLOSE = "<think>", "</think>"


def extract_code(text: str) -> str:
    """The lines between the last two lines that hold a fence; "" if there are fewer than two."""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if _FENCE in line]
    return "\n".join(lines[fences[-2] + 1 : fences[-1]]) if len(fences) > 1 else ""


def reasoning_is_misplaced(response: Response, text: str) -> bool:
    """Whether the answer holds a think tag, or the summaries of the reasoning more than one of a kind."""
    if _OPEN in text or _CLOSE in text:
        return True
    reasoning = "".join(
        part.summary_text.text
        for item in response.output
        if item.HasField("reasoning")
        for part in item.reasoning.summary
        if part.HasField("summary_text")
    )
    return reasoning.count(_OPEN) > 1 or reasoning.count(_CLOSE) > 1

"""Which parts of the conversation the judge reads: question, expected answer, the policy's answer."""

from __future__ import annotations

import re

from gymapi.v1.responses_pb2 import MessageItem, Response, ResponseCreateParams
from gymd.sdk.patterns import last_match

__all__ = ["extracted", "last_answer", "last_question"]

# NeMo Gym's: `^` and `$` stand for lines, a dot for anything.
FLAGS = re.MULTILINE | re.DOTALL


def last_question(params: ResponseCreateParams) -> str:
    """The text of the last user message; "" if there is none."""
    if params.WhichOneof("input") == "input_text":
        return params.input_text.strip()
    for item in reversed(params.input_items.items):
        if item.HasField("message") and item.message.role == "user":
            return _text(item.message)
    return ""


def last_answer(response: Response) -> str:
    """The text of the last assistant message; "" if there is none."""
    for item in reversed(response.output):
        if item.HasField("message") and item.message.role == "assistant":
            return _text(item.message)
    return ""


async def extracted(text: str, patterns: list[str], timeout_s: float) -> str:
    """What the first pattern that matches captures; all of the text if none does.

    The last match counts: its first group that is not blank, or all of it.

    Raises:
        DeadlineExceeded: a pattern did not end in `timeout_s` seconds.
    """
    for pattern in patterns:
        found = await last_match(pattern, text, FLAGS, timeout_s=timeout_s)
        if found is not None:
            whole, *groups = found
            return next((group for group in groups if group and group.strip()), whole or "").strip()
    return text


def _text(message: MessageItem) -> str:
    """The text parts of a message, each on lines of its own."""
    if message.HasField("content_text"):
        return message.content_text.strip()
    texts = []
    for part in message.content_parts.parts:
        kind = part.WhichOneof("kind")
        if kind in ("output_text", "input_text"):
            texts.append(getattr(part, kind).text)
    return "\n".join(texts).strip()

"""What a response says."""

from __future__ import annotations

from gymapi.v1 import responses_pb2 as pb

__all__ = ["message_text", "output_text"]


def output_text(response: pb.Response) -> str:
    """Every output_text part of every assistant message, one after the other, as OpenAI's `output_text`."""
    return "".join(
        message_text(item.message)
        for item in response.output
        if item.HasField("message") and item.message.role == "assistant"
    )


def message_text(message: pb.MessageItem) -> str:
    """The text of a message: its plain content, or its text parts one after the other."""
    if message.HasField("content_text"):
        return message.content_text
    texts = []
    for part in message.content_parts.parts:
        kind = part.WhichOneof("kind")
        if kind in ("output_text", "input_text"):
            texts.append(getattr(part, kind).text)
    return "".join(texts)

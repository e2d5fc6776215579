"""Token counts. An absent count is unknown, and unknown + known = unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gymapi.v1 import responses_pb2 as pb

__all__ = ["sum_usage", "total_usage", "usage_from_chat"]

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
# Where the counts are in chat usage: nested as OpenAI has them, then under the names of other providers.
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("cached_tokens",),
    ("prompt_cache_hit_tokens",),
    ("cache_read_input_tokens",),
)
_WRITTEN = (("prompt_tokens_details", "cache_write_tokens"), ("cache_creation_input_tokens",))
_REASONING = (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",))


def usage_from_chat(usage: Any) -> pb.Usage | None:
    """Reads the `usage` of a chat completion; None if there is none."""
    if not isinstance(usage, dict):
        return None
    message = pb.Usage()
    for field, key in zip(_COUNTS, ("prompt_tokens", "completion_tokens", "total_tokens"), strict=True):
        if (count := _count(usage, ((key,),))) is not None:
            setattr(message, field, count)
    if (cached := _count(usage, _CACHED)) is not None:
        message.input_tokens_details.cached_tokens = cached
    if (written := _count(usage, _WRITTEN)) is not None:
        message.input_tokens_details.cache_write_tokens = written
    if (reasoning := _count(usage, _REASONING)) is not None:
        message.output_tokens_details.reasoning_tokens = reasoning
    return _show_unknown(message)


def sum_usage(a: pb.Usage, b: pb.Usage) -> pb.Usage:
    """Adds two usages; a count that either does not know stays unknown."""
    total = pb.Usage()
    _add(a, b, total, _COUNTS)
    _add(
        a.input_tokens_details,
        b.input_tokens_details,
        total.input_tokens_details,
        ("cached_tokens", "cache_write_tokens"),
    )
    _add(a.output_tokens_details, b.output_tokens_details, total.output_tokens_details, ("reasoning_tokens",))
    return _show_unknown(total)


def total_usage(responses: Iterable[pb.Response]) -> pb.Usage | None:
    """Adds the usage of responses; one without usage makes every count unknown. None for no responses."""
    total: pb.Usage | None = None
    for response in responses:
        total = response.usage if total is None else sum_usage(total, response.usage)
    return total


def _show_unknown(usage: pb.Usage) -> pb.Usage:
    """Sets both details, with the main count of each as null if unknown: the form that readers expect."""
    for details, field in (
        (usage.input_tokens_details, "cached_tokens"),
        (usage.output_tokens_details, "reasoning_tokens"),
    ):
        details.SetInParent()
        if not details.HasField(field):
            details.json_form.null_fields.append(details.DESCRIPTOR.fields_by_name[field].number)
    return usage


def _add(a: Any, b: Any, total: Any, fields: Iterable[str]) -> None:
    for field in fields:
        if a.HasField(field) and b.HasField(field):
            setattr(total, field, getattr(a, field) + getattr(b, field))


def _count(usage: dict[str, Any], places: Iterable[tuple[str, ...]]) -> int | None:
    for place in places:
        value: Any = usage
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        if type(value) is int:
            return value
    return None

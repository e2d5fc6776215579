"""The ids of a prompt that begins with the ids of an earlier turn, as they were sampled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gymd.convert import ConvertError, loads, pack_ids, unpack_ids
from gymd.prompts.conversation import TOKEN_KEYS, Known
from gymd.prompts.template import Template

__all__ = ["Prompt", "prompt_of", "template_messages"]

_TRIED = 4
"""Turns whose ids are tried, the last first. Each costs a rendering, and older ones alone seldom continue."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt.

    Attributes:
        packed: its ids, 4 bytes each.
        kept: what they begin with; None: everything was tokenized anew.
        opened: it ends with an opening think tag.
    """

    packed: bytes
    kept: Known | None
    opened: bool

    def ids(self) -> list[int]:
        """Its ids as numbers."""
        return unpack_ids(self.packed)


def prompt_of(
    template: Template,
    messages: Sequence[dict[str, Any]],
    known: Iterable[Known],
    variables: dict[str, Any],
) -> Prompt:
    """The prompt of a conversation: one of the first of `known` that the template allows, and the rest.

    The template allows it if it writes the messages up to there in the same way whether or not more follow,
    and ends them with a special token. Where it does not, because it drops the reasoning of earlier turns for
    example, the conversation is tokenized anew: that prompt is not the continuation of the earlier call, and
    the trajectory says so.

    Raises:
        ConvertError: the template refuses the conversation.
    """
    whole = template.render(messages, variables, answer=True)
    opened = whole.rstrip().endswith("<think>")
    for turn in islice(known, _TRIED):
        rest = _rest(template, whole, _before(template, messages[: turn.count], variables), turn.ids)
        if rest is not None:
            return Prompt(turn.ids + _encode(template, rest), turn, opened)
    return Prompt(_encode(template, whole), None, opened)


def _before(template: Template, messages: Sequence[dict[str, Any]], variables: dict[str, Any]) -> str:
    """The text of the messages up to an answer; empty if the template refuses those alone."""
    try:
        return template.render(messages, variables, answer=False)
    except ConvertError:
        return ""


def _rest(template: Template, whole: str, before: str, ids: bytes) -> str | None:
    """The text of a conversation behind its kept ids; None if the template does not continue them."""
    text = before.rstrip()
    ends = [token for token in template.special.values() if token and text.endswith(token)]
    if not ends or not ids:
        return None
    # An answer that was cut off lacks the end of its turn: then that is context.
    ended = int.from_bytes(ids[-4:], "little") in template.special
    cut = len(text) if ended else len(text) - len(max(ends, key=len))
    return whole[cut:] if whole.startswith(text) else None


def _encode(template: Template, text: str) -> bytes:
    return pack_ids(template.encode(text), "prompt_token_ids")


def template_messages(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages as templates read them: content as text, arguments of calls as objects.

    Raises:
        ConvertError: a message holds more than text.
    """
    return [_message(message) for message in messages]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in message.items() if key not in TOKEN_KEYS}
    made["content"] = _text(message.get("content"))
    if calls := message.get("tool_calls"):
        made["tool_calls"] = [_call(call) for call in calls]
    return made


def _text(content: Any) -> str:
    if isinstance(content, list):
        for part in content:
            if part.get("type") != "text":
                raise ConvertError(f"prompts of token ids hold text only, got {part.get('type')}", "input")
        return "\n".join(part["text"] for part in content)
    return content or ""


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    try:
        function["arguments"] = loads(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        pass  # the model wrote no JSON that can be read: the template gets the text
    return {**call, "function": function}

"""From a chat request to the ids of its prompt, and from the text that was sampled to a chat message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from gymd.convert import ConvertError
from gymd.prompts.continuation import Prompt, prompt_of, template_messages
from gymd.prompts.conversation import Conversation, Known
from gymd.prompts.parsers import split_answer
from gymd.prompts.template import Template

__all__ = ["Prompter", "work_on"]

_LONG_BYTES = 1 << 12
_P = ParamSpec("_P")
_R = TypeVar("_R")


async def work_on(size: int, work: Callable[_P, _R], *given: _P.args, **named: _P.kwargs) -> _R:
    """Calls a function: in a thread, if what it works on has many bytes, so that the loop stays free."""
    if size > _LONG_BYTES:
        return await asyncio.to_thread(work, *given, **named)
    return work(*given, **named)


class Prompter:
    """Writes the prompts of one model and reads its answers. Safe to use from several threads.

    Args:
        template: the model's.
        parser: name of the tool-call parser for its answers.
        reasoning: whether text in think tags is taken out of them.
    """

    def __init__(self, template: Template, parser: str, *, reasoning: bool) -> None:
        self.template = template
        self._parser = parser
        self._reasoning = reasoning

    def prompt(self, body: dict[str, Any], talk: Conversation | None) -> Prompt:
        """The prompt of a chat request, whose earlier turns may be known.

        Half a megabyte that is tokenized anew takes a third of a second; see `work_on`.

        Raises:
            ConvertError: the template refuses it, or it asks for what only an engine could enforce.
        """
        if body.get("tool_choice", "auto") not in ("auto", "none"):
            text = "a call cannot be forced where prompts are sent as token ids; use auto or none"
            raise ConvertError(text, "tool_choice")
        variables = dict(body.get("chat_template_kwargs") or {})
        variables["tools"] = body["tools"] if _calls_tools(body) else None
        if "reasoning_effort" in body:
            variables.setdefault("reasoning_effort", body["reasoning_effort"])
        known: Iterable[Known] = talk.known() if talk is not None else ()
        return prompt_of(self.template, template_messages(body["messages"]), known, variables)

    def message(self, text: str, last_id: int | None, prompt: Prompt, body: dict[str, Any]) -> dict[str, Any]:
        """The assistant message in chat's form that an answer to a chat request stands for.

        `last_id` is that of the answer's last token, if it is known: a special one is no part of what was
        said, although it may be in the text.
        """
        # JSON can say what is no text: half a surrogate pair.
        text = text.encode("utf-8", "replace").decode()
        if last_id is not None:
            text = text.removesuffix(self.template.special.get(last_id, ""))
        parser = self._parser if _calls_tools(body) else "none"
        message = split_answer(text, parser, reasoning=self._reasoning, opened=prompt.opened)
        if body.get("parallel_tool_calls") is False:
            del message.get("tool_calls", [])[1:]
        return message


def _calls_tools(body: dict[str, Any]) -> bool:
    return bool(body.get("tools")) and body.get("tool_choice") != "none"

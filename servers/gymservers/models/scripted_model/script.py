"""The form of a script: rules, and the answers that they give. README.md shows it by examples."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import orjson
import pydantic

from gymd.errors import REASON_CODES
from gymservers.models.scripted_model.chance import parse_distribution, share

__all__ = ["Answer", "Call", "Condition", "Failure", "Rule", "Size", "Tokens", "fill_in", "fill_values"]

_PLACEHOLDER = re.compile(r"\{(rollout_id|turn|user_text|\d)\}")

MAX_TOKENS = 1_000_000
"""What a distribution with a long tail is cut off at."""


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Call(_Part):
    """A function call."""

    name: str
    """Name of the tool; "" is the first tool that the request offers."""
    arguments: dict[str, Any] | str | None = None
    """Arguments, as object or as the very text. Absent: made from the tool's JSON schema."""


class Failure(_Part):
    """A failed call."""

    reason: str
    """Reason of errors.proto, such as UPSTREAM_UNAVAILABLE."""
    message: str = "the script says so"
    """Text of the error."""
    retry_delay: float | None = None
    """Seconds after which to try again, told to the caller."""

    @pydantic.field_validator("reason")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in REASON_CODES:
            raise ValueError(f"{value!r} is no reason; known: {', '.join(sorted(REASON_CODES))}")
        return value


class Size(NamedTuple):
    """How long one answer is, in tokens."""

    prompt: int
    generated: int
    filler: bool
    """Whether its text is as long, too."""


class Tokens(_Part):
    """How many tokens an answer claims, in ids, logprobs and usage.

    Each number may be a distribution, drawn by seed, rollout and turn. The prompt of a turn continues the
    prompt and the answer of the turn before.
    """

    prompt: int | str = 64
    """Tokens of the first prompt."""
    generated: int | str = 16
    """Tokens generated in each turn."""
    between: int | str = 16
    """Tokens that each tool round adds."""
    filler: bool = False
    """Make messages as long as `generated` says, four characters a token."""

    @pydantic.field_validator("prompt", "generated", "between")
    @classmethod
    def _distribution(cls, value: int | str) -> int | str:
        parse_distribution(value)
        return value

    @property
    def fixed(self) -> bool:
        """Whether all rollouts have the same numbers."""
        return all(isinstance(value, int) for value in (self.prompt, self.generated, self.between))

    def size(self, seed: int, who: object, turn: int) -> Size:
        """The numbers of one turn of a rollout."""

        def draw(name: str, value: int | str, at: int) -> int:
            if isinstance(value, int):
                return value
            return min(round(parse_distribution(value)(share(seed, name, who, at))), MAX_TOKENS)

        prompt = max(1, draw("prompt", self.prompt, 0))
        for earlier in range(turn):
            prompt += draw("generated", self.generated, earlier) + draw("between", self.between, earlier)
        return Size(prompt, draw("generated", self.generated, turn), self.filler)


class Answer(_Part):
    """What to answer with: any of text, reasoning and calls; or an error; or a whole response."""

    text: str | None = None
    """A message. {user_text}, {turn}, {rollout_id} and {1} (a group of `match`) are filled in."""
    reasoning: str | None = None
    """A reasoning item in front."""
    calls: list[Call] = pydantic.Field(default_factory=list)
    """Function calls. Their arguments are filled in like `text`."""
    call: Call | None = None
    """Short for one call."""
    incomplete: str | None = None
    """Ends incomplete with this reason; max_output_tokens is what a context overflow looks like."""
    error: Failure | None = None
    """Fails."""
    hang: bool = False
    """Never answers; the caller's deadline or cancel ends it."""
    response: dict[str, Any] | None = None
    """A whole Response as OpenAI JSON."""
    tokens: Tokens | None = None
    """Token counts; absent: those of the script."""
    usage: dict[str, Any] | None = None
    """Usage as OpenAI JSON, if it is not to follow from the token counts."""

    @pydantic.field_validator("error", mode="before")
    @classmethod
    def _short_error(cls, value: Any) -> Any:
        return {"reason": value} if isinstance(value, str) else value

    @pydantic.model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [self.error is not None, self.hang, self.response is not None]
        said = self.text is not None or self.reasoning is not None or bool(self.all_calls)
        if sum(given) > 1 or (any(given) and said):
            raise ValueError("give either items (text, reasoning, calls), or error, or hang, or response")
        return self

    @property
    def all_calls(self) -> list[Call]:
        """`call` and `calls`."""
        return [self.call, *self.calls] if self.call else self.calls

    def is_filled_in(self) -> bool:
        """Whether the answer depends on the call beyond turn and tools."""
        texts = [self.text or "", self.reasoning or ""]
        texts += [
            value if isinstance(value, str) else orjson.dumps(value).decode() for value in self._values()
        ]
        return any(_PLACEHOLDER.search(text) for text in texts)

    def _values(self) -> list[Any]:
        return [call.arguments for call in self.all_calls if call.arguments is not None]


class Condition(_Part):
    """When a rule applies: all that is given must hold."""

    turn: int | list[int] | None = None
    """Number of the model call in the conversation, from 0; or several."""
    tools: bool | None = None
    """Whether the request offers function tools."""
    tool_outputs: int | None = None
    """Number of tool outputs since the last user message."""
    contains: str | None = None
    """Part of the last user message."""
    match: str | None = None
    """Regular expression searched in the last user message; its groups can be filled into answers."""
    output_contains: str | None = None
    """Part of the last tool output."""
    model: str | None = None
    """Model that the task asks for."""
    probability: float | None = pydantic.Field(default=None, ge=0, le=1)
    """Share of the calls, chosen by seed, rollout and turn."""

    @pydantic.field_validator("match")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as problem:
                raise ValueError(f"{value!r} is no regular expression: {problem}") from None
        return value


class Rule(Answer):
    """A condition and its answer; or `turns`, one answer for each turn, the last one repeated."""

    when: Condition = pydantic.Field(default_factory=Condition)
    """When it applies. Absent: always."""
    latency: str | float | None = None
    """Seconds before the answer; absent: those of the script."""
    turns: list[Answer] = pydantic.Field(default_factory=list)
    """Answers by turn."""

    @pydantic.field_validator("latency")
    @classmethod
    def _latency(cls, value: str | float | None) -> str | float | None:
        if value is not None:
            parse_distribution(value)
        return value

    def answer(self, turn: int) -> Answer:
        """The answer for a turn."""
        return self.turns[min(turn, len(self.turns) - 1)] if self.turns else self

    def delay(self, usual: Callable[[float], float]) -> Callable[[float], float]:
        """The rule's own latency, or the usual one."""
        return usual if self.latency is None else parse_distribution(self.latency)


def fill_in(text: str, values: dict[str, str]) -> str:
    """Fills {user_text}, {turn}, {rollout_id} and {1} into a text; an unknown group stays as it is."""
    return _PLACEHOLDER.sub(lambda found: values.get(found.group(1), found.group(0)), text)


def fill_values(value: Any, values: dict[str, str]) -> Any:
    """Fills in the texts anywhere in a JSON value."""
    if isinstance(value, str):
        return fill_in(value, values)
    if isinstance(value, list):
        return [fill_values(part, values) for part in value]
    if isinstance(value, dict):
        return {key: fill_values(part, values) for key, part in value.items()}
    return value

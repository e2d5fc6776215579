"""What a policy does in one rollout, played by hand inside a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymd.convert import dumps
from gymd.sdk.resources import Reward
from gymd.sdk.testing.items import function_call, make_response, message, tool_output
from gymd.sdk.testing.running import RunningServer

__all__ = ["Attempt", "Attempts", "attempt_for", "play"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Attempt:
    """Tool calls in order, then a text.

    Attributes:
        calls: name and arguments; arguments as a dict, or as the text that a model wrote.
        text: the final message; "" means none.
    """

    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    text: str = ""


Attempts = Attempt | str | Callable[[Row], "Attempt | str"]
"""One attempt for all rows (a str is just a final text), or a function of the row."""


def attempt_for(attempts: Attempts, row: Row) -> Attempt:
    """The attempt for a row."""
    attempt = attempts(row) if callable(attempts) else attempts
    return Attempt(text=attempt) if isinstance(attempt, str) else attempt


async def play(server: RunningServer, row: Row, attempt: Attempt, *, twice: bool = False) -> Reward:
    """Seeds, calls the tools, verifies, closes; with `twice` every call is sent a second time."""
    items = []
    async with await server.seed(row) as session:
        for number, (name, arguments) in enumerate(attempt.calls):
            text = arguments if isinstance(arguments, str) else dumps(dict(arguments)).decode()
            call = function_call(name, text, call_id=f"call_{number}")
            answer = await session.call_json(name, text, call.function_call.call_id)
            if twice:
                again = await session.call_json(name, text, call.function_call.call_id)
                assert again == answer, f"a repeated call of {name} was answered {again}, first {answer}"
            items += [call, tool_output(call.function_call.call_id, answer.output)]
        if attempt.text:
            items.append(message(attempt.text))
        return await session.verify(response=make_response(*items))

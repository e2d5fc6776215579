"""A model server that a test scripts; it never calls out."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.errors import error
from gymd.mesh import Mesh
from gymd.sdk.base import ServerConfig
from gymd.sdk.model import ModelCall, ModelServer
from gymd.sdk.testing.items import make_response

__all__ = ["FakeModel", "ModelRequest"]

Answer = Response | str | BaseException
"""A response, the text of a message, or an error to raise."""
Script = Sequence[Answer] | Callable[[ResponseCreateParams, ModelCall], Answer | Awaitable[Answer]]


@dataclass(frozen=True)
class ModelRequest:
    """One call as the fake saw it."""

    params: ResponseCreateParams
    rollout_id: str
    return_tokens: bool | None
    time_left: float | None
    """Seconds until the caller's deadline."""


class FakeModelConfig(ServerConfig):
    """How the fake answers."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    script: Any = ()
    """A list of answers, given in order, or a function (async or not) that is asked every time."""


class FakeModel(ModelServer):
    """Answers by a script and records what it was asked.

    Attributes:
        requests: every call, in order.
    """

    Config = FakeModelConfig
    config: FakeModelConfig

    def __init__(self, name: str, config: FakeModelConfig, mesh: Mesh) -> None:
        super().__init__(name, config, mesh)
        self.requests: list[ModelRequest] = []
        script: Script = config.script
        self._ask = script if callable(script) else None
        self._answers: list[Answer] = [] if callable(script) else list(script)
        self._given = 0

    @property
    def unused(self) -> int:
        """Answers of the script that nobody asked for; start_servers fails on them."""
        return len(self._answers) - self._given

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """The next answer of the script."""
        kept = ResponseCreateParams()
        kept.CopyFrom(params)  # in-process the agent goes on writing into its own
        left = call.context.time_left()
        self.requests.append(ModelRequest(kept, call.rollout_id, call.return_tokens, left))
        answer: Any
        if self._ask is not None:
            answer = self._ask(kept, call)
            if inspect.isawaitable(answer):
                answer = await answer
        else:
            answer = self._next()
        if isinstance(answer, BaseException):
            raise answer
        return make_response(answer) if isinstance(answer, str) else answer

    def _next(self) -> Answer:
        if not self.unused:
            count = len(self._answers)
            text = f"{self.name} was asked {count + 1} times, but its script holds {count} answers"
            raise error("INTERNAL", text, server=self.name)
        self._given += 1
        return self._answers[self._given - 1]

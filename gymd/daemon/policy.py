"""The policy that lives in the trainer: the model server that agents see.

It lives in the daemon and hands each call to the desk of the session that owns the rollout (policy_desk).
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from gymapi.v1.model_service_pb2 import (
    CreateResponseRequest,
    CreateResponseResponse,
    StreamResponseRequest,
    StreamResponseResponse,
)
from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_service_pb2 import GenerateRequest, GenerateResult
from gymd.daemon.policy_desk import PolicyCall, PolicyDesk
from gymd.daemon.policy_tokens import TokenPolicy, TokenTurn
from gymd.daemon.replies import response_of
from gymd.errors import GymdError, error
from gymd.prompts import PolicySettings

if TYPE_CHECKING:
    from gymd.daemon.work import Job, TaskWork
    from gymd.mesh import CallContext

__all__ = [
    "IMPLEMENTATION",
    "FindDesk",
    "TrainerPolicy",
    "find_desk",
]

IMPLEMENTATION = "trainer_policy"
"""Name of the model server that the daemon serves itself."""
MARGIN_S = 0.05
"""A call ends this much before its caller's deadline, so that the reason still arrives."""


def find_desk(jobs: Sequence[Job], rollout_id: str) -> tuple[PolicyDesk, TaskWork]:
    """The desk of the session that runs a rollout, and the rollout's task.

    Args:
        jobs: what runs as `rollout_id`.

    Raises:
        InvalidRequest: no session runs it, or several have one of that id.
    """
    if len(jobs) == 1:
        return jobs[0].client.desk, jobs[0].task
    if jobs:
        text = (
            f"{len(jobs)} sessions run a rollout {rollout_id!r}, so it is not known whose policy is meant; "
            "trainers that share a daemon must choose different task ids"
        )
    else:
        text = f"no session runs a rollout {rollout_id!r}: the trainer's policy answers only its own rollouts"
    raise error("INVALID_REQUEST", text, field="rollout_id", rollout_id=rollout_id)


FindDesk = Callable[[str], "tuple[PolicyDesk, TaskWork]"]


class TrainerPolicy:
    """The model server that asks the trainers. One for each trainer_policy block of the configuration.

    Args:
        name: the server's name.
        settings: its block.
        find: the desk and the task for a rollout's id; raises GymdError.
    """

    _numbers = itertools.count(1)
    # Other than those of a daemon before a restart, whose calls a trainer may still have.
    _prefix = f"{time.time_ns():x}"

    def __init__(self, name: str, settings: PolicySettings, find: FindDesk) -> None:
        self._name = name
        self._settings = settings
        self._find = find
        self._tokens: TokenPolicy | None = None

    async def load(self) -> None:
        """Reads the tokenizer, if one is configured.

        Raises:
            InvalidRequest: it cannot be used; the text says why.
        """
        if self._settings.tokenizer:
            self._tokens = await asyncio.to_thread(TokenPolicy, self._settings)

    async def CreateResponse(
        self, request: CreateResponseRequest, context: CallContext
    ) -> CreateResponseResponse:
        """Answers through the trainer."""
        answer = await self._ask(request, context)
        del request  # thousands wait here, and the call holds what is still needed of it
        return CreateResponseResponse(response=await answer)

    async def StreamResponse(
        self, request: StreamResponseRequest, context: CallContext
    ) -> AsyncIterator[StreamResponseResponse]:
        """The whole answer at once: the trainer sends it so."""
        event = StreamResponseResponse()
        event.completed.response.CopyFrom(await (await self._ask(request, context)))
        yield event

    async def _ask(
        self, request: CreateResponseRequest | StreamResponseRequest, context: CallContext
    ) -> Coroutine[Any, Any, Response]:
        """Hands the call to the trainer of its rollout; returns what to await for the answer."""
        desk, work = self._find(request.rollout_id)
        turn = None
        if self._tokens is not None:
            turn = await self._tokens.turn(request.params, request.rollout_id)
        seconds = self._seconds(context)
        asked = self._request(request, turn, seconds)
        if work.constraint is not None and work.constraint.HasField("min_version"):
            asked.min_version = work.constraint.min_version
        answer: asyncio.Future[GenerateResult] = asyncio.get_running_loop().create_future()
        limit = self._settings.max_in_flight
        call = PolicyCall(asked, seconds, limit, lambda found: _settle(answer, found))
        desk.ask(call)
        return self._answered(answer, call, desk, turn, seconds)

    def _seconds(self, context: CallContext) -> float:
        """How long the answer may take."""
        left = context.time_left()
        if left is None:
            return self._settings.timeout
        return min(self._settings.timeout, left - min(MARGIN_S, left * 0.05))

    def _request(
        self,
        request: CreateResponseRequest | StreamResponseRequest,
        turn: TokenTurn | None,
        seconds: float,
    ) -> GenerateRequest:
        asked = GenerateRequest(
            call_id=f"{self._prefix}-{next(self._numbers)}",
            rollout_id=request.rollout_id,
            params=request.params if turn is None else turn.params,
            server=self._name,
        )
        if turn is not None:
            turn.fill(asked)
        asked.deadline.FromNanoseconds(time.time_ns() + int(seconds * 1e9))
        if request.HasField("return_tokens"):
            asked.return_tokens = request.return_tokens
        return asked

    async def _answered(
        self,
        answer: asyncio.Future[GenerateResult],
        call: PolicyCall,
        desk: PolicyDesk,
        turn: TokenTurn | None,
        seconds: float,
    ) -> Response:
        """Waits for an answer, so many seconds at most."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, lambda: _settle(answer, desk.too_late(seconds)))
        try:
            result = await answer
        finally:
            timer.cancel()
            desk.drop(call)  # without effect if it was answered
        if turn is None:
            return response_of(result, call.request)
        assert self._tokens is not None
        return await self._tokens.response(result, call.request, turn)


def _settle(answer: asyncio.Future[Any], found: GenerateResult | GymdError) -> None:
    if answer.done():
        return
    if isinstance(found, GymdError):
        answer.set_exception(found)
    else:
        answer.set_result(found)

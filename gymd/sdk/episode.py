"""One rollout from seed to close: deadlines, verification, timing, and the name of what failed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from gymapi.v1 import agent_service_pb2 as pb
from gymapi.v1 import resources_service_pb2 as resources_pb
from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import (
    OUTCOME_TIMED_OUT,
    STAGE_AGENT,
    STAGE_MODEL,
    STAGE_SEED,
    STAGE_VERIFY,
    Rollout,
)
from gymd.errors import AlreadyExists, GymdError, as_gymd_error, error
from gymd.mesh import CallContext
from gymd.sdk.failures import describe
from gymd.sdk.run import AgentRun

if TYPE_CHECKING:
    from gymd.sdk.agent import AgentServer

__all__ = ["Episode", "sessions_closed"]

CLOSE_TIMEOUT_S = 10.0
MARGIN_S = 0.25
"""The rollout ends this much before the caller's deadline, so that its result still arrives."""


class Episode:
    """Runs one rollout of an agent server.

    Args:
        server: the agent server.
        request: what to run; rollout_id may be empty for a plain conversation.
        context: the call's deadline.
        verify: whether to verify at the end.
    """

    def __init__(
        self, server: AgentServer, request: pb.RunRolloutRequest, context: CallContext, *, verify: bool = True
    ) -> None:
        config = server.config
        self._server = server
        self._verify = verify and not config.skip_verification
        limits = request.deadlines
        # Without an id (a plain conversation) the object's own address tells concurrent sessions apart.
        rollout_id = request.rollout_id or f"ask-{id(self):x}-{time.time_ns():x}"
        self._session_id = f"{rollout_id}#{request.attempt}"
        self._seed_timeout = config.seed_timeout_s
        self._verify_timeout = _seconds(limits, "verify", config.verify_timeout_s)
        self._timeout = _seconds(limits, "rollout", config.rollout_timeout_s)
        left = context.time_left()
        if left is not None:
            self._timeout = min(self._timeout, max(left - MARGIN_S, left / 2))
        # Thousands of episodes wait at a time, so the request is not kept: only what is still needed of it.
        self._seed = resources_pb.SeedSessionRequest(session_id=self._session_id, task=request.task)
        self._answer = pb.RunRolloutResponse()
        self._name(self._answer.rollout, request)
        self._resources: Any = None
        self._mesh = server.mesh
        self._seeded = False
        self._seed_ns = self._verify_ns = 0
        wanted = request.return_tokens if request.HasField("return_tokens") else config.return_tokens
        self.run = AgentRun(
            rollout_id,
            request.task.create_params,
            session_id=self._session_id,
            model_timeout=_seconds(limits, "model", config.model_timeout_s),
            tool_timeout=_seconds(limits, "tool", config.tool_timeout_s),
            return_tokens=wanted,
        )

    async def rollout(self) -> pb.RunRolloutResponse:
        """Runs it; a failure is part of the result. Only cancellation escapes."""
        rollout = self._answer.rollout
        _now(rollout.timing.start_time)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                await self._converse()
                self._fill(rollout)
                if self._verify and self._resources is not None:
                    await self._score(rollout)
        except Exception as exception:
            failure = as_gymd_error(exception, f"agent {self._server.name}")
            if limit.expired():
                text = f"the rollout did not end within {self._timeout:g} s"
                failure = error("DEADLINE_EXCEEDED", text, deadline_seconds=f"{self._timeout:g}")
            self._fail(rollout, failure)
        except asyncio.CancelledError:
            self._close_later()
            raise
        await self._close()
        _now(rollout.timing.end_time)
        self._clock(rollout)
        return self._answer

    async def conversation(self) -> Response:
        """Runs the loop alone; a failure raises GymdError."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._converse()
        except TimeoutError:
            text = f"the conversation did not end within {self._timeout:g} s"
            raise error("DEADLINE_EXCEEDED", text, deadline_seconds=f"{self._timeout:g}") from None
        finally:
            self._close_later()
        return self.run.response() or Response()

    async def _converse(self) -> None:
        config, run = self._server.config, self.run
        run.stage = STAGE_MODEL
        model = await self._stub(config.model_server.name, "model")
        if config.resources_server is not None:
            run.stage = STAGE_SEED
            self._resources = await self._stub(config.resources_server.name, "resources")
            begin = time.perf_counter_ns()
            self._seeded = True
            try:
                await self._resources.SeedSession(self._seed, timeout=self._seed_timeout)
            except AlreadyExists:
                self._seeded = False  # it is somebody else's: not ours to close
                raise
            self._seed_ns = time.perf_counter_ns() - begin
        run.bind(model, self._resources)
        run.stage = STAGE_AGENT
        await self._server.run(run)

    async def _stub(self, name: str, kind: str) -> Any:
        try:
            peer = self._mesh.pick(name, kind, self._session_id)
        except GymdError:
            peer = await self._mesh.wait(name, kind, self._server.config.peer_wait_s)
        return self._mesh.stub(peer)

    async def _score(self, rollout: Rollout) -> None:
        self.run.stage = STAGE_VERIFY
        begin = time.perf_counter_ns()
        request = resources_pb.VerifyRequest(
            session_id=self._session_id,
            task=self._seed.task,
            response=rollout.response,
            outcome=rollout.outcome,
        )
        try:
            answer = await self._resources.Verify(request, timeout=self._verify_timeout)
        finally:
            self._verify_ns = time.perf_counter_ns() - begin
        rollout.reward.CopyFrom(answer.reward)

    async def _close(self) -> None:
        if not self._seeded:
            return
        request = resources_pb.CloseSessionRequest(session_id=self._session_id)
        try:
            await self._resources.CloseSession(request, timeout=CLOSE_TIMEOUT_S)
        except GymdError as failure:
            # The session expires by itself; the rollout's result does not depend on it.
            self._server.log.warning("close_session_failed", extra={"why": str(failure)})
        except asyncio.CancelledError:
            self._close_later()  # closing twice is safe
            raise

    def _close_later(self) -> None:
        """Closes the session of a rollout that was cancelled: the cancelled task cannot wait for it."""
        task = asyncio.get_running_loop().create_task(self._close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    def _name(self, rollout: Rollout, request: pb.RunRolloutRequest) -> None:
        rollout.rollout_id = request.rollout_id
        rollout.task_id = request.task_id
        rollout.group_id = request.group_id
        rollout.index = request.index
        rollout.attempt = request.attempt or 1
        rollout.agent = self._server.name

    def _fill(self, rollout: Rollout) -> None:
        run = self.run
        rollout.outcome = run.outcome  # type: ignore[assignment]
        rollout.termination_reason = run.termination_reason
        response = run.response()
        if response is not None:
            rollout.response.CopyFrom(response)
        if run.tokens.trajectory is not None:
            rollout.trajectory.CopyFrom(run.tokens.trajectory)
        rollout.model_call_count = run.model_calls
        rollout.tool_call_count = run.tool_calls
        rollout.tool_error_count = run.tool_errors

    def _fail(self, rollout: Rollout, failure: GymdError) -> None:
        self._fill(rollout)
        outcome, described = describe(failure, self.run.stage)
        rollout.outcome = outcome  # type: ignore[assignment]
        rollout.termination_reason = "deadline" if outcome == OUTCOME_TIMED_OUT else "error"
        rollout.failure.CopyFrom(described)
        rollout.ClearField("reward")

    def _clock(self, rollout: Rollout) -> None:
        timing, run = rollout.timing, self.run
        _span(timing.model_duration, run.model_ns)
        _span(timing.tool_duration, run.tool_ns)
        _span(timing.seed_duration, self._seed_ns)
        _span(timing.verify_duration, self._verify_ns)


_closing: set[asyncio.Task[None]] = set()
"""Keeps the tasks of _close_later alive: the event loop holds them weakly."""


async def sessions_closed() -> None:
    """Waits until the sessions of cancelled rollouts are closed; each attempt is bounded."""
    while _closing:
        await asyncio.wait(_closing)


def _now(stamp: Any) -> None:
    """Sets a Timestamp; GetCurrentTime goes through datetime and costs ten times as much."""
    stamp.seconds, stamp.nanos = divmod(time.time_ns(), 1_000_000_000)


def _span(duration: Any, nanoseconds: int) -> None:
    """Sets a Duration."""
    duration.seconds, duration.nanos = divmod(nanoseconds, 1_000_000_000)


def _seconds(limits: Any, name: str, default: float) -> float:
    """A span of the request's deadlines, or the configured one."""
    if not limits.HasField(name):
        return default
    return getattr(limits, name).ToNanoseconds() / 1e9

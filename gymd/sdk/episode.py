"""One rollout from seed to close: deadlines, verification, timing, and the name of what failed."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from gymapi.v1 import agent_service_pb2 as pb
from gymapi.v1 import resources_service_pb2 as resources_pb
from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import (
    FAILURE_CLASS_CLIENT,
    OUTCOME_CANCELLED,
    OUTCOME_PARTIAL,
    OUTCOME_TIMED_OUT,
    STAGE_AGENT,
    STAGE_MODEL,
    STAGE_SEED,
    STAGE_VERIFY,
    Rollout,
)
from gymd.errors import AlreadyExists, Cancelled, GymdError, as_gymd_error, error, to_status_message
from gymd.mesh import CallContext
from gymd.sdk.contain import awaited
from gymd.sdk.failures import describe
from gymd.sdk.policy import policy_state
from gymd.sdk.run import AgentRun

if TYPE_CHECKING:
    from gymd.sdk.agent import AgentServer

__all__ = ["Episode", "sessions_closed"]

CLOSE_TIMEOUT_S = 10.0
CLOSED_PER_TURN = 4
"""Sessions of cancelled rollouts that are closed in one turn of the event loop."""
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
        # Nobody else's: two trainers may use the same ids, and an attempt may be repeated after a restart.
        self._session_id = f"{rollout_id}#{request.attempt}-{secrets.token_hex(4)}"
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
        self._task = asyncio.current_task()
        self._stop: int | None = None
        self._stop_reason = ""
        self._stop_ns = 0
        self._stopping = False
        self._ending = False
        self._released = asyncio.Event()
        policy = None
        if request.policy_session:
            policy = policy_state(request.policy_session)
            policy.begin(request.policy_version if request.HasField("policy_version") else None)
        wanted = request.return_tokens if request.HasField("return_tokens") else config.return_tokens
        self.run = AgentRun(
            rollout_id,
            self._seed.task,
            session_id=self._session_id,
            model_timeout=_seconds(limits, "model", config.model_timeout_s),
            tool_timeout=_seconds(limits, "tool", config.tool_timeout_s),
            return_tokens=wanted,
            policy=policy,
        )

    async def rollout(self) -> pb.RunRolloutResponse:
        """Runs it; a failure is part of the result. Only cancellation escapes."""
        try:
            return await self._rollout()
        finally:
            self._released.set()

    async def _rollout(self) -> pb.RunRolloutResponse:
        rollout = self._answer.rollout
        _now(rollout.timing.start_time)
        stopped = False
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
            stopped = self._stop is not None and isinstance(failure, Cancelled)
            if not stopped:
                self._fail(rollout, failure)
        except asyncio.CancelledError:
            # Ours, by `stop`, or the caller's? It may also be both.
            assert self._task is not None
            if self._stop is None or self._task.uncancel():
                self._close_later()
                raise
            stopped = True
        self._ending = True
        await self._close()
        if stopped:
            self._stopped(rollout)
        _now(rollout.timing.end_time)
        self._clock(rollout)
        return self._answer

    def stop(self, mode: int, reason: str) -> asyncio.Task[Any] | None:
        """Stops the rollout, as a StopMode says; wait for `released`.

        Returns: its task, which the caller has to cancel (see `cancel_all`); None: it ends without that, or
            is being cancelled already.
        """
        gentle = mode == pb.STOP_MODE_FINISH_TURN
        if self._ending or (self._stop is not None and gentle):
            return None
        self._stop_ns = self._stop_ns or time.perf_counter_ns()
        self._stop, self._stop_reason = mode, reason
        if gentle and self.run.calling_model:
            self.run.stop_after_turn()
            return None
        if self._stopping or (gentle and self.run.stage == STAGE_VERIFY):
            return None
        self._stopping = True
        return self._task

    async def released(self) -> None:
        """Waits until everything that the rollout used is released."""
        await self._released.wait()

    def _stopped(self, rollout: Rollout) -> None:
        """What a stopped rollout leaves: what was generated so far, or nothing."""
        if self._stop not in (pb.STOP_MODE_PARTIAL, pb.STOP_MODE_FINISH_TURN):
            # A verifier may have been at work on it.
            for kept in ("response", "trajectory", "blobs"):
                rollout.ClearField(kept)
            rollout.outcome = OUTCOME_CANCELLED
            why = error("CANCELLED", self._stop_reason or "it was stopped")
            rollout.failure.status.CopyFrom(to_status_message(why))
            rollout.failure.failure_class = FAILURE_CLASS_CLIENT
            rollout.failure.stage = self.run.stage  # type: ignore[assignment]
        else:
            self._fill(rollout)
            rollout.outcome = OUTCOME_PARTIAL
        rollout.termination_reason = "cancelled"
        rollout.ClearField("reward")

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
        await awaited(self._server.run(run), "run")

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
            if self._stop is not None:
                # Of a thousand that are stopped together, all calls end before the first session is closed.
                await asyncio.sleep(0)
            await self._resources.CloseSession(request, timeout=CLOSE_TIMEOUT_S)
        except GymdError as failure:
            # The session expires by itself; the rollout's result does not depend on it.
            self._server.log.warning("close_session_failed", extra={"why": str(failure)})
        except asyncio.CancelledError:
            self._close_later()  # closing twice is safe
            raise

    def _close_later(self) -> None:
        """Closes the session of a rollout that was cancelled: the cancelled task cannot wait for it."""
        if self._seeded:
            _closer().add(self._close)

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
            # Not CopyFrom: that copies packed fields number by number, which takes 20 times as long.
            rollout.ClearField("trajectory")
            rollout.trajectory.MergeFrom(run.tokens.trajectory)
        del rollout.blobs[:]  # filled before, if it was the verifier that failed
        rollout.blobs.extend(run.blobs)
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
        if self._stop_ns:
            _span(timing.release_duration, time.perf_counter_ns() - self._stop_ns)


class _Closer:
    """Closes the sessions of cancelled rollouts, in the background of one event loop.

    Of a thousand rollouts that are cancelled together, the model requests of all end before most sessions
    are closed: an engine that goes on generating costs more than a session that stays a moment longer.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._starter: asyncio.Task[None] | None = None
        # Kept here: the event loop holds tasks weakly.
        self._running: set[asyncio.Task[None]] = set()

    def add(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a call that closes a session, soon."""
        self._waiting.append(close)
        if self._starter is None:
            self._starter = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            for _ in range(min(CLOSED_PER_TURN, len(self._waiting))):
                task = loop.create_task(self._waiting.popleft()())
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            await asyncio.sleep(0)
        self._starter = None

    async def idle(self) -> None:
        """Waits until all of them are closed; each attempt is bounded."""
        while self._starter is not None or self._running:
            await asyncio.wait([*self._running, *([self._starter] if self._starter else [])])


_closers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Closer] = WeakKeyDictionary()


def _closer() -> _Closer:
    loop = asyncio.get_running_loop()
    closer = _closers.get(loop)
    if closer is None:
        closer = _closers[loop] = _Closer()
    return closer


async def sessions_closed() -> None:
    """Waits until the sessions of cancelled rollouts are closed."""
    await _closer().idle()


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

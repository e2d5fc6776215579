"""Resources servers: tools, the state of each session, and the verifier."""

from __future__ import annotations

import asyncio
import contextlib
import math
import numbers
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pydantic

from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1 import rollout_pb2
from gymd.errors import GymdError, error
from gymd.mesh import CallContext
from gymd.sdk.base import Server
from gymd.sdk.contain import awaited, in_thread
from gymd.sdk.hooks import Hook, Session, TaskView, Values
from gymd.sdk.tools import BoundTool, ToolError, collect_tools, error_text, json_text, output_text

__all__ = ["ResourcesServer", "Reward"]

IDLE_LIMIT_S = 3600.0
"""A session without a call for this long is closed, unless its seeder asked for another time."""
SWEEP_S = 30.0
UNWIND_S = 3.0
"""How long the end of a session waits for calls that were given up; its caller waits longer."""
CLOSE_LIMIT_S = 120.0
"""close_session is stopped if it takes longer, whoever waits for it."""
THREADS = 64
"""Threads for sync tools and hooks of one server."""


class Reward:
    """What a verifier says beyond a number.

    Args:
        value: the scalar reward.
        components: named parts of it.
        extras: further outputs, kept with the rollout as JSON.
        use_for_loss: whether the trainer should learn from this rollout; None leaves it to the trainer.
        use_for_baseline: whether it counts in its group's baseline; None leaves it to the trainer.
    """

    __slots__ = ("components", "extras", "use_for_baseline", "use_for_loss", "value")

    def __init__(
        self,
        value: float,
        components: Mapping[str, float] | None = None,
        extras: Mapping[str, Any] | None = None,
        *,
        use_for_loss: bool | None = None,
        use_for_baseline: bool | None = None,
    ) -> None:
        self.value = value
        self.use_for_loss = use_for_loss
        self.use_for_baseline = use_for_baseline
        self.components = components or {}
        self.extras = extras or {}


class ResourcesServer(Server):
    """Base of environments: mark tools with @tool and implement `verify`.

    Hooks, all optional but verify. They name what they need, in any order: `session`, `task`, `create_params`
    (what the policy was asked), `response`, `text` (all assistant text of the response), `outcome`. A `task`
    annotated with a pydantic model receives the row's own fields, validated. A verify that can do without a
    session takes it as `session: Session | None = None`.

    - `seed_session(...)`: set `session.state`. If it fails or is cancelled, it frees what it took itself.
    - `verify(...)`: return a number or a Reward.
    - `close_session(session)`: free what seed_session took; it goes on if its caller gives up.
    - `aggregate_metrics(self, rollouts)`: metrics over many scored rollouts, as a dict.
    - `key_metrics`: names among them that matter most, or a method that picks them from the metrics.
    """

    kind = "resources"
    key_metrics: Sequence[str] | Callable[[dict[str, Any]], Sequence[str]] = ("mean_reward",)

    verify: Callable[..., Any]
    seed_session: Callable[..., Any]
    close_session: Callable[..., Any]

    def aggregate_metrics(self, rollouts: Sequence[pb.ScoredRollout]) -> dict[str, Any]:
        """Mean, standard deviation and count of the rewards that are set."""
        values = [item.reward.value for item in rollouts if item.reward.HasField("value")]
        if not values:
            return {"count": 0}
        return {
            "count": len(values),
            "mean_reward": statistics.fmean(values),
            "std_reward": statistics.pstdev(values),
        }

    def servicer(self) -> ResourcesServicer:
        """The wire shell."""
        return ResourcesServicer(self)


class ResourcesServicer:
    """ResourcesService over a ResourcesServer."""

    def __init__(self, server: ResourcesServer) -> None:
        if not hasattr(server, "verify"):
            raise TypeError(f"{type(server).__name__} has no verify method: return a number or a Reward")
        self._server = server
        self._executor: ThreadPoolExecutor | None = None
        self.tools: dict[str, BoundTool] = collect_tools(server)
        self._verify = Hook(server.verify, self._threads)
        self._seed = Hook(server.seed_session, self._threads) if hasattr(server, "seed_session") else None
        self._close = Hook(server.close_session, self._threads) if hasattr(server, "close_session") else None
        self.sessions: dict[str, Session] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def _threads(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix=self._server.name)
        return self._executor

    # The service.

    async def ListTools(self, request: pb.ListToolsRequest, context: CallContext) -> pb.ListToolsResponse:
        return pb.ListToolsResponse(tools=[item.definition for item in self.tools.values()])

    async def SeedSession(
        self, request: pb.SeedSessionRequest, context: CallContext
    ) -> pb.SeedSessionResponse:
        if not request.session_id:
            raise error("INVALID_REQUEST", "session_id is missing: choose a unique one", field="session_id")
        known = self.sessions.get(request.session_id)
        if known is not None:
            if known.request_id == request.request_id and known.task.message == request.task:
                if known.seeding is not None:
                    await asyncio.shield(known.seeding)
                return pb.SeedSessionResponse()
            text = f"a session {request.session_id!r} is open already"
            raise error("NAME_TAKEN", text, session_id=request.session_id)
        idle = IDLE_LIMIT_S
        if request.HasField("idle_timeout"):
            idle = request.idle_timeout.ToNanoseconds() / 1e9
        task = TaskView(request.task)
        session = Session(request.session_id, task, request.request_id, idle)
        # A plain conversation has no fields; what verify needs is missed only when it is called.
        if request.task.fields_json:
            self._verify.check_task(task)
        session.last_used = asyncio.get_running_loop().time()
        # Known before it is seeded, so that a repeat that comes meanwhile does not seed twice.
        self.sessions[session.id] = session
        if self._seed is not None:
            await self._run_seed(session)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return pb.SeedSessionResponse()

    async def _run_seed(self, session: Session) -> None:
        assert self._seed is not None
        seeding = session.seeding = asyncio.get_running_loop().create_future()
        session.begin()
        try:
            await self._seed(Values(session, session.task))
        except BaseException as failure:
            self.sessions.pop(session.id, None)
            text = f"seeding {session.id!r} was interrupted; start the rollout again"
            lost = error("SESSION_LOST", text, session_id=session.id)
            _fail(seeding, failure if isinstance(failure, Exception) else lost)
            raise
        finally:
            session.end()
        seeding.set_result(None)
        session.seeding = None

    async def CallTool(self, request: pb.CallToolRequest, context: CallContext) -> pb.CallToolResponse:
        session = self._session(request.session_id)
        bound = self.tools.get(request.name)
        if bound is None:
            names = ", ".join(self.tools) or "none"
            text = f"there is no tool {request.name!r}; the tools are: {names}"
            raise error("TOOL_NOT_FOUND", text, tool=request.name)
        if not request.call_id:
            raise error("INVALID_REQUEST", "call_id is missing", field="call_id")
        answer = session.answers.get(request.call_id)
        if answer is not None:
            return await asyncio.shield(answer)
        answer = session.answers[request.call_id] = asyncio.get_running_loop().create_future()
        session.begin()
        try:
            response = await self._call(bound, session, request.arguments_json)
        except asyncio.CancelledError:
            # Whether it was applied is unknown: a repeat must neither apply it twice nor find half an answer.
            text = f"the call {request.call_id!r} of {bound.name} was interrupted; start the rollout again"
            _fail(answer, error("SESSION_LOST", text, session_id=session.id, call_id=request.call_id))
            raise
        except GymdError as failure:
            _fail(answer, failure)
            raise
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure}"
            self._server.log.warning("tool_raised", extra={"tool": bound.name, "why": text})
            response = pb.CallToolResponse(output=error_text(text), is_error=True)
        finally:
            session.end()
        answer.set_result(response)
        return response

    async def _call(self, bound: BoundTool, session: Session, arguments_json: str) -> pb.CallToolResponse:
        try:
            arguments = bound.parse(arguments_json)
            if bound.wants_session:
                arguments["session"] = session
            if bound.is_async:
                result = await awaited(bound.function(**arguments), bound.name)
            else:
                result = await in_thread(self._threads(), lambda: bound.function(**arguments), bound.name)
        except ToolError as refusal:
            return pb.CallToolResponse(output=str(refusal), is_error=True)
        return pb.CallToolResponse(output=output_text(result))

    async def Verify(self, request: pb.VerifyRequest, context: CallContext) -> pb.VerifyResponse:
        if not request.session_id:
            if self._verify.needs_session:
                text = f"{self._server.name} verifies inside a session only: seed one and name it"
                raise error("INVALID_REQUEST", text, field="session_id")
            values = Values(None, TaskView(request.task), request.response, request.outcome)
            return pb.VerifyResponse(reward=self._reward(await self._verify(values)))
        session = self._session(request.session_id)
        # It holds the task already, parsed.
        values = Values(session, session.task, request.response, request.outcome)
        session.begin()
        try:
            verdict = await self._verify(values)
        finally:
            session.end()
        return pb.VerifyResponse(reward=self._reward(verdict))

    def _reward(self, verdict: Any) -> rollout_pb2.Reward:
        said = verdict if isinstance(verdict, Reward) else Reward(verdict)
        value, components, extras = said.value, said.components, said.extras
        for what, number in (("", value), *((f" as {name!r}", part) for name, part in components.items())):
            if not isinstance(number, numbers.Real) or not math.isfinite(number):
                text = f"verify of {self._server.name} returned {number!r}{what}, which is no finite number"
                raise error("SERVER_CODE_FAILED", text, server=self._server.name)
        reward = rollout_pb2.Reward(value=float(value))
        if said.use_for_loss is not None:
            reward.use_for_loss = said.use_for_loss
        if said.use_for_baseline is not None:
            reward.use_for_baseline = said.use_for_baseline
        for name, part in components.items():
            reward.components[name] = float(part)
        if extras:
            reward.extras_json = json_text(extras, _extra)
        return reward

    async def CloseSession(
        self, request: pb.CloseSessionRequest, context: CallContext
    ) -> pb.CloseSessionResponse:
        await self._close_session(request.session_id)
        return pb.CloseSessionResponse()

    async def AggregateMetrics(
        self, request: pb.AggregateMetricsRequest, context: CallContext
    ) -> pb.AggregateMetricsResponse:
        # Over 100,000 rollouts this takes seconds: never on the event loop.
        metrics = await in_thread(
            self._threads(), lambda: self._server.aggregate_metrics(request.rollouts), "aggregate_metrics"
        )
        keys = self._server.key_metrics
        return pb.AggregateMetricsResponse(
            metrics_json=json_text(metrics, _extra),
            key_metrics=keys(metrics) if callable(keys) else keys,
        )

    # Sessions.

    def _session(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            text = f"no session {session_id!r}: it was never seeded, was closed, or expired"
            raise error("SESSION_NOT_FOUND", text, session_id=session_id)
        session.last_used = asyncio.get_running_loop().time()
        return session

    async def _close_session(self, session_id: str) -> None:
        """Closes a session, or waits for that. It goes on if the caller gives up: it may free a container."""
        session = self.sessions.pop(session_id, None)
        if session is not None and (session.at_work or self._close is not None):
            closing = asyncio.get_running_loop().create_task(self._run_close(session))
            self._closing[session_id] = closing
        if session_id in self._closing:
            await asyncio.shield(self._closing[session_id])

    async def _run_close(self, session: Session) -> None:
        try:
            # Calls that were given up may still unwind: what is closed is released.
            if not await session.quiet(UNWIND_S):
                self._server.log.warning("session_closed_at_work", extra={"session": session.id})
            if self._close is not None and session.seeding is None:  # else it was never seeded
                async with asyncio.timeout(CLOSE_LIMIT_S):
                    await self._close(Values(session, session.task))
        except Exception as failure:  # logged here, because there may be nobody to tell it to
            extra = {"session": session.id, "why": repr(failure)}
            self._server.log.error("close_session_raised", extra=extra)
            raise
        finally:
            if self._closing.get(session.id) is asyncio.current_task():
                del self._closing[session.id]

    async def _sweep(self) -> None:
        """Closes sessions that nobody used for their idle limit: their agent is gone."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            now = loop.time()
            for session in [s for s in self.sessions.values() if s.idle_since(now) > s.idle_limit]:
                self._server.log.warning("session_expired", extra={"session": session.id})
                with contextlib.suppress(Exception):  # it is logged
                    await self._close_session(session.id)

    async def shut(self) -> None:
        """Closes every session and frees the threads."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        ends = [self._close_session(session_id) for session_id in (*self._closing, *self.sessions)]
        await asyncio.gather(*ends, return_exceptions=True)  # failures are logged
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _fail(answer: asyncio.Future[Any], failure: Exception) -> None:
    """Keeps a failure for repeats of the call; usually there is none, which is no reason to complain."""
    answer.set_exception(failure)
    answer.exception()


def _extra(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)

"""A scripted daemon on a real socket: RegistryService and RolloutService, to test the client and gymctl.

It keeps the protocol's promises by itself (admissions in order, numbered results, summary) and records what
the client sent. A test bends it through the attributes of `FakeDaemon`. Run as a program it prints its
address and serves until its stdin closes.
"""

from __future__ import annotations

import asyncio
import collections
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import grpc

from gymapi.v1 import registry_service_pb2 as registry
from gymapi.v1 import registry_service_pb2_grpc as registry_grpc
from gymapi.v1 import rollout_pb2, rollout_service_pb2_grpc
from gymapi.v1 import rollout_service_pb2 as rollouts
from gymapi.v1.errors_pb2 import ErrorStatus
from gymapi.v1.rollout_service_pb2 import StreamRolloutsRequest, StreamRolloutsResponse, TaskSubmission
from gymd.convert.responses import response_from_json
from gymd.errors import GymdError, abort, error, to_status_message
from gymd.mesh.options import MAX_MESSAGE_BYTES, SERVER_OPTIONS

__all__ = ["FakeDaemon", "Session", "rollout", "server", "weather_response"]

RESULTS_PER_FRAME = 64


def server(name: str, kind: str = "agent", state: str = "READY", **fields: Any) -> registry.Server:
    """A registered server."""
    return registry.Server(
        server_id=f"id-{name}",
        name=name,
        kind=registry.ServerKind.Value(f"SERVER_KIND_{kind.upper()}"),
        state=registry.ServerState.Value(f"SERVER_STATE_{state}"),
        placement=registry.PLACEMENT_SHARED,
        **fields,
    )


def weather_response(text: str = "It is 10 °C and cold.") -> dict[str, Any]:
    """A Responses object with one tool call and an answer."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "fake",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {
                "type": "function_call",
                "call_id": "call_1",
                "name": "get_weather",
                "arguments": '{"city": "Bonn"}',
            },
            {"type": "function_call_output", "call_id": "call_1", "output": '{"weather": "cold"}'},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            },
        ],
        "usage": {
            "input_tokens": 20,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 27,
        },
    }


_RESPONSE = response_from_json(weather_response())


def rollout(
    submission: TaskSubmission,
    index: int,
    *,
    outcome: str = "COMPLETED",
    reward: float | None = 1.0,
    failure: GymdError | None = None,
    extras: dict[str, Any] | None = None,
    components: dict[str, float] | None = None,
) -> rollout_pb2.Rollout:
    """A finished rollout of a submission."""
    made = rollout_pb2.Rollout(
        rollout_id=f"{submission.task_id}/{index}",
        task_id=submission.task_id,
        group_id=submission.group_id,
        index=index,
        attempt=1,
        agent=submission.task.agent or "simple_agent",
        outcome=rollout_pb2.Outcome.Value(f"OUTCOME_{outcome}"),
        termination_reason="final_message",
        model_call_count=2,
        tool_call_count=1,
    )
    made.timing.start_time.FromNanoseconds(1_000_000_000)
    made.timing.end_time.FromNanoseconds(1_250_000_000)
    if failure is not None:
        made.failure.status.CopyFrom(to_status_message(failure))
        made.failure.failure_class = rollout_pb2.FAILURE_CLASS_INFRA
        made.failure.stage = rollout_pb2.STAGE_MODEL
        made.failure.retriable = True
        return made
    made.response.CopyFrom(_RESPONSE)
    if reward is not None:
        made.reward.value = reward
        made.reward.components.update(components or {})
        made.reward.extras_json = json.dumps(extras) if extras else ""
    return made


@dataclass
class Session:
    """What one client did on its stream."""

    opening: rollouts.OpenSession
    granted: int = 0
    submitted: int = 0
    delivered: int = 0
    acked: int = 0
    half_closed: bool = False
    broken: bool = False
    frames: list[str] = field(default_factory=list)
    tasks_per_frame: list[int] = field(default_factory=list)
    cancels: list[rollouts.CancelWork] = field(default_factory=list)
    updates: list[rollouts.PolicyUpdate] = field(default_factory=list)


class FakeDaemon(registry_grpc.RegistryServiceServicer, rollout_service_pb2_grpc.RolloutServiceServicer):
    """A daemon that answers by script.

    Attributes:
        answer: makes the rollout of (submission, index); None keeps it in flight until it is cancelled.
        reject: the error for a task, or None.
        die_after: breaks the stream after so many results.
        drain_after: announces a shutdown after so many results.
        leaves_at_once: ends the stream itself when it drains and nothing is in flight.
        max_message_bytes, features: what `opened` announces.
    """

    def __init__(self, servers: Iterable[registry.Server] = (), default_agent: str = "") -> None:
        self.servers = list(servers)
        self.default_agent = default_agent
        self.answer: Callable[[TaskSubmission, int], rollout_pb2.Rollout | None] = rollout
        self.reject: Callable[[TaskSubmission], GymdError | None] = lambda submission: None
        self.die_after: int | None = None
        self.drain_after: int | None = None
        self.leaves_at_once = False
        self.max_message_bytes = MAX_MESSAGE_BYTES
        self.features: list[str] = []
        self.progress_interval_s = 10.0
        self.sessions: list[Session] = []
        self.calls: list[str] = []
        self.change = asyncio.Event()  # set whenever a client said something
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        registry_grpc.add_RegistryServiceServicer_to_server(self, self._server)
        rollout_service_pb2_grpc.add_RolloutServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.kill()

    async def kill(self) -> None:
        """Cuts every connection at once."""
        await self._server.stop(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition on the recorded facts holds."""
        async with asyncio.timeout(20):
            while not condition():
                self.change.clear()
                await self.change.wait()

    # ---- RegistryService

    async def ListServers(self, request: Any, context: Any) -> registry.ListServersResponse:
        self.calls.append("ListServers")
        found = [one for one in self.servers if request.name in ("", one.name)]
        found = [one for one in found if request.kind in (0, one.kind)]
        info = registry.DaemonInfo(
            version="0.0.fake", address=self.address, pid=1, default_agent=self.default_agent
        )
        info.start_time.GetCurrentTime()
        return registry.ListServersResponse(servers=found, revision=1, daemon=info)

    async def WatchServers(self, request: Any, context: Any) -> AsyncIterator[registry.WatchServersResponse]:
        yield registry.WatchServersResponse(revision=1, snapshot=True, servers=self.servers)
        await asyncio.Event().wait()

    async def DrainServer(self, request: Any, context: Any) -> registry.DrainServerResponse:
        found = await self._named(request.name, context)
        for one in found:
            one.state = registry.SERVER_STATE_DRAINING
        return registry.DrainServerResponse(servers=found)

    async def RestartServer(self, request: Any, context: Any) -> registry.RestartServerResponse:
        await self._named(request.name, context)
        return registry.RestartServerResponse(restarted_names=[request.name, "neighbour"])

    async def GetServerLogs(self, request: Any, context: Any) -> registry.GetServerLogsResponse:
        await self._named(request.name, context)
        lines = [f"line {number}" for number in range(1, 4)][-(request.line_count or 100) :]
        return registry.GetServerLogsResponse(logs=[registry.ServerLog(host_id="host-1", pid=7, lines=lines)])

    async def _named(self, name: str, context: Any) -> list[registry.Server]:
        found = [one for one in self.servers if one.name == name]
        if not found:
            await abort(context, error("SERVER_NOT_FOUND", f"no server is called {name}", server=name))
        return found

    # ---- RolloutService

    async def ListSessions(self, request: Any, context: Any) -> rollouts.ListSessionsResponse:
        return rollouts.ListSessionsResponse(
            sessions=[rollouts.SessionInfo(client_name=one.opening.client_name) for one in self.sessions]
        )

    async def GetMetrics(self, request: Any, context: Any) -> rollouts.GetMetricsResponse:
        return rollouts.GetMetricsResponse(metrics=[rollouts.Metric(name="rollouts_total", value=3)])

    async def StreamRollouts(
        self, frames: AsyncIterator[StreamRolloutsRequest], context: Any
    ) -> AsyncIterator[StreamRolloutsResponse]:
        first = await anext(aiter(frames))
        assert first.WhichOneof("frame") == "open", first
        session = Session(first.open, granted=first.open.granted_rollouts)
        self.sessions.append(session)
        opened = rollouts.SessionOpened(
            session_id=f"session-{len(self.sessions)}",
            max_message_bytes=self.max_message_bytes,
            features=self.features,
        )
        opened.progress_interval.FromNanoseconds(int(self.progress_interval_s * 1e9))
        yield StreamRolloutsResponse(opened=opened)
        try:
            async for frame in _Script(self, session, frames).run(context):
                yield frame
        except (asyncio.CancelledError, GeneratorExit):
            session.broken = True
            self.change.set()
            raise


class _Script:
    """One stream: what came in decides what goes out, in the order of a real daemon."""

    def __init__(self, daemon: FakeDaemon, session: Session, frames: AsyncIterator[Any]) -> None:
        self.daemon = daemon
        self.session = session
        self.frames = frames
        self.held: dict[str, list[tuple[TaskSubmission, int]]] = {}
        self.outcomes: collections.Counter[int] = collections.Counter()
        self.rejected = 0
        self.tasks = 0
        self.drained = False

    async def run(self, context: Any) -> AsyncIterator[StreamRolloutsResponse]:
        async for frame in self.frames:
            kind = frame.WhichOneof("frame")
            self.session.frames.append(kind)
            for answer in getattr(self, f"on_{kind}")(getattr(frame, kind)):
                yield answer
                if self.daemon.die_after is not None and self.session.delivered >= self.daemon.die_after:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            self.daemon.change.set()
            if self.drained and self.daemon.leaves_at_once:
                break
        self.session.half_closed = not self.drained
        summary = rollouts.SessionSummary(
            accepted_task_count=self.tasks,
            rejected_task_count=self.rejected,
            result_count=self.session.delivered,
            outcome_counts=[
                rollouts.OutcomeCount(outcome=outcome, count=count)  # type: ignore[arg-type]
                for outcome, count in sorted(self.outcomes.items())
            ],
        )
        yield StreamRolloutsResponse(summary=summary)

    def on_grant(self, grant: rollouts.GrantCredits) -> Iterable[StreamRolloutsResponse]:
        assert grant.granted_rollouts >= self.session.granted, "a grant shrank"
        self.session.granted = grant.granted_rollouts
        return ()

    def on_ack(self, ack: rollouts.AckResults) -> Iterable[StreamRolloutsResponse]:
        assert self.session.acked < ack.through_sequence <= self.session.delivered, "a wrong ack"
        self.session.acked = ack.through_sequence
        return ()

    def on_submit(self, submit: rollouts.SubmitTasks) -> Iterable[StreamRolloutsResponse]:
        self.session.tasks_per_frame.append(len(submit.tasks))
        admissions, done = rollouts.TaskAdmissions(), []
        for submission in submit.tasks:
            refusal = self._admit(submission)
            admissions.admissions.add(task_id=submission.task_id, rejection=refusal)
            if refusal is None:
                done += self._start(submission)
        yield StreamRolloutsResponse(admissions=admissions)
        yield from self._deliver(done)

    def on_policy_update(self, update: rollouts.PolicyUpdate) -> Iterable[StreamRolloutsResponse]:
        self.session.updates.append(update)
        ack = rollouts.PolicyUpdateAck(version=update.version, phase=update.phase)
        yield StreamRolloutsResponse(policy_update_ack=ack)

    def on_cancel(self, cancel: rollouts.CancelWork) -> Iterable[StreamRolloutsResponse]:
        self.session.cancels.append(cancel)
        scope = cancel.WhichOneof("scope")
        answer = rollouts.WorkCancelled(request=cancel)
        if scope == "environment":
            failure = error("SERVER_NOT_FOUND", f"nobody knows of environment {cancel.environment!r}")
            answer.error.CopyFrom(to_status_message(failure))
            yield StreamRolloutsResponse(cancelled=answer)
            return
        covered = [
            pair
            for pairs in self.held.values()
            for pair in pairs
            if scope == "all"
            or (scope == "task_id" and pair[0].task_id == cancel.task_id)
            or (scope == "group_id" and pair[0].group_id == cancel.group_id)
            or (scope == "agent" and pair[0].task.agent == cancel.agent)
            or (scope == "rollout_id" and f"{pair[0].task_id}/{pair[1]}" == cancel.rollout_id)
        ]
        done = []
        for pair in covered:
            self.held[pair[0].task_id].remove(pair)
            done.append(rollout(*pair, outcome="CANCELLED", failure=error("CANCELLED", "as asked")))
        answer.cancelled_count = len(covered)
        yield StreamRolloutsResponse(cancelled=answer)
        yield from self._deliver(done)

    def _admit(self, submission: TaskSubmission) -> ErrorStatus | None:
        count = submission.rollout_count or 1
        refusal = self.daemon.reject(submission)
        if self.drained:
            refusal = error("DRAINING", "the daemon is shutting down")
        elif self.session.submitted + count > self.session.granted:
            refusal = error("CREDIT_EXCEEDED", "more than granted")
        if refusal is not None:
            self.rejected += 1
            return to_status_message(refusal)
        self.tasks += 1
        self.session.submitted += count
        return None

    def _start(self, submission: TaskSubmission) -> list[rollout_pb2.Rollout]:
        done = []
        first = submission.first_index
        for index in range(first, first + (submission.rollout_count or 1)):
            made = self.daemon.answer(submission, index)
            if made is None:
                self.held.setdefault(submission.task_id, []).append((submission, index))
            else:
                done.append(made)
        return done

    def _deliver(self, done: list[rollout_pb2.Rollout]) -> Iterable[StreamRolloutsResponse]:
        for start in range(0, len(done), RESULTS_PER_FRAME):
            frame = StreamRolloutsResponse()
            for made in done[start : start + RESULTS_PER_FRAME]:
                self.session.delivered += 1
                self.outcomes[made.outcome] += 1
                frame.results.results.add(sequence=self.session.delivered, rollout=made)
            yield frame
            limit = self.daemon.drain_after
            if limit is not None and self.session.delivered >= limit and not self.drained:
                self.drained = True
                yield StreamRolloutsResponse(draining=rollouts.Draining(reason="asked to stop"))


async def main() -> None:
    """Serves weather rollouts until stdin closes."""
    async with FakeDaemon([server("simple_agent")], default_agent="simple_agent") as daemon:
        sys.stdout.write(daemon.address + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())

"""Stopping a rollout in its ways, and changing its policy, over every channel: nothing is left behind."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from gymapi.v1 import agent_service_pb2 as pb
from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymapi.v1.rollout_pb2 import Outcome, Rollout, Stage
from gymd.errors import GymdError
from gymd.mesh import on_cancel
from gymd.sdk import ResourcesServer, Session, tool
from gymd.sdk.model import ModelCall
from gymd.sdk.testing import (
    FakeModel,
    RunningMesh,
    Transport,
    eventually,
    function_call,
    make_response,
    make_task,
    message,
    start_servers,
)
from gymservers.agents.simple_agent.server import SimpleAgent

PARTIAL, CANCELLED, COMPLETED = (
    Outcome.OUTCOME_PARTIAL,
    Outcome.OUTCOME_CANCELLED,
    Outcome.OUTCOME_COMPLETED,
)


class Bench(ResourcesServer):
    """Its tool and its verifier wait when they are told to."""

    events: list[str]
    begun: asyncio.Event
    hang_in: str

    async def start(self) -> None:
        self.events, self.begun, self.hang_in = [], asyncio.Event(), ""

    async def close_session(self, session: Session) -> None:
        self.events.append("closed")

    async def _hang(self, where: str) -> None:
        if where == self.hang_in:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.events.append(f"{where} stopped")

    @tool
    async def look(self) -> str:
        """Look."""
        await self._hang("tool")
        return "seen"

    async def verify(self, session: Session) -> float:
        await self._hang("verify")
        return 1.0


class Model:
    """A policy that calls a tool first, then answers; one of its calls waits for the test."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.hang_at = 0
        self.calls = self.aborted = 0

    async def __call__(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        self.calls += 1
        number = self.calls
        if number == self.hang_at:
            self.begun.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.aborted += 1
                raise
        item = function_call("look", "{}") if number == 1 else message("done")
        item.token_trace.prompt_token_ids.extend([1] * number)
        item.token_trace.generation_token_ids.append(7)
        item.token_trace.routed_experts = f"[[{number}]]"
        return make_response(item)


class Setup:
    def __init__(self, mesh: RunningMesh, model: Model) -> None:
        self.bench: Any = mesh["bench"].server
        self.model = model
        self.agent = mesh["agent"].stub
        self.session = uuid4().hex  # what a process knows of a policy outlives a test

    def begin(self, **fields: Any) -> asyncio.Task[Rollout]:
        task = make_task({"responses_create_params": {"input": "Look."}})
        fields = {"policy_session": self.session, "rollout_id": "r/0"} | fields
        request = pb.RunRolloutRequest(attempt=1, task=task, **fields)

        async def run() -> Rollout:
            return (await self.agent.RunRollout(request, timeout=20)).rollout

        return asyncio.create_task(run())

    async def stop(self, mode: pb.StopMode, *rollout_ids: str) -> None:
        rollouts = [
            pb.RolloutAttempt(rollout_id=rollout_id, attempt=1, policy_session=self.session)
            for rollout_id in rollout_ids or ["r/0"]
        ]
        request = pb.StopRolloutsRequest(rollouts=rollouts, mode=mode, reason="because")
        await self.agent.StopRollouts(request, timeout=10)

    async def policy(self, **fields: Any) -> None:
        await self.agent.UpdatePolicy(
            pb.UpdatePolicyRequest(policy_session=self.session, **fields), timeout=5
        )


@pytest.fixture(params=["link", "plain", "in-process"])
async def setup(request: pytest.FixtureRequest) -> AsyncIterator[Setup]:
    model = Model()
    async with _started(model, request.param) as mesh:
        yield Setup(mesh, model)


@asynccontextmanager
async def _started(
    script: Callable[..., Awaitable[Response]], transport: Transport
) -> AsyncIterator[RunningMesh]:
    peers = {"model_server": {"name": "model"}, "resources_server": {"name": "bench"}}
    servers: dict[str, Any] = {
        "model": (FakeModel, {"script": script}),
        "bench": (Bench, {}),
        "agent": (SimpleAgent, peers | {"return_tokens": True}),
    }
    async with start_servers(servers, transport=transport) as mesh:
        yield mesh


class TestStop:
    async def test_abort_while_the_model_answers(self, setup: Setup) -> None:
        setup.model.hang_at = 2
        rollout = setup.begin()
        await setup.model.begun.wait()
        await setup.stop(pb.STOP_MODE_ABORT)
        # Released means released: by now the model call is aborted and the session closed.
        assert (setup.model.aborted, setup.bench.events) == (1, ["closed"])
        ended = await rollout
        assert (ended.outcome, ended.failure.stage) == (CANCELLED, Stage.STAGE_MODEL)
        assert "because" in ended.failure.status.message
        assert ended.timing.HasField("release_duration")
        assert not ended.HasField("reward")

    @pytest.mark.parametrize("where", ["tool", "verify"])
    async def test_abort_reaches_tools_and_verifiers(self, setup: Setup, where: str) -> None:
        setup.bench.hang_in = where
        rollout = setup.begin()
        await setup.bench.begun.wait()
        await setup.stop(pb.STOP_MODE_ABORT)
        assert setup.bench.events == [f"{where} stopped", "closed"]
        ended = await rollout
        assert ended.outcome == CANCELLED
        assert not any(ended.HasField(kept) for kept in ("response", "trajectory"))
        assert not ended.blobs

    async def test_partial_while_it_is_verified_keeps_everything_once(self, setup: Setup) -> None:
        setup.bench.hang_in = "verify"
        rollout = setup.begin()
        await setup.bench.begun.wait()
        await setup.stop(pb.STOP_MODE_PARTIAL)
        ended = await rollout
        assert (ended.outcome, len(ended.trajectory.segments)) == (PARTIAL, 2)
        assert [blob.segment for blob in ended.blobs] == [0, 1]
        assert not ended.HasField("reward")

    async def test_partial_keeps_what_was_generated(self, setup: Setup) -> None:
        setup.model.hang_at = 2
        rollout = setup.begin()
        await setup.model.begun.wait()
        await setup.stop(pb.STOP_MODE_PARTIAL)
        ended = await rollout
        assert (ended.outcome, ended.termination_reason) == (PARTIAL, "cancelled")
        kinds = [item.WhichOneof("kind") for item in ended.response.output]
        assert kinds == ["function_call", "function_call_output"]
        assert len(ended.trajectory.segments) == 1
        assert not ended.HasField("reward")
        assert not ended.HasField("failure")

    async def test_finish_turn_lets_the_model_call_end(self, setup: Setup) -> None:
        setup.model.hang_at = 1
        rollout = setup.begin()
        await setup.model.begun.wait()
        stopping = asyncio.create_task(setup.stop(pb.STOP_MODE_FINISH_TURN))
        await asyncio.sleep(0.05)
        assert not stopping.done()
        setup.model.go.set()
        await stopping
        ended = await rollout
        assert (ended.outcome, setup.model.aborted) == (PARTIAL, 0)
        assert [item.WhichOneof("kind") for item in ended.response.output] == ["function_call"]
        assert setup.bench.events == ["closed"]

    async def test_finish_turn_stops_a_tool_and_lets_a_verifier_end(self, setup: Setup) -> None:
        setup.bench.hang_in = "tool"
        rollout = setup.begin()
        await setup.bench.begun.wait()
        await setup.stop(pb.STOP_MODE_FINISH_TURN)
        assert (await rollout).outcome == PARTIAL
        assert setup.bench.events == ["tool stopped", "closed"]

    async def test_a_harder_stop_may_follow(self, setup: Setup) -> None:
        setup.model.hang_at = 1
        rollout = setup.begin()
        await setup.model.begun.wait()
        gentle = asyncio.create_task(setup.stop(pb.STOP_MODE_FINISH_TURN))
        await asyncio.sleep(0.05)
        await setup.stop(pb.STOP_MODE_ABORT)
        await gentle
        assert ((await rollout).outcome, setup.model.aborted) == (CANCELLED, 1)

    async def test_a_harder_stop_may_follow_before_the_first_has_worked(self, setup: Setup) -> None:
        setup.model.hang_at = 2
        rollout = setup.begin()
        await setup.model.begun.wait()
        await asyncio.gather(setup.stop(pb.STOP_MODE_PARTIAL), setup.stop(pb.STOP_MODE_ABORT))
        # Over gRPC the first one may be through by then.
        assert (await rollout).outcome in (CANCELLED, PARTIAL)
        assert (setup.model.aborted, setup.bench.events) == (1, ["closed"])

    async def test_a_rollout_that_is_named_twice_is_stopped_once(self, setup: Setup) -> None:
        setup.model.hang_at = 1
        rollout = setup.begin()
        await setup.model.begun.wait()
        await setup.stop(pb.STOP_MODE_ABORT, "r/0", "r/0")
        assert ((await rollout).outcome, setup.model.aborted) == (CANCELLED, 1)

    async def test_what_does_not_run_is_released(self, setup: Setup) -> None:
        await setup.stop(pb.STOP_MODE_ABORT)

    async def test_the_callers_own_cancel_still_works(self, setup: Setup) -> None:
        setup.model.hang_at = 1
        rollout = setup.begin()
        await setup.model.begun.wait()
        rollout.cancel()
        with pytest.raises((asyncio.CancelledError, GymdError)):
            await rollout
        await eventually(lambda: setup.bench.events == ["closed"], "the session is closed")


@pytest.mark.parametrize("transport", ["link", "in-process"])
@pytest.mark.parametrize("by_update", [False, True], ids=["stopped", "aborted by an update"])
async def test_of_many_all_requests_end_before_the_first_call_unwinds(
    transport: Transport, by_update: bool
) -> None:
    events: list[str] = []
    waiting: list[ModelCall] = []
    ids = [f"r/{number}" for number in range(20)]

    async def wait(params: ResponseCreateParams, call: ModelCall) -> Response:
        if len(waiting) == len(ids):  # asked again
            return make_response("done")
        forget = on_cancel(lambda: events.append("request ended"))
        waiting.append(call)
        try:
            await asyncio.Event().wait()
        finally:
            forget()
            events.append("unwound")
        raise AssertionError("unreachable")

    async with _started(wait, transport) as mesh:
        setup = Setup(mesh, Model())
        rollouts = [setup.begin(rollout_id=rollout_id) for rollout_id in ids]
        await eventually(lambda: len(waiting) == len(ids), "all model calls")
        if by_update:
            await setup.policy(abort_calls=True)
        else:
            await setup.stop(pb.STOP_MODE_ABORT, *ids)
            assert setup.bench.events == ["closed"] * len(ids)
        outcomes = [(await rollout).outcome for rollout in rollouts]
    assert events == ["request ended"] * len(ids) + ["unwound"] * len(ids)
    assert outcomes == [COMPLETED if by_update else CANCELLED] * len(ids)


async def test_large_data_of_a_model_call_stands_beside_the_conversation(setup: Setup) -> None:
    rollout = await setup.begin()
    assert [(blob.name, blob.segment, blob.data) for blob in rollout.blobs] == [
        ("routed_experts", 0, b"[[1]]"),
        ("routed_experts", 1, b"[[2]]"),
    ]
    assert rollout.blobs[0].sha256 == hashlib.sha256(b"[[1]]").hexdigest()
    assert rollout.blobs[0].media_type == "application/json"


class TestPolicy:
    async def test_segments_carry_the_version_that_sampled_them(self, setup: Setup) -> None:
        setup.model.hang_at = 2
        rollout = setup.begin(policy_session=setup.session, policy_version=4)
        await setup.model.begun.wait()
        await setup.policy(live_version=5)
        setup.model.go.set()
        versions = [segment.policy_version for segment in (await rollout).trajectory.segments]
        assert versions == [4, 4]  # the second call began before the update
        again = await setup.begin(policy_session=setup.session, policy_version=4)
        assert again.trajectory.segments[0].policy_version == 5  # updates are never taken back

    async def test_held_calls_wait_for_the_next_update(self, setup: Setup) -> None:
        setup.bench.hang_in = "nothing"
        setup.model.hang_at = 1
        rollout = setup.begin(policy_session=setup.session, policy_version=1)
        await setup.model.begun.wait()
        await setup.policy(live_version=1, hold_calls=True)
        setup.model.go.set()
        await asyncio.sleep(0.1)
        assert (setup.model.calls, rollout.done()) == (1, False)
        await setup.policy(live_version=2)
        segments = (await rollout).trajectory.segments
        assert [segment.policy_version for segment in segments] == [1, 2]

    async def test_aborted_calls_are_made_again(self, setup: Setup) -> None:
        setup.model.hang_at = 1
        rollout = setup.begin(policy_session=setup.session, policy_version=1)
        await setup.model.begun.wait()
        await setup.policy(live_version=1, hold_calls=True, abort_calls=True)
        await asyncio.sleep(0.1)
        assert (setup.model.aborted, setup.model.calls) == (1, 1)
        await setup.policy(live_version=2)
        ended = await rollout
        assert (ended.outcome, ended.model_call_count) == (COMPLETED, 1)
        assert ended.trajectory.segments[0].policy_version == 2

    async def test_an_update_that_every_agent_of_the_process_is_told(self, setup: Setup) -> None:
        setup.model.hang_at = 1
        rollout = setup.begin(policy_version=1)
        await setup.model.begun.wait()
        await asyncio.gather(*(setup.policy(live_version=2, abort_calls=True) for _ in range(3)))
        ended = await rollout
        assert (ended.outcome, setup.model.aborted) == (COMPLETED, 1)

    @pytest.mark.parametrize(
        ("mode", "outcome"), [(pb.STOP_MODE_ABORT, CANCELLED), (pb.STOP_MODE_FINISH_TURN, PARTIAL)]
    )
    async def test_a_held_rollout_can_be_stopped(
        self, setup: Setup, mode: pb.StopMode, outcome: Outcome
    ) -> None:
        setup.bench.hang_in = "nothing"
        setup.model.hang_at = 1
        rollout = setup.begin(policy_version=1)
        await setup.model.begun.wait()
        await setup.policy(live_version=1, hold_calls=True)
        setup.model.go.set()
        await asyncio.sleep(0.1)  # its second call is held
        await setup.stop(mode)
        assert ((await rollout).outcome, setup.model.calls) == (outcome, 1)

    async def test_a_rollout_that_begins_ends_a_hold_that_was_missed(self, setup: Setup) -> None:
        await setup.policy(live_version=1, hold_calls=True)
        ended = await setup.begin(policy_version=2)  # the daemon begins none during a pause
        assert ended.trajectory.segments[0].policy_version == 2

    async def test_the_same_ids_of_two_sessions_do_not_meet(self, setup: Setup) -> None:
        setup.model.hang_at = 1
        first = setup.begin()
        await setup.model.begun.wait()
        other = await setup.begin(policy_session="another")
        await setup.stop(pb.STOP_MODE_ABORT)
        assert (other.outcome, (await first).outcome) == (COMPLETED, CANCELLED)

    async def test_other_sessions_go_on(self, setup: Setup) -> None:
        await setup.policy(live_version=1, hold_calls=True)
        ended = await setup.begin(policy_session="another", policy_version=1)
        assert ended.outcome == COMPLETED

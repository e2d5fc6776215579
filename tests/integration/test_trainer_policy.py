"""The policy in the trainer: a real daemon with real hosts; trainers that answer, die, come back and lag."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1 import rollout_service_pb2 as pb
from gymapi.v1.registry_service_pb2 import Placement
from gymapi.v1.rollout_pb2 import Outcome, Rollout, Stage
from gymd.client import GenerateCall, Generated, ToolCall, Trainer, deadlines
from gymd.client.sync import connect
from gymd.client.tokens import branches
from gymd.config import ServerSpec
from gymd.errors import GymdError, NotFound, error
from tests.fakes.mesh import LIMIT_S, RunningMesh, Stream, running, task
from tests.fakes.proxy import Proxy

COMPLETED, CANCELLED = Outcome.OUTCOME_COMPLETED, Outcome.OUTCOME_CANCELLED
WEATHER = "example_single_tool_call"
TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def servers(**policy: Any) -> list[ServerSpec]:
    """An agent with the weather environment, and the trainer as its model."""
    agent = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    return [
        ServerSpec(name="agent", kind="agent", implementation="simple_agent", config=agent),
        ServerSpec(name="env", kind="resources", implementation=WEATHER),
        ServerSpec(name="policy_model", kind="model", implementation="trainer_policy", config=policy),
    ]


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[RunningMesh]:
    async with running(tmp_path, *servers()) as one:
        yield one


def row(text: str = "How is the weather in Bonn?") -> dict[str, Any]:
    return {"responses_create_params": {"input": text, "tools": [TOOL], "temperature": 0.5}}


def weather(call: GenerateCall) -> str | Generated:
    """Asks for the weather, then tells it; tokens are the words' lengths."""
    asked = call.messages[-1]["role"] == "tool"
    first = [len(word) for word in call.messages[0]["content"].split()]
    if not asked:
        calls = [ToolCall("get_weather", {"city": "Bonn"})]
        return Generated(tool_calls=calls, prompt_token_ids=first, token_ids=[7, 8], logprobs=[-0.5, -0.25])
    prompt = [*first, 7, 8, 100]
    return Generated("It is cold.", prompt_token_ids=prompt, token_ids=[9], logprobs=[-1.0])


async def rollouts(gym: Trainer, rows: list[Any], n: int = 1) -> list[Rollout]:
    async with asyncio.timeout(LIMIT_S):
        return [rollout async for group in gym.groups(rows, n=n) for rollout in group.rollouts]


async def test_a_rollout_with_a_tool_and_its_tokens(mesh: RunningMesh) -> None:
    async with Trainer(mesh.daemon.address, policy=weather, policy_version=3) as gym:
        [rollout] = await rollouts(gym, [row()])
        assert (rollout.outcome, rollout.reward.value) == (COMPLETED, 1.0)
        assert (rollout.model_call_count, rollout.tool_call_count) == (2, 1)
        kinds = [item.WhichOneof("kind") for item in rollout.response.output]
        assert kinds == ["function_call", "function_call_output", "message"]
        [branch] = branches(rollout)
        assert list(branch.ids) == [3, 2, 3, 7, 2, 5, 7, 8, 100, 9]
        assert list(branch.ids[branch.sampled]) == [7, 8, 9]
        assert list(branch.logprobs[branch.sampled]) == [-0.5, -0.25, -1.0]
        assert set(branch.versions[branch.sampled]) == {3}
        assert [segment.temperature for segment in rollout.trajectory.segments] == [0.5, 0.5]
        assert rollout.response.usage.output_tokens == 3
        await gym.update_policy(4)
        [rollout] = await rollouts(gym, [row()])
        assert {segment.policy_version for segment in rollout.trajectory.segments} == {4}


async def test_the_registry_shows_it_as_a_model_like_any_other(mesh: RunningMesh) -> None:
    [server] = await mesh.servers("policy_model")
    assert (server.placement, server.host_id) == (Placement.PLACEMENT_REMOTE, "gymd")
    assert server.address == mesh.daemon.address


async def test_256_rollouts_at_a_time(mesh: RunningMesh) -> None:
    together, most = 0, 0
    all_there = asyncio.Event()

    async def patient(call: GenerateCall) -> str | Generated:
        nonlocal together, most
        together += 1
        most = max(most, together)
        if most == 256:
            all_there.set()
        await all_there.wait()
        together -= 1
        return weather(call)

    async with Trainer(mesh.daemon.address, policy=patient, credits=256) as gym:
        groups = [group async for group in gym.groups([row(str(number)) for number in range(40)], n=8)]
    assert most == 256
    assert sorted(group.number for group in groups) == list(range(40))
    assert {tuple(group.rewards) for group in groups} == {(1.0,) * 8}
    assert [one.index for one in groups[0].rollouts] == list(range(8))


async def test_batches_are_what_waits(mesh: RunningMesh) -> None:
    sizes: list[int] = []

    def batch(calls: list[GenerateCall]) -> list[str | Generated]:
        assert threading.current_thread() is not threading.main_thread()
        sizes.append(len(calls))
        return [weather(call) for call in calls]

    async with Trainer(mesh.daemon.address, policy_batch=batch, max_batch=16, credits=64) as gym:
        found = await rollouts(gym, [row()] * 8, n=8)
    assert Counter(one.outcome for one in found) == {COMPLETED: 64}
    assert sum(sizes) == 128
    assert 1 < max(sizes) <= 16


async def test_the_trainer_has_no_more_calls_than_configured(tmp_path: Path) -> None:
    together, most = 0, 0

    async def counted(call: GenerateCall) -> str:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0)
        together -= 1
        return "It is cold."

    async with (
        running(tmp_path, *servers(max_in_flight=3)) as mesh,
        Trainer(mesh.daemon.address, policy=counted) as gym,
    ):
        assert len(await rollouts(gym, [row()], n=32)) == 32
    assert 1 <= most <= 3


async def test_two_trainers_get_their_own_calls(mesh: RunningMesh) -> None:
    async def ask(name: str) -> list[str]:
        async with Trainer(mesh.daemon.address, policy=lambda call: name) as gym:
            found = await rollouts(gym, [row()], n=16)
            return [one.response.output[0].message.content_parts.parts[0].output_text.text for one in found]

    assert await asyncio.gather(ask("one"), ask("two")) == [["one"] * 16, ["two"] * 16]


async def test_a_broken_stream_loses_no_call(mesh: RunningMesh) -> None:
    async with Proxy(mesh.daemon.address) as proxy:
        cuts = [5, 20, 40]
        seen: list[GenerateCall] = []

        async def breaking(call: GenerateCall) -> str | Generated:
            seen.append(call)
            if cuts and len(seen) >= cuts[0]:
                del cuts[0]
                proxy.cut()
            return weather(call)

        async with Trainer(proxy.address, policy=breaking, credits=16) as gym:
            found = await rollouts(gym, [row()] * 8, n=4)
            assert gym.session.reconnects > 0
    assert {one.outcome for one in found} == {COMPLETED}
    assert {(one.attempt, one.model_call_count) for one in found} == {(1, 2)}
    assert len({call.call_id for call in seen}) == 64


async def test_a_daemon_that_restarts(tmp_path: Path) -> None:
    begun, back = asyncio.Event(), asyncio.Event()

    async def patient(call: GenerateCall) -> str | Generated:
        begun.set()
        await back.wait()
        return weather(call)

    async with Proxy("") as proxy:
        async with running(tmp_path, *servers(), grace_s=0.1) as first:
            proxy.target = first.daemon.address
            gym = await Trainer(proxy.address, policy=patient).__aenter__()
            found = asyncio.ensure_future(rollouts(gym, [row()], n=4))
            await asyncio.wait_for(begun.wait(), LIMIT_S)
        async with running(tmp_path, *servers()) as second:
            proxy.target = second.daemon.address
            back.set()
            assert {(one.outcome, one.reward.value) for one in await found} == {(COMPLETED, 1.0)}
            await gym.__aexit__(None, None, None)


async def test_rollouts_end_within_the_grace_of_a_shutdown(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def patient(call: GenerateCall) -> str | Generated:
        begun.set()
        await go.wait()
        return weather(call)

    async with (
        running(tmp_path, *servers(), grace_s=20.0) as mesh,
        Trainer(mesh.daemon.address, policy=patient, resume_window=0) as gym,
        asyncio.timeout(LIMIT_S),
    ):
        found = asyncio.ensure_future(rollouts(gym, [row()]))
        await begun.wait()
        stopping = asyncio.ensure_future(mesh.daemon.stop("test"))
        while gym.session.draining is None:  # noqa: ASYNC110 - a fact of the client without an event
            await asyncio.sleep(0.01)
        go.set()
        [rollout] = await found
        await stopping
    assert (rollout.outcome, rollout.model_call_count) == (COMPLETED, 2)


class Raw:
    """A trainer frame by frame."""

    def __init__(self, mesh: RunningMesh) -> None:
        self.stream: Stream = mesh.stream()

    async def open(self, *texts: str, **fields: Any) -> Raw:
        await self.stream.open(serves_policy=True, default_agent="agent", **fields)
        if texts:
            await self.stream.submit(*(task(text, text) for text in texts))
        return self

    async def asked(self) -> list[pb.GenerateRequest]:
        return list((await self.stream.expect("generate_requests")).requests)

    async def reply(self, call_id: str, **fields: Any) -> None:
        if not fields:
            fields["response"] = {"output": [{"message": {"role": "assistant", "content_text": "Cold."}}]}
        results = pb.GenerateResults(results=[pb.GenerateResult(call_id=call_id, **fields)])
        await self.stream.send(generate_results=results)


async def test_a_trainer_that_died_is_asked_again_by_the_same_id(mesh: RunningMesh) -> None:
    first = await Raw(mesh).open("a", resume_window={"seconds": 60})
    [asked] = await first.asked()
    [info] = (await mesh.rollouts.ListSessions(pb.ListSessionsRequest(), timeout=30)).sessions
    first.stream.call.cancel()
    second = await Raw(mesh).open(session_id=info.session_id)
    [again] = await second.asked()
    assert again.time_left.ToNanoseconds() < asked.time_left.ToNanoseconds()
    again.time_left.CopyFrom(asked.time_left)
    assert again == asked
    await second.reply(again.call_id)
    await second.reply("nobody asked")
    [rollout] = await second.stream.until(1)
    assert (rollout.outcome, rollout.attempt) == (COMPLETED, 1)
    await second.stream.send(ack=pb.AckResults(through_sequence=1))
    assert (await second.stream.finish()).result_count == 1


async def test_a_trainer_that_stays_away(tmp_path: Path) -> None:
    async with running(tmp_path, *servers(timeout=0.5)) as mesh:
        first = await Raw(mesh).open("a", resume_window={"seconds": 60})
        await first.asked()
        [info] = (await mesh.rollouts.ListSessions(pb.ListSessionsRequest(), timeout=30)).sessions
        first.stream.call.cancel()
        await mesh.until_metric("policy_calls_open", 0)
        second = await Raw(mesh).open(session_id=info.session_id)
        [rollout] = await second.stream.until(1)
        assert (rollout.outcome, rollout.failure.stage) == (Outcome.OUTCOME_MODEL_FAILED, Stage.STAGE_MODEL)
        assert "did not come back within 0.5 s" in rollout.failure.status.message
        await second.stream.send(ack=pb.AckResults(through_sequence=1))
        await second.stream.finish()


async def test_the_daemon_ends_calls_at_their_deadline(mesh: RunningMesh) -> None:
    async def slow(call: GenerateCall) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async with Trainer(mesh.daemon.address, policy=slow, deadlines=deadlines(model=0.4)) as gym:
        [rollout] = await rollouts(gym, [row()])
    assert (rollout.outcome, rollout.failure.stage) == (Outcome.OUTCOME_TIMED_OUT, Stage.STAGE_MODEL)
    # On a busy machine the caller's own clock may be first.
    told = ("the trainer's policy did not answer within", "CreateResponse did not end within")
    assert any(text in rollout.failure.status.message for text in told), rollout.failure.status.message
    assert not rollout.HasField("reward")


async def test_cancelling_reaches_the_policy(mesh: RunningMesh) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()
    calls: list[GenerateCall] = []

    async def long(call: GenerateCall) -> str:
        calls.append(call)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with Trainer(mesh.daemon.address, policy=long) as gym:
        running_ = asyncio.ensure_future(rollouts(gym, [row()]))
        async with asyncio.timeout(LIMIT_S):
            await begun.wait()
            assert await gym.session.cancel(everything=True, reason="enough") == 1
            await stopped.wait()
        [rollout] = await running_
    assert rollout.outcome == CANCELLED
    assert calls[0].cancelled


async def test_leaving_the_loop_stops_what_runs_and_the_next_one_is_clean(mesh: RunningMesh) -> None:
    held = asyncio.Event()
    stopped = 0

    async def some(call: GenerateCall) -> str:
        nonlocal stopped
        if call.params.input_text != "quick":
            try:
                await held.wait()
            except asyncio.CancelledError:
                stopped += 1
                raise
        return "Cold."

    async with Trainer(mesh.daemon.address, policy=some) as gym:
        async with asyncio.timeout(LIMIT_S):
            async for group in gym.groups([row("slow"), row("quick"), row("slow")], n=2):
                assert group.number == 1
                break
            found = [group async for group in gym.groups([row("quick")], n=2)]
        assert [group.rewards for group in found] == [[1.0, 1.0]]
        assert stopped == 4


async def test_errors_of_the_policy_are_the_rollouts_errors(mesh: RunningMesh) -> None:
    def failing(call: GenerateCall) -> str:
        raise error("UPSTREAM_RATE_LIMITED", "the engine is full")

    async with Trainer(mesh.daemon.address, policy=failing) as gym:
        [rollout] = await rollouts(gym, [row()])
    assert rollout.outcome == Outcome.OUTCOME_MODEL_FAILED
    assert rollout.failure.status.message == "the engine is full"
    assert not rollout.HasField("reward")


@pytest.mark.parametrize("policy", [lambda call: 1 / 0, lambda call: Generated("x", token_ids=[1])])
async def test_bugs_of_the_policy_come_to_its_author(mesh: RunningMesh, policy: Callable[..., Any]) -> None:
    async with Trainer(mesh.daemon.address, policy=policy) as gym:
        with pytest.raises((ZeroDivisionError, ValueError)):
            await rollouts(gym, [row()])


async def test_malformed_answers(mesh: RunningMesh) -> None:
    raw = await Raw(mesh).open("a", "b", "c")
    asked: list[pb.GenerateRequest] = []
    while len(asked) < 3:
        asked += await raw.asked()
    await raw.reply(asked[0].call_id, policy_version=1)
    await raw.reply(asked[1].call_id, response={"output": [{"function_call": {"name": "get_weather"}}]})
    message = {"output": [{"message": {"role": "assistant", "content_text": "Cold."}}]}
    await raw.reply(asked[2].call_id, response=message, token_trace={"generation_token_ids": [1]})
    found = await raw.stream.until(3)
    assert {one.outcome for one in found} == {Outcome.OUTCOME_MODEL_FAILED}
    assert all("breaks the contract" in one.failure.status.message for one in found)
    await raw.stream.finish()


async def test_a_session_without_a_policy(mesh: RunningMesh) -> None:
    async with Trainer(mesh.daemon.address) as gym:
        [rollout] = await rollouts(gym, [row()])
    assert rollout.outcome == Outcome.OUTCOME_MODEL_FAILED
    assert "serves no policy" in rollout.failure.status.message


async def test_refused_tasks(mesh: RunningMesh) -> None:
    bad = {**row(), "agent_ref": {"name": "nobody"}}
    async with Trainer(mesh.daemon.address, policy=weather) as gym:
        with pytest.raises(GymdError, match="nobody"):
            await rollouts(gym, [bad])
    refused: list[tuple[Any, GymdError]] = []
    told = Trainer(
        mesh.daemon.address, policy=weather, on_rejected=lambda *what: refused.append(what), credits=2
    )
    async with told as gym:
        assert len(await rollouts(gym, [bad, row(), bad], n=2)) == 2
    assert [source for source, _ in refused] == [bad, bad]


async def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(GymdError, match="max_in_flight"):
        async with running(tmp_path, *servers(max_in_flight=0)):
            pass


async def test_without_async(mesh: RunningMesh) -> None:
    def train() -> list[float | None]:
        with connect(mesh.daemon.address, policy=weather, policy_version=1) as gym:
            gym.update_policy(2)
            for _ in gym.groups([row()] * 3, n=2):
                with pytest.raises(NotFound, match="known are: "):
                    gym.cancel(environment="nowhere")
                break
            groups = list(gym.groups([row()] * 3, n=2))
        versions = {s.policy_version for g in groups for r in g.rollouts for s in r.trajectory.segments}
        assert versions == {2}
        return [reward for group in groups for reward in group.rewards]

    assert await asyncio.to_thread(train) == [1.0] * 6


async def test_ctrl_c_without_async(mesh: RunningMesh) -> None:
    entered = threading.Event()

    async def stuck(call: GenerateCall) -> str:
        entered.set()
        await asyncio.Event().wait()
        return ""

    def train() -> None:
        with connect(mesh.daemon.address, policy=stuck) as gym:
            waiting = gym._call

            def interrupted(work: Any, timeout: float | None = None) -> Any:
                if getattr(work, "__name__", "") != "_next":
                    return waiting(work, timeout)
                future = asyncio.run_coroutine_threadsafe(work, gym._loop)
                assert entered.wait(LIMIT_S)
                future.cancel()
                raise KeyboardInterrupt

            gym._call = interrupted  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                list(gym.groups([row()], n=1))
            gym._call = waiting  # type: ignore[method-assign]

    await asyncio.to_thread(train)
    await mesh.until_metric("policy_calls_open", 0)

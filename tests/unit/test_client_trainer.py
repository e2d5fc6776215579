"""How the iterations of a trainer end: by leaving the loop, and when the daemon does not answer."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator

import pytest

from gymapi.v1.rollout_pb2 import Rollout, Task
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.client import Trainer
from gymd.client import groups as module
from gymd.client.rows import RowError
from gymd.errors import Cancelled, InvalidRequest
from tests.fakes import daemon as fake
from tests.fakes.daemon import FakeDaemon, rollout


def row(name: str) -> str:
    return json.dumps({"responses_create_params": {"input": name}, "agent_ref": {"name": "a"}})


def only_quick(submission: TaskSubmission, index: int) -> Rollout | None:
    quick = submission.task.create_params.input_text == "quick"
    return rollout(submission, index) if quick else None


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon() as one:
        one.answer = only_quick
        yield one


async def test_leaving_the_loop_stops_what_is_under_way(daemon: FakeDaemon) -> None:
    async with Trainer(daemon.address) as gym:
        async for group in gym.groups([row("slow"), row("quick")], n=1):
            assert group.number == 1
            break
        await daemon.until(lambda: bool(daemon.sessions[0].cancels))  # nobody asked for it
        assert [group.number async for group in gym.groups([row("quick")], n=1)] == [0]
    assert len(daemon.sessions[0].cancels) == 1


async def test_letting_go_in_another_thread_or_after_the_end(daemon: FakeDaemon) -> None:
    async with Trainer(daemon.address) as gym:
        held = [gym.groups([row("slow"), row("quick")], n=1)]
        await anext(held[0])
        await asyncio.to_thread(held.clear)
        await daemon.until(lambda: bool(daemon.sessions[0].cancels))
        late = gym.groups([row("quick"), row("slow")], n=1)
        await anext(late)
    del late
    never = gym.groups([row("quick")])
    del never
    gc.collect()


async def test_a_daemon_that_does_not_answer_does_not_keep_the_session_open(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GIVE_UP_S", 0.05)
    monkeypatch.setattr(fake._Script, "on_cancel", lambda self, cancel: ())
    async with Trainer(daemon.address) as gym:
        stream = gym.groups([row("slow"), row("quick")], n=1)
        await anext(stream)
        session = gym.session
    assert session._ended
    await daemon.until(lambda: daemon.sessions[0].broken)


async def test_an_iteration_that_never_began_holds_nothing(daemon: FakeDaemon) -> None:
    async with Trainer(daemon.address) as gym:
        older = gym.groups([row("slow"), row("quick")], n=1)
        await anext(older)
        unused = [gym.groups([row("quick")], n=1) for _ in range(2)]
        assert [group.number async for group in gym.groups([row("quick")], n=1)] == [0]
        assert len(daemon.sessions[0].cancels) == 1  # of what the older one had under way
        with pytest.raises(Cancelled, match="another one began, and not all of its groups had come"):
            await anext(older)
        assert [group.number async for group in unused[0]] == [0]  # it may begin at any time
        await unused[1].aclose()
        assert [group async for group in unused[1]] == []


async def test_a_loop_inside_a_loop_is_told_unless_the_outer_one_had_all(daemon: FakeDaemon) -> None:
    quick = [row("quick")] * 3
    async with Trainer(daemon.address) as gym:
        outer = gym.groups([row("slow"), *quick], n=1)
        assert (await anext(outer)).number == 1
        assert len([one async for one in gym.groups(quick, n=1)]) == 3
        with pytest.raises(Cancelled, match="run the other in a Trainer of its own"):
            await anext(outer)
        outer = gym.groups(quick, n=1)
        assert [(await anext(outer)).number for _ in quick] == [0, 1, 2]
        assert len([one async for one in gym.groups(quick, n=1)]) == 3
        assert [one async for one in outer] == []


async def test_leaving_the_trainer_beside_an_iteration_that_never_began(daemon: FakeDaemon) -> None:
    async with Trainer(daemon.address) as gym:
        older = gym.groups([row("slow"), row("quick")], n=1)
        await anext(older)
        gym.groups([row("quick")])
    await daemon.until(lambda: bool(daemon.sessions[0].cancels))
    assert [group async for group in older] == []


async def test_mistakes_of_a_program_are_named(daemon: FakeDaemon) -> None:
    with pytest.raises(ValueError, match="not a URL"):
        Trainer("http://127.0.0.1:50161")
    gym = Trainer(daemon.address, policy_version=5)
    with pytest.raises(RuntimeError, match="async with Trainer"):
        await anext(gym.groups([row("quick")]))
    async with gym:
        for one in (row("quick"), {"responses_create_params": {"input": "quick"}}, Task()):
            with pytest.raises(TypeError, match="one task"):
                gym.groups(one)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="at least 1"):
            gym.groups([row("quick")], n=0)
        with pytest.raises(ValueError, match="in_flight must be at least 1"):
            gym.groups([row("quick")], in_flight=0)
        for bad, why in (("{}", "responses_create_params is missing"), ({"a": object()}, "not JSON")):
            with pytest.raises(RowError, match=f"task 1 of groups.*{why}"):
                [group async for group in gym.groups([row("quick"), bad], n=1)]
        with pytest.raises(InvalidRequest, match="phase is 'lvie', not one of pending, paused, live"):
            await gym.update_policy(6, "lvie")  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="mode is 'stop'"):
            await gym.session.cancel(everything=True, mode="stop")  # type: ignore[arg-type]
        await gym.update_policy(7)
        with pytest.raises(InvalidRequest, match="version 6 is older than 7"):
            await gym.update_policy(6)
        assert gym.policy_version == 7
        assert [group.number async for group in gym.groups([row("quick")], n=1)] == [0]
    with pytest.raises(Cancelled, match="was left"):
        await anext(gym.groups([row("quick")]))
    with pytest.raises(RuntimeError, match="entered once"):
        await gym.__aenter__()


async def test_ctrl_c_in_the_middle(daemon: FakeDaemon) -> None:
    """What asyncio.run makes of it: the main task is cancelled."""

    async def train() -> None:
        async with Trainer(daemon.address) as gym:
            async for _ in gym.groups([row("slow"), row("quick")], n=1):
                pass

    training = asyncio.create_task(train())
    await daemon.until(lambda: bool(daemon.sessions) and daemon.sessions[0].delivered == 1)
    training.cancel()
    with pytest.raises(asyncio.CancelledError):
        await training
    await daemon.until(lambda: bool(daemon.sessions[0].cancels) and daemon.sessions[0].broken)


async def test_a_long_way_to_the_first_unfinished_task_leaves_others_their_turn() -> None:
    gym = Trainer("127.0.0.1:1")
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    passed = [task_id async for task_id, _ in gym._numbered([row("quick")] * 300, 1, "0")]
    assert (len(passed), turns) == (300, [1])


async def test_a_step_that_times_out_does_not_look_like_the_end(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Trainer(daemon.address) as gym:
        stream = gym.groups([row("slow"), row("quick")], n=1)
        assert (await anext(stream)).number == 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.05)
        with pytest.raises(Cancelled, match="cancelled or timed out: bound the time of rollouts"):
            await anext(stream)
        await stream.aclose()
        older, newer = gym.groups([row("slow"), row("quick")], n=1), gym.groups([row("quick")])
        await anext(older)
        monkeypatch.setattr(fake._Script, "on_cancel", lambda self, cancel: ())
        with pytest.raises(TimeoutError):  # while it ends the older one
            await asyncio.wait_for(anext(newer), 0.05)
        with pytest.raises(Cancelled, match="cancelled or timed out"):
            await anext(newer)

"""A trainer that goes on by its resume file: a real daemon, and groups whose results come in any order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gymd.client import GenerateCall, Group, RolloutClient, Trainer
from gymd.client.sync import connect
from gymd.client.window import ACK_BATCH
from gymd.config import ServerSpec
from gymd.errors import AlreadyExists, InvalidRequest
from tests.fakes.mesh import LIMIT_S, RunningMesh, running


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[RunningMesh]:
    agent = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    servers = [
        ServerSpec(name="agent", kind="agent", implementation="simple_agent", config=agent),
        ServerSpec(name="env", kind="resources", implementation="example_single_tool_call"),
        ServerSpec(name="policy_model", kind="model", implementation="trainer_policy"),
    ]
    async with asyncio.timeout(LIMIT_S), running(tmp_path, *servers) as one:
        yield one


class Process:
    """A trainer whose policy answers at once, but for the rollouts that it holds back."""

    def __init__(self, mesh: RunningMesh, file: Path, *held: str, **options: Any) -> None:
        self.held = set(held)
        self.asked: set[str] = set()
        self.gym = Trainer(mesh.daemon.address, self.answer, resume_file=file, **options)

    async def answer(self, call: GenerateCall) -> str:
        text = call.params.input_text
        self.asked.add(text)
        index = call.rollout_id.rpartition("/")[2]
        if f"{text}/{index}" in self.held:
            await asyncio.Event().wait()  # until it is cancelled, with the trainer
        return text

    async def got(self, *texts: str, count: int = 1000, **options: Any) -> list[str]:
        """The tasks of the next `count` groups; then it is as if the process died in the loop."""
        found: list[str] = []
        try:
            async with self.gym as gym:
                async for group in gym.groups(rows(*texts), n=2, **options):
                    found.append(name_of(group))
                    if len(found) == count:
                        raise Killed
        except Killed:
            pass
        return found


class Killed(Exception):
    """Ends a trainer in the middle."""


def rows(*texts: str) -> list[str]:
    return [json.dumps({"responses_create_params": {"input": text}}) for text in texts]


def name_of(group: Group) -> str:
    assert [one.index for one in group.rollouts] == [0, 1]
    texts = {one.response.output[0].message.content_parts.parts[0].output_text.text for one in group.rollouts}
    assert texts == {group.task.create_params.input_text}
    return texts.pop()


async def test_groups_that_are_half_there_come_whole(mesh: RunningMesh, tmp_path: Path) -> None:
    file, quick = tmp_path / "resume", [f"quick{number}" for number in range(ACK_BATCH)]
    first = Process(mesh, file, "slow/1")
    done = await first.got("slow", *quick, count=len(quick))  # enough for an ack but for the slow one
    assert sorted(done) == sorted(quick)
    second = Process(mesh, file)
    # The group in hand was not done with; of those that were, nothing runs and nothing comes again.
    assert sorted(await second.got("slow", *quick)) == sorted(["slow", done[-1]])
    assert second.asked == {"slow"}
    assert not file.exists()
    async with RolloutClient(mesh.daemon.address) as client:
        assert await client.list_sessions() == []


async def test_groups_count_from_commit_to_commit(mesh: RunningMesh, tmp_path: Path) -> None:
    file, texts = tmp_path / "resume", [str(number) for number in range(6)]
    learned: set[str] = set()

    async def program(process: Process) -> None:
        async with process.gym as gym:
            stream = gym.groups(rows(*texts), n=2)
            learned.update([name_of(await anext(stream)) for _ in range(2)])
            gym.commit()
            for _ in range(3):
                await anext(stream)
            raise Killed

    with pytest.raises(Killed):
        await program(Process(mesh, file, auto_commit=False))
    again = Process(mesh, file, auto_commit=False)
    assert set(await again.got(*texts)) == set(texts) - learned
    assert again.asked <= set(texts) - learned


async def test_several_iterations(mesh: RunningMesh, tmp_path: Path) -> None:
    """The first is left early, the second ends; the third is under way when the trainer dies."""
    file = tmp_path / "resume"

    async def program(process: Process, dies: bool) -> list[list[str]]:
        found: list[list[str]] = [[], [], []]
        async with process.gym as gym:
            async for group in gym.groups(rows("a", "b", "held"), n=2):
                found[0].append(name_of(group))
                if len(found[0]) == 2:
                    break
            async for group in gym.groups(rows("a", "c"), n=2):
                found[1].append(name_of(group))
            async for group in gym.groups(rows("d", "held", "e"), n=2):
                found[2].append(name_of(group))
                if dies and len(found[2]) == 2:
                    process.died = found  # type: ignore[attr-defined]
                    raise Killed
        return found

    first = Process(mesh, file, "held/0")
    with pytest.raises(Killed):
        await program(first, dies=True)
    died = first.died  # type: ignore[attr-defined]
    assert [sorted(part) for part in died] == [["a", "b"], ["a", "c"], ["d", "e"]]
    second = Process(mesh, file)
    found = await program(second, dies=False)
    assert [sorted(part) for part in found] == [[], [], sorted(["held", died[2][1]])]


async def test_rollouts_that_come_before_their_iteration_are_kept(mesh: RunningMesh, tmp_path: Path) -> None:
    file = tmp_path / "resume"

    async def program(process: Process) -> None:
        async with process.gym as gym:
            async for group in gym.groups(rows("a"), n=2, name="one"):
                assert name_of(group) == "a"
            stream = gym.groups(rows("b", "held"), n=2, name="two")
            await anext(stream)
            raise Killed

    with pytest.raises(Killed):
        await program(Process(mesh, file, "held/0", auto_commit=False))
    async with Process(mesh, file).gym as gym:
        # The results of both come at once, in the order of their numbers.
        for name, texts in (("two", ["b", "held"]), ("one", ["a"])):
            assert sorted([name_of(one) async for one in gym.groups(rows(*texts), n=2, name=name)]) == texts


async def test_another_program_is_refused(mesh: RunningMesh, tmp_path: Path) -> None:
    file = tmp_path / "resume"
    await Process(mesh, file, "held/0").got("a", "held", "b", count=2)
    for other in (("c", "held", "b"), ("a", "c"), ("a",)):
        with pytest.raises(InvalidRequest, match="is not the one that an earlier process handed in"):
            await Process(mesh, file).got(*other)
    assert "held" in await Process(mesh, file).got("a", "held", "b", "more")


async def test_a_session_that_is_gone_runs_the_rest_anew(mesh: RunningMesh, tmp_path: Path) -> None:
    file = tmp_path / "resume"
    [done, _] = await Process(mesh, file, "held/0").got("a", "held", "b", count=2)
    async with RolloutClient(mesh.daemon.address) as client:
        [info] = await client.list_sessions()
        async with client.resume(info.session_id, last_sequence=0):
            pass  # gives it up
    process = Process(mesh, file)
    assert sorted([done, *await process.got("a", "held", "b")]) == ["a", "b", "held"]
    assert len(process.asked) == 2


async def test_a_file_belongs_to_one_trainer(mesh: RunningMesh, tmp_path: Path) -> None:
    file = tmp_path / "resume"
    async with Process(mesh, file).gym as gym:
        with pytest.raises(AlreadyExists, match="another trainer goes by"):
            await Process(mesh, file).got("a")
        assert [name_of(one) async for one in gym.groups(rows("a"), n=2)] == ["a"]
        with pytest.raises(ValueError, match="there was an iteration 0"):
            gym.groups(rows("a"), name="0")
    with pytest.raises(ValueError, match="needs a resume_window"):
        Trainer(mesh.daemon.address, resume_file=file, resume_window=0)


async def test_without_async(mesh: RunningMesh, tmp_path: Path) -> None:
    file = tmp_path / "resume"

    def train(dies: bool) -> list[str]:
        found = []
        try:
            with connect(mesh.daemon.address, lambda call: call.params.input_text, resume_file=file) as gym:
                for group in gym.groups(rows("a", "b", "c"), n=2):
                    found.append(name_of(group))
                    if dies and len(found) == 2:
                        raise Killed
        except Killed:
            pass
        return found

    first = await asyncio.to_thread(train, True)
    assert set(await asyncio.to_thread(train, False)) == {"a", "b", "c"} - {first[0]}
    assert not file.exists()


async def test_a_refused_task_is_told_once(mesh: RunningMesh, tmp_path: Path) -> None:
    file, refused = tmp_path / "resume", list[Any]()
    unknown = json.dumps({"responses_create_params": {"input": "x"}, "agent_ref": {"name": "nobody"}})
    for dies in (True, False):
        gym = Process(
            mesh, file, on_rejected=lambda source, why: refused.append((source, why.reason_name))
        ).gym
        found = []
        with suppress(Killed):
            async with gym:
                async for group in gym.groups([unknown, *rows("a", "b", "c")], n=2, in_flight=1):
                    found.append(name_of(group))
                    if dies and len(found) == 2:
                        raise Killed
        assert found == (["a", "b"] if dies else ["b", "c"])
    assert refused == [(unknown, "SERVER_NOT_FOUND")]


async def test_a_mistake_of_the_policy_does_not_hold_the_acks(mesh: RunningMesh, tmp_path: Path) -> None:
    process = Process(mesh, tmp_path / "resume")
    answer = process.answer

    async def fails(call: GenerateCall) -> str:
        if call.params.input_text == "bad":
            raise ZeroDivisionError
        return await answer(call)

    process.gym._runner._policy = fails  # type: ignore[union-attr]
    async with process.gym as gym:
        with pytest.raises(ZeroDivisionError):
            async for _ in gym.groups(rows("bad"), n=1):
                pass
        assert len([one async for one in gym.groups(rows("a", "b"), n=1)]) == 2
        assert gym._resume is not None
        assert gym.session._window.stored == gym._resume._last == 3


async def test_older_weights_do_not_go_on_under_an_older_number(mesh: RunningMesh, tmp_path: Path) -> None:
    file = tmp_path / "resume"
    first = await Process(mesh, file, "held/0", policy_version=7).got("a", "held", "b", count=2)
    with pytest.raises(InvalidRequest, match=r"version 7 .* is live .* Begin with 7 or above"):
        await Process(mesh, file, policy_version=3).got("a", "held", "b")
    # Nothing was given up by that.
    again = Process(mesh, file, policy_version=7)
    assert set(await again.got("a", "held", "b")) == {"held", first[-1]}
    assert again.asked == {"held"}


async def test_a_commit_after_the_trainer_was_left(mesh: RunningMesh, tmp_path: Path) -> None:
    killed, ended = (Process(mesh, tmp_path / "resume", auto_commit=False) for _ in range(2))
    await killed.got("a", "b", count=1)
    with pytest.raises(RuntimeError, match="commit before"):
        killed.gym.commit()
    await ended.got("a", "b")
    ended.gym.commit()  # there is nothing to go on with


async def test_notes_that_were_lost_with_the_machine(
    mesh: RunningMesh, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, texts = tmp_path / "resume", [str(number) for number in range(ACK_BATCH + 2)]
    await Process(mesh, file).got(*texts, count=ACK_BATCH)
    async with RolloutClient(mesh.daemon.address) as client:
        [info] = await client.list_sessions()
    file.write_text(file.read_text().partition("\n")[0] + "\n")
    again = Process(mesh, file)
    assert sorted(await again.got(*texts)) == sorted(texts)
    assert again.gym.session.session_id == info.session_id
    assert "not noted in" in caplog.text  # some of them had been acknowledged

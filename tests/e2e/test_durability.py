"""kill -9 of the daemon and of the trainer: every rollout comes exactly once, and the counts are exact."""

import asyncio
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from gymapi.v1.rollout_pb2 import OUTCOME_CANCELLED, OUTCOME_COMPLETED
from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    CancelMode,
    CancelWork,
    RolloutResult,
    TaskSubmission,
)
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub
from gymd.client import RolloutClient
from gymd.errors import GymdError
from gymd.mesh import dial
from gymd.sdk.testing import eventually
from tests.fakes.group_trainer import account
from tests.fakes.mesh import TOY, Stream, task
from tests.fakes.process_mesh import ProcessMesh
from tests.fakes.proxy import Proxy
from tests.fakes.trainer import stored, submissions

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 100.0


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[ProcessMesh]:
    one = ProcessMesh(tmp_path)
    await one.start()
    yield one
    assert one.process is not None
    if one.process.returncode is None:
        await one.end()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_daemon_that_ends_and_comes_back_costs_the_client_nothing(
    mesh: ProcessMesh, how: signal.Signals
) -> None:
    found: list[RolloutResult] = []
    async with (
        asyncio.timeout(LIMIT_S),
        RolloutClient(mesh.address, client_name="test") as client,
        client.session(credits=64, resume_window=60) as session,
    ):
        async for result in session.run(submissions(150, 2)):
            assert isinstance(result, RolloutResult)
            found.append(result)
            if len(found) in (40, 120):
                await mesh.end(how)
                await mesh.start()
    assert session.reconnects == 2
    assert session.summary is not None
    assert [result.sequence for result in found] == list(range(1, 301))
    names = {result.rollout.rollout_id for result in found}
    assert names == {f"t{number}/{index}" for number in range(150) for index in (0, 1)}
    assert {result.rollout.outcome for result in found} == {OUTCOME_COMPLETED}
    summary = session.summary
    assert (summary.accepted_task_count, summary.rejected_task_count, summary.result_count) == (150, 0, 300)
    assert [count.count for count in summary.outcome_counts] == [300]


@pytest.mark.timeout(240)
async def test_a_trainer_that_is_killed_goes_on_where_it_was(mesh: ProcessMesh) -> None:
    file = mesh.folder / "results"
    for kills in (30, 90, None):
        async with program(mesh, "trainer", str(file), "100", "2") as process:
            assert process.stdout is not None
            if kills is None:
                async with asyncio.timeout(LIMIT_S):
                    said, _ = await process.communicate()
                assert said.decode() == "100 200\n"
                continue
            await eventually(lambda: len(stored(file)[1]) >= kills, "results", timeout=LIMIT_S)  # noqa: B023
            process.kill()
            await process.communicate()
            if kills == 90:  # and the daemon with it
                await mesh.end()
                await mesh.start()
    numbers, names = zip(*stored(file)[1], strict=True)
    assert list(numbers) == list(range(1, 201))
    assert len(set(names)) == 200


@pytest.mark.timeout(120)
@pytest.mark.parametrize("batch", [1, 6])
async def test_a_trainer_of_groups_that_is_killed_gets_them_whole(mesh: ProcessMesh, batch: int) -> None:
    file, tasks = mesh.folder / "groups", 60
    for kills in (8, 30, None):
        async with program(mesh, "group_trainer", str(file), str(tasks), "4", str(batch)) as process:
            if kills is None:
                async with asyncio.timeout(LIMIT_S):
                    await process.communicate()
                assert process.returncode == 0
                continue
            await eventually(lambda: len(numbers(file)) >= kills, "groups", timeout=LIMIT_S)  # noqa: B023
            process.kill()
            await process.communicate()
            if kills == 30:  # and the daemon with it
                await mesh.end()
                await mesh.start()
    processes = account(file)
    assert len(processes) == 3
    assert numbers(file) == set(range(tasks))
    for place, parts in enumerate(processes[:-1]):
        later = [group for process in processes[place + 1 :] for part in process for group in part]
        assert set(parts[-1]) <= set(later)  # not done with: the very same rollouts
        done = [number for part in parts[:-2] for number, _ in part]  # the kill may have met the last `done`
        assert not set(done) & {number for number, _ in later}
    assert not file.with_suffix(".resume").exists()
    async with RolloutClient(mesh.address) as client:
        assert await client.list_sessions() == []


def numbers(file: Path) -> set[int]:
    return {number for process in account(file) for part in process for number, _ in part}


@asynccontextmanager
async def program(mesh: ProcessMesh, name: str, *arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"tests.fakes.{name}", mesh.address, *arguments),
        stdout=PIPE,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_session_that_was_given_up_leaves_nothing(mesh: ProcessMesh) -> None:
    async with asyncio.timeout(LIMIT_S), RolloutClient(mesh.address) as client:
        async with client.session(credits=64) as session:
            async for _ in session.run(submissions(100, 1)):
                break
            assert len(await client.list_sessions()) == 1
        assert await client.list_sessions() == []
        with pytest.raises(GymdError) as caught:
            async with client.resume(session.session_id, last_sequence=0):
                pass
        assert caught.value.reason_name == "SESSION_NOT_FOUND"


async def test_the_last_stream_has_the_session(mesh: ProcessMesh) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        RolloutClient(mesh.address) as client,
        client.session(credits=4) as first,
    ):
        runs = first.run(submissions(100, 1))
        assert isinstance(await anext(runs), RolloutResult)
        async with client.resume(first.session_id, last_sequence=0, credits=4) as second:
            with pytest.raises(GymdError) as caught:
                async for _ in runs:
                    pass
            assert caught.value.reason_name == "CANCELLED"
            assert "another stream has resumed" in caught.value.message
            assert len([result async for result in second.run([])]) >= 1


@asynccontextmanager
async def stubborn(folder: Path) -> AsyncIterator[ProcessMesh]:
    """A mesh whose agent takes longer to stop than anybody waits."""
    entry, file = TOY.replace("ToyAgent", "StubbornAgent"), folder / "executions"
    block = f"{{entrypoint: '{entry}', executions: '{file}'}}"
    one = ProcessMesh(folder, f"toy: {{responses_api_agents: {{toy: {block}}}}}\n")
    await one.start()
    yield one
    assert one.process is not None
    if one.process.returncode is None:
        await one.end()


@asynccontextmanager
async def streaming(mesh: ProcessMesh) -> AsyncIterator[Stream]:
    channel = dial(mesh.address)
    stream = Stream(RolloutServiceStub(channel))
    yield stream
    stream.call.cancel()
    await channel.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_what_an_answered_cancel_was_stopping_does_not_run_again(
    tmp_path: Path, how: signal.Signals
) -> None:
    modes = ("abort", "partial", "finish_turn")
    async with asyncio.timeout(LIMIT_S), stubborn(tmp_path) as mesh:
        async with streaming(mesh) as stream:
            await stream.open(resume_window=Duration(seconds=60))
            session_id = stream.opened.session_id
            assert stream.opened.durable
            await stream.submit(
                *(task(name, group_id=name, rollout_count=2) for name in modes),
                task("one", "second", group_id="one", rollout_count=2),
                task("full", "first", group_id="full", rollout_count=3, wanted_count=1),
            )
            # The group that wants one has it, and its others are being stopped.
            assert (await stream.until(1))[0].rollout_id == "full/0"
            file = tmp_path / "executions"
            await eventually(lambda: len(file.read_text().splitlines()) == 11, "executions")
            for name in modes:
                mode = CancelMode.Value(f"CANCEL_MODE_{name.upper()}")
                await stream.send(cancel=CancelWork(group_id=name, mode=mode, reason="late"))
                assert (await stream.expect("cancelled")).cancelled_count == 2
            await stream.send(cancel=CancelWork(rollout_id="one/1"))
            assert (await stream.expect("cancelled")).cancelled_count == 1
            await mesh.end(how)
        await mesh.start()
        async with streaming(mesh) as stream:
            await stream.open(session_id=session_id, last_sequence=1)
            await stream.until(10)
            await stream.send(ack=AckResults(through_sequence=11))
            summary = await stream.finish()
    assert [result.sequence for result in stream.results] == list(range(2, 12))
    outcomes = {result.rollout.rollout_id: result.rollout.outcome for result in stream.results}
    assert outcomes.pop("one/0") == OUTCOME_COMPLETED
    assert set(outcomes.values()) == {OUTCOME_CANCELLED}
    assert len(outcomes) == 9
    executions = (tmp_path / "executions").read_text().splitlines()
    assert sorted(executions) == sorted([*outcomes, "full/0", "one/0", "one/0"])
    stopped = {frame.group_id: frame.stopped_count for frame in stream.frames("group_cancelled")}
    assert stopped == {"abort": 2, "partial": 2, "finish_turn": 2, "one": 1}
    assert [frame.group_id for frame in stream.frames("group_completed")] == ["full"]
    assert (summary.accepted_task_count, summary.result_count) == (5, 11)
    counts = {count.outcome: count.count for count in summary.outcome_counts}
    assert counts == {OUTCOME_COMPLETED: 2, OUTCOME_CANCELLED: 9}


async def test_a_cancel_whose_answer_went_with_the_daemon_spares_what_came_after_it(
    mesh: ProcessMesh,
) -> None:
    """It is killed when it has kept the cancel and a later task, and the client has heard of neither."""
    more = asyncio.Event()

    def kept(table: str) -> int:
        with closing(sqlite3.connect(mesh.folder / "state" / "journal" / "journal.db")) as reader:
            return int(reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    async def tasks() -> AsyncIterator[TaskSubmission]:
        yield task("early", "hang", rollout_count=2)
        await more.wait()
        yield task("late")

    async with (
        asyncio.timeout(LIMIT_S),
        Proxy(mesh.address) as proxy,
        RolloutClient(proxy.address) as client,
        client.session(policy_version=1, resume_window=60) as session,
    ):
        run = session.run(tasks())
        results = asyncio.create_task(collect(run))
        await eventually(lambda: kept("tasks") == 1, "the early task", timeout=LIMIT_S)
        await session.update_policy(2, "paused")  # the later one begins when the test says so
        proxy.mute()
        answer = asyncio.create_task(session.cancel(everything=True))
        await eventually(lambda: kept("results") == 2, "the cancelled rollouts", timeout=LIMIT_S)
        more.set()
        await eventually(lambda: kept("tasks") == 2, "the late task", timeout=LIMIT_S)
        await mesh.end()
        await mesh.start()
        assert await answer == 2
        await session.update_policy(2)
        found = await results
    assert session.reconnects == 1
    outcomes = [(result.rollout.task_id, result.rollout.outcome) for result in found]
    assert outcomes == [("early", OUTCOME_CANCELLED)] * 2 + [("late", OUTCOME_COMPLETED)]
    assert found[-1].rollout.reward.value == 1.0


async def collect(run: AsyncIterator[object]) -> list[RolloutResult]:
    return [item async for item in run if isinstance(item, RolloutResult)]

"""A consumer that reads nothing for long: the daemon's memory stays where it was."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from gymapi.v1.rollout_service_pb2 import (
    OpenSession,
    RolloutResult,
    StreamRolloutsRequest,
    SubmitTasks,
    TaskSubmission,
)
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub
from gymd.client import RolloutClient
from gymd.mesh import dial
from tests.fakes.process_mesh import ProcessMesh

FIRST, ALL = 4_000, 10_000
FRAME_TASKS = 250
AHEAD = 1_000
BOUND = 500
"""Bytes of memory for each result that waits; to remember its task and group takes 1,000 and their ids.

Mostly it is below 150; what the allocator keeps at one moment or the other is 2 MB, 300 a result.
"""


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[ProcessMesh]:
    one = ProcessMesh(tmp_path)
    await one.start()
    yield one
    await one.end()


def name(number: int) -> str:
    return f"{number:06}" + "x" * 200


def tasks(first: int) -> StreamRolloutsRequest:
    frame = SubmitTasks()
    for number in range(first, first + FRAME_TASKS):
        one = TaskSubmission(task_id=name(number), group_id=f"group-{name(number)}")
        one.task.create_params.input_text = "hello"
        frame.tasks.append(one)
    return StreamRolloutsRequest(submit=frame)


async def stall(mesh: ProcessMesh) -> tuple[str, float]:
    """A client that hands in tasks and reads nothing. Returns its session and the bytes of memory that the
    daemon took for each result between the first ones and all."""
    assert mesh.process is not None
    daemon = psutil.Process(mesh.process.pid)
    async with RolloutClient(mesh.address) as client, dial(mesh.address) as channel:
        stream = RolloutServiceStub(channel).StreamRollouts()
        opening = OpenSession(granted_rollouts=ALL)
        opening.resume_window.FromSeconds(60)
        await stream.write(StreamRolloutsRequest(open=opening))
        session_id = (await stream.read()).opened.session_id
        submitted = done = before = first = 0
        while done < ALL:
            while submitted < min(ALL, done + AHEAD):
                await stream.write(tasks(submitted))
                submitted += FRAME_TASKS
            await asyncio.sleep(0.02)
            (session,) = await client.list_sessions()
            done = session.progress.last_sequence
            if done >= FIRST and not first:
                before, first = daemon.memory_info().rss, done
        grown = daemon.memory_info().rss - before
        stream.cancel()
    return session_id, grown / (ALL - first)


@pytest.mark.timeout(90)
async def test_results_that_wait_take_no_memory_and_outlive_the_daemon(mesh: ProcessMesh) -> None:
    async with asyncio.timeout(60):
        session_id, bytes_each = await stall(mesh)
        assert bytes_each < BOUND
        await mesh.end()
        await mesh.start()
        async with (
            RolloutClient(mesh.address) as client,
            client.resume(session_id, last_sequence=0, credits=ALL) as session,
        ):
            found = [result async for result in session.run([]) if isinstance(result, RolloutResult)]
    # The last ones were told to nobody, so perhaps not kept either: then they ran again, once.
    assert [result.sequence for result in found] == list(range(1, ALL + 1))
    assert {result.rollout.task_id for result in found} == {name(number) for number in range(ALL)}

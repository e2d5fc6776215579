"""A client that stalls, a daemon that is killed: how long a resume takes, what waiting results cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from bench.rollouts import MCQA, config, task_of
from bench.stack import Stack, stack, started, workplace
from gymapi.v1.rollout_service_pb2 import (
    EndSession,
    OpenSession,
    RolloutResult,
    StreamRolloutsRequest,
    SubmitTasks,
    TaskSubmission,
)
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub
from gymd.client import RolloutClient
from gymd.mesh import dial

__all__ = ["resume", "stall"]

RESUMED = 10_000
STALLED = 50_000
TEXT_BYTES = 1_500
"""With what surrounds it, a result of about 2 KB."""
FRAME_TASKS = 256
"""The daemon stops reading when 256 answers wait, one to a frame: large frames, so that it never does."""
AHEAD = 2_000
"""Tasks that a stalled client has handed in beyond the results that were made."""
WINDOW_S = 600
LIMIT_S = 120.0


def frames(count: int) -> Iterator[list[TaskSubmission]]:
    """Tasks, as many as go into a frame."""
    task = task_of(MCQA)
    for first in range(0, count, FRAME_TASKS):
        numbers = range(first, min(first + FRAME_TASKS, count))
        yield [TaskSubmission(task_id=str(number), task=task) for number in numbers]


class StalledClient:
    """A client on the bare wire that grants and submits and reads only its `opened` frame."""

    def __init__(self, call: Any, session_id: str) -> None:
        self._call = call
        self.session_id = session_id

    async def submit(self, tasks: list[TaskSubmission]) -> None:
        """Hands in tasks."""
        await self._call.write(StreamRolloutsRequest(submit=SubmitTasks(tasks=tasks)))

    async def end(self) -> None:
        """Gives the session up."""
        await self._call.write(StreamRolloutsRequest(end=EndSession()))


@asynccontextmanager
async def stalled_client(address: str, credits: int) -> AsyncIterator[StalledClient]:
    """A session whose results nobody reads."""
    async with dial(address) as channel:
        call = RolloutServiceStub(channel).StreamRollouts()
        opening = OpenSession(client_name="stalled", granted_rollouts=credits, max_message_bytes=1 << 26)
        opening.resume_window.FromSeconds(WINDOW_S)
        await call.write(StreamRolloutsRequest(open=opening))
        opened = await call.read()
        try:
            yield StalledClient(call, opened.opened.session_id)
        finally:
            call.cancel()


async def make(
    client: RolloutClient,
    stalled: StalledClient,
    count: int,
    watch: Callable[[int], None] = lambda done: None,
) -> None:
    """Runs so many rollouts for a client that reads nothing; `watch` is told how many results there are."""
    source = frames(count)
    submitted = done = 0
    async with asyncio.timeout(LIMIT_S):
        while done < count:
            while submitted - done < AHEAD and (tasks := next(source, None)) is not None:
                await stalled.submit(tasks)
                submitted += len(tasks)
            await asyncio.sleep(0.05)
            (session,) = await client.list_sessions()
            done = session.progress.last_sequence
            watch(done)


async def resume(options: Any) -> dict[str, Any]:
    """kill -9 of the daemon while 10,000 results wait for a client that stalls; the client resumes."""
    text = config("mcqa", scripted="{}", hosts=options.hosts)
    with workplace(text) as folder:
        with started(folder) as first:
            async with (
                RolloutClient(first.address) as client,
                stalled_client(first.address, RESUMED) as stalled,
            ):
                await make(client, stalled, RESUMED)
                await asyncio.sleep(0.5)  # the journal's last commit
                first.kill()
        begin = time.perf_counter()
        with started(folder, wait_ready=False) as second:
            resumed = time.perf_counter()
            numbers = await _resume(second, stalled.session_id, RESUMED)
            end = time.perf_counter()
    return {
        "results": len(numbers),
        "daemon listens s": round(resumed - begin, 2),
        "resume s": round(end - resumed, 2),
        "both s": round(end - begin, 2),
        "lost or twice": _wrong(numbers, RESUMED),
    }


async def _resume(running: Stack, session_id: str, count: int) -> list[int]:
    """Takes the session up and reads all results; returns their numbers."""
    numbers = []
    async with (
        asyncio.timeout(LIMIT_S),
        RolloutClient(running.address) as client,
        client.resume(session_id, last_sequence=0, credits=count) as session,
    ):
        async for result in session.run([]):
            assert isinstance(result, RolloutResult)
            numbers.append(result.sequence)
    return numbers


async def stall(options: Any) -> dict[str, Any]:
    """50,000 results of 2 KB for a client that reads nothing: the daemon's memory, and reading them back."""
    text = config("mcqa", scripted=f"{{rules: [{{text: '{'x' * TEXT_BYTES}'}}]}}", hosts=options.hosts)
    with stack(text) as running:
        async with RolloutClient(running.address) as client:
            async with stalled_client(running.address, STALLED) as warm_up:
                await make(client, warm_up, 2 * AHEAD)
                await warm_up.end()
            memory = {0: running.daemon_pss_mib()}

            def watch(done: int) -> None:
                if done - max(memory) >= STALLED // 5:
                    memory[done] = running.daemon_pss_mib()

            async with stalled_client(running.address, STALLED) as stalled:
                begin = time.perf_counter()
                await make(client, stalled, STALLED, watch)
                seconds = time.perf_counter() - begin
                metrics = {metric.name: metric.value for metric in await client.metrics()}
                await asyncio.sleep(2)  # the figure is memory at rest
                rest = running.daemon_pss_mib()
        begin = time.perf_counter()
        numbers = await _resume(running, stalled.session_id, STALLED)
        reading = time.perf_counter() - begin
    return {
        "results": STALLED,
        "rollouts/s": round(STALLED / seconds, 1),
        "daemon PSS MiB": {done: round(pss, 1) for done, pss in memory.items()},
        "at rest MiB": round(rest, 1),
        "KB/result": round((rest - memory[0]) * 1024 / STALLED, 2),
        "journal MiB": round(metrics["journal_bytes"] / 2**20),
        "read back/s": round(STALLED / reading),
        "lost or twice": _wrong(numbers, STALLED),
    }


def _wrong(numbers: list[int], count: int) -> int:
    """How many results did not come, or came again."""
    return count - len(set(numbers)) + len(numbers) - len(set(numbers))

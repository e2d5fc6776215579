"""A scheduler whose calls wait for the test."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from gymapi.v1.agent_service_pb2 import RunRolloutRequest, RunRolloutResponse
from gymapi.v1.registry_service_pb2 import Server, ServerCapabilities, ServerKind, ServerState
from gymapi.v1.rollout_pb2 import Outcome, Rollout
from gymd.daemon.lanes import Client
from gymd.daemon.scheduler import Scheduler
from gymd.daemon.work import Job, TaskWork
from gymd.errors import GymdError

__all__ = ["Bench", "good", "replica"]

READY = ServerState.SERVER_STATE_READY
COMPLETED = Outcome.OUTCOME_COMPLETED

Answer = Callable[[Server, RunRolloutRequest], RunRolloutResponse]


def replica(
    server_id: str, state: int = READY, *, name: str = "calc", limit: int = 0, why: str = ""
) -> Server:
    return Server(
        server_id=server_id,
        name=name,
        kind=ServerKind.SERVER_KIND_AGENT,
        state=state,  # type: ignore[arg-type]
        condition=why,
        capabilities=ServerCapabilities(max_concurrency=limit),
    )


def good(*_: object) -> RunRolloutResponse:
    response = RunRolloutResponse()
    response.rollout.outcome = COMPLETED
    response.rollout.reward.value = 1.0
    return response


class Bench:
    """A scheduler whose calls wait for the test, or are answered at once by `answer`."""

    def __init__(self, **options: object) -> None:
        self.calls: list[tuple[Server, RunRolloutRequest, asyncio.Future[RunRolloutResponse]]] = []
        self._called = asyncio.Event()
        self.answer: Answer | None = None
        self.timeouts: list[float] = []
        self.scheduler = Scheduler(self._run, **options)  # type: ignore[arg-type]
        self.client = self.scheduler.new_client()
        self.done: dict[str, Rollout] = {}
        self.ended: Counter[str] = Counter()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def _run(self, server: Server, request: RunRolloutRequest, timeout: float) -> RunRolloutResponse:
        self.timeouts.append(timeout)
        if self.answer is not None:
            return self.answer(server, request)
        future: asyncio.Future[RunRolloutResponse] = asyncio.get_running_loop().create_future()
        copy = RunRolloutRequest()
        copy.CopyFrom(request)
        self.calls.append((server, copy, future))
        self._called.set()
        return await future

    def submit(
        self,
        *task_ids: str,
        client: Client | None = None,
        agent: str = "calc",
        count: int = 1,
        rollout_s: float = 60.0,
        queue_s: float = 60.0,
        retries: int = 2,
        **work_fields: Any,
    ) -> list[Job]:
        jobs: list[Job] = []
        where = client or self.client
        for task_id in task_ids:
            request = RunRolloutRequest(task_id=task_id)
            request.task.agent = agent
            work = TaskWork(
                request,
                count,
                accepted=time.monotonic(),
                wall=time.time(),
                rollout_s=rollout_s,
                queue_s=queue_s,
                retry_limit=retries,
                **work_fields,
            )
            jobs += [Job(work, index, where, self._on_done) for index in range(count)]
        self.scheduler.submit(where, jobs)
        return jobs

    def _on_done(self, job: Job, rollout: Rollout) -> None:
        self.done[job.rollout_id] = rollout
        self.ended[job.rollout_id] += 1
        for count, waiter in self._waiters:
            if len(self.done) >= count and not waiter.done():
                waiter.set_result(None)

    async def ends(self, count: int) -> None:
        """Waits until so many rollouts ended."""
        if len(self.done) < count:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((count, waiter))
            await asyncio.wait_for(waiter, 10)

    async def calling(self, count: int) -> None:
        """Waits until so many calls were made in all."""
        async with asyncio.timeout(10):
            while len(self.calls) < count:
                self._called.clear()
                await self._called.wait()

    def started(self) -> list[str]:
        return [request.rollout_id for _, request, _ in self.calls]

    def finish(self, position: int, answer: RunRolloutResponse | GymdError | None = None) -> None:
        future = self.calls[position][2]
        if isinstance(answer, GymdError):
            future.set_exception(answer)
        else:
            future.set_result(answer or good())

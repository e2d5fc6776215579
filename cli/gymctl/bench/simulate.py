"""The trainer at work: one task hands in and takes results, another trains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from gymapi.v1.rollout_pb2 import Outcome, Rollout, Task
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymctl.bench.figures import Memory, Times
from gymctl.bench.memory import MemoryWatch
from gymctl.bench.progress import ProgressLine
from gymctl.bench.trainer import Trainer
from gymd.client import Rejection, RolloutClient
from gymd.client.rows import is_success
from gymd.errors import GymdError, error

__all__ = ["Simulation"]

SAMPLE_S = 0.5
"""From one look at the memory to the next."""


class Simulation:
    """One run.

    Args:
        trainer: its books.
        task_of: the task of a group, by number.
        in_flight: most rollouts in flight.
        return_tokens: ask for token ids and logprobs.
    """

    def __init__(
        self, trainer: Trainer, task_of: Callable[[int], Task], *, in_flight: int, return_tokens: bool
    ) -> None:
        self.trainer = trainer
        self.times = Times()
        self._task_of = task_of
        self._in_flight = in_flight
        self._return_tokens = return_tokens
        self._may_hand_in = asyncio.Event()
        self._arrived = asyncio.Event()
        self._over = False

    async def run(self, client: RolloutClient, memory: MemoryWatch | None) -> GymdError | None:
        """Runs all steps; returns what ended them early, if anything did."""
        progress = ProgressLine(self.trainer, self.times)
        helpers = [asyncio.create_task(progress.run())]
        if memory is not None:
            helpers.append(asyncio.create_task(_watch(memory)))
        work = [asyncio.create_task(self._converse(client)), asyncio.create_task(self._train())]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_EXCEPTION)
            # The stream comes first: if it breaks, that is why there are no more batches.
            for task in work:
                if task in done:
                    task.result()
        except GymdError as problem:
            return problem
        finally:
            for task in (*work, *helpers):
                task.cancel()
            await asyncio.gather(*work, *helpers, return_exceptions=True)
            progress.close()
        return None

    async def _converse(self, client: RolloutClient) -> None:
        """The stream, from the first group to the last result."""
        session = client.session(credits=self._in_flight, return_tokens=self._return_tokens)
        try:
            async with session:
                async for result in session.run(self._submissions()):
                    if isinstance(result, Rejection):
                        self.trainer.refused(int(result.task_id), result.error.reason_name)
                    else:
                        self._take(result.rollout)
                    self._arrived.set()
        finally:
            self._over = True
            self._arrived.set()

    async def _submissions(self) -> AsyncIterator[TaskSubmission]:
        trainer = self.trainer
        while not trainer.all_handed_in:
            group = trainer.next_group(time.monotonic())
            if group is None:
                self._may_hand_in.clear()
                await self._may_hand_in.wait()
                continue
            name = str(group.number)
            yield TaskSubmission(
                task_id=name,
                group_id=name,
                task=self._task_of(group.number),
                rollout_count=trainer.plan.group_size,
            )

    def _take(self, rollout: Rollout) -> None:
        self.trainer.take(
            int(rollout.task_id),
            time.monotonic(),
            Outcome.Name(rollout.outcome).removeprefix("OUTCOME_").lower(),
            usable=is_success(rollout),
            tokens=rollout.response.usage.output_tokens,
        )

    async def _train(self) -> None:
        trainer, plan, times = self.trainer, self.trainer.plan, self.times
        while trainer.step < plan.steps:
            begin = time.monotonic()
            try:
                await self._batch()
            finally:
                times.waiting += time.monotonic() - begin
            trainer.use_batch()
            times.training += await _spend(plan.step_s)
            if trainer.update_due:
                trainer.pausing = True
                times.pausing += await _spend(plan.pause_s)
            trainer.end_step()
            self._may_hand_in.set()

    async def _batch(self) -> None:
        while not self.trainer.batch_ready:
            if self._over:
                raise error("PEER_UNREACHABLE", "the stream ended before all batches were complete")
            self._arrived.clear()
            await self._arrived.wait()


async def _spend(seconds: float) -> float:
    """Lets time pass; returns how much it was."""
    begin = time.monotonic()
    if seconds > 0:
        await asyncio.sleep(seconds)
    return time.monotonic() - begin


async def _watch(memory: MemoryWatch) -> None:
    while True:
        await asyncio.to_thread(memory.sample)
        await asyncio.sleep(SAMPLE_S)


def peaks(memory: MemoryWatch | None) -> Memory | None:
    """What was seen; None: nothing could be."""
    return memory.peak if memory is not None and memory.peak.daemon else None

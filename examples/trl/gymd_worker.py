"""A rollout worker for TRL's asynchronous GRPO: rollouts of gymd, as samples in the trainer's queue.

The worker runs an event loop in a thread of its own. It hands a task to the daemon only while fewer than
`max_samples` rollouts exist between here and the trainer, under way or in the queue: that bounds memory, and
how many weight updates can pass before a sample is used.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from gymd_trl import Source, describe, trainable
from numpy.typing import NDArray

from gymapi.v1.rollout_pb2 import Rollout, Task
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.client import Rejection, RolloutClient, RolloutSession
from gymd.client.tokens import NO_VERSION, Branch
from gymd.convert import chat_from_params, output_text

__all__ = ["HoldingTransfer", "RolloutWorker", "Sample", "SampleQueue"]

_HEARTBEAT_S = 1.0
_STOP_S = 15.0
# So many rollouts in a row without a reward, and the trainer is told instead of being left to wait.
_MOST_FAILURES = 100


@dataclass(slots=True)
class Sample:
    """One sequence to train on, with the attributes of TRL's RolloutSample."""

    prompt: list[dict[str, Any]]
    """Messages; for logs."""
    completion: list[dict[str, Any]]
    """Messages; for logs."""
    input_ids: NDArray[np.int64]
    completion_mask: NDArray[np.int64]
    """1: sampled by the policy."""
    old_log_probs: NDArray[np.float32]
    """Of every id; 0.0 where completion_mask is 0."""
    advantage: float
    model_version: int
    """Of the oldest weights that took part."""
    group_id: int
    metrics: dict[str, float]
    enqueued_at: float | None = None
    """Seconds since the epoch."""


class SampleQueue(queue.Queue[Sample]):
    """A queue that tells the worker when the trainer took something."""

    def __init__(self, maxsize: int, taken: Callable[[], None]) -> None:
        super().__init__(maxsize)
        self._taken = taken

    def get(self, block: bool = True, timeout: float | None = None) -> Sample:
        """As queue.Queue.get."""
        sample = super().get(block, timeout)
        self._taken()
        return sample


@dataclass
class _Group:
    """The rollouts of one task that are compared with each other."""

    number: int
    task: Task
    version: int
    """Weights that were live when it was handed in: the oldest that can take part."""
    rollouts: list[Rollout] = field(default_factory=list)


class RolloutWorker:
    """Feeds AsyncGRPOTrainer; pass it as `rollout_worker`.

    Args:
        source: the daemon, and what all rollouts share.
        rows: dataset rows as lines of JSON (`gymd_trl.read_rows`), gone through in random order for ever.
        num_generations: rollouts of each row, which are one group.
        max_samples: most rollouts that exist at a time, under way or waiting for the trainer.
        max_staleness: samples that are older than so many weight updates are dropped; as in the trainer's
            arguments.
        queue_size: most samples in the queue; a rollout that forked gives several.
        seed: of the order.
    """

    def __init__(
        self,
        source: Source,
        rows: Sequence[str],
        *,
        num_generations: int,
        max_samples: int,
        max_staleness: int,
        queue_size: int = 1024,
        seed: int = 0,
    ) -> None:
        self.rollout_buffer = SampleQueue(queue_size, self._wake)
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue(maxsize=4096)
        self._source = source
        self._tasks = [source.task(row) for row in rows]
        self._count = num_generations
        self._limit = max(max_samples, num_generations)
        self._max_staleness = max_staleness
        self._random = random.Random(seed)
        self._groups: dict[str, _Group] = {}
        self._version = 0
        self._holding = False
        self._failures = 0
        self._alive_at = time.monotonic()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._session: RolloutSession | None = None
        self._telling: set[asyncio.Future[Any]] = set()

    # ---- what the trainer calls, from its own thread

    def start(self) -> None:
        """Begins to produce; returns when the loop runs."""
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="gymd-rollouts", daemon=True)
        self._thread.start()
        started.wait()

    def stop(self) -> None:
        """Gives up what is under way and ends the thread."""
        if self._thread is None:
            return
        self._call(lambda: self._main.cancel() if self._main else None)
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            raise RuntimeError(f"the rollout worker did not end within {_STOP_S:.0f} s")
        self._thread = None

    def hold(self) -> None:
        """Lets no rollout begin until `update_model_version`: the weights are about to change.

        Rollouts under way go on; their model calls wait wherever the engine holds them.
        """
        self._holding = True
        version = self._version + 1  # now: by the time the loop runs it, the version may have gone up
        self._call(lambda: self._tell_daemon(version, "paused"))

    def update_model_version(self, model_version: int) -> None:
        """New weights are live."""
        self._version = model_version
        self._holding = False
        self._call(lambda: self._tell_daemon(model_version, "live"))
        self._wake()

    def check_health(self, stale_after_s: float) -> None:
        """Raises RuntimeError if the worker failed, or heard nothing of the daemon for so many seconds."""
        if self._failure is not None:
            raise RuntimeError(f"the rollout worker failed: {self._failure}") from self._failure
        silent = time.monotonic() - self._alive_at
        if silent > stale_after_s:
            raise RuntimeError(
                f"nothing came of the daemon at {self._source.address} for {silent:.0f} s, with "
                f"{len(self._groups)} groups under way"
            )

    def _wake(self) -> None:
        self._call(self._changed.set)

    def _call(self, what: Callable[[], object]) -> None:
        """Runs something on the worker's loop, if there is one still."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(what)
            except RuntimeError:
                pass  # the loop has ended: nobody is left to be told

    # ---- the worker's own thread

    def _tell_daemon(self, version: int, phase: Literal["paused", "live"]) -> None:
        """The daemon notes the version in rollouts and token segments, and begins none while it changes."""
        if self._session is not None:
            task = asyncio.ensure_future(self._session.update_policy(version, phase))
            self._telling.add(task)
            task.add_done_callback(self._told)

    def _told(self, task: asyncio.Future[Any]) -> None:
        self._telling.discard(task)
        if not task.cancelled():
            task.exception()  # the session has failed, and whoever reads its results says so

    def _run(self, started: threading.Event) -> None:
        try:
            asyncio.run(self._produce(started))
        except asyncio.CancelledError:
            pass  # stop() was called
        except BaseException as failure:
            self._failure = failure  # check_health raises it in the trainer's thread
        finally:
            started.set()

    async def _produce(self, started: threading.Event) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._alive_at = time.monotonic()
        started.set()
        async with (
            RolloutClient(self._source.address, client_name="trl-async") as client,
            self._source.session(client, credits=self._limit) as session,
        ):
            self._session = session
            if self._version:  # the trainer was faster than the connection
                self._tell_daemon(self._version, "live")
            heart = asyncio.create_task(self._heartbeat(session))
            try:
                async for result in session.run(self._submissions()):
                    if isinstance(result, Rejection):
                        raise result.error
                    self._alive_at = time.monotonic()
                    await self._take(result.rollout)
            finally:
                heart.cancel()

    async def _heartbeat(self, session: RolloutSession) -> None:
        """Notes the daemon's progress frames, which come while rollouts take their time."""
        seen = session.progress
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            if session.progress is not seen or not self._groups:
                seen, self._alive_at = session.progress, time.monotonic()

    async def _submissions(self) -> AsyncIterator[TaskSubmission]:
        for number, task in enumerate(self._endless()):
            while self._holding or not self._has_room():
                self._changed.clear()
                await self._changed.wait()
            name = str(number)
            self._groups[name] = _Group(number, task, self._version)
            yield TaskSubmission(task_id=name, group_id=name, rollout_count=self._count, task=task)

    def _endless(self) -> Iterator[Task]:
        order = list(self._tasks)
        while True:
            self._random.shuffle(order)
            yield from order

    def _has_room(self) -> bool:
        existing = len(self._groups) * self._count + self.rollout_buffer.qsize()
        return existing + self._count <= self._limit

    async def _take(self, rollout: Rollout) -> None:
        """Adds a rollout to its group; the last one sends the group on its way."""
        group = self._groups[rollout.task_id]
        group.rollouts.append(rollout)
        if len(group.rollouts) < self._count:
            return
        for sample in self._samples(group):
            while self.rollout_buffer.full():
                self._changed.clear()
                await self._changed.wait()
            sample.enqueued_at = time.time()
            self.rollout_buffer.put_nowait(sample)
        del self._groups[rollout.task_id]
        self._changed.set()

    def _samples(self, group: _Group) -> list[Sample]:
        """What can be trained on: scored, wanted, with tokens, and of weights that are recent enough."""
        scored = [rollout for rollout in group.rollouts if rollout.reward.HasField("value")]
        rewards = np.array([rollout.reward.value for rollout in scored if _in_baseline(rollout)])
        mean, spread = (float(rewards.mean()), float(rewards.std())) if len(rewards) else (0.0, 0.0)
        samples: list[Sample] = []
        stale = 0
        for rollout in scored:
            metrics = {"reward": rollout.reward.value, "reward_std": spread}
            for branch in trainable(rollout):
                sample = _sample(group, rollout, branch, metrics)
                sample.advantage = (rollout.reward.value - mean) / (spread + 1e-8)
                if self._version - sample.model_version > self._max_staleness:
                    stale += 1
                else:
                    samples.append(sample)
        self._count_up(group, len(scored), stale)
        return samples

    def _count_up(self, group: _Group, scored: int, stale: int) -> None:
        unscored = len(group.rollouts) - scored
        self._failures = self._failures + unscored if not scored else 0
        if self._failures >= _MOST_FAILURES:
            why = describe(group.rollouts[-1])
            raise RuntimeError(f"{self._failures} rollouts in a row came without a reward; the last: {why}")
        try:
            self.metrics_queue.put_nowait(
                {"rollout/unscored_total": float(unscored), "rollout/dropped_stale_total": float(stale)}
            )
        except queue.Full:
            pass  # nobody reads them


def _in_baseline(rollout: Rollout) -> bool:
    """Whether a reward counts among those of its group: unless its verifier said no."""
    return not rollout.reward.HasField("use_for_baseline") or rollout.reward.use_for_baseline


def _sample(group: _Group, rollout: Rollout, branch: Branch, metrics: dict[str, float]) -> Sample:
    known = branch.versions[branch.versions != NO_VERSION]
    return Sample(
        prompt=chat_from_params(group.task.create_params)["messages"],
        completion=[{"role": "assistant", "content": output_text(rollout.response)}],
        input_ids=branch.ids.astype(np.int64),
        completion_mask=branch.sampled.astype(np.int64),
        old_log_probs=np.where(branch.sampled, branch.logprobs, 0.0).astype(np.float32),
        advantage=0.0,
        model_version=int(known.min()) if len(known) else group.version,
        group_id=group.number,
        metrics=dict(metrics),
    )


class HoldingTransfer:
    """A weight transfer that has the worker hold back new rollouts meanwhile.

    Args:
        transfer: does the work; any object with the methods of TRL's WeightTransferProtocol.
        worker: the rollout worker. It goes on when the trainer tells it the new version.
    """

    def __init__(self, transfer: Any, worker: RolloutWorker) -> None:
        self._transfer = transfer
        self._worker = worker

    def init_weight_transfer(self) -> None:
        """Sets the transfer up."""
        self._transfer.init_weight_transfer()

    def pause(self) -> None:
        """Holds new rollouts, then the engine."""
        self._worker.hold()
        self._transfer.pause()

    def send_weights(self, iterator: Iterator[tuple[str, Any]]) -> None:
        """Sends the weights."""
        self._transfer.send_weights(iterator)

    def resume(self) -> None:
        """Lets the engine go on."""
        self._transfer.resume()

    def destroy(self) -> None:
        """Releases what the transfer holds."""
        self._transfer.destroy()

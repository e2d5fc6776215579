"""The trainer without async: an event loop in a thread of its own does the work.

    with connect("127.0.0.1:50161", policy=my_generate) as gym:
        for group in gym.groups(tasks, n=8):
            ...

A plain `policy` runs in that side's threads, not in the caller's: a lock around the weights keeps an update
from mixing with a call that is under way. Ctrl-C ends the loop, stops what is under way (with a resume_file
it is kept for the next process), and goes on as usual.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from gymapi.v1.rollout_service_pb2 import PolicyUpdateAck
from gymd.client.controls import CancelWord, InflightWord, PhaseWord
from gymd.client.groups import Group, TaskSource
from gymd.client.trainer import Trainer

__all__ = ["SyncTrainer", "connect"]

T = TypeVar("T")

CLOSE_TIMEOUT_S = 15.0


def connect(address: str, policy: Any = None, **options: Any) -> SyncTrainer:
    """A trainer to be used with `with`; the arguments are those of gymd.client.Trainer."""
    return SyncTrainer(address, policy, **options)


class SyncTrainer:
    """gymd.client.Trainer for code without async; use it as a context manager, from one thread.

    The functions that run on its event loop (an async policy, the source of tasks) must not call it: that
    raises RuntimeError.
    """

    def __init__(self, address: str, policy: Any = None, **options: Any) -> None:
        self._trainer = Trainer(address, policy, **options)
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs
        self._left = asyncio.Event()
        # A daemon thread: a second Ctrl-C while it closes must be able to end the process.
        self._thread = threading.Thread(target=self._serve, name="gymd-trainer", daemon=True)
        self._started = threading.Event()

    def _serve(self) -> None:
        try:
            asyncio.run(self._stay())  # in the end it cancels what Ctrl-C has left, and waits for that
        finally:
            self._loop = None
            self._started.set()  # also if there is no loop to be had

    async def _stay(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started.set()
        await self._left.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        try:
            self._call(self._trainer.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call(self._trainer.__aexit__(kind, exc, trace), CLOSE_TIMEOUT_S)
        finally:
            self._end()

    @property
    def policy_version(self) -> int | None:
        """Version of the policy that answers now."""
        return self._trainer.policy_version

    def update_policy(
        self, version: int, phase: PhaseWord = "live", *, inflight: InflightWord = "continue"
    ) -> PolicyUpdateAck:
        """As Trainer.update_policy."""
        return self._call(self._trainer.update_policy(version, phase, inflight=inflight))

    def cancel(self, *, mode: CancelWord = "abort", reason: str = "", **scope: Any) -> int:
        """As RolloutSession.cancel, with exactly one of its scopes."""
        return self._call(self._trainer.session.cancel(mode=mode, reason=reason, **scope))

    def commit(self) -> None:
        """As Trainer.commit."""
        self._call(_soon(self._trainer.commit))

    def groups(
        self, tasks: Iterable[TaskSource], n: int = 8, *, in_flight: int | None = None, name: str = ""
    ) -> Generator[Group, None, None]:
        """As Trainer.groups; `tasks` is iterated in the other thread."""
        stream = self._trainer.groups(tasks, n, in_flight=in_flight, name=name)
        try:
            while (group := self._call(_next(stream))) is not None:
                yield group
        finally:
            if self._loop is not None:  # else the trainer was left, and this with it
                self._call(stream.aclose(), CLOSE_TIMEOUT_S)

    def _call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        loop = self._loop
        if loop is None or threading.current_thread() is self._thread:
            work.close()
            where = "as `with connect(...) as gym:`" if loop is None else "outside of its own event loop"
            raise RuntimeError(f"use the trainer {where}")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()  # Ctrl-C: the work must not go on behind the caller's back
            raise

    def _end(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._left.set)
        self._thread.join(CLOSE_TIMEOUT_S)


async def _soon(work: Callable[[], T]) -> T:
    return work()


async def _next(stream: Any) -> Group | None:
    group: Group | None = await anext(stream, None)
    return group

"""The reader processes: jobs for them, urgent ones first."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import orjson

from gymctl.viewer.worker import LENGTHS
from gymd.child import Child

__all__ = ["INDEX", "SEARCH", "URGENT", "Pool", "ReaderError"]

URGENT, SEARCH, INDEX = 0, 1, 2
"""Priorities: what somebody waits for, what somebody looks for, and the rest."""

_MOST_PROCESSES = 4
_CLOSE_S = 2.0
_CLOSED = "the file is being closed or read anew"
_TRIES = 2
"""A job is tried once more when its process dies, which may be another's fault."""


class ReaderError(Exception):
    """A job failed; the text says why."""


class Pool:
    """A few worker processes that share the open files.

    Args:
        descriptors: open files that jobs may name.
        size: how many processes; None: one per core, at most four.
    """

    def __init__(self, descriptors: Sequence[int], size: int | None = None) -> None:
        self._descriptors = tuple(descriptors)
        self.size = size or min(_MOST_PROCESSES, _cores())
        self._jobs: asyncio.PriorityQueue[tuple[int, int, bytes, asyncio.Future[tuple[Any, bytes]]]]
        self._jobs = asyncio.PriorityQueue()
        self._numbers = itertools.count()
        self._drivers: list[asyncio.Task[None]] = []
        self._closed = False

    def start(self) -> None:
        """Starts the processes, in the background."""
        self._drivers = [asyncio.create_task(self._drive(), name=f"reader {n}") for n in range(self.size)]

    async def run(self, do: str, priority: int = URGENT, **arguments: Any) -> tuple[Any, bytes]:
        """Runs a job of worker.py; returns head and body. A cancelled one that has not begun never does.

        Raises:
            ReaderError: it failed, its process died twice, or the pool is closed.
        """
        if self._closed:
            raise ReaderError(_CLOSED)
        answer: asyncio.Future[tuple[Any, bytes]] = asyncio.get_running_loop().create_future()
        job = orjson.dumps({"do": do, **arguments}) + b"\n"
        # The number keeps equal priorities in order.
        self._jobs.put_nowait((priority, next(self._numbers), job, answer))
        return await answer

    async def close(self) -> None:
        """Ends the processes; waiting jobs fail."""
        self._closed = True
        for driver in self._drivers:
            driver.cancel()
        await asyncio.gather(*self._drivers, return_exceptions=True)
        self._drivers = []
        while not self._jobs.empty():
            _fail(self._jobs.get_nowait()[-1], _CLOSED)

    async def _drive(self) -> None:
        """Keeps one process, gives it jobs, and replaces it when it dies."""
        process: Child | None = None
        try:
            while True:
                _, _, job, answer = await self._jobs.get()
                for left in reversed(range(_TRIES)):
                    if answer.done():
                        break
                    if process is None:
                        process = await self._spawn()
                    try:
                        await self._ask(process, job, answer)
                        break
                    except (OSError, asyncio.IncompleteReadError):
                        code = await process.wait()
                        process = None
                        if not left:
                            _fail(answer, _death(code))
        finally:
            if process is not None:
                await _end(process)

    async def _ask(self, process: Child, job: bytes, answer: asyncio.Future[tuple[Any, bytes]]) -> None:
        try:
            process.stdin.write(job)
            await process.stdin.drain()
            head_length, body_length = LENGTHS.unpack(await process.stdout.readexactly(LENGTHS.size))
            head = orjson.loads(await process.stdout.readexactly(head_length))
            body = await process.stdout.readexactly(body_length)
        except asyncio.CancelledError:
            _fail(answer, _CLOSED)
            raise
        if "error" in head:
            _fail(answer, head["error"])
        elif not answer.done():
            answer.set_result((head, body))

    async def _spawn(self) -> Child:
        # -P: what lies in the current folder is not for importing.
        command = [sys.executable, "-P", "-m", "gymctl.viewer.worker"]
        return await Child.start(command, stderr=None, pass_fds=self._descriptors, limit=1 << 20)


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _fail(answer: asyncio.Future[tuple[Any, bytes]], why: str) -> None:
    """Tells who waits; whoever no longer does has cancelled it."""
    if not answer.done():
        answer.set_exception(ReaderError(why))


def _death(code: int) -> str:
    how = f"was killed by signal {-code} (9 is often: out of memory)" if code < 0 else f"ended with {code}"
    return f"a reader process {how}"


async def _end(process: Child) -> None:
    """Closes its stdin, which ends it; kills it if it takes too long."""
    process.stdin.close()
    try:
        async with asyncio.timeout(_CLOSE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    process.close()

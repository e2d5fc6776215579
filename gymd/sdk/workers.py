"""A process pool for CPU-heavy code: a call that does not end in time is killed with its process.

Threads cannot be killed and a busy event loop stalls every session, so code such as symbolic mathematics runs
here. Workers are fresh interpreters (`python -m gymd.sdk.worker`), not forks: a fork of a process that uses
gRPC may hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

from gymd.errors import GymdError, error

__all__ = ["ProcessPool", "cpu_bound", "shared_pool"]

_HEADER = struct.Struct("!BI")
_START_TIMEOUT_S = 60.0


class ProcessPool:
    """Runs module-level functions in worker processes.

    Args:
        size: most workers; they start when they are needed. Default: the number of CPUs.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size or os.cpu_count() or 1
        self._free: list[_Worker] = []
        self._places = asyncio.Semaphore(self.size)
        self._closed = False

    async def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        timeout: float,
    ) -> Any:
        """Calls `function(*args, **kwargs)` in a worker; arguments and result are pickled.

        Waiting for a free worker does not count against `timeout` (seconds); the caller's own deadline
        bounds it.

        Raises:
            DeadlineExceeded: it did not end in time; its process was killed.
            Internal: it raised (SERVER_CODE_FAILED), or its process died.
        """
        source = inspect.getsourcefile(function)
        task = pickle.dumps((function.__module__, source, function.__qualname__, args, kwargs or {}))
        async with self._places:
            worker = self._free.pop() if self._free else await _Worker.start()
            try:
                async with asyncio.timeout(timeout):
                    result = await worker.call(task)
            except TimeoutError:
                await worker.kill()
                name = f"{function.__module__}.{function.__qualname__}"
                text = f"{name} did not end within {timeout:g} s; its process was killed"
                raise error("DEADLINE_EXCEEDED", text, function=name, deadline_seconds=timeout) from None
            except BaseException as failure:
                if not isinstance(failure, GymdError) or not worker.alive:
                    await asyncio.shield(worker.kill())
                    raise
                self._give_back(worker)
                raise
            self._give_back(worker)
            return result

    def _give_back(self, worker: _Worker) -> None:
        if not self._closed:
            self._free.append(worker)

    async def close(self) -> None:
        """Kills the idle workers; busy ones are killed by whoever waits for them."""
        self._closed = True
        while self._free:
            await self._free.pop().kill()


class _Worker:
    """One worker process: a request on its stdin, an answer on its stdout."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gymd.sdk.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 * 1024 * 1024,
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await worker._answer()
        except BaseException:
            await asyncio.shield(worker.kill())
            raise
        return worker

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def call(self, task: bytes) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(_HEADER.pack(0, len(task)) + task)
        with contextlib.suppress(ConnectionError):  # a dead worker is reported by the read below
            await self._process.stdin.drain()
        return await self._answer()

    async def _answer(self) -> Any:
        assert self._process.stdout is not None
        try:
            failed, size = _HEADER.unpack(await self._process.stdout.readexactly(_HEADER.size))
            body = await self._process.stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            code = await self._process.wait()
            text = f"a worker process died with exit code {code}; a crash or the memory limit is likely"
            raise error("SERVER_CODE_FAILED", text, exit_code=code) from None
        if failed:
            raise error("SERVER_CODE_FAILED", body.decode(), exception="worker")
        return pickle.loads(body)  # from our own child, by its own pipe

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


_shared: dict[asyncio.AbstractEventLoop, ProcessPool] = {}


def shared_pool() -> ProcessPool:
    """The pool of this process's event loop; all servers of a host share it."""
    loop = asyncio.get_running_loop()
    if loop not in _shared:
        _shared[loop] = ProcessPool()
    return _shared[loop]


async def close_shared_pool() -> None:
    """Ends the workers of this event loop."""
    pool = _shared.pop(asyncio.get_running_loop(), None)
    if pool is not None:
        await pool.close()


def cpu_bound(*, timeout_s: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a module-level function or a static method run in the process pool when it is awaited.

        @cpu_bound(timeout_s=10)
        def grade(answer: str, expected: str) -> float: ...

        score = await grade(answer, expected)      # killed after 10 s: DeadlineExceeded

    A whole verifier may be one: `@staticmethod` above `@cpu_bound(timeout_s=10)` above
    `def verify(text, task)`. What it takes and returns is pickled, so it cannot take `self` or `session`.
    `grade.inline` is the plain function, for tests.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in ("self", "session"):
            if name in inspect.signature(function).parameters:
                where = function.__qualname__
                raise TypeError(
                    f"{where}: a cpu_bound function runs in another process and cannot take {name}"
                )

        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:
            return await shared_pool().run(function, args, kwargs, timeout=timeout_s)

        run.inline = function  # type: ignore[attr-defined]
        return run

    return decorate

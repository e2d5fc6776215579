"""A process pool for CPU-heavy code: a call that does not end in time is killed with its process.

Threads cannot be killed and a busy event loop stalls every session, so code such as symbolic mathematics runs
here. Workers are fresh interpreters (`python -m gymd.worker`), not forks: a fork of a process that uses
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
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from gymd.child import Child
from gymd.errors import GymdError, error

__all__ = ["ProcessPool", "cpu_bound", "shared_pool"]

_HEADER = struct.Struct("!BI")
_START_TIMEOUT_S = 60.0

Module = tuple[str, str | None]
"""Name and source file of a module."""


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
        function: Callable[..., Any] | str,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        timeout: float,
    ) -> Any:
        """Calls `function(*args, **kwargs)` in a worker; arguments and result are pickled.

        A function may be named, as `"package.module:function"`: then only the worker loads its module, which
        is what heavy ones (symbolic mathematics) want.

        Waiting for a free worker, and loading the function's module there for the first time, do not count
        against `timeout` (seconds); the caller's own deadline bounds them.

        Raises:
            DeadlineExceeded: it did not end in time; its process was killed.
            Internal: it raised (SERVER_CODE_FAILED), or its process died.
        """
        module, function_name = _named(function)
        name = f"{module[0]}.{function_name}"
        task = pickle.dumps((*module, function_name, args, kwargs or {}))
        async with self._places:
            worker = await self._take(module) or await _Worker.start()
            try:
                await _within(_START_TIMEOUT_S, worker.load(module), f"loading {module[0]}")
                return await _within(timeout, worker.call(task), name)
            except BaseException as failure:
                if not isinstance(failure, GymdError) or failure.reason_name == "DEADLINE_EXCEEDED":
                    await asyncio.shield(worker.kill())
                raise
            finally:
                if worker.alive and self._closed:
                    await asyncio.shield(worker.kill())
                elif worker.alive:
                    self._free.append(worker)

    async def _take(self, module: Module) -> _Worker | None:
        """An idle worker, if there is one: rather one that has loaded the module."""
        while self._free:
            ready = (number for number, worker in enumerate(self._free) if module in worker.loaded)
            worker = self._free.pop(next(ready, -1))
            if not worker.gone:
                return worker
            await asyncio.shield(worker.kill())
        return None

    async def close(self) -> None:
        """Kills the idle workers; busy ones are killed by whoever waits for them."""
        self._closed = True
        while self._free:
            await self._free.pop().kill()


class _Worker:
    """One worker process: a request on its stdin, an answer on its stdout."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self.loaded: set[Module] = set()

    @classmethod
    async def start(cls) -> _Worker:
        command = (sys.executable, "-m", "gymd.worker")
        process = await Child.start(command, stderr=None, limit=64 * 1024 * 1024)
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
        return self._process.running

    @property
    def gone(self) -> bool:
        """Whether it has ended by itself while it was idle: where memory is short the kernel kills."""
        return self._process.has_ended()

    async def load(self, module: Module) -> None:
        """Imports a module that a coming call needs; heavy ones (sympy) take seconds."""
        if module not in self.loaded:
            await self.call(pickle.dumps((*module, "", (), {})))
            self.loaded.add(module)

    async def call(self, task: bytes) -> Any:
        self._process.stdin.write(_HEADER.pack(0, len(task)) + task)
        with contextlib.suppress(ConnectionError):  # a dead worker is reported by the read below
            await self._process.stdin.drain()
        return await self._answer()

    async def _answer(self) -> Any:
        try:
            failed, size = _HEADER.unpack(await self._process.stdout.readexactly(_HEADER.size))
            body = await self._process.stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            code = await self._process.wait()
            self._process.close()
            text = f"a worker process died with exit code {code}; a crash or the memory limit is likely"
            raise error("SERVER_CODE_FAILED", text, exit_code=code) from None
        if failed:
            raise error("SERVER_CODE_FAILED", body.decode(), exception="worker")
        return pickle.loads(body)  # from our own child, by its own pipe

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()
        self._process.close()


def _named(function: Callable[..., Any] | str) -> tuple[Module, str]:
    if isinstance(function, str):
        module, _, name = function.partition(":")
        return (module, None), name
    return (function.__module__, inspect.getsourcefile(function)), function.__qualname__


async def _within(seconds: float, answer: Coroutine[Any, Any, Any], what: str) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        text = f"{what} did not end within {seconds:g} s; its process was killed"
        raise error("DEADLINE_EXCEEDED", text, function=what, deadline_seconds=seconds) from None


_shared: dict[asyncio.AbstractEventLoop, ProcessPool] = {}
_holders: Counter[asyncio.AbstractEventLoop] = Counter()


def shared_pool() -> ProcessPool:
    """The pool of this process's event loop; all servers of a host share it."""
    loop = asyncio.get_running_loop()
    if loop not in _shared:
        _shared[loop] = ProcessPool()
    return _shared[loop]


def hold_shared_pool() -> None:
    """Keeps the workers of this event loop until `close_shared_pool` was called as often."""
    _holders[asyncio.get_running_loop()] += 1


async def close_shared_pool() -> None:
    """Ends the workers of this event loop, unless somebody else holds them."""
    loop = asyncio.get_running_loop()
    _holders[loop] -= 1
    if _holders[loop] <= 0:
        del _holders[loop]
        pool = _shared.pop(loop, None)
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

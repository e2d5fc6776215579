"""Calls into the code of a server's author: whatever it raises ends that call, and nothing else.

Not everything that Python code raises is an Exception. sys.exit in a tool would end the event loop with all
rollouts of the host, a panic of a Rust extension would pass every handler and leave its caller without an
answer, and no future takes a StopIteration, so that a thread's would never be answered either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Executor
from typing import TypeVar

__all__ = ["awaited", "in_thread"]

T = TypeVar("T")


async def awaited(call: Awaitable[T], what: str) -> T:
    """Awaits the author's coroutine; `what` names it in the RuntimeError for what is no Exception."""
    try:
        return await call
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled this call: it waited for something that was cancelled.
        raise _as_exception(what, cancelled) from cancelled
    except BaseException as raised:
        raise _as_exception(what, raised) from raised


async def in_thread(executor: Executor, function: Callable[[], T], what: str) -> T:
    """Calls the author's function in a thread; `what` as in `awaited`."""

    def call() -> T:
        try:
            return function()
        except BaseException as raised:
            if isinstance(raised, Exception) and not isinstance(raised, StopIteration | CancelledError):
                raise
            raise _as_exception(what, raised) from raised

    return await asyncio.get_running_loop().run_in_executor(executor, call)


def _as_exception(what: str, raised: BaseException) -> RuntimeError:
    said = f": {raised}" if str(raised) else ""
    return RuntimeError(f"{what} raised {type(raised).__name__}{said}")

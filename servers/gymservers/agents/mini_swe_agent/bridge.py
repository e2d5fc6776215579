"""What lets mini-swe-agent, which blocks, run in a thread and use the event loop's model and tools."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Bridge", "Stopped"]

T = TypeVar("T")


class Stopped(Exception):
    """The rollout was cancelled: its thread ends with this."""


class Bridge:
    """Calls coroutines from the thread of one rollout.

    Args:
        loop: where they run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._pending: concurrent.futures.Future[Any] | None = None
        self._stopped = False

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and waits for it.

        Raises:
            Stopped: the rollout was cancelled.
        """
        with self._lock:
            if self._stopped:
                coroutine.close()
                raise Stopped
            future = self._pending = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Stopped from None

    def stop(self) -> None:
        """Cancels the call under way and refuses further ones, so that the thread ends."""
        with self._lock:
            self._stopped = True
            if self._pending is not None:
                self._pending.cancel()

"""Functions for worker processes, and servers to load by their entrypoint."""

import os
import pathlib
import signal
import sys
import time
from typing import Any

from gymd.sdk import ResourcesServer, cpu_bound
from gymd.worker import MEMORY_BYTES

__all__ = [
    "Graded",
    "crash",
    "double",
    "fail",
    "hoard",
    "noisy",
    "pid",
    "read",
    "spin",
    "spin_with_pid",
    "unpicklable",
]


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


def pid() -> int:
    """The worker's process id."""
    return os.getpid()


def spin_with_pid(path: str) -> None:
    """Writes the process id to a file, then never returns and never yields."""
    pathlib.Path(path).write_text(str(os.getpid()))
    while True:
        pass


def fail(text: str) -> None:
    """Raises."""
    raise ValueError(text)


def hoard() -> int:
    """Takes more memory than a worker may have, without touching it."""
    return len(bytes(MEMORY_BYTES + 1))


def crash() -> None:
    """Ends the process as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def noisy(text: str) -> str:
    """Prints, which must not disturb the answer."""
    print(text)  # noqa: T201 - what graders do
    return text


def read() -> str:
    """Reads what the worker is sent, as a program does that asks its user."""
    return sys.stdin.read() + os.read(0, 100).decode()


def unpicklable() -> Any:
    """Returns what cannot travel."""
    return lambda: None


@cpu_bound(timeout_s=0.3)
def spin(seconds: float) -> float:
    """Busy for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return seconds


class Graded(ResourcesServer):
    """Its whole verifier runs in a worker."""

    @staticmethod
    @cpu_bound(timeout_s=0.3)
    def verify(text: str) -> float:
        """Busy as long as the text says."""
        end = time.monotonic() + float(text)
        while time.monotonic() < end:
            pass
        return float(os.getpid())

"""Leaks are failures: fixtures that compare what exists after a test with what was there before.

After each test there must be no process that it started (grandchildren and orphans included), no thread, no
listening socket, no pending task, no open gRPC channel and no open session of a resources server beyond what
was there before it. What fixtures of a wider scope made belongs to them: they are set up before the first
look and checked when the session ends.

Things that are on their way out get GRACE_S to leave; what stays longer is named in the error.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import subprocess
import threading
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc
import psutil
import pytest

from gymd.sdk.resources import ResourcesServicer

__all__ = ["no_leaked_async", "no_leaked_processes", "no_leaks", "no_leaks_async"]

GRACE_S = 10.0
TAG = "GYMD_TEST_LEAK_TAG"
"""Environment variable that every process inherits from the test that started it."""
SESSION_TAG = f"{os.getpid()}-{uuid.uuid4().hex}"

# Threads that belong to a library and leave with the loop or with the process.
LIBRARY_THREADS = ("_poll_wrapper", "asyncio_", "pytest_timeout")

T = TypeVar("T")
_numbers = itertools.count(1)


class _Spawns:
    """Counts started processes, so that only tests that start some pay for the search."""

    def __init__(self) -> None:
        self.count = 0
        self._children: tuple[int, set[psutil.Process]] = (0, set())
        original = subprocess.Popen.__init__

        # asyncio starts its processes through Popen too. An audit hook would see more and slow everything.
        @functools.wraps(original)
        def init(process: Any, *args: Any, **kwargs: Any) -> None:
            self.count += 1
            original(process, *args, **kwargs)

        subprocess.Popen.__init__ = init  # type: ignore[assignment]

    def children(self) -> set[psutil.Process]:
        """Direct children that run; looked for only if a process was started since the last time."""
        if self._children[0] != self.count:
            self._children = (self.count, living_children())
        return self._children[1]


class _Channels:
    """Every grpc.aio channel, with the loop it was made on."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        original = grpc.aio.insecure_channel

        @functools.wraps(original)
        def insecure_channel(*args: Any, **kwargs: Any) -> Any:
            channel = original(*args, **kwargs)
            with contextlib.suppress(RuntimeError):  # made outside a loop: nobody's
                self._made[channel] = (asyncio.get_running_loop(), args[0] if args else kwargs.get("target"))
            return channel

        grpc.aio.insecure_channel = insecure_channel

    def open_on(self, loop: asyncio.AbstractEventLoop) -> list[str]:
        """Targets of the channels of a loop that nobody closed."""
        return [
            f"channel to {target} is not closed"
            for channel, (made_on, target) in list(self._made.items())
            if made_on is loop and channel.get_state() != grpc.ChannelConnectivity.SHUTDOWN
        ]


class _Servicers:
    """Every resources server of this process."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[ResourcesServicer] = weakref.WeakSet()
        original = ResourcesServicer.__init__

        @functools.wraps(original)
        def init(servicer: ResourcesServicer, *args: Any, **kwargs: Any) -> None:
            original(servicer, *args, **kwargs)
            self._made.add(servicer)

        ResourcesServicer.__init__ = init  # type: ignore[assignment]

    def sessions(self) -> set[str]:
        return {session for servicer in list(self._made) for session in servicer.sessions}


_spawns = _Spawns()
_channels = _Channels()
_servicers = _Servicers()


def tagged_processes(tag: str) -> list[psutil.Process]:
    """Living processes whose environment holds the tag, or one that begins with it."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        # A process of another user, or one that has just ended, is none of ours.
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(TAG, "").startswith(tag):
                found.append(process)
    return found


def living_children() -> set[psutil.Process]:
    """Direct children that still run; one that ended and was not waited for is no leak."""
    alive = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE:
                alive.add(child)
    return alive


def own_threads() -> set[threading.Thread]:
    """Python threads that some code of ours or of the test started."""
    return {t for t in threading.enumerate() if not any(name in t.name for name in LIBRARY_THREADS)}


def own_sockets() -> dict[int, str]:
    """Sockets of this process: file descriptor and inode. Cheap; empty where there is no /proc."""
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                target = os.readlink(f"/proc/self/fd/{fd}")
                if target.startswith("socket:"):
                    found[int(fd)] = target
    return found


def new_listeners(before: dict[int, str]) -> list[str]:
    """TCP addresses on which this process listens by sockets that were not there before."""
    now, old = own_sockets(), set(before.values())
    if old.issuperset(now.values()):
        return []
    connections = psutil.Process().net_connections(kind="inet")
    return [
        f"{c.laddr.ip}:{c.laddr.port}"
        for c in connections
        if c.status == psutil.CONN_LISTEN and now.get(c.fd) not in old
    ]


def settled(look: Callable[[], Iterable[T]]) -> list[T]:
    """What `look` still finds after at most GRACE_S."""
    deadline = time.monotonic() + GRACE_S
    while (left := list(look())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"process {process.pid}: {' '.join(process.cmdline())[:200]}"
    return f"process {process.pid}"


def reported(leaks: list[str]) -> None:
    """Fails the test that left something behind."""
    if leaks:
        pytest.fail("left behind:\n  " + "\n  ".join(leaks), pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def no_leaked_processes() -> Iterator[None]:
    """At the very end no process of any test or fixture may live on, orphans included."""
    os.environ[TAG] = SESSION_TAG
    yield
    os.environ.pop(TAG, None)
    left = settled(lambda: tagged_processes(SESSION_TAG))
    reported([described(process) for process in left])


@pytest.fixture(autouse=True)
def no_leaks(no_leaked_processes: None) -> Iterator[None]:
    """Processes, threads, listening sockets and sessions of one test."""
    tag = f"{SESSION_TAG}/{next(_numbers)}/"
    spawned, threads, sockets = _spawns.count, own_threads(), own_sockets()
    sessions = _servicers.sessions()
    children = _spawns.children()
    os.environ[TAG] = tag
    yield
    os.environ[TAG] = SESSION_TAG
    leaks = []
    if _spawns.count > spawned:
        left = settled(lambda: {*tagged_processes(tag), *(living_children() - children)})
        leaks += [described(process) for process in left]
    leaks += [f"thread {thread.name}" for thread in settled(lambda: own_threads() - threads)]
    leaks += [f"socket listening on {address}" for address in settled(lambda: new_listeners(sockets))]
    leaks += [f"session {session} is open" for session in settled(lambda: _servicers.sessions() - sessions)]
    reported(leaks)


@pytest.fixture
async def no_leaked_async() -> AsyncIterator[None]:
    """Pending tasks and open channels of one test's event loop."""
    before = asyncio.all_tasks()
    yield
    loop, current = asyncio.get_running_loop(), asyncio.current_task()
    pending = asyncio.all_tasks() - before - {current}
    if pending:
        _, pending = await asyncio.wait(pending, timeout=GRACE_S)
    leaks = [f"task {task.get_name()}: {task.get_coro()!r}" for task in pending]
    reported(leaks + _channels.open_on(loop))


@pytest.fixture(autouse=True)
def no_leaks_async(request: pytest.FixtureRequest, no_leaks: None) -> None:
    """Applies `no_leaked_async` to tests that run on an event loop."""
    if asyncio.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("no_leaked_async")

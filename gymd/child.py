"""A child process with pipes, for any event loop.

Unlike the loops' own subprocesses it takes no thread to wait for it (asyncio before Python 3.12 does) and no
fork (uvloop does): a fork copies the page tables of a large server each time, and runs gRPC's handlers in the
child, where they hang or crash now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Sequence
from subprocess import PIPE
from typing import Any

__all__ = ["Child"]

BUFFER = 1 << 18
"""Bytes of output that wait for their reader; then the child waits."""
_POLL_S = 0.005


class Child:
    """A process that was started by `Child.start`. Its exit code is told by `wait`, or by `ended` and `reap`.

    Attributes:
        pid: its process id.
        stdin: where to write its input; only if it is a pipe, like the next two.
        stdout: its output.
        stderr: the same.
    """

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, process: subprocess.Popen[bytes], limit: int) -> None:
        self._process = process
        self._limit = limit
        self._transports: list[asyncio.BaseTransport] = []
        self._end: asyncio.Task[None] | None = None
        self.pid = process.pid

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, stdin: Any = PIPE, stdout: Any = PIPE, stderr: Any = PIPE, **options: Any
    ) -> Child:
        """Starts a process; returns when it has been executed, about 1 ms later.

        Args:
            argv: the program and its arguments.
            stdin: like the next two: `subprocess.PIPE`, DEVNULL, STDOUT (stderr only), a file or None.
            options: `limit`: bytes of output that wait for their reader; else those of subprocess.Popen.

        Raises:
            OSError: it cannot be executed.
        """
        limit = options.pop("limit", BUFFER)
        child = cls(_spawned(argv, stdin=stdin, stdout=stdout, stderr=stderr, **options), limit)
        try:
            await child._connect()
        except BaseException:
            child.kill()
            child.reap()
            child.close()
            raise
        return child

    async def _connect(self) -> None:
        loop, process = asyncio.get_running_loop(), self._process
        if process.stdout is not None:
            self.stdout = await self._reading(process.stdout)
        if process.stderr is not None:
            self.stderr = await self._reading(process.stderr)
        if process.stdin is not None:
            writing = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            output, _ = await loop.connect_write_pipe(lambda: writing, process.stdin)
            self._transports.append(output)
            self.stdin = asyncio.StreamWriter(output, writing, None, loop)

    async def _reading(self, pipe: Any) -> asyncio.StreamReader:
        stream = asyncio.StreamReader(limit=self._limit)
        reading = asyncio.StreamReaderProtocol(stream)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: reading, pipe)
        self._transports.append(transport)
        return stream

    @property
    def running(self) -> bool:
        """Whether its end was not seen yet."""
        return self._process.returncode is None

    def terminate(self) -> None:
        """Asks the process itself to leave, if it has not ended."""
        self._process.terminate()

    def kill(self) -> None:
        """Kills the process itself, if it has not ended."""
        self._process.kill()

    def kill_group(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Sends a signal to it and what it started; it must have been started with start_new_session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def wait(self) -> int:
        """Waits for its end: its exit code, or minus the number of the signal. Any number may wait."""
        if self.running:
            if self._end is None:
                self._end = asyncio.get_running_loop().create_task(self.ended())
            await asyncio.shield(self._end)
        return self.reap()

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Writes its input and waits for its end; returns what came of stdout and stderr."""
        async with asyncio.TaskGroup() as group:
            if hasattr(self, "stdin"):
                group.create_task(self._feed(data))
            outputs = [
                group.create_task(getattr(self, name).read()) if hasattr(self, name) else None
                for name in ("stdout", "stderr")
            ]
        await self.wait()
        out, err = (output.result() if output is not None else b"" for output in outputs)
        return out, err

    async def _feed(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # it did not want all of it
            self.stdin.write(data)
            await self.stdin.drain()
        self.stdin.close()

    async def ended(self) -> None:
        """Waits for its end. Until `reap` nobody else gets its process id."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        try:
            handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError) as failure:
            if getattr(failure, "errno", errno.ENOSYS) != errno.ENOSYS:
                raise
            while not self.has_ended():  # noqa: ASYNC110 - not Linux, or before 5.3: nothing tells
                await asyncio.sleep(_POLL_S)
            return
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    def has_ended(self) -> bool:
        """Whether it has ended, seen or not."""
        if not self.running:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def reap(self) -> int:
        """What is left of it goes: its exit status, or minus the number of the signal that ended it."""
        return self._process.wait()

    def close(self) -> None:
        """Closes what is still open of its pipes."""
        for transport in self._transports:
            transport.close()
        if not self._transports:
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()


def _spawned(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, bufsize=0, **options)

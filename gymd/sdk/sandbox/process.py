"""A job that runs: its streams, its deadline, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Self

from gymd.errors import GymdError
from gymd.sdk.sandbox.job import Running, did_not_start
from gymd.sdk.sandbox.limits import Limits, SandboxResult

__all__ = ["SandboxProcess"]

LOOK_S = 0.05
"""How often a job's memory is looked at; that takes 0.1 ms for each process where no cgroup does it."""
GRACE_S = 1.0
"""How long output may still come when a job has ended."""
_CHUNK = 1 << 16


class SandboxProcess:
    """A job whose input and output the caller handles while it runs; use it with `async with`.

    When the block is left, all that is left of the job is killed and removed.

    Attributes:
        stdin: where to write its input; close it to end it.
        stdout: its output. The job waits while nobody reads, and has ended when the stream has.
    """

    def __init__(self, running: Running, limits: Limits) -> None:
        self.stdin, self.stdout = running.child.stdin, running.child.stdout
        self._running, self._limits = running, limits
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._timed_out = self._out_of_memory = self._truncated = self._killed = False
        self._stderr = self._loop.create_task(self._captured(running.child.stderr))
        self._timer = self._loop.call_later(min(LOOK_S, limits.wall_s), self._look)
        self._end: SandboxResult | GymdError | None = None

    def kill(self) -> None:
        """Kills all of the job."""
        self._killed = True
        self._running.kill()

    async def communicate(self, stdin: bytes = b"") -> SandboxResult:
        """Feeds the whole input and collects the whole output, at most `output_bytes` of each stream."""
        feeding = self._loop.create_task(self._feed(stdin))
        reading = self._loop.create_task(self._captured(self.stdout))
        try:
            await self._until_ended(reading)
            return await self.wait(reading.result())
        finally:
            feeding.cancel()
            reading.cancel()

    async def wait(self, stdout: bytes = b"") -> SandboxResult:
        """Waits for the end; `stdout` is what the caller has read and wants to find in the result.

        Raises:
            Internal: the sandbox broke before it could run the command (SERVER_CODE_FAILED).
        """
        if self._end is None:
            await self._until_ended(self._stderr)
            self._timer.cancel()
            code = self._running.child.reap()
            self._end = self._ended(code, stdout, self._stderr.result())
            self._running.child.close()
            await asyncio.shield(self._running.clean())
        if isinstance(self._end, GymdError):
            raise self._end
        return self._end

    async def _until_ended(self, reading: asyncio.Task[bytes]) -> None:
        """Waits for the end of the job and of what is read from it."""
        await self._running.child.ended()
        self._running.kill()  # what it leaves, where its namespace did not end with it
        _, pending = await asyncio.wait([reading], timeout=GRACE_S)
        if pending:  # without a sandbox something has left the process group and holds our pipe
            self._running.child.close()
            await reading

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._end is None:
            self.kill()
            await asyncio.shield(self._bury())

    async def _bury(self) -> None:
        """Waits for the end of a killed job whose output nobody wants."""
        self.stdin.close()
        reading = self._loop.create_task(self._drained())
        await self.wait()
        await reading

    async def _drained(self) -> None:
        while await self.stdout.read(_CHUNK):
            pass

    async def _feed(self, data: bytes) -> None:
        # A job may well end without reading its input.
        with contextlib.suppress(ConnectionError):
            self.stdin.write(data)
            await self.stdin.drain()
        self.stdin.close()

    async def _captured(self, stream: asyncio.StreamReader) -> bytes:
        limit, data = self._limits.output_bytes, bytearray()
        while chunk := await stream.read(_CHUNK):
            if len(data) + len(chunk) > limit and not self._truncated:
                self._truncated = True
                self.kill()
            data += chunk[: limit - len(data)]
        return bytes(data)

    def _look(self) -> None:
        """Kills the job when its time or its memory is used up."""
        left = self._started + self._limits.wall_s - self._loop.time()
        self._timed_out = left <= 0
        self._out_of_memory = not self._timed_out and self._running.out_of_memory()
        if self._timed_out or self._out_of_memory:
            self.kill()
        else:
            self._timer = self._loop.call_later(min(left, LOOK_S), self._look)

    def _ended(self, code: int, stdout: bytes, stderr: bytes) -> SandboxResult | GymdError:
        if not self._running.began() and not self._killed:
            return did_not_start(stderr.decode(errors="replace"))
        if code < 0:  # bwrap itself was killed, or there is none
            code = 128 - code
        number = code - 128 if 128 < code <= 128 + signal.NSIG else None
        return SandboxResult(
            exit_code=code,
            signal=number,
            stdout=stdout,
            stderr=stderr,
            timed_out=self._timed_out or number == signal.SIGXCPU,
            out_of_memory=self._out_of_memory or self._running.out_of_memory(),
            output_truncated=self._truncated,
            wall_s=self._loop.time() - self._started,
        )

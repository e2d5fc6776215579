"""One host process: started in a group of its own, its last lines kept, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from subprocess import PIPE, STDOUT
from typing import Any

__all__ = ["HOST_COMMAND", "LINES_KEPT", "HostProcess", "describe_exit", "start_spare"]

log = logging.getLogger("gymd.host")

HOST_COMMAND = ("-m", "gymd.sdk.host")
"""Python arguments that start a host."""
LINES_KEPT = 2000
LINE_LENGTH = 4096
"""Longer lines are cut."""
DRAIN_S = 1.0
"""How long the last output of a dead process is waited for; a grandchild may hold the pipe open."""


class _Output(asyncio.SubprocessProtocol):
    """Splits what a process writes into lines, and notices its end.

    A protocol and not streams: asyncio's Process.wait() waits for the end of the pipes too, which a
    grandchild may hold open long after the process died.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        # Nothing is read before the transport was handed out, and its owner sets this at once.
        self.keep: Callable[[str], None] = lambda line: None
        self._rest = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *whole, rest = (self._rest + data).split(b"\n")
        for line in whole:
            self.keep(line[:LINE_LENGTH].decode(errors="replace").rstrip("\r"))
        self._rest = rest[:LINE_LENGTH]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != 1:
            return
        if self._rest:
            self.pipe_data_received(fd, b"\n")
        if not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)


class HostProcess:
    """A running child process; make it with `start`.

    Its stdout joins its stderr, because the daemon's own stdout belongs to the caller. Its stdin stays open:
    when the daemon dies, however it dies, the child sees the end of it and leaves.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, output: _Output) -> None:
        self._transport = transport
        self._output = output
        self._host_id = ""
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._mask: Callable[[str], str] = str
        output.keep = self._keep
        self.pid: int = transport.get_pid()

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str]) -> HostProcess:
        """Starts the process; it belongs to no host until `adopt` says so.

        Raises:
            OSError: the command cannot be executed.
        """
        output = _Output()
        loop: Any = asyncio.get_running_loop()
        transport, _ = await loop.subprocess_exec(
            lambda: output, *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, env=env, start_new_session=True
        )
        return cls(transport, output)

    def adopt(self, host_id: str, lines: deque[str], mask: Callable[[str], str]) -> None:
        """Says whose process it is: `lines` takes what it writes, each line through `mask` first."""
        said, self._lines = self._lines, lines
        self._host_id, self._mask = host_id, mask
        for line in said:
            self._keep(line)

    def _keep(self, line: str) -> None:
        line = self._mask(line)
        self._lines.append(line)
        log.debug("host_line", extra={"host_id": self._host_id, "line": line})

    def send(self, line: bytes) -> None:
        """Writes a line to its stdin; that it died meanwhile is noticed by `wait`."""
        stdin: Any = self._transport.get_pipe_transport(0)
        if stdin is not None and not stdin.is_closing():
            stdin.write(line + b"\n")

    async def wait(self) -> int:
        """Waits for its end and clears away what it left; returns the exit code (-N: killed by signal N)."""
        await asyncio.shield(self._output.exited)
        self.kill()  # whatever is left of its group: pool workers, tools
        await asyncio.wait([self._output.closed], timeout=DRAIN_S)
        code = self._transport.get_returncode()
        self._transport.close()
        return code if code is not None else -signal.SIGKILL

    def terminate(self) -> None:
        """Asks it to leave."""
        with contextlib.suppress(ProcessLookupError):
            self._transport.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills it and everything it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


async def start_spare() -> HostProcess:
    """Starts a host that waits for its parameters: it loads while the caller reads the configuration."""
    return await HostProcess.start([sys.executable, *HOST_COMMAND], {**os.environ, "PYTHONUNBUFFERED": "1"})


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

"""One host process: started in a group of its own, its last lines kept, and never left behind."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from subprocess import STDOUT

from gymd.child import Child

__all__ = ["HOST_COMMAND", "LINES_KEPT", "HostProcess", "describe_exit", "start_spare"]

log = logging.getLogger("gymd.host")

HOST_COMMAND = ("-m", "gymd.sdk.host")
"""Python arguments that start a host."""
LINES_KEPT = 2000
LINE_LENGTH = 4096
"""Longer lines are cut."""
CHUNK = 1 << 16
DRAIN_S = 1.0
"""How long the last output of a dead process is waited for; a grandchild may hold the pipe open."""


class HostProcess:
    """A running child process; make it with `start`.

    Its stdout joins its stderr, because the daemon's own stdout belongs to the caller. Its stdin stays open:
    when the daemon dies, however it dies, the child sees the end of it and leaves.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self._host_id = ""
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._mask: Callable[[str], str] = str
        self._reading = asyncio.get_running_loop().create_task(self._read(child.stdout))
        self.pid: int = child.pid

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str]) -> HostProcess:
        """Starts the process; it belongs to no host until `adopt` says so.

        Raises:
            OSError: the command cannot be executed.
        """
        return cls(await Child.start(command, stderr=STDOUT, env=env, start_new_session=True))

    async def _read(self, output: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await output.read(CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                self._keep(line[:LINE_LENGTH].decode(errors="replace").rstrip("\r"))
            rest = rest[:LINE_LENGTH]
        if rest:
            self._keep(rest.decode(errors="replace"))

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
        if not self._child.stdin.is_closing():
            self._child.stdin.write(line + b"\n")

    async def wait(self) -> int:
        """Waits for its end and clears away what it left; returns the exit code (-N: killed by signal N)."""
        code = await self._child.wait()
        self.kill()  # whatever is left of its group: pool workers, tools
        await asyncio.wait([self._reading], timeout=DRAIN_S)
        self._reading.cancel()
        self._child.close()
        return code

    def terminate(self) -> None:
        """Asks it to leave."""
        self._child.terminate()

    def kill(self) -> None:
        """Kills it and everything it started."""
        self._child.kill_group()


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

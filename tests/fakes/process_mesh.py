"""A daemon as a process of its own, which may be killed and started again at the same address."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

from tests.fakes.mesh import TOY

__all__ = ["ProcessMesh"]


class ProcessMesh:
    """A daemon with toy agents, in a folder of its own.

    Args:
        folder: for everything that it writes.
        servers: its configuration; "": one toy agent.
    """

    def __init__(self, folder: Path, servers: str = "") -> None:
        self.folder = folder
        self.address = f"unix:{folder}/gymd.sock"
        self.process: Process | None = None
        toy = f"toy: {{responses_api_agents: {{toy: {{entrypoint: '{TOY}', delay_s: 0.02}}}}}}\n"
        (folder / "mesh.yaml").write_text(servers or toy)

    async def start(self) -> None:
        """Starts it and waits until it is ready."""
        settings = ("listen=127.0.0.1:0", "unix_socket=gymd.sock", "state_dir=state", "grace_s=0.2")
        with (self.folder / "gymd.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gymd", "-c", "mesh.yaml", "--wait-ready"),
                *(f"gymd.{setting}" for setting in settings),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=log,
                cwd=self.folder,
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            assert b"ready" in await self.process.stdout.readline(), (self.folder / "gymd.log").read_text()

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends it by a signal."""
        assert self.process is not None
        self.process.send_signal(number)
        await self.process.communicate()

"""What a server has on its machine while it runs: who owns it, and what killed servers have left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
import uuid
from pathlib import Path

__all__ = ["TemporaryFolders", "owner", "owner_is_gone"]

_PREFIX = "gymd-swe-"


def owner() -> str:
    """Names this process, so that a later one finds what it left when it was killed."""
    return f"{socket.gethostname()}.{os.getpid()}.{_started(os.getpid())}"


def owner_is_gone(name: str) -> bool:
    """Whether a process named by `owner` ran on this machine and has ended."""
    host, pid, started = ("", "", *name.rsplit(".", 2))[-3:]
    return host == socket.gethostname() and pid.isdigit() and _started(int(pid)) != started


class TemporaryFolders:
    """The folders of a server's containers."""

    def __init__(self) -> None:
        self._open: set[Path] = set()

    @classmethod
    async def swept(cls) -> TemporaryFolders:
        """None yet; those of servers that were killed on this machine are removed."""
        await asyncio.to_thread(_remove_left)
        return cls()

    def new(self) -> Path:
        """The name of one more; it is not made."""
        folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{uuid.uuid4().hex}.{owner()}"
        self._open.add(folder)
        return folder

    async def remove(self, folder: Path) -> None:
        """Removes one, whether or not it was made; twice is safe."""
        if folder in self._open:
            self._open.discard(folder)
            await asyncio.to_thread(_remove, folder)

    async def close(self) -> None:
        """Removes all."""
        for folder in list(self._open):
            await self.remove(folder)


def _remove(folder: Path) -> None:
    """Removes a folder whose content nobody vouches for; follows no links."""
    for here, folders, _ in os.walk(folder):
        for path in (os.path.join(here, name) for name in folders):
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)  # a job may have taken its rights away from itself
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left() -> None:
    for entry in os.scandir(tempfile.gettempdir()):
        if entry.name.startswith(_PREFIX) and owner_is_gone(entry.name.partition(".")[2]):
            _remove(Path(entry.path))


def _started(pid: int) -> str:
    """When a process began, in ticks since the machine did; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""

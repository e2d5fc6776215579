"""The daemon's state folder: who owns it, and where others find the daemon."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import orjson

from gymd.errors import error

__all__ = ["StateFolder"]

INFO_FILE = "daemon.json"
LOCK_FILE = "daemon.lock"


class StateFolder:
    """The folder of one running daemon.

    Args:
        path: the folder; it is made if it is not there.

    Raises:
        AlreadyExists: another daemon uses it.
        LimitReached: the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._lock, 32, 0).decode().strip() or "unknown"
            os.close(self._lock)
            text = (
                f"another gymd (process {owner}) uses the state folder {path}; stop it with `gymctl down`, "
                "or choose another folder with gymd.state_dir=..."
            )
            raise error("NAME_TAKEN", text, pid=owner, state_dir=path) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def announce(self, address: str, start_time: float, config_files: Sequence[Path]) -> None:
        """Writes where the daemon listens, for gymctl: readable by the user only, whole or not at all."""
        when = datetime.datetime.fromtimestamp(start_time, datetime.UTC)
        info = {
            "address": address,
            "pid": os.getpid(),
            "start_time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "config_files": [str(file) for file in config_files],
        }
        fresh = self.path / f"{INFO_FILE}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(info) + b"\n")
        fresh.replace(self.path / INFO_FILE)

    def close(self) -> None:
        """Removes what was announced and lets others use the folder."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / INFO_FILE).unlink()
        os.close(self._lock)

"""The state folder as far as gymctl needs it: where the daemon says that it runs, and where its log goes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DaemonFile", "is_alive", "is_daemon", "read_daemon_file", "state_dir"]

DAEMON_FILE = "daemon.json"


@dataclass(frozen=True)
class DaemonFile:
    """What a daemon wrote down when it started."""

    address: str
    pid: int
    start_time: str
    config_files: list[str]


def state_dir() -> Path:
    """The state folder of a daemon whose configuration names no other.

    The rule of `gymd.config`, repeated because that import would double the start of most commands; a test
    compares the two.
    """
    if own := os.environ.get("GYMD_STATE_DIR"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "gymd"


def read_daemon_file(folder: Path | None = None) -> DaemonFile | None:
    """The daemon that was started last; None: none, or it stopped in order."""
    path = (folder or state_dir()) / DAEMON_FILE
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    if not isinstance(content, dict) or not content.get("address"):
        return None
    return DaemonFile(
        address=str(content["address"]),
        pid=int(content.get("pid") or 0),
        start_time=str(content.get("start_time") or ""),
        config_files=[str(name) for name in content.get("config_files") or ()],
    )


def is_alive(pid: int) -> bool:
    """Whether a process of that id runs (a zombie that nobody waited for does not count)."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def is_daemon(pid: int) -> bool:
    """Whether the process of that id is a gymd daemon and not a stranger that got the number."""
    if not is_alive(pid):
        return False
    command = Path(f"/proc/{pid}/cmdline")
    try:
        words = command.read_bytes().split(b"\0")
    except OSError:
        # No procfs here: ps knows.
        import subprocess

        shown = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, check=False)
        words = shown.stdout.split()
    return b"gymd" in words or any(word.endswith((b"/gymd", b"gymd/__main__.py")) for word in words)

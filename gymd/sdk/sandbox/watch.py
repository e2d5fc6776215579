"""Looks at a running job from outside: which processes it has, and how much memory they hold together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["descendants", "memory_of_files", "memory_of_processes", "sandbox_processes"]

_KB = 1024
_INODE_BYTES = 1024
"""What the kernel needs for a file of a temporary file system, whatever it holds; about."""


def sandbox_processes(init: int) -> list[Path]:
    """The /proc folders of all processes of a sandbox, through the /proc that its first process sees."""
    proc = Path(f"/proc/{init}/root/proc")
    try:
        if os.path.samestat(os.stat(f"/proc/{init}/root"), os.stat("/")):
            return []  # it does not have a file system of its own yet
        return [proc / name for name in os.listdir(proc) if name.isdigit()]
    except OSError:  # it has ended
        return []


def descendants(pid: int) -> list[Path]:
    """The /proc folders of a process and what it started; those whose parent has ended are not found."""
    found, pending = [], [pid]
    while pending:
        folder = Path(f"/proc/{pending.pop()}")
        found.append(folder)
        with contextlib.suppress(OSError):
            for task in os.listdir(folder / "task"):
                children = (folder / "task" / task / "children").read_text()
                pending += map(int, children.split())
    return found


def memory_of_processes(processes: Iterable[Path], enough: int) -> int:
    """Bytes that processes hold together.

    Memory that they share (after a fork) counts once, but to find out what is shared takes long. So that is
    done only if the plain sum is more than `enough`.
    """
    processes = list(processes)
    total = sum(_sum_of(folder / "status", ("RssAnon:", "RssShmem:")) for folder in processes)
    if total <= enough:
        return total
    return sum(_sum_of(folder / "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for folder in processes)


def memory_of_files(init: int, temporary: Iterable[str]) -> int:
    """Bytes that a sandbox holds in its temporary file systems and in System V shared memory.

    Args:
        init: the first process of the sandbox.
        temporary: where its temporary file systems are, without the leading slash.
    """
    root, total = f"/proc/{init}/root", 0
    with contextlib.suppress(OSError):  # it has ended
        if os.path.samestat(os.stat(root), os.stat("/")):
            return 0  # it does not have a file system of its own yet
        for folder in temporary:
            state = os.statvfs(f"{root}/{folder}")
            total += (state.f_blocks - state.f_bfree) * state.f_frsize
            total += (state.f_files - state.f_ffree) * _INODE_BYTES
        header, *segments = Path(f"{root}/proc/sysvipc/shm").read_text().splitlines()
        resident = header.split().index("rss")
        total += sum(int(segment.split()[resident]) for segment in segments)
    return total


def _sum_of(path: Path, names: tuple[str, ...]) -> int:
    """The sum of some lines such as `RssAnon:   12 kB`, in bytes; 0 if the process has ended."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * _KB for line in lines if line.startswith(names))

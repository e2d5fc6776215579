"""A control group for each job, where this process may make one: hard limits on memory and processes.

Version 2 needs a parent group in which `memory` and `pids` are on: the one that holds this process's own
group. Version 1 takes a child of this process's group. Elsewhere the job's memory is watched instead
(watch.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from gymd.sdk.sandbox.limits import MB, Limits

__all__ = ["Cgroup", "make_cgroup"]

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "gymd-sandbox-"
_CONTROLLERS = ("memory", "pids")
_numbers = itertools.count(1)
_REMOVE_TRIES = 50
_REMOVE_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The control group of one job.

    Attributes:
        folders: its folder, for version 1 one for each controller.
    """

    folders: tuple[Path, ...]

    @property
    def version(self) -> int:
        """1 or 2."""
        return 2 if len(self.folders) == 1 else 1

    def add(self, pid: int) -> None:
        """Moves a process into it; its children are born there."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process because the group used more memory than it may."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / name).read_text().splitlines():
                        key, _, value = line.partition(" ")
                        if key == "oom_kill" and int(value):
                            return True
        return False

    async def remove(self) -> None:
        """Removes it; the kernel needs a moment after the last process has ended."""
        for folder in self.folders:
            for _ in range(_REMOVE_TRIES):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    await asyncio.sleep(_REMOVE_PAUSE_S)

    def discard(self) -> None:
        """Removes it at once if it is empty already."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def make_cgroup(limits: Limits, tasks: int) -> Cgroup | None:
    """A new control group with these limits; None where this process may not make one."""
    parents = _parents()
    if not parents:
        return None
    name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
    group = Cgroup(tuple(parent / name for parent in parents.values()))
    memory = str(limits.memory_mb * MB)
    try:
        for folder in group.folders:
            folder.mkdir()
        if len(parents) == 1:
            values = {"memory.max": memory, "memory.oom.group": "1", "pids.max": str(tasks)}
            for key, value in values.items():
                (group.folders[0] / key).write_text(value)
            with contextlib.suppress(OSError):  # without swap accounting
                (group.folders[0] / "memory.swap.max").write_text("0")
        else:
            (parents["memory"] / name / "memory.limit_in_bytes").write_text(memory)
            (parents["pids"] / name / "pids.max").write_text(str(tasks))
    except OSError:
        group.discard()
        return None
    return group


@functools.cache
def _parents() -> dict[str, Path]:
    """The folders in which groups can be made: one for all ("") of version 2, or memory and pids."""
    found = _version_2() or _version_1()
    for parent in found.values():
        for folder in parent.glob(f"{_PREFIX}*"):
            # Left by a server that was killed. A group that is still in use cannot be removed.
            if not Path("/proc", folder.name.split("-")[-2]).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
    return found


def _version_2() -> dict[str, Path]:
    own = _own_groups().get("")
    if own:
        parent = (_ROOT / own).parent
        with contextlib.suppress(OSError):
            enabled = (parent / "cgroup.subtree_control").read_text().split()
            if {"memory", "pids"} <= set(enabled) and os.access(parent, os.W_OK):
                return {"": parent}
    return {}


def _version_1() -> dict[str, Path]:
    own = _own_groups()
    folders = {name: _ROOT / name / own[name] for name in _CONTROLLERS if name in own}
    usable = len(folders) == len(_CONTROLLERS) and all(os.access(one, os.W_OK) for one in folders.values())
    return folders if usable else {}


def _own_groups() -> dict[str, str]:
    """This process's group for each controller of version 1, and for "" that of version 2."""
    own: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            own |= dict.fromkeys(names.split(","), path.lstrip("/"))
    return own

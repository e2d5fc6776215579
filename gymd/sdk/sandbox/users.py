"""Under which user a job runs.

Outside its sandbox a job must be nobody of importance: root's files are root's inside every namespace too,
and the kernel does not limit the number of root's processes. So a server that runs as root gives each job a
user of its own, from ids that no system hands out; any other server runs its jobs as itself.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["INSIDE", "JobUser", "job_user", "workspace_user"]

INSIDE = 65534
"""User and group of a job as it sees itself: nobody."""

# systemd's list of ids leaves the range above 1879048191 unused; it holds 32 users for each process id.
_FIRST, _EACH, _MOST_PIDS = 1_900_000_000, 32, 1 << 22
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class JobUser:
    """A user and a group of the host."""

    user: int
    group: int


def job_user() -> JobUser | None:
    """A user for one job; None: the server's own, because it is not root or has no other to give.

    Jobs of one server share it only when more than 32 run at once.
    """
    return _spare(1 + next(_numbers) % (_EACH - 1))


def workspace_user(workspace: Path) -> JobUser | None:
    """The user for a workspace that is kept between jobs: its owner, or if that is root one of our ids."""
    owner = workspace.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        return JobUser(owner.st_uid, owner.st_gid or owner.st_uid)
    return _spare(0)


def _spare(number: int) -> JobUser | None:
    if os.geteuid() != 0:
        return None
    wanted = _FIRST + os.getpid() % _MOST_PIDS * _EACH + number
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    if any(first <= wanted < first + count for first, _, count in ranges):
        return JobUser(wanted, wanted)
    # Inside a namespace with fewer ids, such as a container of an ordinary user: the last but one of them.
    first, _, count = max(ranges, key=lambda one: one[2])
    return JobUser(first + count - 2, first + count - 2) if count > 2 else None

"""One supervised process of the plan, over all its starts."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable

from gymd.daemon.plan import HostPlan
from gymd.daemon.process import LINES_KEPT, HostProcess

__all__ = ["CONDITION_LINES", "STARTED", "Unit", "environment", "own_lines"]

STARTED = "gymd: started process"
"""Begins the line that divides the output of one start from that of the next."""
CONDITION_LINES = 5
"""Of what a process wrote last, so many lines stand in the condition of its servers."""


class Unit:
    """One process of the plan.

    Attributes:
        host_id: the id of its present or next start.
        restarts: starts after the first.
        failures: ends in a row without having been ready.
        cannot_start: ends in a row because a server in it cannot start.
        ready: its servers that registered since the last start.
        broken: its servers that were given up; the others go on without them.
        asked: somebody wants it to restart, or the daemon stops.
        launched: the first start was made, or takes longer.
    """

    def __init__(self, plan: HostPlan) -> None:
        self.plan = plan
        self.host_id = plan.name
        self.starts = 0
        self.restarts = 0
        self.failures = 0
        self.cannot_start = 0
        self.ready: set[str] = set()
        self.broken: set[str] = set()
        self.asked = asyncio.Event()
        self.launched = asyncio.Event()
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.process: HostProcess | None = None
        self.task: asyncio.Task[None] | None = None

    def next_id(self) -> str:
        """The host_id of the next start; every start has its own, so that nothing old is mistaken for it."""
        self.starts += 1
        return self.plan.name if self.starts == 1 else f"{self.plan.name}.{self.starts - 1}"


def own_lines(lines: Iterable[str]) -> list[str]:
    """What the last process wrote."""
    own: list[str] = []
    for line in lines:
        if line.startswith(STARTED):
            own.clear()
        elif line.strip():
            own.append(line)
    return own


def environment(plan: HostPlan) -> dict[str, str]:
    """The child's environment; configuration and secrets travel by stdin."""
    dropped = {"VIRTUAL_ENV", "PYTHONHOME"} if plan.requirements is not None else set()
    env = {key: value for key, value in os.environ.items() if key not in dropped}
    env["PYTHONUNBUFFERED"] = "1"
    return env

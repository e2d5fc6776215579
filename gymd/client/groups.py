"""Groups of rollouts: one iteration over tasks, from its tasks to the groups that it yields."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from gymapi.v1.rollout_pb2 import Rollout, Task
from gymd.client.rows import make_task, parse_row
from gymd.errors import error

__all__ = ["Group", "GroupStream", "Iteration", "Pass", "TaskSource", "task_of"]

TaskSource = Task | Mapping[str, Any] | str
"""A task: as a message, as a dataset row, or as the line of a JSONL file that holds the row."""

GIVE_UP_S = 5.0
"""How long the end of an abandoned iteration takes at most."""

_CANCELLED = (
    "waiting for its next group was cancelled or timed out: bound the time of rollouts by `deadlines` instead"
)
_GAVE_WAY = (
    "another one began, and not all of its groups had come: finish one before the next, or run the other "
    "in a Trainer of its own"
)


@dataclass
class Group:
    """The rollouts of one task, all of them ended."""

    source: TaskSource
    """The task as the caller gave it."""
    task: Task
    number: int
    """Position of the task among those of this iteration, from 0."""
    rollouts: list[Rollout] = field(default_factory=list)
    """By index. Look at `outcome`: failed ones are among them."""

    @property
    def rewards(self) -> list[float | None]:
        """The reward of each rollout; None: nobody scored it."""
        return [one.reward.value if one.reward.HasField("value") else None for one in self.rollouts]


class Iteration:
    """One pass over tasks; it may be closed at any time, also while a step of it is being cancelled.

    Args:
        groups: what it yields.
        begin: called with the iteration by its first step, before anything else.
    """

    def __init__(
        self, groups: AsyncGenerator[Group, None], begin: Callable[[Iteration], Awaitable[None]]
    ) -> None:
        self._groups = groups
        self._begin = begin
        self._step = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # set by the first step
        self._over = False
        self._cut = ""  # why it ended too early
        self._leaving: asyncio.Task[None] | None = None  # referenced, so that it is not collected

    async def step(self) -> Group:
        """The next group."""
        begun, self._loop = self._loop is not None, asyncio.get_running_loop()
        async with self._step:
            if self._cut:
                raise error("CANCELLED", f"this iteration ended when {self._cut}")
            try:
                if not begun:
                    await self._begin(self)
                return await anext(self._groups)
            except StopAsyncIteration:
                self._over = True
                raise
            except BaseException as failure:
                if isinstance(failure, asyncio.CancelledError):  # which ends a generator
                    self._cut = _CANCELLED
                await self._groups.aclose()  # where it had not begun yet
                raise

    async def aclose(self) -> None:
        """Stops what is under way, for GIVE_UP_S at most; safe to repeat."""
        with suppress(TimeoutError):  # the end of the session stops the rest
            async with asyncio.timeout(GIVE_UP_S), self._step:
                await self._groups.aclose()
                self._over = True

    async def give_way(self) -> None:
        """Closes it for another one; whoever asks it again is told what is missing."""
        whole = self._over
        await self.aclose()
        if self._over and not whole:
            self._cut = self._cut or _GAVE_WAY

    def leave(self) -> None:
        """Closes it soon; for a caller that is gone, so from any thread and at any time."""
        if self._over or self._loop is None:
            return  # nothing is under way
        with suppress(RuntimeError):  # the loop is closed, and the stream with it
            self._loop.call_soon_threadsafe(self._close_soon)

    def _close_soon(self) -> None:
        if not self._over:
            self._leaving = asyncio.get_running_loop().create_task(self.aclose())


@dataclass
class Pass:
    """What an iteration has under way."""

    name: str
    n: int
    source: AsyncGenerator[tuple[str, Group], None]
    """The tasks under their ids."""
    pending: dict[str, Group] = field(default_factory=dict)
    """Handed in, by task id."""
    next: deque[tuple[str, Group]] = field(default_factory=deque)
    """Taken from the source and not handed in yet."""
    exhausted: bool = False
    """Nothing more comes from the source."""

    @property
    def over(self) -> bool:
        """Whether all of its groups are complete."""
        return self.exhausted and not self.next and not self.pending

    def add(self, rollout: Rollout) -> Group | None:
        """Takes a rollout of a task under way; returns the group that it completes."""
        group = self.pending[rollout.task_id]
        group.rollouts.append(rollout)
        if len(group.rollouts) < self.n:
            return None
        del self.pending[rollout.task_id]
        group.rollouts.sort(key=lambda one: one.index)
        return group

    async def pull(self) -> tuple[str, Group] | None:
        """The next of the source; None: it is exhausted."""
        found = await anext(self.source, None)
        self.exhausted = found is None
        return found


class GroupStream:
    """Groups as they complete: an async iterator. Closing it or letting go of it stops what is under way."""

    def __init__(self, iteration: Iteration) -> None:
        self._iteration = iteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Group:
        return await self._iteration.step()

    async def aclose(self) -> None:
        """Stops what is under way for it; safe to repeat."""
        await self._iteration.aclose()

    def __del__(self) -> None:
        # What the loop over the groups holds is only this: it goes when the loop is left.
        self._iteration.leave()


def task_of(source: TaskSource) -> Task:
    """The task as a message."""
    if isinstance(source, Task):
        return source
    line = source if isinstance(source, str) else json.dumps(source, ensure_ascii=False)
    return make_task(parse_row(line))

"""The groups of one session: which tasks of each are live, and what came of those that were delivered.

A group is complete when it has no live task any more. Nothing of it is kept after that: a later task with the
same group id begins a new one.
"""

from __future__ import annotations

from collections import Counter

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import GroupCompleted
from gymd.daemon.outbox import outcome_counts
from gymd.daemon.work import TaskWork

__all__ = ["Groups"]


class _Group:
    __slots__ = ("outcomes", "reward_count", "reward_sum", "tasks")

    def __init__(self) -> None:
        self.tasks: dict[str, TaskWork] = {}
        self.outcomes: Counter[int] = Counter()
        self.reward_sum = 0.0
        self.reward_count = 0


class Groups:
    """The groups that have a live task."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def clear(self) -> None:
        """Forgets everything."""
        self._groups.clear()

    def add(self, work: TaskWork) -> None:
        """Notes an accepted task; one without a group is alone."""
        if group_id := work.request.group_id:
            self._groups.setdefault(group_id, _Group()).tasks[work.task_id] = work

    def tasks(self, group_id: str) -> list[TaskWork]:
        """The live tasks of a group."""
        group = self._groups.get(group_id)
        return list(group.tasks.values()) if group is not None else []

    def delivered(self, work: TaskWork, rollout: Rollout) -> GroupCompleted | None:
        """Counts a delivered rollout; returns the news when it was the last of its group."""
        group_id = work.request.group_id
        if not group_id:
            return None
        group = self._groups[group_id]
        group.outcomes[rollout.outcome] += 1
        if rollout.reward.HasField("value"):
            group.reward_sum += rollout.reward.value
            group.reward_count += 1
        if not work.jobs:
            group.tasks.pop(work.task_id, None)
        if group.tasks:
            return None
        del self._groups[group_id]
        completed = GroupCompleted(group_id=group_id, outcome_counts=outcome_counts(group.outcomes))
        if group.reward_count:
            completed.mean_reward = group.reward_sum / group.reward_count
        return completed

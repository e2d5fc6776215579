"""The groups of one session: which tasks belong together, and how their rollouts ended."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gymapi.v1.rollout_pb2 import Outcome
from gymapi.v1.rollout_service_pb2 import (
    GroupCancelled,
    GroupCancelReason,
    GroupCompleted,
    OutcomeCount,
    StreamRolloutsResponse,
)

if TYPE_CHECKING:
    from gymd.daemon.work import TaskWork

__all__ = ["Group", "Groups", "Rows", "outcome_counts"]

_STOPPED = (Outcome.OUTCOME_CANCELLED, Outcome.OUTCOME_PARTIAL, Outcome.OUTCOME_STALE)


class Rows:
    """The journal's rows of one group: they go when its last result was released.

    Attributes:
        tasks, results: their numbers.
        size: bytes of the submissions.
    """

    __slots__ = ("results", "size", "tasks")

    def __init__(self, tasks: bytes = b"", results: bytes = b"", size: int = 0) -> None:
        self.tasks = array("q", tasks)
        self.results = array("q", results)
        self.size = size

    def add_task(self, number: int, size: int) -> None:
        """Notes an accepted task."""
        self.tasks.append(number)
        self.size += size


class Group:
    """The tasks of one group, or one task without a group (then `group_id` is ""), while any is under way.

    Attributes:
        tasks: those that have a rollout under way, by id.
        wanted: so many rollouts with a reward are enough; 0: all of them are wanted.
        number: of its first task, in the journal.
        rows: what the journal has of it; empty without a journal.
    """

    __slots__ = (
        "group_id",
        "number",
        "outcomes",
        "reward_count",
        "reward_sum",
        "rows",
        "tasks",
        "wanted",
    )

    def __init__(self, group_id: str, number: int) -> None:
        self.group_id = group_id
        self.number = number
        self.tasks: dict[str, TaskWork] = {}
        self.wanted = 0
        self.rows = Rows()
        self.outcomes: Counter[int] = Counter()
        self.reward_sum = 0.0
        self.reward_count = 0

    def take(self, work: TaskWork) -> None:
        """Adds a task."""
        self.tasks[work.task_id] = work
        self.wanted = max(self.wanted, work.wanted)

    @property
    def enough(self) -> bool:
        """Whether as many rollouts with a reward are there as are wanted."""
        return 0 < self.wanted <= self.reward_count

    def ended(self, work: TaskWork, outcome: int, reward: float | None) -> bool:
        """Counts a rollout that ended; True: it was the last one."""
        if not work.jobs and self.tasks.get(work.task_id) is work:
            del self.tasks[work.task_id]
        self.outcomes[outcome] += 1
        if reward is not None:
            self.reward_sum += reward
            self.reward_count += 1
        return not self.tasks

    def news(self, *, shutdown: bool) -> bytes | None:
        """What there is to tell after the last rollout, a serialized StreamRolloutsResponse; None for a task
        without a group.

        It follows from the outcomes alone, so that it is the same after a restart.
        """
        if not self.group_id:
            return None
        counts = outcome_counts(self.outcomes)
        stopped = sum(self.outcomes[outcome] for outcome in _STOPPED)
        if stopped and not self.enough:
            reason = GroupCancelReason.GROUP_CANCEL_REASON_CLIENT
            if self.outcomes[Outcome.OUTCOME_STALE] == stopped:
                reason = GroupCancelReason.GROUP_CANCEL_REASON_STALE
            elif shutdown:
                reason = GroupCancelReason.GROUP_CANCEL_REASON_SHUTDOWN
            cancelled = GroupCancelled(
                group_id=self.group_id, reason=reason, stopped_count=stopped, outcome_counts=counts
            )
            return StreamRolloutsResponse(group_cancelled=cancelled).SerializeToString()
        completed = GroupCompleted(group_id=self.group_id, outcome_counts=counts)
        if self.reward_count:
            completed.mean_reward = self.reward_sum / self.reward_count
        return StreamRolloutsResponse(group_completed=completed).SerializeToString()


class Groups:
    """The groups that have a task under way."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def clear(self) -> None:
        """Forgets everything."""
        self._groups.clear()

    def add(self, work: TaskWork) -> Group:
        """Notes an accepted task and returns its group."""
        group_id = work.request.group_id
        group = self._groups.get(group_id) if group_id else None
        if group is None:
            group = Group(group_id, work.number)
            if group_id:
                self._groups[group_id] = group
        group.take(work)
        return group

    def restore(self, works: Iterable[TaskWork], numbers: Mapping[int, int]) -> None:
        """Puts tasks back into the groups that they were in.

        Args:
            works: the tasks, in the order of their acceptance; the last group of an id is the present one.
            numbers: of each task's group, by the number of the task.
        """
        found: dict[int, Group] = {}
        for work in works:
            number, group_id = numbers[work.number], work.request.group_id
            group = found.get(number)
            if group is None:
                group = found[number] = Group(group_id, number)
                if group_id:
                    self._groups[group_id] = group
            group.take(work)
            work.group = group

    def has(self, group_id: str) -> bool:
        """Whether a group has a task under way."""
        return group_id in self._groups

    def tasks(self, group_id: str) -> list[TaskWork]:
        """The tasks of a group that have a rollout under way."""
        group = self._groups.get(group_id)
        return list(group.tasks.values()) if group is not None else []

    def complete(self, group: Group) -> None:
        """Forgets a group whose last rollout ended: a later task of the same id begins a new one."""
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]


def outcome_counts(outcomes: Counter[int]) -> list[OutcomeCount]:
    """The counts as messages, in the order of the enum."""
    return [OutcomeCount(outcome=o, count=n) for o, n in sorted(outcomes.items())]  # type: ignore[arg-type]

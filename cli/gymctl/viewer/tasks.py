"""Rows grouped by task: what repeated rollouts of a task come to."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gymctl.collect.metrics import pass_at_k
from gymctl.viewer.columns import Columns
from gymctl.viewer.query import RowId, by_file, make_id, split

__all__ = ["TASK_SORTS", "TaskTable"]

_SHOWN_REWARDS = 64

_MEASURES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "max": max,
    "std": statistics.pstdev,
}
TASK_SORTS = ("task", "rollouts", *_MEASURES)
"""What the tasks may be sorted by; "task" is their order in the files."""


class TaskTable:
    """The tasks of some rows, each with its agent; rows without a task are left out.

    Kept as flat arrays: there may be as many tasks as rows.
    """

    def __init__(self, files: Sequence[Columns], rows: Sequence[RowId]) -> None:
        self._files = files
        numbers: dict[tuple[int, int], int] = {}
        members: list[RowId] = []
        task_of = array("I")
        for number, (columns, own) in enumerate(by_file(files, rows)):
            for row, task, agent in zip(
                own, map(columns.task.__getitem__, own), map(columns.agent.__getitem__, own), strict=True
            ):
                if task:
                    members.append(make_id(number, row))
                    task_of.append(numbers.setdefault((agent, task), len(numbers)))
        # Rows by task: where each task begins, and its rows from there on.
        self._starts = array("Q", bytes(8 * (len(numbers) + 1)))
        for task in task_of:
            self._starts[task + 1] += 1
        for task in range(len(numbers)):
            self._starts[task + 1] += self._starts[task]
        self._rows = array("Q", bytes(8 * len(members)))
        places = self._starts[:]
        for task, row_id in zip(task_of, members, strict=True):
            self._rows[places[task]] = row_id
            places[task] += 1

    def __len__(self) -> int:
        return len(self._starts) - 1

    def rows(self, task: int) -> array[int]:
        """The rows of a task, in the order of the files."""
        return self._rows[self._starts[task] : self._starts[task + 1]]

    def rewards(self, task: int) -> list[float]:
        """Its rewards by index of the rollout: the best of the first k counts unless they are 0 and 1."""
        found = []
        for row_id in self.rows(task):
            number, row = split(row_id)
            columns = self._files[number]
            reward = columns.reward[row]
            if reward == reward:
                found.append((columns.rollout_index[row], row_id, reward))
        return [reward for _, _, reward in sorted(found)]

    def pass_table(self) -> list[dict[str, float]]:
        """pass@k for powers of two (`k`, `value`), each over the `tasks` with at least k rewards."""
        rewards = [found for task in range(len(self)) if (found := self.rewards(task))]
        table: list[dict[str, float]] = []
        known: dict[str, float] = {}
        count = 0
        for k in _ks(max(map(len, rewards), default=0)):
            rewards = [found for found in rewards if len(found) >= k]
            if len(rewards) != count:
                known, count = pass_at_k(rewards), len(rewards)
            table.append({"k": k, "value": known[f"pass@{k}"], "tasks": count})
        return table

    def figures(self, task: int) -> dict[str, Any]:
        """One line of the table."""
        rewards = self.rewards(task)
        known = pass_at_k([rewards]) if rewards else {}
        return {
            "rollouts": len(self.rows(task)),
            "scored": len(rewards),
            "mean": statistics.fmean(rewards) if rewards else None,
            "std": statistics.stdev(rewards) if len(rewards) > 1 else None,
            "pass": {str(k): known[f"pass@{k}"] for k in _ks(len(rewards))},
            "rewards": rewards[:_SHOWN_REWARDS],
        }

    def order(self, key: str, *, descending: bool) -> list[int]:
        """The tasks sorted by one of TASK_SORTS; those without a reward come last."""
        tasks = range(len(self))
        if key == "task":
            return list(reversed(tasks) if descending else tasks)
        if key == "rollouts":
            counts = [self._starts[task + 1] - self._starts[task] for task in tasks]
            return sorted(tasks, key=counts.__getitem__, reverse=descending)
        measure = _MEASURES[key]
        known = {task: measure(rewards) for task in tasks if (rewards := self.rewards(task))}
        ordered = sorted(known, key=known.__getitem__, reverse=descending)
        return ordered + [task for task in tasks if task not in known]


def _ks(count: int) -> list[int]:
    """The powers of two up to a count."""
    return [2**power for power in range(count.bit_length())]

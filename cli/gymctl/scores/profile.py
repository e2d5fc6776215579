"""How hard each task is: mean, spread and pass@k over its repeats."""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymctl.collect.metrics import agent_of, pass_at_k
from gymctl.scores.lines import read_lines

__all__ = ["Profile", "TaskProfile", "profile"]

BINARY = (0.0, 1.0)


@dataclass
class TaskProfile:
    """One task of one agent."""

    agent: str
    task: int
    question: str
    """The start of what was asked."""
    rewards: array[float] = field(default_factory=lambda: array("d"))
    unscored: int = 0

    def document(self) -> dict[str, Any]:
        """Ready for JSON; numbers are null where nothing was scored."""
        values = self.rewards
        scored = bool(values)
        return {
            "agent": self.agent,
            "task_index": self.task,
            "rollouts": len(values) + self.unscored,
            "scored": len(values),
            "mean": statistics.fmean(values) if scored else None,
            "min": min(values) if scored else None,
            "max": max(values) if scored else None,
            "median": statistics.median(values) if scored else None,
            # Of the sample, as everywhere: one value has none.
            "std": statistics.stdev(values) if len(values) > 1 else None,
            **pass_at_k([values] if scored else []),
            "question": self.question,
        }


@dataclass
class Profile:
    """All tasks."""

    tasks: list[TaskProfile]

    def summary(self) -> dict[str, Any]:
        """How many tasks are of use: those whose rollouts are all right or all wrong teach nothing."""
        scored = [task.rewards for task in self.tasks if task.rewards]
        flat = [set(rewards) for rewards in scored]
        return {
            "tasks": len(self.tasks),
            "scored_tasks": len(scored),
            "rollouts": sum(len(task.rewards) + task.unscored for task in self.tasks),
            "unscored_rollouts": sum(task.unscored for task in self.tasks),
            "always_right": sum(values == {1.0} for values in flat),
            "always_wrong": sum(values == {0.0} for values in flat),
            "mixed": sum(len(values) > 1 for values in flat),
            "mean": statistics.fmean(statistics.fmean(rewards) for rewards in scored) if scored else None,
        }

    def ordered(self, key: str, *, descending: bool) -> Iterator[dict[str, Any]]:
        """The tasks' documents in the order of a column; those without a value come last."""
        documents = [task.document() for task in self.tasks]
        known = [document for document in documents if document[key] is not None]
        yield from sorted(known, key=lambda document: document[key], reverse=descending)
        yield from (document for document in documents if document[key] is None)


def profile(paths: Sequence[Path]) -> Profile:
    """Reads rollouts; memory grows with the tasks and eight bytes per rollout."""
    tasks: dict[tuple[str, int], TaskProfile] = {}
    for _, _, line in read_lines(paths):
        key = (agent_of(line), int(line.get("_ng_task_index") or 0))
        task = tasks.get(key)
        if task is None:
            task = tasks[key] = TaskProfile(*key, _question(line))
        reward = line.get("reward")
        if isinstance(reward, int | float):
            task.rewards.append(reward)
        else:
            task.unscored += 1
    return Profile([tasks[key] for key in sorted(tasks)])


def _question(line: Mapping[str, Any]) -> str:
    """The start of the last user message."""
    params = line.get("responses_create_params")
    asked = params.get("input") if isinstance(params, dict) else None
    if isinstance(asked, list):
        texts = [
            item.get("content") for item in asked if isinstance(item, dict) and item.get("role") == "user"
        ]
        asked = texts[-1] if texts else ""
    if isinstance(asked, list):
        asked = next((part.get("text") for part in asked if isinstance(part, dict) and part.get("text")), "")
    if not isinstance(asked, str):
        return ""
    # Half a surrogate pair, which JSON can say, is no text for a terminal or a file.
    return " ".join(asked.encode(errors="replace").decode().split())[:200]

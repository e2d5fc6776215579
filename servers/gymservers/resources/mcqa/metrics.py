"""Metrics over several rollouts per task, named and computed as NeMo Gym's: percentages from 0 to 100.

- `pass@k`: the chance that at least one of k rollouts has the property (unbiased estimate from all of them).
- `pass@1[avg-of-k]`: the mean over the first k rollouts, with its spread across runs.
- `majority@k`: the score of the answer that most of the first k gave; ties are averaged.

Two properties: `accuracy` (the reward) and `no_answer` (no letter could be read).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from gymapi.v1.resources_service_pb2 import ScoredRollout

__all__ = ["pass_and_majority"]

SCORES = ("accuracy", "no_answer")


@dataclass(frozen=True, slots=True)
class _Attempt:
    accuracy: float
    answer: str | None

    @property
    def no_answer(self) -> float:
        return float(self.answer is None)


def pass_and_majority(rollouts: Iterable[ScoredRollout]) -> dict[str, float]:
    """All metrics for k from 1 to the most rollouts of a task; rollouts without a reward do not count."""
    tasks = _by_task(rollouts)
    metrics: dict[str, float] = {}
    for k in range(1, max(map(len, tasks), default=0) + 1):
        for name in SCORES:
            scores = [[getattr(attempt, name) for attempt in task] for task in tasks]
            enough = [values for values in scores if len(values) >= k]
            metrics[f"pass@{k}/{name}"] = _percent(_pass_at(values, k) for values in enough)
            average = f"pass@1[avg-of-{k}]/{name}"
            metrics[average] = _percent(statistics.fmean(values[:k]) for values in scores)
            metrics[f"majority@{k}/{name}"] = _percent(_majority(task[:k], name) for task in tasks)
            if k > 1:
                runs = [_percent(values[run] for values in scores if run < len(values)) for run in range(k)]
                deviation = statistics.stdev(runs)
                metrics[f"{average}/std_dev_across_runs"] = deviation
                metrics[f"{average}/std_err_across_runs"] = deviation / math.sqrt(k)
    return metrics


def _by_task(rollouts: Iterable[ScoredRollout]) -> list[list[_Attempt]]:
    tasks: dict[str, list[ScoredRollout]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.reward.HasField("value"):
            tasks[rollout.task_id].append(rollout)
    return [
        [_attempt(rollout) for rollout in sorted(task, key=lambda rollout: rollout.index)]
        for task in tasks.values()
    ]


def _attempt(rollout: ScoredRollout) -> _Attempt:
    extras = orjson.loads(rollout.reward.extras_json or "{}")
    return _Attempt(rollout.reward.value, extras.get("extracted_answer"))


def _pass_at(values: Sequence[float], k: int) -> float:
    if any(value not in (0.0, 1.0) for value in values):
        return max(values[:k])
    failed = values.count(0.0)
    return 1.0 - math.comb(failed, k) / math.comb(len(values), k)


def _majority(task: Sequence[_Attempt], name: str) -> float:
    votes = Counter((one.answer, getattr(one, name)) for one in task if one.answer is not None)
    most = max(votes.values(), default=0)
    return statistics.fmean(score for (_, score), count in votes.items() if count == most) if most else 0.0


def _percent(values: Iterable[float]) -> float:
    return 100.0 * statistics.fmean(values)

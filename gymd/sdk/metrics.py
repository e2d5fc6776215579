"""Metrics over several rollouts per task, named and computed as NeMo Gym's: percentages from 0 to 100.

- `pass@k`: the chance that at least one of k rollouts has the property (unbiased estimate from all of them).
- `pass@1[avg-of-k]`: the mean over the first k rollouts, with its spread across runs.
- `majority@k`: the score of the answer that most of the first k gave; ties are averaged.

Two properties: `accuracy` (the reward, or one of the verifier's extras) and `no_answer` (it read none).
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import orjson

from gymapi.v1.resources_service_pb2 import ScoredRollout

__all__ = ["extras_of", "important_metrics", "mean_rewards", "pass_and_majority"]

SCORES = ("accuracy", "no_answer")
_PASS = re.compile(r"pass@(\d+)/accuracy")


@dataclass(frozen=True, slots=True)
class _Attempt:
    accuracy: float
    answer: str | None

    @property
    def no_answer(self) -> float:
        return float(self.answer is None)


def extras_of(rollout: ScoredRollout) -> dict[str, Any]:
    """What the verifier said beyond the reward."""
    found: dict[str, Any] = orjson.loads(rollout.reward.extras_json or "{}")
    return found


def mean_rewards(
    rollouts: Iterable[ScoredRollout], names: Callable[[dict[str, Any]], Iterable[str]]
) -> dict[str, float]:
    """Mean rewards of parts of the rollouts, by name; rollouts without a reward do not count.

    Args:
        names: the parts that a rollout belongs to, by the verifier's extras.
    """
    rewards: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.reward.HasField("value"):
            for name in names(extras_of(rollout)):
                rewards[name].append(rollout.reward.value)
    return {name: statistics.fmean(values) for name, values in sorted(rewards.items())}


def pass_and_majority(
    rollouts: Iterable[ScoredRollout], *, answer: str = "extracted_answer", score: str = ""
) -> dict[str, float]:
    """All metrics for k from 1 to the most rollouts of a task; rollouts without a reward do not count.

    Args:
        answer: the verifier's extra that majority@k counts; null or absent: there is no answer.
        score: its extra that is the accuracy; rollouts without it do not count. Default: the reward.
    """
    tasks = _by_task(rollouts, answer, score)
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


def important_metrics(metrics: Mapping[str, float], scores: Sequence[str] = ("accuracy",)) -> list[str]:
    """Names of those that matter most: the mean reward, and others for one rollout and for the most."""
    most = max((int(found[1]) for name in metrics if (found := _PASS.fullmatch(name))), default=1)
    kinds = ("pass@1", f"pass@1[avg-of-{most}]", f"majority@{most}", f"pass@{most}")
    wanted = ["mean_reward", *(f"{kind}/{score}" for kind in kinds for score in scores)]
    wanted += [f"pass@1[avg-of-{most}]/no_answer", f"pass@{most}/no_answer"]
    return [name for name in dict.fromkeys(wanted) if name in metrics]


def _by_task(rollouts: Iterable[ScoredRollout], answer: str, score: str) -> list[list[_Attempt]]:
    tasks: dict[str, list[tuple[int, _Attempt]]] = defaultdict(list)
    for rollout in rollouts:
        extras = extras_of(rollout)
        value = extras.get(score) if score else rollout.reward.value
        if rollout.reward.HasField("value") and value is not None:
            tasks[rollout.task_id].append((rollout.index, _Attempt(value, extras.get(answer))))
    return [[attempt for _, attempt in sorted(task, key=itemgetter(0))] for task in tasks.values()]


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

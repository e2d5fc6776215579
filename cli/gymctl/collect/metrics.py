"""Aggregate metrics of a collection, per agent: NeMo Gym's definitions."""

from __future__ import annotations

import math
import statistics
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

__all__ = ["Metrics", "agent_of", "facts_of", "pass_at_k"]

# Up to so many repeats every k is reported, beyond that the powers of two and the last.
_EVERY_K_UP_TO = 16
_UNGROUPED = -1
_ONE, _ONE_OF_ONE = "pass@1", "pass@1[avg-of-1]"
# Bookkeeping, not measurements.
_NO_MEASURE = frozenset({"_ng_task_index", "_ng_rollout_index", "_ng_attempt_index"})


class Metrics:
    """Collects numbers, eight bytes each, and sums them up at the end.

    Args:
        grouped: tasks may have several rollouts; then rewards are kept by task, which needs more memory.
    """

    def __init__(self, *, grouped: bool = True) -> None:
        self._grouped = grouped
        self._agents: dict[str, _Agent] = {}
        self.reward_sum = 0.0
        self.reward_count = 0

    @property
    def mean_reward(self) -> float | None:
        """Over all agents; None: nothing was scored."""
        return self.reward_sum / self.reward_count if self.reward_count else None

    def add(self, line: Mapping[str, Any]) -> None:
        """Takes an output line."""
        facts = facts_of(line)
        agent = self._agents.setdefault(agent_of(line), _Agent())
        agent.outcomes[str(facts.get("outcome", "completed"))] += 1
        reward = line.get("reward")
        if _is_number(reward):
            self.reward_sum += reward
            self.reward_count += 1
            # Without groups one key holds them all.
            task = int(line.get("_ng_task_index") or 0) if self._grouped else _UNGROUPED
            agent.rewards.setdefault(task, array("d")).append(reward)
        for key, value in _numbers(line, facts):
            agent.fields.setdefault(key, array("d")).append(value)

    def document(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"agents": {name: agent.document() for name, agent in sorted(self._agents.items())}}


class _Agent:
    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.rewards: dict[int, array[float]] = {}  # by task
        self.fields: dict[str, array[float]] = {}

    def document(self) -> dict[str, Any]:
        rewards = array("d", (value for task in self.rewards.values() for value in task))
        ungrouped = _UNGROUPED in self.rewards
        mean = sum(rewards) / len(rewards) if rewards else 0.0
        return {
            "rollouts": self.outcomes.total(),
            "outcomes": dict(self.outcomes.most_common()),
            "scored_rollouts": len(rewards),
            "scored_tasks": len(rewards) if ungrouped else len(self.rewards),
            "reward": _summary(rewards) if rewards else None,
            # One rollout per task: the best of one is the mean.
            **({_ONE: mean, _ONE_OF_ONE: mean} if ungrouped else pass_at_k(list(self.rewards.values()))),
            "fields": {key: _summary(values) for key, values in sorted(self.fields.items())},
        }


def agent_of(line: Mapping[str, Any]) -> str:
    """The agent that ran an output line."""
    return facts_of(line).get("agent") or (line.get("agent_ref") or {}).get("name") or ""


def facts_of(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """What gymd says about a rollout in its output line."""
    facts = line.get("rollout")
    return facts if isinstance(facts, dict) else {}


def pass_at_k(tasks: Sequence[Sequence[float]]) -> dict[str, float]:
    """pass@k for each k that every task has rollouts for, and pass@1[avg-of-n].

    Rewards of 0 and 1: the unbiased estimate 1 - C(n-c, k) / C(n, k). Others: the best of the first k.
    """
    if not tasks:
        return {}
    count = min(len(rewards) for rewards in tasks)
    binary = all(value in (0.0, 1.0) for rewards in tasks for value in rewards)
    found: dict[str, float] = {}
    for k in _ks(count):
        total = 0.0
        for rewards in tasks:
            if binary:
                wrong = len(rewards) - int(sum(rewards))
                total += 1 - math.comb(wrong, k) / math.comb(len(rewards), k)
            else:
                total += max(rewards[:k])
        found[f"pass@{k}"] = total / len(tasks)
    found[f"pass@1[avg-of-{count}]"] = sum(sum(rewards) / len(rewards) for rewards in tasks) / len(tasks)
    return found


def _ks(count: int) -> list[int]:
    if count <= _EVERY_K_UP_TO:
        return list(range(1, count + 1))
    powers = [2**exponent for exponent in range(count.bit_length()) if 2**exponent < count]
    return [*powers, count]


def _summary(values: Sequence[float]) -> dict[str, float | None]:
    mean, count = math.fsum(values) / len(values), len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    return {
        "mean": mean,
        # Of the sample, like pandas: one value has none.
        "std": math.sqrt(spread / (count - 1)) if count > 1 else None,
        "min": min(values),
        "max": max(values),
        "median": statistics.median(values),
    }


def _numbers(line: Mapping[str, Any], facts: Mapping[str, Any]) -> list[tuple[str, float]]:
    found = [
        (key, float(value)) for key, value in line.items() if _is_number(value) and key not in _NO_MEASURE
    ]
    components = line.get("reward_components")
    if isinstance(components, dict):
        found += [
            (f"reward_components/{key}", value) for key, value in components.items() if _is_number(value)
        ]
    response = line.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    if isinstance(usage, dict):
        found += [(f"usage/{key}", value) for key, value in usage.items() if _is_number(value)]
    timing = facts.get("timing")
    if isinstance(timing, dict) and _is_number(timing.get("seconds")):
        found.append(("seconds", timing["seconds"]))
    found += [(key, facts[key]) for key in ("model_calls", "tool_calls") if _is_number(facts.get(key))]
    return [(key, float(value)) for key, value in found if math.isfinite(value)]


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float)

"""Which rollouts become training data, and the rows of supervised training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymctl.export.messages import Unusable, converse
from gymctl.scores.lines import read_lines

__all__ = ["Choice", "Export", "refusal_of", "reward_of", "supervised"]


@dataclass(frozen=True)
class Choice:
    """Which rollouts become training data, and in which form."""

    outcomes: frozenset[str] = frozenset({"completed"})
    """How a rollout may have ended; empty: as it likes."""
    min_reward: float | None = None
    """Of every row's answer; of the better one in a pair. None: no limit."""
    min_gap: float = 0.0
    """Between the rewards of a pair; equal rewards never make one."""
    every_pair: bool = False
    """All pairs of a task; else its best rollout with its worst."""
    reasoning: bool = False
    """Keep what the policy thought."""
    as_text: bool = False
    """Tools and arguments as JSON texts."""


@dataclass
class Export:
    """What happened; filled while the rows are made."""

    rollouts: int = 0
    rows: int = 0
    tasks: int = 0
    """With rollouts that may be used; counted for pairs only."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Rollouts that were not used, by reason."""
    without_pairs: Counter[str] = field(default_factory=Counter)
    """Tasks without any pair, by reason."""


def supervised(paths: Sequence[Path], choice: Choice, export: Export) -> Iterator[dict[str, Any]]:
    """Rows `{messages, tools}` for supervised training, in the order of the files.

    Raises:
        CliError: a line is no JSON object.
    """
    for _, _, line in read_lines(paths):
        export.rollouts += 1
        why = refusal_of(line, choice)
        if why is None and choice.min_reward is not None:
            reward = reward_of(line)
            if reward is None:
                why = "no reward"
            elif reward < choice.min_reward:
                why = "a reward below --min-reward"
        if why is None:
            try:
                said = converse(line, reasoning=choice.reasoning, as_text=choice.as_text)
            except Unusable as problem:
                why = str(problem)
        if why is not None:
            export.left_out[why] += 1
            continue
        export.rows += 1
        row: dict[str, Any] = {"messages": said.prompt + said.completion}
        yield row | {"tools": said.tools} if said.tools else row


def reward_of(line: Mapping[str, Any]) -> float | None:
    """The reward of a line; None: nobody scored it."""
    reward = line.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        return None
    return float(reward)


def refusal_of(line: Mapping[str, Any], choice: Choice) -> str | None:
    """Why a line may not be used whatever its reward; None: it may."""
    facts = line.get("rollout")
    # Files of NeMo Gym say nothing about how a rollout ended: it has a response, so it completed.
    facts = facts if isinstance(facts, dict) else {}
    outcome = facts.get("outcome", "completed")
    if line.get("failure"):
        return "a failure"
    if facts.get("use_for_loss") is False:
        return "marked as nothing to learn from (use_for_loss)"
    if choice.outcomes and outcome not in choice.outcomes:
        return f"the outcome {outcome}"
    return None

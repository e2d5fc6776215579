"""The trainer's books: what may be handed in, which batch is complete, how old its rollouts are.

No I/O and no clock: times are given. Synchronous training is the case that nothing is made ahead (`lag` 0).
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

__all__ = ["Group", "Plan", "Trainer"]


@dataclass(frozen=True)
class Plan:
    """What the trainer does.

    Attributes:
        steps: trainer steps.
        groups_per_step: groups of one batch.
        group_size: rollouts of one group.
        lag: batches that may be handed in beyond the one that is waited for.
        step_s: seconds of one step.
        pause_s: seconds of one weight update.
        update_every: steps from one update to the next.
    """

    steps: int
    groups_per_step: int
    group_size: int
    lag: int = 0
    step_s: float = 0.0
    pause_s: float = 0.0
    update_every: int = 1

    @property
    def groups(self) -> int:
        """Groups in all."""
        return self.steps * self.groups_per_step

    @property
    def rollouts(self) -> int:
        """Rollouts in all."""
        return self.groups * self.group_size

    @property
    def ahead(self) -> int:
        """Most rollouts that are handed in and not used yet."""
        return min(self.rollouts, (self.lag + 1) * self.groups_per_step * self.group_size)


@dataclass
class Group:
    """One group on its way.

    Attributes:
        number: from 0, in the order of handing in.
        version: the policy's version then.
        begin: when that was, in seconds.
        left: rollouts that did not come back yet.
        usable: rollouts that came back as a trainer needs them.
    """

    number: int
    version: int
    begin: float
    left: int
    usable: int = 0


@dataclass
class Trainer:
    """The state of a run.

    Attributes:
        version: updates of the weights so far.
        step: steps that are done, updates included.
        pausing: the weights are being updated.
        staleness: used rollouts by the number of updates since they were handed in.
        outcomes: rollouts that came back, by outcome.
        failures: rollouts that came back useless, by outcome; refused ones, by reason.
        seconds: from handing in to coming back, of each rollout.
        tokens: generated in all.
    """

    plan: Plan
    version: int = 0
    step: int = 0
    pausing: bool = False
    staleness: Counter[int] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    usable: int = 0
    """Rollouts that came back as a trainer needs them."""
    complete_groups: int = 0
    handed_in: int = 0
    """Groups."""
    _open: dict[int, Group] = field(default_factory=dict)
    _ready: deque[Group] = field(default_factory=deque)

    @property
    def all_handed_in(self) -> bool:
        """Whether nothing more is wanted."""
        return self.handed_in == self.plan.groups

    @property
    def returned(self) -> int:
        """Rollouts that came back."""
        return len(self.seconds)

    @property
    def lost(self) -> int:
        """Rollouts of the plan that the trainer did not get in a usable form."""
        return self.plan.rollouts - self.usable

    def next_group(self, now: float) -> Group | None:
        """Hands in a group if that is allowed now."""
        allowed = min(self.plan.groups, (self.step + 1 + self.plan.lag) * self.plan.groups_per_step)
        if self.pausing or self.handed_in >= allowed:
            return None
        group = Group(self.handed_in, self.version, now, self.plan.group_size)
        self.handed_in += 1
        self._open[group.number] = group
        return group

    def take(self, number: int, now: float, outcome: str, *, usable: bool, tokens: int) -> None:
        """A rollout of a group came back.

        Args:
            outcome: how it ended, in a word.
            usable: a trainer can learn from it.
            tokens: what it generated.
        """
        group = self._open[number]
        self.seconds.append(now - group.begin)
        self.outcomes[outcome] += 1
        self.tokens += tokens
        if usable:
            group.usable += 1
            self.usable += 1
        else:
            self.failures[outcome] += 1
        self._count(group, 1)

    def refused(self, number: int, reason: str) -> None:
        """A whole group was refused: the batch goes on without it."""
        self.failures[reason] += self.plan.group_size
        self._count(self._open[number], self.plan.group_size)

    def _count(self, group: Group, count: int) -> None:
        group.left -= count
        if group.left <= 0:
            del self._open[group.number]
            self._ready.append(group)
            self.complete_groups += 1

    @property
    def batch_ready(self) -> bool:
        """Whether a step can begin."""
        return len(self._ready) >= self.plan.groups_per_step

    def use_batch(self) -> None:
        """A step begins with the groups that were complete first."""
        for _ in range(self.plan.groups_per_step):
            group = self._ready.popleft()
            self.staleness[self.version - group.version] += group.usable

    @property
    def update_due(self) -> bool:
        """Whether the weights are updated after the step that runs."""
        return (self.step + 1) % self.plan.update_every == 0

    def end_step(self) -> None:
        """The step is over, and its update, if one was due."""
        self.version += self.update_due
        self.step += 1
        self.pausing = False

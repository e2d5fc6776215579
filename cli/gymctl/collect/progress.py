"""How far a collection is, on stderr: a bar at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from gymctl.output import note, seconds

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Reporter", "make_reporter"]

_BAR_INTERVAL_S = 0.1
_LINE_INTERVAL_S = 5.0


class Counts(Protocol):
    """What is shown."""

    total: int
    done: int
    failed: int

    @property
    def mean_reward(self) -> float | None:
        """Of what was scored; None: nothing."""


class Reporter:
    """Shows lines; `update` may be called for every result."""

    interval_s = _LINE_INTERVAL_S

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self._start = self._last = time.monotonic()
        self._first = self._shown = counts.done + counts.failed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A line that says 1/5 is not the last word.
        if self._shown not in (self._first, self.counts.done + self.counts.failed):
            self.show(time.monotonic())

    def update(self) -> None:
        """Shows the counts if it is time."""
        now = time.monotonic()
        if now - self._last >= self.interval_s:
            self._last = now
            self.show(now)

    @property
    def rate(self) -> float:
        """Rollouts per second since the start."""
        spent = time.monotonic() - self._start
        return (self.counts.done + self.counts.failed - self._first) / spent if spent > 0 else 0.0

    def show(self, now: float) -> None:
        """Writes one line."""
        self._shown = self.counts.done + self.counts.failed
        note(f"{self._text()}, {seconds(now - self._start)}")

    def _text(self) -> str:
        counts = self.counts
        parts = [f"{counts.done + counts.failed:,}/{counts.total:,} rollouts", f"{self.rate:,.1f}/s"]
        if counts.mean_reward is not None:
            parts.append(f"mean reward {counts.mean_reward:.3f}")
        if counts.failed:
            parts.append(f"{counts.failed:,} failed")
        return ", ".join(parts)


class _Bar(Reporter):
    interval_s = _BAR_INTERVAL_S

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from gymctl.output import console

        self._progress: Progress = Progress(
            TextColumn("[bold]rollouts"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[reward]}"),
            TextColumn("[red]{task.fields[failed]}"),
            TimeRemainingColumn(compact=True),
            console=console(stderr=True),
            refresh_per_second=1 / _BAR_INTERVAL_S,
        )
        self._task: Any = self._progress.add_task("", total=self.counts.total, rate="", reward="", failed="")
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.show(0.0)
        self._progress.stop()

    def show(self, now: float) -> None:
        counts = self.counts
        reward = counts.mean_reward
        self._progress.update(
            self._task,
            completed=counts.done + counts.failed,
            rate=f"{self.rate:,.1f}/s",
            reward="" if reward is None else f"mean reward {reward:.3f}",
            failed=f"{counts.failed:,} failed" if counts.failed else "",
        )


def make_reporter(counts: Counts) -> Reporter:
    """The reporter that fits where stderr goes."""
    return _Bar(counts) if sys.stderr.isatty() else Reporter(counts)

"""How many rows there are, on stderr: a bar at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

from gymctl.output import note, seconds

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Reporter", "make_reporter"]

_LINE_INTERVAL_S = 5.0
_DEFAULT_SIZE = 500


class Reporter:
    """Lines, for work that takes longer than a few seconds."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows = 0
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def advance(self) -> None:
        """Counts one row."""
        self._rows += 1
        now = time.monotonic()
        if now - self._last >= _LINE_INTERVAL_S:
            self._last = now
            note(f"{self._rows:,}/{self._size:,} rows, {seconds(now - self._start)}")


class _Bar(Reporter):
    def __enter__(self) -> Self:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from gymctl.output import console

        self._progress: Progress = Progress(
            TextColumn("[bold]rows"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            console=console(stderr=True),
            transient=True,
        )
        self._task: Any = self._progress.add_task("", total=self._size)
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self) -> None:
        self._progress.advance(self._task)


def make_reporter(size: Any) -> Reporter:
    """The reporter that fits where stderr goes; `size` as the user gave it, if at all."""
    rows = size if isinstance(size, int) else _DEFAULT_SIZE
    return _Bar(rows) if sys.stderr.isatty() else Reporter(rows)

"""How far a run is, on stderr: one line that changes at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time

import click

from gymctl.bench.figures import Times
from gymctl.bench.trainer import Trainer
from gymctl.output import note, seconds

__all__ = ["ProgressLine"]

_TERMINAL_S = 0.5
_ELSEWHERE_S = 5.0


class ProgressLine:
    """Shows the state of a run until it is cancelled; then call `close`."""

    def __init__(self, trainer: Trainer, times: Times) -> None:
        self._trainer = trainer
        self._times = times
        self._begin = time.monotonic()
        self._in_place = sys.stderr.isatty()
        self._shown = False

    async def run(self) -> None:
        """Shows a line in each interval."""
        while True:
            await asyncio.sleep(_TERMINAL_S if self._in_place else _ELSEWHERE_S)
            self.show()

    def show(self) -> None:
        """Shows one line."""
        if self._in_place:
            click.echo(f"\r\x1b[K{self.text()}", nl=False, err=True)
            self._shown = True
        else:
            note(self.text())

    def close(self) -> None:
        """Ends the line."""
        if self._shown:
            click.echo("", err=True)

    def text(self) -> str:
        """The line."""
        trainer, plan = self._trainer, self._trainer.plan
        spent = time.monotonic() - self._begin
        parts = [
            f"step {trainer.step}/{plan.steps}",
            f"{trainer.returned:,}/{plan.rollouts:,} rollouts",
            f"{trainer.returned / spent if spent else 0:,.1f}/s",
            f"waited {seconds(self._times.waiting)} of {seconds(spent)}",
        ]
        if failed := trainer.failures.total():
            parts.append(f"{failed:,} failed")
        return ", ".join(parts)

"""How far something is, on stderr: one changing line at a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

__all__ = ["ProgressLine"]

_TERMINAL_INTERVAL_S = 0.2
_LINE_INTERVAL_S = 5.0


class ProgressLine:
    """Shows a text when it is time; `clear` takes away what a terminal shows."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._interval = _TERMINAL_INTERVAL_S if self._is_terminal else _LINE_INTERVAL_S
        self._start = self._last = time.monotonic()
        self._is_shown = False

    def tell(self, text: Callable[[float], str]) -> None:
        """Shows what `text` says, which is asked only if it is time.

        Args:
            text: is given the seconds since the start.
        """
        now = time.monotonic()
        if now - self._last < self._interval:
            return
        self._last = now
        self._is_shown = True
        if self._is_terminal:
            click.echo(f"\r\x1b[K{text(now - self._start)}", nl=False, err=True)
        else:
            click.echo(text(now - self._start), err=True)

    def clear(self) -> None:
        """Clears the line at a terminal."""
        if self._is_shown and self._is_terminal:
            click.echo("\r\x1b[K", nl=False, err=True)

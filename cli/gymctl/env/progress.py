"""What people see while environments are tested: a live table at a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gymctl.env.environment import Environment
from gymctl.env.runs import Result
from gymctl.output import Column, note, seconds

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["RunView", "make_view"]

_REFRESH_PER_S = 8
COLUMNS: list[Column] = ["ENVIRONMENT", "STATE", ("SECONDS", "right"), ("DOING", "fold")]


class RunView:
    """Lines on stderr: one for each environment that begins to be built, and one for each that is done."""

    def __init__(self, environments: Sequence[Environment]) -> None:
        self._left = len(environments)
        self._building: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def tell(self, environment: Environment, text: str) -> None:
        """Takes what happens to an environment."""
        if text.startswith("building") and environment.name not in self._building:
            self._building.add(environment.name)
            note(f"{environment.name}: {text}")

    def done(self, result: Result) -> None:
        """Takes a result."""
        self._left -= 1
        left = f", {self._left} to go" if self._left else ""
        word = "ok" if result.ok else "FAILED"
        note(f"{result.environment.name}: {word} ({seconds(result.seconds)}{left})")


@dataclass
class _State:
    word: str = "waiting"
    doing: str = ""
    since: float | None = None
    spent: float = 0.0


class _LiveView(RunView):
    def __init__(self, environments: Sequence[Environment]) -> None:
        super().__init__(environments)
        self._states = {one.folder: _State() for one in environments}

    def __enter__(self) -> Self:
        from rich.live import Live

        from gymctl.output import console

        self._live: Live = Live(
            console=console(stderr=True),
            get_renderable=self._table,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
        )
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def tell(self, environment: Environment, text: str) -> None:
        state = self._states[environment.folder]
        state.since = state.since or time.monotonic()
        state.word, state.doing = "running", text

    def done(self, result: Result) -> None:
        word = "ok" if result.ok else "failed"
        self._states[result.environment.folder] = _State(word, spent=result.seconds)

    def _table(self) -> Any:
        from gymctl.output import make_table

        rows = []
        for folder, state in self._states.items():
            spent = time.monotonic() - state.since if state.since else state.spent
            rows.append((folder.name, state.word, f"{spent:.1f}" if spent else "", state.doing))
        return make_table(COLUMNS, rows)


def make_view(environments: Sequence[Environment]) -> RunView:
    """The view that fits where stderr goes."""
    return _LiveView(environments) if sys.stderr.isatty() else RunView(environments)

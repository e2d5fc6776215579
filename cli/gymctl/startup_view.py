"""What people see while servers start: nothing if it is quick, else a table of servers turning ready."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from gymctl.output import note, seconds
from gymctl.state import read_daemon_file

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["StartupView"]

# A start that takes longer shows its servers; before that, loading grpc here would only slow it down.
_PATIENCE_S = 1.0
_LINE_INTERVAL_S = 5.0


class StartupView:
    """Shows the start of a daemon on stderr: a live table at a terminal, a line now and then elsewhere."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._last_line = started
        self._live: Live | None = None
        self._watch: _Watch | None = None
        self._terminal = sys.stderr.isatty()

    def tick(self) -> None:
        """Called ten times a second."""
        spent = time.monotonic() - self._started
        if spent < _PATIENCE_S:
            return
        if self._watch is None:
            self._watch = _Watch()
        if self._terminal:
            self._draw(spent)
        elif time.monotonic() - self._last_line >= _LINE_INTERVAL_S:
            self._last_line = time.monotonic()
            waiting = [f"{name} {state}" for name, _, state, _ in self._watch.rows if state != "ready"]
            note(f"starting, {seconds(spent)}: {', '.join(waiting) or 'the daemon'}")

    def log(self, line: str) -> None:
        """Shows a line of the daemon's log, above the table."""
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(line))
        else:
            note(line)

    def close(self) -> None:
        """Takes the table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._watch is not None:
            self._watch.close()

    def _draw(self, spent: float) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.spinner import Spinner

        from gymctl.output import Column, console, make_table

        assert self._watch is not None
        if self._live is None:
            self._spinner = Spinner("dots")
            self._live = Live(console=console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        self._spinner.update(text=f"starting, {seconds(spent)}")
        columns: list[Column] = ["NAME", "KIND", "STATE", ("CONDITION", "fold")]
        rows = self._watch.rows
        parts: list[Any] = [make_table(columns, rows)] if rows else []
        self._live.update(Group(*parts, self._spinner), refresh=True)


class _Watch:
    """Follows the registry from a thread of its own; best effort, as the daemon may not listen yet."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        asyncio.run(self._follow())

    async def _follow(self) -> None:
        from gymctl.servers import server_document
        from gymd.client import RolloutClient
        from gymd.errors import GymdError

        while not self._closed.is_set():
            if found := read_daemon_file():
                async with RolloutClient(found.address, client_name="gymctl") as client:
                    try:
                        while not self._closed.is_set():
                            listed = await client.list_servers()
                            documents = [server_document(server) for server in listed.servers]
                            self.rows = [
                                (
                                    one["name"],
                                    one["kind"],
                                    one["state"],
                                    (one["condition"] or "").split("\n")[0],
                                )
                                for one in documents
                            ]
                            await asyncio.sleep(0.2)
                    except GymdError:
                        pass  # not listening yet, or gone: look again
            await asyncio.sleep(0.2)

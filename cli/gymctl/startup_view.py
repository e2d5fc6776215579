"""What people see while servers start: nothing if it is quick, else a table of servers turning ready."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gymctl.output import note, seconds
from gymctl.state import read_daemon_file

if TYPE_CHECKING:
    from rich.live import Live

    from gymd.client import RolloutClient

__all__ = ["StartupView"]

# A start that takes longer shows its servers; before that, loading grpc here would only slow it down.
_PATIENCE_S = 2.0
_FIRST_WORD_S = 0.3
_LINE_INTERVAL_S = 5.0
_LOOK_INTERVAL_S = 0.2
# A host's log is that of all its servers; the last words of one are among the last lines.
_LOG_LINES = 10


class StartupView:
    """Shows the start of a daemon on stderr: a live table at a terminal, a line now and then elsewhere.

    Args:
        started: when the daemon was started, by the monotonic clock.
        folder: the daemon's state folder, which tells its address; None: the usual one.
    """

    def __init__(self, started: float, folder: Path | None = None) -> None:
        self._started = started
        self._folder = folder
        self._last_line = started
        self._live: Live | None = None
        self._watch: _Watch | None = None
        self._terminal = sys.stderr.isatty()

    def tick(self) -> None:
        """Called ten times a second."""
        spent = time.monotonic() - self._started
        if self._terminal and self._live is None and spent >= _FIRST_WORD_S:
            click.echo(f"\rstarting, {seconds(spent)}", nl=False, err=True)
        if spent < _PATIENCE_S:
            return
        if self._watch is None:
            self._watch = _Watch(self._folder)
        if self._terminal:
            if self._watch.rows:
                self._draw(spent)
        elif time.monotonic() - self._last_line >= _LINE_INTERVAL_S:
            self._last_line = time.monotonic()
            rows = [row for row in self._watch.rows if row[2] != "ready"]
            waiting = [f"{name} {state}" + (f" ({why})" if why else "") for name, _, state, why in rows]
            note(f"starting, {seconds(spent)}: {', '.join(waiting) or 'the daemon'}")

    def close(self) -> None:
        """Takes the table away."""
        if self._live is None:
            self._wipe()
        else:
            self._live.stop()
            self._live = None
        if self._watch is not None:
            self._watch.close()

    def _wipe(self) -> None:
        """Takes away the line that has no end yet."""
        if self._terminal:
            click.echo("\r\x1b[K", nl=False, err=True)

    def _draw(self, spent: float) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.spinner import Spinner

        from gymctl.output import Column, console, make_table

        assert self._watch is not None
        if self._live is None:
            self._wipe()
            self._spinner = Spinner("dots")
            self._live = Live(console=console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        self._spinner.update(text=f"starting, {seconds(spent)}")
        columns: list[Column] = ["NAME", "KIND", "STATE", ("CONDITION", "fold")]
        table = make_table(columns, self._watch.rows)
        self._live.update(Group(table, self._spinner), refresh=True)


class _Watch:
    """Follows the registry from a thread of its own; best effort, as the daemon may not listen yet."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
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
        from gymd.client import RolloutClient
        from gymd.errors import GymdError

        while not self._closed.is_set():
            if found := read_daemon_file(self._folder):
                async with RolloutClient(found.address, client_name="gymctl") as client:
                    try:
                        while not self._closed.is_set():
                            await self._look(client)
                            await asyncio.sleep(_LOOK_INTERVAL_S)
                    except GymdError:
                        pass  # not listening yet, or gone: look again
            await asyncio.sleep(_LOOK_INTERVAL_S)

    async def _look(self, client: RolloutClient) -> None:
        from gymctl.servers import server_document

        rows = []
        for server in (await client.list_servers()).servers:
            one = server_document(server)
            why = (one["condition"] or "").split("\n")[0]
            if one["state"] == "starting":
                why = await _last_words(client, one["name"]) or ("" if why == one["state"] else why)
            rows.append((one["name"], one["kind"], one["state"], why))
        self.rows = rows


async def _last_words(client: RolloutClient, name: str) -> str:
    """What a starting server logged last, such as how far a download is."""
    from gymd.errors import GymdError

    try:
        logs = await client.server_logs(name, _LOG_LINES)
    except GymdError:
        return ""  # a remote server has no log here
    said = [_words_of(line, f"gymd.server.{name}") for log in logs for line in log.lines]
    return next((words for words in reversed(said) if words), "")


def _words_of(line: str, logger: str) -> str:
    """The message of a log line, JSON or text, if it is by that logger."""
    try:
        content = json.loads(line)
    except ValueError:
        _, found, words = line.partition(f" {logger} ")
        return words if found else ""
    by_it = isinstance(content, dict) and content.get("logger") == logger
    return str(content.get("event", "")) if by_it else ""

"""Starts the daemon as a process and waits until its servers are ready.

Nothing here imports grpc before the daemon runs: both would load it at the same time on the same cores, and
the servers would be ready later.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from gymctl.errors import CliError
from gymctl.output import note, seconds
from gymctl.startup_view import StartupView
from gymctl.state import state_dir

__all__ = ["DaemonProcess", "interrupt_on_signals", "log_path", "running_daemon"]

# Once SIGTERM was sent: the daemon's grace for rollouts, and what closing its hosts takes on top.
STOP_TIMEOUT_S = 40.0
# Of what the daemon wrote to stderr, for the message about its end.
_TAIL_LINES = 20
_TICK_S = 0.1
# How a line begins by which the daemon says why it ends.
_VERDICT = "gymd: "


class DaemonProcess:
    """A daemon that this process started.

    Args:
        configs: configuration files.
        overrides: `key=value` settings.
        log_file: takes its log, and it outlives this process; None shows what it writes to stderr here, and
            it stops when this process dies, however that happens.
        folder: its state folder; None: the usual one.
        debug: show its whole log from the start.
    """

    def __init__(
        self,
        configs: Sequence[str],
        overrides: Sequence[str] = (),
        *,
        log_file: Path | None = None,
        folder: Path | None = None,
        debug: bool = False,
    ) -> None:
        self._folder = folder
        if folder is not None:
            overrides = [*overrides, f"gymd.state_dir={folder}"]
        self.log_file = log_file
        self.address = ""
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue(maxsize=16)
        self._is_up = False
        self._debug = debug
        self.started = time.monotonic()
        command = [sys.executable, "-m", "gymd", "--wait-ready"]
        for name in configs:
            command += ["-c", name]
        environment = dict(os.environ)
        if log_file is None:
            command.append("--stdin-lifeline")
            # People look at this terminal: tell them what goes wrong, and leave the rest to the table.
            command += ["--log-level", "debug" if debug else "warning"]
            if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
                environment["FORCE_COLOR"] = "1"
        # A session of its own: Ctrl-C reaches this process alone, which then tells the daemon once.
        with contextlib.ExitStack() as stack:
            stderr = stack.enter_context(log_file.open("ab")) if log_file else subprocess.PIPE
            self._log_start = log_file.stat().st_size if log_file else 0
            self._process = subprocess.Popen(
                [*command, "--", *overrides],
                # Nothing is ever written to the pipe: its end is what tells the daemon.
                stdin=subprocess.DEVNULL if log_file else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                env=environment,
            )
        self._threads = [threading.Thread(target=self._read_events, daemon=True)]
        if self._process.stderr is not None:
            self._threads.append(
                threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True)
            )
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_ready(self) -> float:
        """Waits until all servers are ready; returns the seconds since the start.

        Raises:
            CliError: a server cannot start, or the daemon ended.
        """
        view = StartupView(self.started, self._folder)
        try:
            while True:
                try:
                    event = self._events.get(timeout=_TICK_S)
                except queue.Empty:
                    view.tick()
                    continue
                if event is None:
                    raise self._ended()
                if event.get("event") == "ready":
                    self.address = str(event["address"])
                    self._is_up = True
                    return time.monotonic() - self.started
                if event.get("event") == "failed":
                    raise self._failed(event)
        finally:
            view.close()

    def wait(self) -> int:
        """Waits until the daemon ends by itself; returns its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Tells the daemon to stop and waits until it has; Ctrl-C meanwhile makes it hurry."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        self._signal(signal.SIGTERM)
        while True:
            try:
                self._process.wait(timeout=max(0.0, deadline - time.monotonic()))
                break
            except KeyboardInterrupt:
                note("Stopping now.")
                self._signal(signal.SIGTERM)
            except subprocess.TimeoutExpired:
                note(f"The daemon did not stop within {seconds(STOP_TIMEOUT_S)}; killing it.")
                self._signal(signal.SIGKILL)
                self._process.wait()
                break
        self.release()

    def release(self) -> None:
        """Lets go of the daemon's output."""
        if self._process.poll() is not None:
            for thread in self._threads:
                thread.join(timeout=2.0)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None and not self._threads[0].is_alive():
            self._process.stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _read_events(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for line in stdout:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._events.put(event)
        self._events.put(None)

    def _read_log(self, stream: IO[bytes]) -> None:
        with stream:
            for raw in stream:
                line = raw.decode(errors="replace").rstrip("\n")
                self._tail.append(line)
                # Until the servers are ready, the table shows how they are, and an error what went wrong.
                if self._is_up or self._debug:
                    note(line)

    def _ended(self) -> CliError:
        code = self._process.wait()
        self.release()
        lines = self._last_lines()
        begin = next((number for number, line in enumerate(lines) if line.startswith(_VERDICT)), None)
        if begin is not None:
            what, *details = [line.removeprefix(_VERDICT) for line in lines[begin:]]
            hint = "Correct it; `gymctl config check -c FILE` checks without starting anything."
            return CliError(what.rstrip(":"), hint if details else "", [line.strip("\n") for line in details])
        if not lines and (problem := self._log_problem()):
            hint = "Make room on the disk, or choose another folder with GYMD_STATE_DIR."
            return CliError(f"the daemon ended, and {problem}", hint)
        what = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        text = f"the daemon ended with {what} before its servers were ready"
        return CliError(text, "Run again with --debug to see all that it says.", lines)

    def _failed(self, event: dict[str, Any]) -> CliError:
        servers = [entry for entry in event.get("servers") or () if isinstance(entry, dict)]
        self._process.wait()
        self.release()
        names = ", ".join(str(entry.get("server")) for entry in servers)
        details = [
            f"{entry.get('server')}: {line}" if number == 0 else f"  {line}"
            for entry in servers
            for number, line in enumerate(str(entry.get("condition") or "no reason given").splitlines())
        ]
        return CliError(f"cannot start {names}", "Correct the cause and run `gymctl up` again.", details)

    def _log_problem(self) -> str:
        """Why the log holds nothing of what the daemon said, such as a full disk; empty: it could have."""
        if self.log_file is None:
            return ""
        try:
            with self.log_file.open("ab") as file:
                file.write(b"\n")
        except OSError as failure:
            return f"its log {self.log_file} cannot be written: {failure.strerror or failure}"
        return ""

    def _last_lines(self) -> list[str]:
        if self.log_file is None:
            return list(self._tail)
        with self.log_file.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]


def interrupt_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end this process as Ctrl-C does, so that what it began is cleared away."""

    def on_signal(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, on_signal)


def log_path() -> Path:
    """The log of a detached daemon; its folder exists afterwards."""
    folder = state_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / "gymd.log"


@contextlib.contextmanager
def running_daemon(
    configs: Sequence[str], overrides: Sequence[str] = (), *, folder: Path | None = None
) -> Iterator[str]:
    """A daemon for the duration of a command, on a port of its own; yields its address.

    Args:
        folder: its state folder; None: the usual one, which no other daemon may use meanwhile.
    """
    interrupt_on_signals()
    daemon = DaemonProcess(configs, [*overrides, "gymd.listen=127.0.0.1:0"], folder=folder)
    try:
        spent = daemon.wait_ready()
        note(f"The servers are ready ({seconds(spent)}).")
        yield daemon.address
    finally:
        daemon.stop()

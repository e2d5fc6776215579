"""Starts what a measurement needs (backend, daemon, hosts) and accounts for its processor time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

__all__ = ["Backend", "Stack", "Usage", "backend", "program", "stack", "started", "workplace"]

START_TIMEOUT_S = 60.0


@dataclass
class Usage:
    """Processor seconds and memory of a set of processes at one moment."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    pss_mib: float = 0.0

    def since(self, before: Usage) -> dict[str, float]:
        """Processor seconds by role since an earlier moment."""
        return {role: value - before.cpu_s.get(role, 0.0) for role, value in self.cpu_s.items()}


class Backend:
    """A fake OpenAI-compatible endpoint in a process of its own."""

    def __init__(self, process: subprocess.Popen, url: str) -> None:
        self.process = process
        self.url = url


def backend(
    latency: float, script: str = "", more: Sequence[str] = ()
) -> contextlib.AbstractContextManager[Backend]:
    """Runs a backend: the bench's own, or another program that prints JSON with `listening` first."""
    if script:
        return _backend([script, "--latency", f"fixed:{latency}" if latency else "0", *more])
    return program("bench.backend", "--latency", str(latency), *more)


def program(module: str, *arguments: str) -> contextlib.AbstractContextManager[Backend]:
    """Runs a module that prints the URL at which it listens, until the block ends."""
    return _backend(["-m", module, *arguments])


@contextlib.contextmanager
def _backend(arguments: Sequence[str]) -> Iterator[Backend]:
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        yield Backend(process, json.loads(line)["listening"] if line.startswith("{") else line)
    finally:
        process.terminate()
        process.wait(10)
        process.stdin.close()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]


class Stack:
    """A daemon with its hosts.

    Attributes:
        address: where the daemon listens.
        ready_s: seconds from the start of the process to all servers ready, or to its address being bound.
    """

    def __init__(self, process: subprocess.Popen, state: Path, ready_s: float, address: str) -> None:
        self.process = process
        self.state = state
        self.ready_s = ready_s
        self.address = address

    def processes(self) -> dict[str, list[psutil.Process]]:
        """The daemon and its hosts, by role."""
        daemon = psutil.Process(self.process.pid)
        return {"daemon": [daemon], "hosts": daemon.children(recursive=True)}

    def kill(self) -> None:
        """Ends the daemon as kill -9 does; its hosts end by themselves."""
        self.process.kill()
        self.process.wait()

    def daemon_pss_mib(self) -> float:
        """Proportional set size of the daemon alone."""
        return psutil.Process(self.process.pid).memory_full_info().pss / 2**20

    def usage(self, *, memory: bool = False) -> Usage:
        """Processor time now, of this process too; `memory` adds the proportional set size of all."""
        usage = Usage({"client": time.process_time()})
        for role, members in self.processes().items():
            for member in members:
                times = member.cpu_times()
                usage.cpu_s[role] = usage.cpu_s.get(role, 0.0) + times.user + times.system
                if memory:
                    usage.pss_mib += member.memory_full_info().pss / 2**20
        return usage


@contextlib.contextmanager
def stack(config: str, env: dict[str, str] | None = None) -> Iterator[Stack]:
    """Runs `gymd` on a configuration text until the block ends."""
    with workplace(config) as folder, started(folder, env) as running:
        yield running


@contextlib.contextmanager
def workplace(config: str) -> Iterator[Path]:
    """A folder for a daemon and whoever follows it: the configuration text, and the state that it leaves."""
    folder = Path(tempfile.mkdtemp(prefix="gymd-bench-"))
    (folder / "bench.yaml").write_text(config)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def started(folder: Path, env: dict[str, str] | None = None, *, wait_ready: bool = True) -> Iterator[Stack]:
    """Runs `gymd` in a workplace until the block ends.

    Args:
        env: further variables of its environment.
        wait_ready: wait until every server is ready; otherwise only until the daemon listens.
    """
    environment = {**os.environ, **(env or {}), "GYMD_STATE_DIR": str(folder / "state")}
    begin = time.perf_counter()
    log = (folder / "gymd.log").open("a")
    command = [sys.executable, "-m", "gymd", "-c", "bench.yaml", *(["--wait-ready"] if wait_ready else [])]
    process = subprocess.Popen(
        [*command, "gymd.listen=127.0.0.1:0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"gymd did not start:\n{(folder / 'gymd.log').read_text()}")
        yield Stack(process, folder / "state", time.perf_counter() - begin, json.loads(line)["address"])
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        log.close()

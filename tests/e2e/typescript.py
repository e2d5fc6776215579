"""Builds the TypeScript examples, and runs programs that say on stdout what they come to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

__all__ = ["ROOT", "WAIT_S", "Program", "built", "run_daemon", "running"]

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
NPM_S = 240.0
BUILD_S = 200.0


def built(example: str, folder: Path) -> Path:
    """An example, installed from its lock file and compiled, in a copy that holds its sources only.

    Args:
        example: its path below `examples`.
        folder: an empty one; the copy lies in it as in the repository, with the contract beside it.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    copy = folder / "examples" / example
    ignored = shutil.ignore_patterns("node_modules", "dist", "gen")
    shutil.copytree(ROOT / "examples" / example, copy, ignore=ignored)
    (folder / "protos").symlink_to(ROOT / "protos")
    _npm([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"], copy, NPM_S)
    _npm([npm, "run", "build"], copy, BUILD_S)
    return copy


def _npm(command: list[str], folder: Path, limit_s: float) -> None:
    # A process group of its own, because npm leaves its children alone when it is killed.
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said, _ = process.communicate()
        pytest.fail(f"{' '.join(command)} did not end within {limit_s:g} s: {said[-2000:]}")
    if process.returncode != 0:
        pytest.fail(f"{' '.join(command)}: {said[-2000:]}")


class Program:
    """A child process."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def said(self, event: str) -> dict[str, Any]:
        """The next line, which must be of that event."""
        line = await self.line()
        facts: dict[str, Any] = json.loads(line) if line else {"event": f"ended with {await self.ended()}"}
        assert facts["event"] == event, facts
        return facts

    async def line(self) -> str:
        """The next line of any form; "" at the end."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            return (await self.process.stdout.readline()).decode()

    async def ended(self) -> int:
        async with asyncio.timeout(WAIT_S):
            return await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM, as an operator would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        return await self.ended()

    async def kill(self) -> None:
        """No good-bye."""
        self.process.kill()
        await self.ended()


@contextlib.asynccontextmanager
async def running(*command: str, **options: Any) -> AsyncIterator[Program]:
    """A child process; killed at the end if it is still there."""
    program = Program(await asyncio.create_subprocess_exec(*command, stdout=PIPE, **options))
    try:
        yield program
    finally:
        if program.process.returncode is None:
            await program.kill()


def run_daemon(
    folder: Path, config: dict[str, Any], *settings: str
) -> contextlib.AbstractAsyncContextManager[Program]:
    """A daemon whose state lies in `folder`; it says `ready` with its address."""
    (folder / "mesh.yaml").write_text(yaml.safe_dump(config))
    environment = {**os.environ, "GYMD_STATE_DIR": str(folder / "state")}
    command = [sys.executable, "-m", "gymd", "-c", "mesh.yaml", *settings]
    return running(*command, env=environment, cwd=folder)

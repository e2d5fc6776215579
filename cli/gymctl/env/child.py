"""Child processes that never outlive the command, and never outstay their time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, STDOUT
from typing import Any

from gymd.child import Child

__all__ = ["ChildFailed", "describe_servers", "run_lines"]

# After SIGTERM: pytest tears its fixtures down, which may stop servers.
_TERM_GRACE_S = 5.0
# How long the last output of a dead process is waited for; something that it started may hold the pipe.
_DRAIN_S = 1.0
_DESCRIBE_TIMEOUT_S = 120.0
_LINE_LIMIT_BYTES = 1 << 20
_DESCRIBE = ("-m", "gymd.sdk.describe")


class ChildFailed(Exception):
    """A child process did not do what it was started for; the text holds its last words."""


async def run_lines(
    command: Sequence[str], *, cwd: Path, timeout: float, take: Callable[[str], None]
) -> int | None:
    """Runs a command and hands every line of its output (stdout and stderr) to `take`.

    Returns: its exit code; None: it did not end within `timeout` seconds and was killed.
    """
    options: dict[str, Any] = {"cwd": cwd, "env": _environment(), "start_new_session": True}
    process = await Child.start(command, stdin=DEVNULL, stderr=STDOUT, limit=_LINE_LIMIT_BYTES, **options)
    lines = asyncio.get_running_loop().create_task(_take_lines(process.stdout, take))
    try:
        try:
            async with asyncio.timeout(timeout):
                code = await process.wait()
        except TimeoutError:
            return None
        finally:
            await asyncio.shield(_end(process))
        await asyncio.wait([lines], timeout=_DRAIN_S)
        return code
    finally:
        lines.cancel()
        process.close()
        await asyncio.gather(lines, return_exceptions=True)


async def _take_lines(reader: asyncio.StreamReader, take: Callable[[str], None]) -> None:
    while line := await _line(reader):
        take(line.decode(errors="replace").rstrip())


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; one that is too long comes in pieces."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as rest:
        return rest.partial
    except asyncio.LimitOverrunError:
        return await reader.read(_LINE_LIMIT_BYTES)


async def _end(process: Child) -> None:
    """Ends a child with everything that it started in its group."""
    try:
        if process.running:
            process.kill_group(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TERM_GRACE_S):
                    await process.wait()
    finally:
        process.kill_group()
    await process.wait()


def _environment() -> dict[str, str]:
    """Without what would lead the Python of another environment astray."""
    kept = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONHOME")}
    return {**kept, "PYTHONUNBUFFERED": "1"}


async def describe_servers(
    blocks: Sequence[Mapping[str, Any]], *, python: str = "", cwd: Path | None = None
) -> dict[str, dict[str, Any]]:
    """What the servers' own code says about them, by name (see `gymd.sdk.describe`).

    Args:
        python: of the environment to load them in; "": this one.

    Raises:
        ChildFailed: the process ended without an answer.
    """
    command = [python or sys.executable, *_DESCRIBE]
    process = await Child.start(command, cwd=cwd, env=_environment(), start_new_session=True)
    try:
        async with asyncio.timeout(_DESCRIBE_TIMEOUT_S):
            out, err = await process.communicate(json.dumps(blocks, default=str).encode())
    except TimeoutError:
        text = f"the servers' code did not load within {_DESCRIBE_TIMEOUT_S:g} s"
        raise ChildFailed(text) from None
    finally:
        await asyncio.shield(_end(process))
        process.close()
    try:
        described: dict[str, dict[str, Any]] = json.loads(out)
    except ValueError:
        last = err.decode(errors="replace").strip().splitlines()[-1:]
        raise ChildFailed(f"the servers' code could not be loaded: {''.join(last)}") from None
    return described

"""Runs gymctl as people do: as a process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "gymctl", "start_gymctl"]

TIMEOUT_S = 100


@dataclass
class Outcome:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed on stdout, as JSON."""
        return json.loads(self.out)


async def start_gymctl(
    *arguments: object, address: str = "", cwd: Path | None = None, **environment: str
) -> asyncio.subprocess.Process:
    """Starts gymctl; colours off, and no state of this machine's user."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GYMD_", "XDG_"))}
    variables = {
        "NO_COLOR": "1",
        "GYMD_STATE_DIR": str((cwd or Path("/nonexistent")) / "state"),
        **environment,
    }
    if address:
        variables["GYMD_ADDRESS"] = address
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gymctl",
        *(str(argument) for argument in arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=kept | variables,
        cwd=cwd,
    )


async def gymctl(
    *arguments: object,
    address: str = "",
    stdin: str = "",
    cwd: Path | None = None,
    timeout: float = TIMEOUT_S,
    **environment: str,
) -> Outcome:
    """Runs gymctl to its end, at most `timeout` seconds."""
    process = await start_gymctl(*arguments, address=address, cwd=cwd, **environment)
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Outcome(process.returncode, out.decode(), err.decode())

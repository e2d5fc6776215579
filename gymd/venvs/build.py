"""Builds virtual environments with uv, once; kept by the hash of what they hold."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib
import importlib.metadata
import logging
import os
import shutil
import sys
import sysconfig
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from subprocess import STDOUT

from gymd.child import Child
from gymd.venvs.requirements import Requirements

__all__ = ["Environments", "VenvError", "core_paths", "find_uv"]

log = logging.getLogger(__name__)

# What a host process and the daemon must agree on; a server that needs others cannot run in this mesh.
PINNED = ("grpcio", "protobuf", "pydantic", "pydantic-core", "aiohttp", "orjson", "uvloop")
OWN_PACKAGES = ("gymd", "gymapi", "gymservers", "gymctl")
CORE_PTH = "zz_gymd_core.pth"
BUILD_TIMEOUT_S = 1800.0
LOCK_POLL_S = 0.2
ERROR_LINES = 12


class VenvError(Exception):
    """An environment could not be built; the text holds uv's own words."""


def core_paths() -> list[str]:
    """Folders that hold this process's packages and gymd itself, wherever an editable install keeps them."""
    folders: dict[str, None] = {}
    for name in OWN_PACKAGES:
        with contextlib.suppress(ModuleNotFoundError):
            for place in importlib.import_module(name).__path__:
                folders[str(Path(place).parent)] = None
    for kind in ("purelib", "platlib"):
        folders[sysconfig.get_path(kind)] = None
    return list(folders)


class Environments:
    """The environments below one folder.

    Args:
        folder: where they are kept, one folder for each key.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def ensure(self, requirements: Requirements, progress: Callable[[str], None]) -> str:
        """The Python of the environment for some requirements; builds it if it is not there.

        An environment that is there is used as it is, without any network. Several processes may share
        the folder: a lock lets one build while the others wait.

        Args:
            progress: told what is going on, for people.

        Raises:
            VenvError: uv is missing or failed.
        """
        target = self._folder / requirements.key
        self._folder.mkdir(parents=True, exist_ok=True)
        async with _locked(self._folder / f"{requirements.key}.lock", progress) as lock:
            if not _is_whole(target):
                await self._build(requirements, target, progress, lock)
            _write_core(target)
        return str(_python(target))

    async def _build(
        self, requirements: Requirements, target: Path, progress: Callable[[str], None], lock: int
    ) -> None:
        uv = find_uv()
        if uv is None:
            raise VenvError("uv is not installed, and environments are built with it; run: pip install uv")
        work = target.with_suffix(".new")
        for left in (work, target):  # by a build that was killed, and by who cleared a part of it away
            shutil.rmtree(left, ignore_errors=True)
        log.info("venv_build_started", extra={"key": requirements.key, "folder": requirements.folder})
        try:
            progress("building its environment: uv venv")
            venv = [uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(work)]
            await _run_uv(venv, None, progress, lock)
            if requirements.text:
                progress("building its environment: uv pip install")
                await self._install(uv, requirements, work, progress, lock)
            work.rename(target)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        log.info("venv_build_finished", extra={"key": requirements.key})

    async def _install(
        self, uv: str, requirements: Requirements, work: Path, progress: Callable[[str], None], lock: int
    ) -> None:
        limits = work / "gymd-constraints.txt"
        limits.write_text(_constraints(), encoding="utf-8")
        # By stdin: in a file of ours, relative paths would start at that file.
        install = [uv, "pip", "install", "--python", str(_python(work)), "-r", "-", "-c", str(limits)]
        await _run_uv(install, requirements.folder or None, progress, lock, stdin=requirements.text + "\n")


def _constraints() -> str:
    lines = []
    for name in PINNED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            lines.append(f"{name}=={importlib.metadata.version(name)}\n")
    return "".join(lines)


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _is_whole(target: Path) -> bool:
    """Whether the environment is there, with a Python that still is and a place for packages."""
    return _python(target).exists() and any((target / "lib").glob("python*/site-packages"))


def _write_core(target: Path) -> None:
    """Makes the packages of this process visible behind the environment's own.

    Lines of a .pth file are appended to sys.path after the site-packages they stand in, so whatever the
    server's requirements installed comes first. Written anew when they live elsewhere now.
    """
    site = next((target / "lib").glob("python*/site-packages"))
    text = "".join(f"{path}\n" for path in core_paths())
    file = site / CORE_PTH
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        fresh = file.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(file)


def find_uv() -> str | None:
    """The program uv: of this environment, else of the search path."""
    try:
        from uv import find_uv_bin  # type: ignore[import-not-found,unused-ignore]

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv")


async def _run_uv(
    command: Sequence[str], cwd: str | None, progress: Callable[[str], None], lock: int, *, stdin: str = ""
) -> None:
    env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONHOME")}
    env["UV_NO_PROGRESS"] = "1"
    # It holds the lock too: if this process is killed, nobody builds in the same folder until uv has ended.
    process = await Child.start(
        command, stderr=STDOUT, cwd=cwd, env=env, start_new_session=True, pass_fds=(lock,)
    )
    process.stdin.write(stdin.encode())
    process.stdin.close()
    lines: deque[str] = deque(maxlen=ERROR_LINES)
    try:
        async with asyncio.timeout(BUILD_TIMEOUT_S):
            while raw := await process.stdout.readline():
                if line := raw.decode(errors="replace").strip():
                    lines.append(line)
                    progress(f"building its environment: {line}")
            code = await process.wait()
    except TimeoutError:
        raise VenvError(f"uv did not finish within {BUILD_TIMEOUT_S:g} s: {' '.join(lines)}") from None
    finally:
        if process.running:
            process.kill_group()
            await asyncio.shield(process.wait())
        process.close()
    if code:
        what = " ".join(command[1:3])
        raise VenvError(f"uv {what} failed with code {code}: {' '.join(lines)}")


@contextlib.asynccontextmanager
async def _locked(path: Path, progress: Callable[[str], None]) -> AsyncIterator[int]:
    """Holds a lock file; gives its descriptor.

    Polls, because a blocking flock in a thread could not be cancelled.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        said = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said:
                    progress("waiting for another process that builds the same environment")
                    said = True
                await asyncio.sleep(LOCK_POLL_S)
        yield descriptor
    finally:
        # Closing is not enough if a build left a process behind that has it too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

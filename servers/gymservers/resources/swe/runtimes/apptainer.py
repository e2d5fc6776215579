"""Containers by apptainer or singularity: an unpacked image for each, without a service of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gymd.errors import error
from gymservers.resources.swe.instance import Instance
from gymservers.resources.swe.runtimes.base import IMAGE_VARIABLES, TESTBED, Finished, Machine, shell
from gymservers.resources.swe.runtimes.command import Program, said
from gymservers.resources.swe.runtimes.temporary import TemporaryFolders

__all__ = ["Apptainer"]

_PROGRAMS = ("apptainer", "singularity")


class Apptainer:
    """apptainer, or singularity as it was called.

    Args:
        program: the program.
        folders: where images are unpacked.
        machine: what a container may use; `cpus`, `processes` and `disk_mb` are not enforced.
        image_template: names the image of an instance; None: as the row says.
        cache_dir_template: names the image file (.sif) of an instance; None: it is fetched.
    """

    name = "apptainer"

    def __init__(
        self,
        program: Program,
        folders: TemporaryFolders,
        machine: Machine,
        image_template: str | None,
        cache_dir_template: str | None,
    ) -> None:
        self._program, self._folders, self._machine = program, folders, machine
        self._image_template, self._cache = image_template, cache_dir_template

    @classmethod
    async def find(
        cls, machine: Machine, image_template: str | None, cache_dir_template: str | None
    ) -> Apptainer:
        """Asks the program for its version, and removes what killed servers have left.

        Raises:
            Unusable: it is not installed or does not start.
        """
        program = await Program.find(_PROGRAMS, ["--version"])
        folders = await TemporaryFolders.swept()
        return cls(program, folders, machine, image_template, cache_dir_template)

    def describe(self) -> str:
        """See Runtime."""
        machine = self._machine
        limits = f"{machine.memory_mb} MiB for each process, files of {machine.file_mb} MiB"
        return f"{self._program.version}: no network, own files and processes; {limits}"

    async def open(self, instance: Instance) -> ApptainerBox:
        """See Runtime."""
        values = instance.values()
        source = f"docker://{(self._image_template or '{image}').format(**values)}"
        if self._cache is not None:
            source = self._cache.format(**values)
            if not await asyncio.to_thread(Path(source).exists):
                text = f"there is no image file {source}: correct cache_dir_template, or build the file"
                raise error("SERVER_NOT_READY", text, instance_id=instance.instance_id, image=source)
        folder = self._folders.new()
        try:
            built = await self._program.call(
                "build", "--sandbox", str(folder), source, timeout=self._machine.start_timeout_s
            )
            if built.exit_code:
                text = f"{self._program.name} did not unpack {source}: {said(built)}"
                raise error("SERVER_CODE_FAILED", text, image=source, exception=self.name)
        except BaseException:
            await asyncio.shield(self._folders.remove(folder))
            raise
        return ApptainerBox(self._program, self._folders, self._machine, folder)

    async def close(self) -> None:
        """See Runtime."""
        await self._folders.close()


class ApptainerBox:
    """An unpacked image; processes live as long as the command that started them."""

    def __init__(self, program: Program, folders: TemporaryFolders, machine: Machine, folder: Path) -> None:
        self._program, self._folders, self._machine, self._folder = program, folders, machine, folder

    async def run(self, script: str, *, timeout: float, stdin: bytes | None = None) -> Finished:
        """See Box."""
        if not self._folder.is_dir():
            text = f"the unpacked image {self._folder} is gone; start the rollout again"
            raise error("SESSION_LOST", text, folder=self._folder)
        machine = self._machine
        command, data = shell(script, stdin)
        command[2] = f"ulimit -v {machine.memory_mb << 10} -f {machine.file_mb << 10} -c 0; {command[2]}"
        flags = ["--containall", "--cleanenv", "--writable", "--net", "--network", "none", "--pwd", TESTBED]
        for name, value in {**IMAGE_VARIABLES, **machine.environment}.items():
            flags += ["--env", f"{name}={value}"]
        return await self._program.call(
            *("exec", *flags, str(self._folder), *command),
            timeout=timeout,
            stdin=data,
            output_bytes=machine.output_bytes,
        )

    async def close(self) -> None:
        """See Box."""
        await asyncio.shield(self._folders.remove(self._folder))

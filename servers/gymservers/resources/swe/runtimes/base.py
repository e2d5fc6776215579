"""What every way of running a container answers, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gymservers.resources.swe.instance import Instance

__all__ = [
    "IMAGE_VARIABLES",
    "TESTBED",
    "VARIABLES",
    "Box",
    "Finished",
    "Machine",
    "Runtime",
    "Unusable",
    "shell",
]

TESTBED = "/testbed"
"""Where the images hold the repository."""
VARIABLES = {"PAGER": "cat", "GIT_PAGER": "cat"}
"""Of every command."""
IMAGE_VARIABLES = {"BASH_ENV": "/root/.bashrc", **VARIABLES}
"""Of every command in an image: it switches on its Python environment there, and a shell that is not
interactive reads that file no other way."""


class Unusable(Exception):
    """A runtime cannot be used here; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What one container may use.

    Attributes:
        memory_mb: memory of all its processes, in MiB.
        cpus: processors.
        processes: processes and threads at the same time.
        file_mb: size of one file, in MiB.
        disk_mb: what it may add to the repository's folder, in MiB.
        output_bytes: what a command may print; it is killed when it prints more.
        lifetime_s: seconds after which a container ends by itself, should its server have been killed.
        start_timeout_s: seconds for starting one, pulling its image included.
        environment: variables of every command.
    """

    memory_mb: int
    cpus: float
    processes: int
    file_mb: int
    disk_mb: int
    output_bytes: int
    lifetime_s: int
    start_timeout_s: float
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    Attributes:
        exit_code: its exit status; -1 if it was killed.
        output: what it printed on both streams.
        killed: why it was killed, as a sentence for the model; "" if it ended by itself.
        timed_out: it was killed because its time was up.
    """

    exit_code: int
    output: bytes
    killed: str = ""
    timed_out: bool = False


class Box(Protocol):
    """A container with a repository, in whose folder commands start."""

    async def run(self, script: str, *, timeout: float, stdin: bytes | None = None) -> Finished:
        """Runs a bash script. Whoever cancels the call kills it.

        Args:
            timeout: seconds; then all that it started is killed.
            stdin: its input; the script must then be short. None: it has no input and may have any length.

        Raises:
            GymdError: the container broke, which says nothing of the script.
        """

    async def close(self) -> None:
        """Kills and removes it; closing twice is safe."""


class Runtime(Protocol):
    """Makes containers.

    Attributes:
        name: docker, podman, apptainer or bubblewrap.
    """

    name: str

    def describe(self) -> str:
        """One line for people: the program, and what it isolates."""

    async def open(self, instance: Instance) -> Box:
        """Makes a container of the instance's image; what a cancelled call had begun is removed.

        Raises:
            GymdError: there is no such image or folder, or the runtime failed; the text says what to do.
        """

    async def close(self) -> None:
        """Removes what is left."""


def shell(script: str, stdin: bytes | None) -> tuple[list[str], bytes]:
    """The command line and the input by which bash runs a script, both streams as one.

    A long script goes by the input, since one argument of a program holds at most 128 KiB.
    """
    if stdin is None:
        return ["bash", "-c", 'exec 2>&1; eval "$(cat)" </dev/null'], script.encode(errors="replace")
    return ["bash", "-c", f"exec 2>&1\n{script}"], stdin

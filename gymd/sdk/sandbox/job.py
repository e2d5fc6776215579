"""What is to be run, and what every way of running it has to answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from gymd.child import Child
from gymd.errors import GymdError, error
from gymd.sdk.sandbox.limits import Limits

__all__ = ["WORKSPACE", "Job", "Running", "did_not_start"]

WORKSPACE = "/workspace"
"""Where a job sees its working folder, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job.

    Attributes:
        argv: the command.
        files: put into its working folder.
        limits: what it may use.
        env: added to its environment.
        workspace: a folder of the host for its working folder; None: an empty one that goes with the job.
        mount: where the job sees its working folder: one name at the root.
        read_only: folders of the host to show under their own names.
        root: a folder to show as the root file system instead of the host's.
        init: whether a small process of ours stands between the job and its namespace. Without it the command
            itself is process 1: no other process of the sandbox can kill it, and when it ends, all end.
    """

    argv: tuple[str, ...]
    files: Mapping[PurePosixPath, bytes]
    limits: Limits
    env: Mapping[str, str]
    workspace: Path | None = None
    mount: str = WORKSPACE
    read_only: tuple[Path, ...] = ()
    root: Path | None = None
    init: bool = True


class Running(Protocol):
    """A job that was started.

    Attributes:
        child: what was started; it ends when all of the job has ended.
    """

    child: Child

    def kill(self) -> None:
        """Kills all processes of the job."""

    def out_of_memory(self) -> bool:
        """Whether the job holds more than it may, or lost a process because of that."""

    def began(self) -> bool:
        """Whether the command was executed at all; asked for when the job has ended."""

    async def clean(self) -> None:
        """Removes what the job leaves; called once, when it has ended."""


def did_not_start(why: str) -> GymdError:
    """The error for a sandbox that broke before it could run anything."""
    text = f"the sandbox did not start: {' '.join(why.split()) or 'no reason given'}"
    return error("SERVER_CODE_FAILED", text, exception="Sandbox", why=why)

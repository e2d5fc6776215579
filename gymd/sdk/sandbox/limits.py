"""What a job in the sandbox may use, and what is known of it when it has ended."""

from __future__ import annotations

import math
import os
import resource
from dataclasses import dataclass, fields
from pathlib import Path

__all__ = ["MB", "Limits", "SandboxResult", "apply_limits", "same_user_tasks"]

MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may use. Where nothing else is said, the job is killed or its system call fails.

    Attributes:
        cpu_s: processor time of each process, in seconds.
        wall_s: time of the whole job, in seconds; then every process of it is killed.
        memory_mb: memory of all its processes and temporary files together, in MiB.
        processes: processes and threads at the same time.
        output_bytes: what it may print on each of stdout and stderr; a job that prints more is killed.
        file_mb: size of one file, and of each of the temporary file systems (/tmp, /workspace), in MiB.
        open_files: open files of each process; in a sandbox some dozens more.
        stack_mb: stack of each process, in MiB; also what a thread reserves of the address space.
        address_space_mb: address space of each process, in MiB; None: memory_mb. Runtimes that reserve far
            more than they use (Node.js, Java, Go) need more.
    """

    cpu_s: float = 10.0
    wall_s: float = 12.0
    memory_mb: int = 1024
    processes: int = 32
    output_bytes: int = MB
    file_mb: int = 64
    open_files: int = 256
    stack_mb: int = 64
    address_space_mb: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{field.name} is {value}, and must be a positive number")


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """How a job ended.

    Attributes:
        exit_code: its exit status; 128 + n if signal n ended it, as shells report it.
        signal: the number of that signal, else None.
        stdout: what it printed, at most `output_bytes`; empty where the caller read it as it came.
        stderr: the same.
        timed_out: it was killed at `wall_s`, or used up `cpu_s`.
        out_of_memory: it was killed because it used more than `memory_mb`, or had more than `processes` where
            the kernel does not hold it to that. A single allocation that fails does not count: the program
            sees that itself (MemoryError).
        output_truncated: it was killed because it printed more than `output_bytes`.
        wall_s: how long it took, starting and cleaning up included, in seconds.
    """

    exit_code: int
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    out_of_memory: bool
    output_truncated: bool
    wall_s: float


def apply_limits(pid: int, limits: Limits, tasks: int | None, more_files: int = 0) -> None:
    """Sets the resource limits of a process that has not begun yet; its children inherit them.

    Args:
        pid: the process.
        limits: what it may use.
        tasks: most processes and threads of its user; None: not limited, where others share the user.
        more_files: open files that it needs beside those of the job.
    """
    space = limits.memory_mb if limits.address_space_mb is None else limits.address_space_mb
    cpu = math.ceil(limits.cpu_s)
    wanted = {
        resource.RLIMIT_AS: space * MB,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_FSIZE: limits.file_mb * MB,
        resource.RLIMIT_NOFILE: limits.open_files + more_files,
        resource.RLIMIT_STACK: limits.stack_mb * MB,
        resource.RLIMIT_CORE: 0,
    }
    if tasks is not None:
        wanted[resource.RLIMIT_NPROC] = tasks
    for kind, value in wanted.items():
        # The processor's hard limit kills what survives the signal of the soft one, a second later.
        hard = value + 1 if kind == resource.RLIMIT_CPU else value
        _, allowed = resource.prlimit(pid, kind)
        if allowed != resource.RLIM_INFINITY:
            hard = min(hard, allowed)
        resource.prlimit(pid, kind, (min(value, hard), hard))


def same_user_tasks() -> int:
    """How many processes and threads the own user has now."""
    user, count = os.getuid(), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == user:
                    count += len(os.listdir(entry / "task"))
            except OSError:  # it has ended meanwhile
                continue
    return count

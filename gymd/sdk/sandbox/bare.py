"""Starts jobs without isolation: what remains where no sandbox is possible and the user insists.

A job has resource limits, a process group of its own, a deadline, a temporary folder and a clean environment.
It can read all that the server can read, reach the network, and leave processes behind by starting a session
of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

from gymd.child import Child
from gymd.sdk.sandbox.host import host_view, write_files
from gymd.sdk.sandbox.job import Job, did_not_start
from gymd.sdk.sandbox.limits import MB, apply_limits
from gymd.sdk.sandbox.watch import descendants, memory_of_processes

__all__ = ["start_bare"]

# Waits for a line before it becomes the job, so that the limits hold from its first instruction on.
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@"', "sh")


async def start_bare(job: Job) -> _Running:
    """Starts a job; raises Internal (SERVER_CODE_FAILED) if that fails."""
    folder = tempfile.mkdtemp(prefix="gymd-job-")
    child = None
    try:
        place = job.workspace or Path(folder, "workspace")
        place.mkdir(exist_ok=True)
        write_files(place, job.files)
        path = f"{host_view().python.parent}:/usr/local/bin:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", **job.env}
        child = await Child.start((*_GATE, *job.argv), cwd=place, env=environment, start_new_session=True)
        apply_limits(child.pid, job.limits, None)
        child.stdin.write(b"\n")
    except BaseException as failure:
        if child is not None:
            child.kill()
            child.reap()
            child.close()
        _remove(folder)
        if isinstance(failure, OSError):
            raise did_not_start(str(failure)) from None
        raise
    return _Running(child, job, folder)


class _Running:
    """A job in a process group of its own."""

    def __init__(self, child: Child, job: Job, folder: str) -> None:
        self.child = child
        self._limits, self._folder = job.limits, folder

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)

    def out_of_memory(self) -> bool:
        processes, limit = descendants(self.child.pid), self._limits.memory_mb * MB
        # The kernel counts all processes of our user together, so that their number is watched here too.
        return len(processes) > self._limits.processes or memory_of_processes(processes, limit) > limit

    def began(self) -> bool:
        return True

    async def clean(self) -> None:
        _remove(self._folder)


def _remove(folder: str) -> None:
    for here, folders, _ in os.walk(folder):
        for path in (os.path.join(here, name) for name in folders):
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # a job may have taken its rights away from itself
    shutil.rmtree(folder, ignore_errors=True)

"""Starts jobs in namespaces of their own by means of bubblewrap (`bwrap`).

bwrap makes the namespaces and tells us the process id of the first process in them. That process waits; we
set its limits, put it into its control group, and if we are root give its namespace a user that is not root.
Then it goes on. There is no moment in which the job runs with less than all of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from gymd.child import Child
from gymd.errors import GymdError, error
from gymd.sdk.sandbox.cgroups import Cgroup, make_cgroup
from gymd.sdk.sandbox.host import hand_over, write_files
from gymd.sdk.sandbox.job import Job, did_not_start
from gymd.sdk.sandbox.limits import MB, Limits, apply_limits, same_user_tasks
from gymd.sdk.sandbox.seccomp import filter_program
from gymd.sdk.sandbox.users import INSIDE, JobUser, job_user, workspace_user
from gymd.sdk.sandbox.view import arguments
from gymd.sdk.sandbox.watch import descendants, memory_of_files, memory_of_processes, sandbox_processes

__all__ = ["Bubblewrap"]

START_TIMEOUT_S = 30.0
"""For bwrap to make the namespaces; a few milliseconds on a machine that is not overloaded."""

_BWRAP_FILES = 32
"""What bwrap has open itself while it sets up the sandbox, where the limits hold already."""

# The small init: starts the job, waits for it and for what it leaves, and ends as the job ended. What a shell
# has to say about that ("Killed") is not the job's output.
_INIT = ("/bin/sh", "-c", 'exec 9>&2 2>/dev/null; (exec "$@" 2>&9 9>&-); exit $?', "sh")

_TO_BECOME_THE_USER = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_DAC_READ_SEARCH")
"""Kept until setpriv drops them; the last one to enter a workspace that is open to the job's user only."""
_BECOME_THE_USER = (
    *(f"--reuid={INSIDE}", f"--regid={INSIDE}", "--clear-groups"),
    *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--pdeathsig=KILL", "--"),
)

# What a job that is not isolated would not find in /proc/self/status and /proc/net/dev.
_ISOLATED = {
    "it has capabilities": r"CapEff:\t0+\n",
    "it may gain privileges": r"NoNewPrivs:\t1\n",
    "it has no system call filter": r"Seccomp:\t2\n",
    "it sees the processes of the machine": r"\nPid:\t\d\n",
    "it has a network": r"\|[^\n]*\n *lo:[^\n]*\n$",
}


class Bubblewrap:
    """Runs jobs with one bwrap.

    Args:
        binary: the program; 0.8 or newer.

    Attributes:
        version: its name and version; known after a trial.
        memory: how the memory of jobs is limited; known after a trial.
    """

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        self.version = self.memory = ""

    def trial(self) -> str:
        """Runs a job that looks around: "" if it is isolated, else what stands in the way. Some 20 ms."""
        job = Job(("cat", "/proc/self/status", "/proc/net/dev"), {}, Limits(), {})
        try:
            version = subprocess.run([self.binary, "--version"], capture_output=True, text=True, timeout=10)
            self.version = version.stdout.strip()
            with contextlib.closing(_Launch(self.binary, job, job_user())) as launch:
                seen = launch.try_out().decode()
                self.memory = f"limited by cgroups v{launch.cgroup.version}" if launch.cgroup else "watched"
        except (OSError, subprocess.TimeoutExpired, GymdError) as failure:
            return str(failure)
        missing = [name for name, pattern in _ISOLATED.items() if not re.search(pattern, seen)]
        return f"a job there is not isolated: {', '.join(missing)}" if missing else ""

    async def start(self, job: Job) -> _Running:
        """Starts a job; raises Internal (SERVER_CODE_FAILED) if the sandbox breaks."""
        user = job_user()
        if job.workspace is not None:
            user = workspace_user(job.workspace)
            await asyncio.to_thread(_prepare_workspace, job.workspace, job, user)
        launch = _Launch(self.binary, job, user)
        child = None
        try:
            child = await Child.start(launch.argv, pass_fds=launch.inherited)
            launch.close_inherited()
            async with asyncio.timeout(START_TIMEOUT_S):
                info = await _read(launch.info, lambda data: data.endswith(b"}\n"))
            launch.release(info)
        except BaseException as failure:
            why = await asyncio.shield(_abandon(child, launch))
            if isinstance(failure, TimeoutError):
                raise did_not_start(f"bwrap made no namespaces within {START_TIMEOUT_S:g} s") from None
            if isinstance(failure, OSError | ValueError):
                raise did_not_start(why or str(failure)) from None
            raise
        return _Running(child, launch, job)


def _prepare_workspace(workspace: Path, job: Job, user: JobUser | None) -> None:
    if user is None:
        write_files(workspace, job.files)
        return
    if workspace.stat().st_uid != user.user:
        hand_over(workspace, user.user, user.group)
    write_files(workspace, job.files, user.user, user.group)


async def _abandon(child: Child | None, launch: _Launch) -> str:
    """Ends what was half started; answers what it said on stderr."""
    said = b""
    if child is not None:
        # Those that are deepest in the tree first: bwrap's own child may not yet die with its parent.
        for folder in reversed(descendants(child.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(folder.name), signal.SIGKILL)
        said = await child.stderr.read()
        await child.ended()
        child.reap()
        child.close()
    launch.close()
    if launch.cgroup is not None:
        await launch.cgroup.remove()
    return said.decode(errors="replace")


async def _read(descriptor: int, complete: Callable[[bytes], bool]) -> bytes:
    """Reads a pipe until it is at its end or complete."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    data = b""

    def readable() -> None:
        nonlocal data
        chunk = os.read(descriptor, 4096)
        data += chunk
        if (not chunk or complete(data)) and not done.done():
            done.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        await done
    finally:
        loop.remove_reader(descriptor)
    return data


class _Launch:
    """The command line of one job and the pipes that go with it.

    Attributes:
        argv: what to execute.
        inherited: descriptors that it needs.
        info: where bwrap tells the process id.
        status: where it tells that the command was executed.
        init: process id of the first process of the sandbox, once known.
        cgroup: its control group, if there is one.
    """

    def __init__(self, binary: Path, job: Job, user: JobUser | None) -> None:
        self._job, self._user = job, user
        self._open: set[int] = set()
        self.inherited: list[int] = []
        self.init, self._handle = 0, -1
        self.cgroup: Cgroup | None = None
        try:
            self.info, info = self._pipe()
            self.status, status = self._pipe()
            gate, self._gate = self._pipe()
            self.inherited += [info, status, gate]
            self.argv = [
                str(binary),
                *("--info-fd", str(info), "--json-status-fd", str(status)),
                *("--block-fd" if user is None else "--userns-block-fd", str(gate)),
                *("--seccomp", str(self._memory(filter_program()))),
                *arguments(job, self._memory, () if user is None else _setpriv(job.root is not None)[0]),
                *self._command(),
            ]
        except BaseException:
            self.close()
            raise

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def _memory(self, content: bytes) -> int:
        """A descriptor from which bwrap reads this content."""
        descriptor = os.memfd_create("sandbox")
        self._open.add(descriptor)
        self.inherited.append(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _command(self) -> Iterator[str]:
        yield from ("--cap-drop", "ALL")
        if self._user is None:
            yield from ("--uid", str(INSIDE), "--gid", str(INSIDE), "--")
        else:
            # bwrap stays root of its own namespace, since it may have to pass folders that only root may;
            # then setpriv becomes the job's user and drops all that is left.
            for capability in _TO_BECOME_THE_USER:
                yield from ("--cap-add", capability)
            yield from ("--", *_setpriv(self._job.root is not None)[1], *_BECOME_THE_USER)
        yield from (*_INIT, *self._job.argv) if self._job.init else self._job.argv

    def close_inherited(self) -> None:
        """The child has them now."""
        for descriptor in self.inherited:
            os.close(descriptor)
        self._open.difference_update(self.inherited)

    def release(self, info: bytes) -> None:
        """Sets up the first process of the sandbox, which waits for that, and lets it go on.

        Raises:
            OSError, ValueError: bwrap has ended; its stderr says why.
        """
        self.init = int(json.loads(info)["child-pid"])
        try:
            self._handle = os.pidfd_open(self.init)
            self._open.add(self._handle)
        except OSError as failure:
            if failure.errno != errno.ENOSYS:  # Linux before 5.3: the process id has to do
                raise
        tasks = self._job.limits.processes + self._job.init
        if self._user is not None:
            for name, outside in (("gid_map", self._user.group), ("uid_map", self._user.user)):
                # Root of the namespace is root here too, until setpriv has made the job's user of it.
                Path(f"/proc/{self.init}/{name}").write_text(f"0 0 1\n{INSIDE} {outside} 1\n")
        own = len(self.inherited) + _BWRAP_FILES
        apply_limits(self.init, self._job.limits, tasks if self._user else _own_tasks(tasks), own)
        self.cgroup = make_cgroup(self._job.limits, tasks)
        if self.cgroup is not None:
            self.cgroup.add(self.init)
        os.write(self._gate, b"1")
        os.close(self._gate)
        self._open.remove(self._gate)

    def kill(self) -> None:
        """Kills the first process of the sandbox, and with it all others."""
        with contextlib.suppress(ProcessLookupError):
            if self._handle in self._open:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            elif self.init:
                os.kill(self.init, signal.SIGKILL)

    def try_out(self) -> bytes:
        """Runs the job here and now; what it printed.

        Raises:
            OSError: it failed; the text is what was said.
        """
        process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=self.inherited,
        )
        try:
            self.close_inherited()
            info = b""
            while not info.endswith(b"}\n") and (chunk := os.read(self.info, 4096)):
                info += chunk
            with contextlib.suppress(OSError, ValueError):  # it has ended, and says why
                self.release(info)
            printed, said = process.communicate(timeout=START_TIMEOUT_S)
        finally:
            self.kill()
            process.kill()
            process.communicate()
            if self.cgroup is not None:
                self.cgroup.discard()
        if process.returncode != 0:
            raise OSError(said.decode(errors="replace").strip() or "no reason given")
        return printed

    def close(self) -> None:
        """Closes all descriptors."""
        while self._open:
            os.close(self._open.pop())


class _Running:
    """A job under bwrap."""

    def __init__(self, child: Child, launch: _Launch, job: Job) -> None:
        self.child = child
        self._launch = launch
        self._limit = job.limits.memory_mb * MB
        # The kernel keeps to this, except for a root that has no other user to give.
        self._tasks = job.limits.processes + job.init
        self._temporary = ("tmp", "dev/shm") if job.workspace else ("tmp", "dev/shm", job.mount.lstrip("/"))

    def kill(self) -> None:
        self._launch.kill()

    def out_of_memory(self) -> bool:
        if self._launch.cgroup is not None:
            return self._launch.cgroup.out_of_memory()
        processes = sandbox_processes(self._launch.init)
        left = self._limit - memory_of_files(self._launch.init, self._temporary)
        return left < 0 or len(processes) > self._tasks or memory_of_processes(processes, left) > left

    def began(self) -> bool:
        os.set_blocking(self._launch.status, False)
        with contextlib.suppress(BlockingIOError):
            return b'"exit-code"' in os.read(self._launch.status, 4096)
        return False

    async def clean(self) -> None:
        self._launch.close()
        if self._launch.cgroup is not None:
            await self._launch.cgroup.remove()


def _own_tasks(tasks: int) -> int:
    """The limit for a job that runs as our own user.

    Since Linux 5.14 a namespace counts its own processes; before, all processes of the user count.
    """
    major, minor = map(int, re.findall(r"\d+", os.uname().release)[:2])
    return tasks if (major, minor) >= (5, 14) else tasks + same_user_tasks()


@functools.cache
def _setpriv(image: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """setpriv as a job's sandbox has it: arguments of bwrap that show it, and the command.

    Under the root file system of an image the host's program needs the host's libraries beside it.
    """
    program = shutil.which("setpriv")
    if program is None:
        text = "a sandbox for a server that runs as root needs setpriv: install util-linux"
        raise error("SERVER_NOT_READY", text, program="setpriv")
    if not image:
        return (), (program,)
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, timeout=10)
    folder, loader, binds = "/.sandbox", "", ["--ro-bind", program, "/.sandbox/setpriv"]
    # Lines such as "libc.so.6 => /lib/libc.so.6 (0x...)", and "/lib64/ld-linux.so.2 (0x...)" for the loader.
    for name, path in re.findall(r"^\s*(\S+) (?:=> )?(/\S+)? ?\(0x", listed.stdout, re.MULTILINE):
        shown = f"{folder}/{os.path.basename(name)}"
        if path or name.startswith("/"):
            binds += ["--ro-bind", path or name, shown]
            loader = loader if path else shown
    return tuple(binds), (loader, "--library-path", folder, f"{folder}/setpriv")

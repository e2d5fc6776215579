"""bwrap's arguments for what a job sees: namespaces, files, environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from gymd.sdk.sandbox.host import HostView, host_view
from gymd.sdk.sandbox.job import Job
from gymd.sdk.sandbox.limits import MB
from gymd.sdk.sandbox.users import INSIDE

__all__ = ["TAKEN", "arguments"]

_NAMESPACES = ("user", "ipc", "pid", "net", "uts", "cgroup")
_SHARED_MEMORY_MB = 64
_FROM_ETC = ("ld.so.cache", "alternatives")
_ETC = {
    "passwd": f"root:x:0:0:root:/tmp:/bin/sh\nnobody:x:{INSIDE}:{INSIDE}:nobody:/tmp:/bin/sh\n",
    "group": f"root:x:0:\nnogroup:x:{INSIDE}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
}
_OURS = frozenset({"proc", "dev", "sys", "tmp", ".sandbox"})
"""Names at the root that an image does not bring along."""
TAKEN = _OURS | {"bin", "etc", "lib", "lib32", "lib64", "libx32", "run", "sbin", "usr", "var"}
"""Names at the root where no working folder can be."""


def arguments(job: Job, descriptor: Callable[[bytes], int], binds: Iterable[str] = ()) -> Iterator[str]:
    """All arguments but those for identity and command.

    Args:
        job: what is to run.
        descriptor: gives a descriptor from which a content can be read.
        binds: arguments that show further files.
    """
    for name in _NAMESPACES:
        yield f"--unshare-{name}"
    yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "sandbox", "--clearenv")
    for name, value in _environment(job).items():
        yield from ("--setenv", name, value)
    # First, since what is shown may lie below it.
    yield from _temporary("/tmp", job.limits.file_mb, "1777")
    if job.root is None:
        yield from _host(host_view(), descriptor)
    else:
        yield from _image(job.root, _OURS | {job.mount.lstrip("/")})
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from _temporary("/dev/shm", min(job.limits.file_mb, _SHARED_MEMORY_MB), "1777")
    for folder in job.read_only:
        yield from _shown(folder)
    yield from binds
    yield from _workspace(job, descriptor)
    # What is left writable are the temporary file systems with their limits, and the workspace.
    hidden = host_view().hidden if job.root is None else ()
    for path in ("/proc", "/dev", "/", *map(str, hidden)):
        yield from ("--remount-ro", path)
    yield from ("--chdir", job.mount)


def _environment(job: Job) -> dict[str, str]:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if job.root is None:
        path = f"{host_view().python.parent}:{path}"
    return {"PATH": path, "HOME": "/tmp", "TMPDIR": "/tmp", "USER": "nobody", "LANG": "C.UTF-8", **job.env}


def _host(view: HostView, descriptor: Callable[[bytes], int]) -> Iterator[str]:
    for folder in view.shown:
        yield from _shown(folder)
    for link, target in view.links:
        yield from ("--symlink", target, link)
    for folder in view.hidden:
        yield from ("--perms", "0755", "--size", "4096", "--tmpfs", str(folder))
    for name, content in _ETC.items():
        yield from ("--perms", "0644", "--file", str(descriptor(content.encode())), f"/etc/{name}")
    for name in _FROM_ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _image(root: Path, but: frozenset[str]) -> Iterator[str]:
    """Shows the entries of an image at the root, so that there is room beside them."""
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        if entry.name in but:
            continue
        if entry.is_symlink():
            yield from ("--symlink", os.readlink(entry.path), f"/{entry.name}")
        elif entry.is_dir() or entry.is_file():
            yield from ("--ro-bind", entry.path, f"/{entry.name}")


def _workspace(job: Job, descriptor: Callable[[bytes], int]) -> Iterator[str]:
    if job.workspace is not None:
        yield from ("--bind", str(job.workspace), job.mount)
        return
    yield from _temporary(job.mount, job.limits.file_mb, "0777")
    made: set[PurePosixPath] = set()
    for path, content in job.files.items():
        for folder in reversed(path.parents[:-1]):
            if folder not in made:
                made.add(folder)
                yield from ("--perms", "0777", "--dir", f"{job.mount}/{folder}")
        yield from ("--perms", "0666", "--file", str(descriptor(content)), f"{job.mount}/{path}")


def _shown(folder: Path) -> Iterable[str]:
    """A folder of the host, read-only under its own name; the folders above it show nothing else."""
    for parent in reversed(folder.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(parent))
    yield from ("--ro-bind", str(folder), str(folder))


def _temporary(folder: str, size_mb: int, mode: str) -> Iterable[str]:
    return ("--perms", mode, "--size", str(size_mb * MB), "--tmpfs", folder)

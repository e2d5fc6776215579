"""What of this machine a job may see, and folders that are handed to it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import gymd
from gymd.errors import error

__all__ = ["HostView", "checked_files", "hand_over", "host_view", "write_files"]

_SYSTEM = Path("/usr")
_BESIDE_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Next to /usr; links into it on most systems."""
_MOST_FILES = 256


@dataclass(frozen=True, slots=True)
class HostView:
    """What a job sees of the host, all of it read-only.

    Attributes:
        shown: folders, under their own names.
        links: symbolic links at the root, with where they point.
        hidden: folders inside `shown` that look empty: installed packages (tasks with their solutions may be
            among them), sources, the project, the home.
        python: the interpreter, without the packages of its environment.
    """

    shown: tuple[Path, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[Path, ...]
    python: Path


@functools.cache
def host_view() -> HostView:
    """Computed once: /usr, the links into it, and the parts of this Python that lie elsewhere."""
    prefix = Path(sys.base_prefix).resolve()
    shown, links = [_SYSTEM], []
    for name in _BESIDE_SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            links.append((f"/{name}", os.readlink(path)))
        elif path.is_dir():
            shown.append(path)
    if prefix != Path("/") and not prefix.is_relative_to(_SYSTEM):
        shown += [path for name in ("bin", "lib", "lib64") if (path := prefix / name).is_dir()]
    python = Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
    return HostView(tuple(shown), tuple(links), _hidden(prefix, shown), python)


def _hidden(prefix: Path, shown: list[Path]) -> tuple[Path, ...]:
    found = {_SYSTEM / "src", _SYSTEM / "local" / "src"}
    for place in (_SYSTEM, _SYSTEM / "local", prefix):
        found.update(place.glob("lib*/python3*/*-packages"))
    own = [Path.home(), Path.cwd(), Path(gymd.__file__).resolve().parents[1]]
    needed = [*shown, prefix / "bin", prefix / "lib"]
    found.update(path for path in own if not any(place.is_relative_to(path) for place in needed))
    inside = sorted(
        path
        for path in found
        if path.is_dir() and not path.is_symlink() and any(path.is_relative_to(place) for place in shown)
    )
    return tuple(
        path for path in inside if not any(path != other and path.is_relative_to(other) for other in inside)
    )


def checked_files(files: Mapping[str, bytes], limit_bytes: int) -> dict[PurePosixPath, bytes]:
    """Files for a job's working folder.

    Raises:
        InvalidRequest: a path is absolute or leaves the folder, or they are too many or too large.
    """
    checked = {PurePosixPath(name): content for name, content in files.items()}
    for path in checked:
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in str(path):
            text = f"{str(path)!r} is not inside the working folder: use a relative name without .."
            raise error("INVALID_REQUEST", text, field="files", name=path)
    size = sum(map(len, checked.values()))
    if len(checked) > _MOST_FILES or size > limit_bytes:
        text = (
            f"{len(checked)} files of {size} bytes are too much for a job ({_MOST_FILES} files, {limit_bytes}"
            " bytes by its file_mb): hand them over as a workspace folder"
        )
        raise error("INVALID_REQUEST", text, field="files", files=len(checked), size_bytes=size)
    return checked


def write_files(folder: Path, files: Mapping[PurePosixPath, bytes], user: int = -1, group: int = -1) -> None:
    """Writes files into a folder in which untrusted code has run before.

    No symbolic link in it is followed: what is in the way of a file is removed, and a link in the place of a
    folder is an error.

    Raises:
        InvalidRequest: a part of a file's path is no folder, or the file is one.
    """
    for path, content in files.items():
        with contextlib.ExitStack() as stack:
            here = os.open(folder, os.O_DIRECTORY | os.O_PATH)
            stack.callback(os.close, here)
            try:
                for part in path.parts[:-1]:
                    here = _open_folder(here, part, user, group)
                    stack.callback(os.close, here)
                _write_new(here, path.name, content, user, group)
            except OSError as failure:
                text = f"cannot write {str(path)!r} into the workspace: {failure.strerror}"
                raise error("INVALID_REQUEST", text, field="files", name=path) from None


def _open_folder(parent: int, name: str, user: int, group: int) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o777, dir_fd=parent)
        os.chown(name, user, group, dir_fd=parent, follow_symlinks=False)
    return os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_PATH, dir_fd=parent)


def _write_new(parent: int, name: str, content: bytes, user: int, group: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=parent)
    with os.fdopen(file, "wb") as stream:
        os.fchown(file, user, group)
        stream.write(content)


def hand_over(folder: Path, user: int, group: int) -> None:
    """Makes a user the owner of a folder and of all in it; links are not followed."""
    for _, folders, names, here in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *names):
            os.chown(name, user, group, dir_fd=here, follow_symlinks=False)
    os.chown(folder, user, group)

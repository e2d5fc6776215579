"""What a server needs beyond the packages that gymd runs on, read from the requirements.txt beside it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gymd import __version__
from gymd.config import ServerSpec, builtin_folder

__all__ = ["Requirements", "normalise", "requirements_met", "requirements_of"]

FILE = "requirements.txt"
# NeMo Gym's servers list their framework; here that is gymd, which every environment sees anyway.
# Options whose value is a path or an address.
_PLACE = re.compile(r"(-[ecfr]|--(editable|constraint|find-links|requirement))(\s*=\s*|\s+|(?<=-[ecfr]))")
_ARCHIVE = re.compile(r"\.(whl|zip|tar(\.\w+)?|tgz)$")
_FRAMEWORK = re.compile(r"^(-e\s+)?(nemo[-_]gym|gymd)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Requirements:
    """A requirements file."""

    text: str
    """Normalised: no comments, no blank lines, order kept (options come first)."""
    folder: str
    """Where relative paths in it start."""

    @property
    def key(self) -> str:
        """Names the environment: the same Python, requirements and gymd give the same key.

        Where a relative path stands in them, only in the same folder.
        """
        python = (
            platform.python_implementation(),
            platform.python_version(),
            platform.machine(),
            sys.platform,
        )
        place = (str(Path(self.folder).resolve()),) if _has_relative_path(self.text) else ()
        text = "\n".join((*python, self.text, __version__, *place))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _has_relative_path(text: str) -> bool:
    """Whether a line means a file or a folder by where the requirements stand; rather once too often."""
    for line in text.splitlines():
        option = _PLACE.match(line)
        for number, word in enumerate((line[option.end() :] if option else line).split()):
            path = word.partition("[")[0].rpartition("@")[2].removeprefix("file:")
            looks_like_one = path.startswith(".") or "/" in path or _ARCHIVE.search(path)
            if (looks_like_one or (option and not number)) and "://" not in word and path[:1] != "/":
                return True
    return False


def normalise(text: str) -> str:
    """A requirements text without what does not matter."""
    joined = text.replace("\\\n", " ")
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return "\n".join(line for line in lines if line and not _FRAMEWORK.match(line))


def requirements_of(server: ServerSpec) -> Requirements | None:
    """The requirements of a server; None if it has none."""
    folder = _folder(server)
    if folder is None or not (folder / FILE).is_file():
        return None
    text = normalise((folder / FILE).read_text(encoding="utf-8"))
    return Requirements(text, str(folder)) if text else None


def _folder(server: ServerSpec) -> Path | None:
    place, colon, _ = (server.entrypoint or "").rpartition(":")
    if not colon:
        return builtin_folder(server.kind, server.implementation)
    if place.endswith(".py"):
        return Path(place).resolve().parent
    try:
        spec = importlib.util.find_spec(place)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def requirements_met(requirements: Requirements) -> bool:
    """Whether this process's own environment holds everything already, in fitting versions."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:  # versions cannot be compared: an environment of its own is always right
        return False
    for line in requirements.text.splitlines():
        try:
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate():
                continue
            if requirement.url or requirement.extras:
                return False
            version = importlib.metadata.version(requirement.name)
        except (InvalidRequirement, importlib.metadata.PackageNotFoundError):
            return False
        if not requirement.specifier.contains(version, prereleases=True):
            return False
    return True

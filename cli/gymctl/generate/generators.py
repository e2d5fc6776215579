"""The environments that can make tasks, and the Python that has what they need."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from gymctl.collect.plan import nearest
from gymctl.errors import CliError
from gymctl.output import note
from gymctl.state import state_dir
from gymd.config import builtin_folder, builtin_names
from gymd.config.builtin import modern_type_name
from gymd.venvs import Environments, Requirements, VenvError, normalise, requirements_met

__all__ = ["Generator", "find_generator", "python_for"]

FILE = "generate.py"
REQUIREMENTS = "requirements.txt"
_PACKAGES = {"resources": "resources", "agent": "agents"}


@dataclass(frozen=True)
class Generator:
    """An environment that can make tasks."""

    name: str
    folder: Path
    module: str = ""
    """Of a built-in one; "": the file is loaded by its path."""

    @property
    def requirements(self) -> Requirements | None:
        """What it needs beyond gymd; None if nothing."""
        file = self.folder / REQUIREMENTS
        text = normalise(file.read_text(encoding="utf-8")) if file.is_file() else ""
        return Requirements(text, str(self.folder)) if text else None

    @property
    def install(self) -> str:
        """What the user can do where packages are missing."""
        return f"Install what it needs: pip install -r {self.folder / REQUIREMENTS}"


def find_generator(argument: str) -> Generator:
    """The environment of a name, or in a folder.

    Raises:
        CliError: there is none, or it makes no tasks.
    """
    if "/" in argument or argument == ".":
        folder = Path(argument).resolve()
        if not (folder / FILE).is_file():
            raise CliError(
                f"{folder} has no {FILE}", "Name a folder that has one, or a built-in environment."
            )
        return Generator(folder.name, folder)
    name = modern_type_name(argument)
    can = _able()
    if name in can:
        return can[name]
    known = {one for kind in _PACKAGES for one in builtin_names(kind)}
    list_of_able = f"These can: {', '.join(can) or 'none'}."
    if name in known:
        raise CliError(f"{name} makes no tasks: it has no {FILE}", list_of_able)
    near = nearest(argument, sorted(known))
    hint = f"{near} {list_of_able}" if near.startswith("Did") else list_of_able
    raise CliError(f"there is no environment {argument}", hint)


def _able() -> dict[str, Generator]:
    """The built-in environments that can make tasks, by name."""
    found = {}
    for kind, package in _PACKAGES.items():
        for name in builtin_names(kind):
            folder = builtin_folder(kind, name)
            if folder is not None and (folder / FILE).is_file():
                module = f"gymservers.{package}.{name}.{FILE.removesuffix('.py')}"
                found[name] = Generator(name, folder, module)
    return found


def python_for(generator: Generator) -> str:
    """A Python that has what the environment needs: this one, else that of an environment made for it.

    Raises:
        CliError: no such environment can be made.
    """
    requirements = generator.requirements
    if requirements is None or requirements_met(requirements):
        return sys.executable
    told: set[str] = set()

    def tell(text: str) -> None:
        # Of many lines only how each kind of work begins.
        kind = " ".join(text.split()[:5])
        if kind not in told:
            told.add(kind)
            note(f"{generator.name}: {text}")

    try:
        return asyncio.run(Environments(state_dir() / "venvs").ensure(requirements, tell))
    except VenvError as failure:
        raise CliError(f"{generator.name}: {failure}", generator.install) from None

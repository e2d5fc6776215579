"""`gymctl env init`: writes an environment that runs, to be made into one's own."""

from __future__ import annotations

import keyword
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from string import Template

from gymctl.errors import CliError
from gymd.config import builtin_folder
from gymd.config.builtin import RENAMED
from gymd.config.keys import KNOWN_KEYS

__all__ = ["Scaffold", "check_name", "create", "plan"]

_TEMPLATES = Path(__file__).with_name("templates")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LONGEST_NAME = 48
# One that is always there: the folder around it is where built-in environments live.
_ANY_BUILTIN = "example_single_tool_call"

# Template -> file. The templates are flat, and end in .tmpl, so that no tool takes them for sources or tests.
_FILES = {
    "server.py": "server.py",
    "config.yaml": "config.yaml",
    "requirements.txt": "requirements.txt",
    "README.md": "README.md",
    "example.jsonl": "data/example.jsonl",
    "example_answers.yaml": "data/example_answers.yaml",
    "gitignore": "data/.gitignore",
    "test.py": "tests/test_$name.py",
}
_BUILTIN_FILES = {"init.py": "__init__.py", "main.py": "__main__.py"}
_OWN_FILES = {"pytest.ini": "pytest.ini"}


@dataclass(frozen=True)
class Scaffold:
    """A new environment, not written yet."""

    name: str
    folder: Path
    builtin: bool
    """It becomes one of gymd's own, below servers/gymservers/resources of a checkout."""

    @property
    def argument(self) -> str:
        """What names it on gymctl's command line."""
        if self.builtin:
            return self.name
        here = Path.cwd()
        return str(self.folder.relative_to(here)) if self.folder.is_relative_to(here) else str(self.folder)

    @property
    def commands(self) -> list[str]:
        """What to run next."""
        config = self.name if self.builtin else f"{self.argument}/config.yaml"
        return [
            f"gymctl env examples {self.argument}",
            f"gymctl env test {self.argument}",
            f"gymctl rollouts collect --config {config} --config local_model "
            f"--input {self._data_argument}/example.jsonl --output rollouts.jsonl",
        ]

    @property
    def _data_argument(self) -> str:
        here, data = Path.cwd(), self.folder / "data"
        return str(data.relative_to(here)) if data.is_relative_to(here) else str(data)

    @property
    def values(self) -> dict[str, str]:
        """What is filled into the templates."""
        class_name = "".join(part.capitalize() for part in self.name.split("_")) + "Environment"
        module = f"gymservers.resources.{self.name}.server" if self.builtin else "server"
        # The configuration's paths start at the checkout, those of one's own at config.yaml.
        data = f"servers/gymservers/resources/{self.name}/data" if self.builtin else "data"
        return {
            "name": self.name,
            "class_name": class_name,
            # Another module than gymd's stands in a block of imports of its own.
            "import_line": ("" if self.builtin else "\n") + f"from {module} import {class_name}",
            "entrypoint": "" if self.builtin else f"      entrypoint: server.py:{class_name}\n",
            "data": data,
            "config": self.name if self.builtin else "config.yaml",
            "argument": self.name if self.builtin else ".",
        }


def plan(name: str, parent: Path | None = None) -> Scaffold:
    """Decides where an environment goes.

    Args:
        parent: the folder to make it in; None: the current one, or gymd's own if that is a checkout of gymd.

    Raises:
        CliError: the name cannot be used.
    """
    check_name(name)
    here = Path.cwd()
    own = _checkout_folder()
    if parent is None:
        parent = own if own is not None and here.is_relative_to(own.parents[2]) else here
    parent = parent.expanduser().resolve()
    return Scaffold(name, parent / name, builtin=parent == own)


def check_name(name: str) -> None:
    """Refuses what cannot name a Python package, a server and a test file at once.

    Raises:
        CliError: with what to do.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME or keyword.iskeyword(name):
        near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_LONGEST_NAME]
        good = bool(_NAME.fullmatch(near)) and not keyword.iskeyword(near)
        hint = f"Call it {near}." if good else "Choose another name, such as weather_reports."
        rule = f"small letters, digits and _, a letter first, at most {_LONGEST_NAME}"
        raise CliError(f"{name!r} is no name for an environment: {rule}, and no word of Python", hint)
    if name in RENAMED or any(builtin_folder(kind, name) for kind in ("resources", "agent", "model")):
        hint = "Choose another name; `gymctl env list` shows the environments that there are."
        raise CliError(f"gymd has a server {name} already", hint)
    if name in KNOWN_KEYS:
        raise CliError(f"{name} is a setting of the configuration", f"Choose another, such as {name}_tasks.")


def _checkout_folder() -> Path | None:
    """Where the checkout that gymctl runs from keeps its environments; None: it runs from an installation."""
    folder = builtin_folder("resources", _ANY_BUILTIN)
    if folder is None or not (folder.parents[3] / "pyproject.toml").is_file():
        return None
    return folder.parent.resolve()


def create(scaffold: Scaffold) -> list[Path]:
    """Writes the files; returns them.

    Raises:
        CliError: the folder exists, or cannot be written; nothing is left then.
    """
    folder = scaffold.folder
    if folder.exists():
        raise CliError(f"{folder} exists already", "Choose another name, or another folder with --dir.")
    files = _FILES | (_BUILTIN_FILES if scaffold.builtin else _OWN_FILES)
    values = scaffold.values
    written = []
    try:
        folder.mkdir(parents=True)
    except OSError as problem:
        raise _unwritable(folder, problem) from None
    try:
        for source, target in files.items():
            text = (_TEMPLATES / f"{source}.tmpl").read_text(encoding="utf-8")
            path = folder / Template(target).substitute(values)
            path.parent.mkdir(exist_ok=True)
            path.write_text(Template(text).substitute(values), encoding="utf-8")
            written.append(path)
    except OSError as problem:
        shutil.rmtree(folder, ignore_errors=True)
        raise _unwritable(folder, problem) from None
    return written


def _unwritable(folder: Path, problem: OSError) -> CliError:
    text = f"cannot write {problem.filename or folder}: {problem.strerror}"
    return CliError(text, "Check the path and its permissions, or choose another with --dir.")

"""`gymctl env list`: the built-in environments as their own files and classes describe them."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymctl.collect.files import write_atomically
from gymctl.env.child import ChildFailed, describe_servers
from gymctl.env.environment import Environment, builtin_folders, read_environment
from gymctl.errors import CliError
from gymctl.output import Column, note
from gymd.venvs import Requirements, normalise, requirements_met

__all__ = ["COLUMNS", "MARKS", "Listed", "list_environments", "markdown", "table_row", "update_file"]

COLUMNS: list[Column] = [
    "NAME",
    "DOMAIN",
    ("WHAT IT IS", "fold"),
    ("TOOLS", "fold"),
    "JUDGE",
    "SANDBOX",
    "DATASETS",
    ("NEEDS", "fold"),
]
MARKS = ("<!-- environments -->", "<!-- /environments -->")
"""Between them stands the table in a README."""

_SANDBOX = "gymd.sdk.sandbox"
# Where the built-in environments live in a checkout: the links of the table start at its root.
_PLACE = "servers/gymservers/resources"
# A longer list of tools is only counted in a table.
_TOOLS_NAMED = 3
# Says nothing about the rows that are there.
_NO_LICENCE = "TBD"


@dataclass(frozen=True)
class Listed:
    """One environment."""

    environment: Environment
    tools: Sequence[str]
    """Names of its tools."""
    error: str
    """Why its tools are not known; "" if they are."""

    @property
    def requirements(self) -> Requirements:
        """Packages that gymd does not bring."""
        path = self.environment.path("requirements.txt")
        text = normalise(path.read_text(encoding="utf-8")) if path.is_file() else ""
        return Requirements(text, str(self.environment.folder))

    @property
    def uses_sandbox(self) -> bool:
        """Whether its code runs other code in a sandbox."""
        sources = (path for path in self.environment.folder.rglob("*.py") if "tests" not in path.parts)
        return any(_imports(path, _SANDBOX) for path in sources)

    @property
    def licences(self) -> list[str]:
        """Of its datasets, those of training and validation first."""
        order = sorted(self.environment.datasets, key=lambda dataset: dataset.get("type") == "example")
        found = dict.fromkeys(str(dataset.get("license") or "") for dataset in order)
        return [licence for licence in found if licence not in ("", _NO_LICENCE)]

    def text(self, key: str) -> str:
        """A line of its config.yaml, such as `description`; "" if it has none."""
        return str(self.environment.block.get(key) or "").strip()

    def document(self) -> dict[str, Any]:
        """As JSON."""
        needs = self.requirements
        return {
            "name": self.environment.name,
            "domain": self.text("domain") or None,
            "description": self.text("description") or None,
            "value": self.text("value") or None,
            "reward": self.text("reward") or None,
            "verified": self.environment.block.get("verified") is True,
            "tools": list(self.tools),
            "error": self.error or None,
            "agent": self.environment.agent or None,
            "judge_models": self.environment.judges,
            "sandbox": self.uses_sandbox,
            "datasets": [
                {key: dataset.get(key) for key in ("name", "type", "jsonl_fpath", "license")}
                for dataset in self.environment.datasets
            ],
            "requirements": needs.text.splitlines(),
            "requirements_met": requirements_met(needs),
            "folder": str(self.environment.folder),
        }


def _imports(path: Path, module: str) -> bool:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return False
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return any(name == module or name.startswith(f"{module}.") for name in names)


def list_environments() -> list[Listed]:
    """All built-in environments, by name."""
    environments = []
    for folder in builtin_folders():
        try:
            environments.append(read_environment(folder))
        except CliError as problem:  # one that is broken hides no other
            note(f"Warning: {folder.name} is left out: {problem.message}")
    blocks = [
        {"name": one.name, "kind": "resources", "implementation": one.implementation, "config": {}}
        for one in environments
    ]
    try:
        described = asyncio.run(describe_servers(blocks))
    except ChildFailed as failure:
        note(f"Warning: the tools are not known: {failure}")
        described = {}
    found = []
    for one in environments:
        description = described.get(one.name, {"error": "not loaded"})
        tools = [tool["name"] for tool in description.get("tools", ())]
        found.append(Listed(one, tools, description.get("error", "")))
    return found


def table_row(listed: Listed) -> tuple[str, ...]:
    """The cells of COLUMNS."""
    needs = listed.requirements
    missing = "" if requirements_met(needs) else " (not here: runs in an environment of its own)"
    return (
        listed.environment.name,
        listed.text("domain") or "-",
        listed.text("description") or "-",
        _tools(listed),
        ", ".join(listed.environment.judges) or "-",
        "yes" if listed.uses_sandbox else "-",
        ", ".join(str(dataset.get("name")) for dataset in listed.environment.datasets) or "-",
        ", ".join(needs.text.splitlines()) + missing if needs.text else "-",
    )


def _tools(listed: Listed, quote: str = "") -> str:
    if listed.error:
        return "not known"
    if len(listed.tools) > _TOOLS_NAMED:
        return f"{len(listed.tools)} tools"
    return ", ".join(f"{quote}{name}{quote}" for name in listed.tools) or "-"


# ---- the table in a README


def markdown(environments: Sequence[Listed]) -> str:
    """The table for the main README; it depends on the environments alone, not on what is installed."""
    lines = [
        "| environment | domain | what it teaches | tools | reward | licence of the data |",
        "|---|---|---|---|---|---|",
    ]
    for one in environments:
        name = one.environment.name
        cells = (
            f"[{name}]({_PLACE}/{name}/README.md)",
            one.text("domain"),
            one.text("description"),
            _tools(one, "`"),
            one.text("reward"),
            ", ".join(one.licences),
        )
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or "-"


def update_file(path: Path, table: str) -> bool:
    """Puts the table between the marks of a file; returns whether that changed it.

    Raises:
        CliError: the file has no such marks.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        hint = f"Write {MARKS[0]} and {MARKS[1]} on lines of their own where the table belongs."
        raise CliError(f"{path} has no place for the table", hint)
    fresh = f"{before}{begin}\n{table}{end}{after}"
    if fresh == text:
        return False
    write_atomically(path, fresh)
    return True

"""What an environment must bring besides code that works: configuration, data, example rollouts, a README."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymctl.env.environment import (
    CONFIG_FILE,
    EXAMPLE_ANSWERS,
    EXAMPLE_METRICS,
    EXAMPLE_ROLLOUTS,
    EXAMPLES,
    Environment,
)
from gymctl.env.metrics import example_metrics, metrics_differences
from gymctl.errors import CliError
from gymd.client.rows import Row, RowError, parse_row
from gymd.config import ConfigError, load_config
from gymd.convert import validate_params

__all__ = ["Check", "check_environment", "example_fields", "resolve"]

EXAMPLE_COUNT = 5
_FILES_OF_AGENT = ("server.py", CONFIG_FILE, "requirements.txt", "README.md")
_FILES = (*_FILES_OF_AGENT, EXAMPLES, EXAMPLE_ANSWERS)
_SLOT = "example"
# One line each, for `gymctl env list` and the table that is made from it.
_METADATA = ("domain", "description", "reward")
# What a reader looks for in the README.
_SECTIONS = (
    "What it teaches",
    "Fields",
    "Tools",
    "Reward",
    "Configuration",
    "Data and licence",
    "Differences from NeMo Gym",
)
_SECTIONS_OF_AGENT = ("What it teaches", "Differences from NeMo Gym")


@dataclass
class Check:
    """One thing that was looked at."""

    name: str
    problems: list[str] = field(default_factory=list)
    """What is wrong, each with the file and what to do; empty if nothing is."""


Description = Mapping[str, Any]


def check_environment(
    environment: Environment, description: Description, mistakes: Sequence[str]
) -> list[Check]:
    """Looks at everything. An agent server has no rows, so that there is less to look at.

    Args:
        description: what the server's own code says (see `gymd.sdk.describe`).
        mistakes: what is wrong with the configuration (see `resolve`).
    """
    looks: dict[str, Callable[[], Iterator[str]]] = {
        "files": lambda: _files(environment),
        "config": lambda: _config(environment, description, mistakes),
        "data": lambda: _data(environment, description),
        "metrics": lambda: _metrics(environment),
        "rollouts": lambda: _rollouts(environment),
        "conflicts": lambda: _conflicts(environment),
        "readme": lambda: _readme(environment),
    }
    if environment.kind == "agent":
        looks = {name: looks[name] for name in ("files", "config", "readme")}
    return [Check(name, list(look())) for name, look in looks.items()]


def _files(environment: Environment) -> Iterator[str]:
    for name in _FILES_OF_AGENT if environment.kind == "agent" else _FILES:
        if not environment.path(name).is_file():
            yield f"{name} is missing"
    if not list(environment.path("tests").glob("test_*.py")):
        yield "tests/ has no test_*.py"


# ---- configuration


def resolve(environment: Environment) -> tuple[Mapping[str, Any], list[str]]:
    """The server's own configuration with what example_answers.yaml adds, and what is wrong with it."""
    answers = environment.path(EXAMPLE_ANSWERS)
    if not answers.is_file():  # told by `files`; without it there is no model, which is no mistake here
        return environment.block, []
    try:
        loaded = load_config([environment.config, answers], cwd=environment.folder)
    except ConfigError as mistakes:
        return environment.block, [" ".join(str(problem).split()) for problem in mistakes.problems]
    return loaded.server(environment.instance).config, []


def _config(environment: Environment, description: Description, mistakes: Sequence[str]) -> Iterator[str]:
    if environment.kind == "resources":
        yield from _metadata(environment)
    yield from mistakes
    if error := description.get("error"):
        yield f"the server's code cannot be loaded: {error}"
    # A block with a mistake was not resolved: what the server says about it would be beside the point.
    for key, message in description.get("config_problems", ()) if not mistakes else ():
        yield f"{CONFIG_FILE}: {environment.instance}: {key}: {message}"


def _metadata(environment: Environment) -> Iterator[str]:
    """What stands in config.yaml beside the server's own keys."""
    for key in _METADATA:
        value = environment.block.get(key)
        if not isinstance(value, str) or not value.strip() or "\n" in value.strip():
            yield f"{CONFIG_FILE}: {environment.instance} needs `{key}`, in one line"
    if not environment.agent:
        yield f"{CONFIG_FILE}: no agent names {environment.instance} as its resources_server"
    examples = [one for one in environment.datasets if one.get("type") == _SLOT]
    if not any(str(one.get("jsonl_fpath", "")).endswith(EXAMPLES) for one in examples):
        yield f"{CONFIG_FILE}: the agent needs a dataset of type example with jsonl_fpath .../{EXAMPLES}"
    for dataset in environment.datasets:
        if not dataset.get("license"):
            yield f"{CONFIG_FILE}: the dataset {dataset.get('name')!r} needs `license`"


# ---- data


def example_fields(environment: Environment) -> list[str]:
    """The own fields of the example rows, as JSON texts; what is no row counts as one without fields."""
    found = []
    for _, line in _lines(environment.path(EXAMPLES)):
        try:
            row: Any = parse_row(line).members
        except RowError:
            row = {}
        members = [f"{json.dumps(key)}:{text}" for key, text in row.items() if key in _own_keys(row)]
        found.append("{" + ",".join(members) + "}")
    return found


def _own_keys(row: Mapping[str, Any]) -> set[str]:
    return set(row) - {"responses_create_params", "agent_ref"}


def _data(environment: Environment, description: Description) -> Iterator[str]:
    path = environment.path(EXAMPLES)
    if not path.is_file():
        return  # told by `files`
    lines = list(_lines(path))
    if len(lines) != EXAMPLE_COUNT:
        yield f"{EXAMPLES} has {len(lines)} rows; it must have {EXAMPLE_COUNT}"
    tools = {tool["name"]: tool for tool in description.get("tools", ())}
    for number, line in lines:
        for problem in _row_problems(line, tools):
            yield f"{EXAMPLES}:{number}: {problem}"
    for index, message in description.get("row_problems", ()):
        yield f"{EXAMPLES}:{lines[index][0]}: {message}"


def _row_problems(line: str, tools: Mapping[str, Any]) -> Iterator[str]:
    try:
        row = parse_row(line)
    except RowError as problem:
        yield str(problem)
        return
    for text in validate_params(row.params):
        yield f"responses_create_params.{text}"
    if row.agent:
        yield "agent_ref is not for files of an environment: `gymctl data prepare` adds it"
    if tools:
        yield from _tool_problems(row, tools)


def _tool_problems(row: Row, tools: Mapping[str, Any]) -> Iterator[str]:
    """Compares the tools of a row with the server's; a server without any leaves them to the rows."""
    given = row.params.get("tools")
    objects = [tool for tool in given if isinstance(tool, dict)] if isinstance(given, list) else []
    declared = {str(tool.get("name")): tool for tool in objects}
    for name in tools.keys() - declared.keys():
        yield f"the server's tool {name} is missing in responses_create_params.tools"
    for name in declared.keys() - tools.keys():
        yield f"responses_create_params.tools has {name!r}, which the server does not have"
    for name in tools.keys() & declared.keys():
        different = [key for key, value in tools[name].items() if declared[name].get(key) != value]
        if different:
            yield f"the tool {name} differs from the server's in {', '.join(different)}"


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is not blank; nothing for a file that is not there."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


# ---- what is made from the data


def _metrics(environment: Environment) -> Iterator[str]:
    if not environment.path(EXAMPLES).is_file():
        return  # told by `files`
    try:
        # Without token counts: they would need the tokenizer that the file names.
        found = metrics_differences(environment, example_metrics(environment, None))
    except FileNotFoundError:
        yield f"{EXAMPLE_METRICS} is missing; {_renew(environment)}"
    except CliError as problem:
        yield problem.message
    else:
        yield from (f"{EXAMPLE_METRICS}: {difference}" for difference in found)
        if found:
            yield f"{EXAMPLE_METRICS}: {_renew(environment)}"


def _rollouts(environment: Environment) -> Iterator[str]:
    path = environment.path(EXAMPLE_ROLLOUTS)
    if not path.is_file():
        yield f"{EXAMPLE_ROLLOUTS} is missing; {_renew(environment)}"
        return
    rows = [_object(line) for _, line in _lines(environment.path(EXAMPLES))]
    lines = list(_lines(path))
    problems = []
    if len(lines) != len(rows):
        problems.append(f"{EXAMPLE_ROLLOUTS} has {len(lines)} rollouts of {len(rows)} rows")
    seen: set[int] = set()
    for number, line in lines:
        if problem := _rollout_problem(_object(line), rows, seen):
            problems.append(f"{EXAMPLE_ROLLOUTS}:{number}: {problem}")
    yield from problems
    if problems:
        yield f"{EXAMPLE_ROLLOUTS}: {_renew(environment)}"


def _rollout_problem(rollout: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], seen: set[int]) -> str:
    index = rollout.get("_ng_task_index")
    if type(index) is not int or not 0 <= index < len(rows):
        return "_ng_task_index names no row"
    if index in seen:
        return f"a second rollout of row {index + 1}"
    seen.add(index)
    reward = rollout.get("reward")
    if type(reward) not in (int, float):
        return "no reward"
    if not isinstance(rollout.get("response"), dict):
        return "no response"
    facts = rollout.get("rollout")
    hidden = facts.get("reward_extras", ()) if isinstance(facts, dict) else ()
    differing = [key for key, value in rows[index].items() if key not in hidden and rollout.get(key) != value]
    return f"{', '.join(differing)} is not that of row {index + 1}" if differing else ""


def _object(line: str) -> dict[str, Any]:
    """A line's JSON object; {} for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _renew(environment: Environment) -> str:
    return f"make it anew: gymctl env examples {environment.argument}"


def _conflicts(environment: Environment) -> Iterator[str]:
    for path in sorted(environment.folder.rglob("*conflict*")):
        name = path.relative_to(environment.folder)
        if path.is_file() and "tests" not in name.parts:
            yield f"{name} says that metrics disagree with the data; settle it and delete the file"


def _readme(environment: Environment) -> Iterator[str]:
    path = environment.path("README.md")
    if not path.is_file():
        return  # told by `files`
    text = path.read_text(encoding="utf-8", errors="replace")
    for section in _SECTIONS_OF_AGENT if environment.kind == "agent" else _SECTIONS:
        # A heading, a bold label, or the first cell of a table row.
        if not re.search(rf"^(?:#+ |\*\*|\| *(?:\*\*)?){re.escape(section)}\b", text, re.M | re.I):
            yield f"README.md says nothing under `{section}`"

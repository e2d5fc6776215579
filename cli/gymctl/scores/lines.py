"""Lines of stored rollouts, over one file or many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gymctl.errors import CliError
from gymd.client.rows import load_line

__all__ = ["Place", "read_lines", "require_files"]

_INDICES = ("_ng_task_index", "_ng_rollout_index")

Place = tuple[Path, int]
"""File and line number, from 1."""


def require_files(paths: Sequence[Path]) -> None:
    """Raises CliError unless all files are there."""
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise CliError(f"there is no file {', '.join(missing)}", "Check the paths.")


def read_lines(paths: Sequence[Path]) -> Iterator[tuple[Place, bytes, dict[str, Any]]]:
    """Yields place, text and content of every line; blank lines are passed over.

    Raises:
        CliError: a line is no JSON object, or no rollout by the members that say which one it is.
    """
    for path in paths:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                stripped = text.strip()
                if not stripped:
                    continue
                try:
                    content = load_line(stripped)
                except ValueError as problem:
                    raise _bad(path, number, f"no JSON ({problem})") from None
                if not isinstance(content, dict):
                    raise _bad(path, number, "no JSON object")
                if why := _misnamed(content):
                    raise _bad(path, number, why)
                yield (path, number), stripped, content


def _misnamed(line: dict[str, Any]) -> str:
    """What is wrong with the members that say which rollout of which agent a line is; "" if nothing."""
    for key in _INDICES:
        value = line.get(key)
        if value is not None and (type(value) is not int or value < 0):
            return f"{key} is no whole number from 0"
    if not isinstance(line.get("agent_ref") or {}, dict):
        return "agent_ref is no object"
    return ""


def _bad(path: Path, number: int, why: str) -> CliError:
    hint = "Give files that `gymctl rollouts collect` wrote; remove a line that a crash has cut."
    return CliError(f"{path}:{number}: {why}", hint)

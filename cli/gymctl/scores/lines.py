"""Lines of stored rollouts, over one file or many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from gymctl.errors import CliError

__all__ = ["Place", "read_lines", "require_files"]

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
        CliError: a line is no JSON object.
    """
    for path in paths:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                stripped = text.strip()
                if not stripped:
                    continue
                try:
                    content = orjson.loads(stripped)
                except orjson.JSONDecodeError as problem:
                    raise _bad(path, number, f"no JSON ({problem})") from None
                if not isinstance(content, dict):
                    raise _bad(path, number, "no JSON object")
                yield (path, number), stripped, content


def _bad(path: Path, number: int, why: str) -> CliError:
    hint = "Give files that `gymctl rollouts collect` wrote; remove a line that a crash has cut."
    return CliError(f"{path}:{number}: {why}", hint)

"""What is wrong with a configuration and who said so: problems, their report, the file behind each key."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gymd.config.secrets import scrub

__all__ = ["COMMAND_LINE", "ConfigError", "Key", "Origins", "Problem", "Report", "dotted", "suggest"]

COMMAND_LINE = "command line"
"""The origin of a key that an override set."""

MISSING = "???"
"""OmegaConf's mark of a mandatory value that nobody has given yet."""

Key = tuple[str, ...]
"""A path into the configuration, list positions as `[0]`. A tuple, because names may contain dots."""


def dotted(key: Key) -> str:
    """Writes a key the way overrides spell it: `a.b[0].c`."""
    return ".".join(key).replace(".[", "[")


def suggest(word: str, known: Iterable[str], *, label: str = "Available") -> str:
    """Says which known words come closest to `word`, or lists them all."""
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(repr(name) for name in close)}?"
    return f"{label}: {', '.join(names) or 'none'}."


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is, what it is, and what to do about it."""

    file: str | None
    """The file (with the line, for a syntax error) or other source that holds the mistake."""
    key: str
    """The dotted key, or "" if the whole file is meant."""
    message: str
    advice: str

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.file, self.key) if part)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text}\n    -> {self.advice}" if self.advice else text


class ConfigError(Exception):
    """A configuration cannot be used; `problems` holds everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(str(self))

    def __str__(self) -> str:
        count = len(self.problems)
        head = (
            "The configuration has a problem:" if count == 1 else f"The configuration has {count} problems:"
        )
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])


class Origins:
    """Remembers which source set each key last."""

    def __init__(self) -> None:
        self._sources: dict[Key, str] = {}

    def record(self, node: Any, source: str, key: Key = ()) -> None:
        """Notes `source` for `key` and everything below it.

        A `???` never replaces a value in a merge, so it never takes over a key that has an origin either.
        """
        if key:
            if node == MISSING:
                self._sources.setdefault(key, source)
            else:
                self._sources[key] = source
        for name, child in _children(node):
            self.record(child, source, (*key, name))

    def copy(self, node: Any, source: Key, target: Key) -> None:
        """Gives what was copied from `source` to `target` the origins of the original, where it has none."""
        if target not in self._sources and (origin := self.of(source)):
            self._sources[target] = origin
        for name, child in _children(node):
            self.copy(child, (*source, name), (*target, name))

    def of(self, key: Key) -> str | None:
        """The source of a key, or of the nearest key above it."""
        for length in range(len(key), 0, -1):
            if source := self._sources.get(key[:length]):
                return source
        return None


def _children(node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, dict):
        return [(str(name), child) for name, child in node.items()]
    if isinstance(node, list):
        return [(f"[{position}]", child) for position, child in enumerate(node)]
    return []


class Report:
    """Collects the problems of one load, so that all of them can be told at once."""

    def __init__(self, cwd: Path, concerns: Callable[[Key], bool] = lambda key: True) -> None:
        self.cwd = cwd
        self._concerns = concerns
        self.origins = Origins()
        self.problems: list[Problem] = []
        self.complete = True
        """False once a source could not be read: then a missing name proves nothing and is not reported."""

    def add(self, key: Key, message: str, advice: str = "", *, file: str | None = None) -> None:
        """Adds a problem; the file is the key's origin unless given. Saying it twice adds it once.

        Problems of keys that do not concern whoever loads the configuration are left out.
        """
        if not self._concerns(key):
            return
        problem = Problem(file or self.origins.of(key), dotted(key), message, advice)
        if problem not in self.problems:
            self.problems.append(problem)

    def display(self, path: Path) -> str:
        """A path as people would write it from where they stand."""
        return str(path.relative_to(self.cwd)) if path.is_relative_to(self.cwd) else str(path)

    def touches(self, key: Key) -> bool:
        """Whether a problem lies at or below a key."""
        prefix = dotted(key)
        return any(p.key == prefix or p.key.startswith((f"{prefix}.", f"{prefix}[")) for p in self.problems)

    def raise_if_any(self, secrets: Iterable[str] = ()) -> None:
        """Ends the load if there was any problem.

        Raises:
            ConfigError: with every problem, in the order found, and without the given secrets.
        """
        if self.problems:
            hide = list(secrets)
            raise ConfigError(
                [
                    replace(
                        p,
                        key=scrub(p.key, hide),
                        message=scrub(p.message, hide),
                        advice=scrub(p.advice, hide),
                    )
                    for p in self.problems
                ]
            )

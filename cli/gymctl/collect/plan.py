"""What to run: the settings of a collection, and the rollouts that are still to be done, in their order."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from gymd.client.rows import Row

__all__ = ["DoneSet", "Job", "Plan", "jobs", "nearest", "parse_overrides"]


@dataclass(frozen=True)
class Plan:
    """The settings of one collection."""

    agent: str = ""
    """Runs rows without `agent_ref`; "" leaves it to the daemon."""
    limit: int | None = None
    """Only the first rows."""
    repeats: int = 1
    """Rollouts of each row."""
    concurrency: int = 256
    """Most rollouts in flight."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Members that replace those of every row's create params."""
    return_tokens: bool = False
    keep_going: bool = False
    """Go on even if nothing but failures comes back."""


@dataclass(slots=True)
class Job:
    """One rollout to run."""

    row: Row
    task_index: int
    index: int

    @property
    def task_id(self) -> str:
        """Its name on the stream: unique, as every rollout is submitted by itself."""
        return f"{self.task_index}-{self.index}"


class DoneSet:
    """Which rollouts an output already holds: one bit each where indices are dense."""

    def __init__(self, stride: int) -> None:
        self._stride = max(1, stride)
        self._bits = bytearray()
        self._others: set[tuple[int, int]] = set()
        self.count = 0

    def add(self, task_index: int, index: int) -> bool:
        """Notes a rollout; False: it was there already."""
        if (task_index, index) in self:
            return False
        self.count += 1
        if index >= self._stride or task_index >= 2**28:
            self._others.add((task_index, index))
            return True
        byte, bit = divmod(task_index * self._stride + index, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1 - len(self._bits)))
        self._bits[byte] |= 1 << bit
        return True

    def __contains__(self, key: tuple[int, int]) -> bool:
        task_index, index = key
        if index >= self._stride or task_index >= 2**28:
            return key in self._others
        byte, bit = divmod(task_index * self._stride + index, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)


def jobs(rows: Iterable[Row], repeats: int, done: DoneSet) -> Iterator[Job]:
    """The rollouts that are still to be done: all of the first row, then all of the second."""
    for number, row in enumerate(rows):
        task_index = number if row.task_index is None else row.task_index
        indices = range(repeats) if row.rollout_index is None else (row.rollout_index,)
        for index in indices:
            if (task_index, index) not in done:
                yield Job(row, task_index, index)


def parse_overrides(settings: Sequence[str]) -> dict[str, Any]:
    """Reads `key=value` settings of the create params: JSON values, or text; dots lead into objects.

    Raises:
        click.BadParameter: one is no `key=value`.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        key, mark, text = setting.partition("=")
        if not mark or not key:
            raise click.BadParameter(f"{setting!r} is not key=value, such as temperature=0.7")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        *path, last = key.split(".")
        target = found
        for name in path:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise click.BadParameter(f"{setting!r}: {name} was set to a value before")
        target[last] = value
    return found


def nearest(word: str, known: Sequence[str]) -> str:
    """`Did you mean ...?`, or what there is."""
    if close := difflib.get_close_matches(word, known, n=1, cutoff=0.5):
        return f"Did you mean {close[0]}?"
    return f"There are: {', '.join(known)}." if known else "There is none."

"""Metrics over many files of rollouts, the shards of one collection or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from gymctl.collect.environment import ScoredRollouts
from gymctl.collect.files import LineFile
from gymctl.collect.metrics import Metrics, agent_of
from gymctl.errors import CliError
from gymctl.scores.lines import Place, read_lines

__all__ = ["Shards", "aggregate"]


@dataclass
class Shards:
    """What the files hold together."""

    metrics: Metrics
    scored: ScoredRollouts
    lines: int = 0
    doubles: int = 0
    """Rollouts that came twice, with the same content; counted once."""


def aggregate(paths: Sequence[Path], *, separate: bool, merged: Path | None) -> Shards:
    """Reads the files and sums them up; memory grows with the rollouts, some 100 bytes each.

    Args:
        paths: the shards.
        separate: each file is a collection of its own, whose task indices begin anew.
        merged: write all lines into this file, with the task indices that count; None: do not.

    Raises:
        CliError: two lines have the same agent, task and rollout index and differ.
    """
    shards = Shards(Metrics(), ScoredRollouts())
    if merged is None:
        _read(shards, paths, separate, None)
        return shards
    with closing(LineFile(merged)) as output:
        output.open(fresh=True)
        _read(shards, paths, separate, output)
    return shards


def _read(shards: Shards, paths: Sequence[Path], separate: bool, output: LineFile | None) -> None:
    seen: dict[tuple[str, int, int], tuple[bytes, Place]] = {}
    for place, text, line in _renumbered(paths) if separate else read_lines(paths):
        key = (agent_of(line), int(line.get("_ng_task_index") or 0), int(line.get("_ng_rollout_index") or 0))
        digest = blake2b(text, digest_size=16).digest()
        known = seen.get(key)
        if known is not None:
            if known[0] != digest:
                raise _clash(key, place, known[1])
            shards.doubles += 1
            continue
        seen[key] = digest, place
        shards.lines += 1
        shards.metrics.add(line)
        shards.scored.add(line)
        if output is not None:
            output.write(text)


def _renumbered(paths: Sequence[Path]) -> Iterator[tuple[Place, bytes, dict[str, Any]]]:
    """The lines with task indices that go on from file to file."""
    start = 0
    for path in paths:
        highest = -1
        for place, _, line in read_lines([path]):
            index = int(line.get("_ng_task_index") or 0)
            highest = max(highest, index)
            line["_ng_task_index"] = start + index
            if isinstance(facts := line.get("rollout"), dict):
                facts["task_index"] = start + index
            yield place, orjson.dumps(line), line
        start += highest + 1


def _clash(key: tuple[str, int, int], place: Place, other: Place) -> CliError:
    agent, task, index = key
    return CliError(
        f"{place[0]}:{place[1]} and {other[0]}:{other[1]} are both rollout {index} of task {task} ({agent})",
        "If the files are separate collections, add --separate; else leave one of them out.",
    )


def means(document: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Rows for people: agent, rollouts, tasks, mean, standard deviation, pass@k."""
    rows = []
    for name, agent in document["agents"].items():
        reward = agent["reward"] or {}
        best = [key for key in agent if key.startswith("pass@") and "[" not in key]
        shown = best[:1] + best[-1:] if len(best) > 1 else best
        passes = "  ".join(f"{key} {agent[key]:.3f}" for key in shown) or "-"
        rows.append(
            (name, agent["rollouts"], agent["scored_tasks"], reward.get("mean"), reward.get("std"), passes)
        )
    return rows

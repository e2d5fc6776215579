"""Rows of preference training: a better and a worse rollout of the same task."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import Any

from gymctl.collect.metrics import agent_of
from gymctl.export.messages import Conversation, Unusable, converse
from gymctl.export.rows import Choice, Export, refusal_of, reward_of
from gymctl.scores.lines import read_lines
from gymd.client.rows import load_line

__all__ = ["preferences"]

_Scored = tuple[float, Conversation]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a scored rollout stands."""

    file: int
    start: int
    length: int


def preferences(paths: Sequence[Path], choice: Choice, export: Export) -> Iterator[dict[str, Any]]:
    """Rows `{prompt, chosen, rejected, tools}` of pairs within one task, task by task.

    The files are read twice, first for their rewards: memory grows with the number of rollouts, some 200
    bytes each, and with the rollouts of one task.

    Raises:
        CliError: a line is no JSON object.
    """
    tasks = _tasks(paths, choice, export)
    export.tasks = len(tasks)
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        for places in tasks.values():
            said: list[_Scored] = []
            for place in places:
                files[place.file].seek(place.start)
                line = load_line(files[place.file].read(place.length))
                try:
                    found = converse(line, reasoning=choice.reasoning, as_text=choice.as_text)
                except Unusable as problem:
                    export.left_out[str(problem)] += 1
                else:
                    said.append((reward_of(line) or 0.0, found))
            pairs, why = _pairs(said, choice)
            if not pairs:
                export.without_pairs[why] += 1
            export.rows += len(pairs)
            yield from (_row(better, worse) for better, worse in pairs)


def _tasks(paths: Sequence[Path], choice: Choice, export: Export) -> dict[bytes, list[_Place]]:
    """The scored rollouts that may be used, by task, tasks in the order of their first rollouts."""
    tasks: dict[bytes, list[_Place]] = {}
    for file, path in enumerate(paths):
        starts = _starts(path)
        for (_, number), _, line in read_lines([path]):
            export.rollouts += 1
            why = refusal_of(line, choice)
            if why is None and reward_of(line) is None:
                why = "no reward"
            if why is not None:
                export.left_out[why] += 1
                continue
            start = starts[number - 1]
            tasks.setdefault(_task(line), []).append(_Place(file, start, starts[number] - start))
    return tasks


def _starts(path: Path) -> array[int]:
    """Where each line of a file begins, and where the last one ends."""
    starts = array("q", [0])
    with path.open("rb") as file:
        for line in file:
            starts.append(starts[-1] + len(line))
    return starts


def _task(line: Mapping[str, Any]) -> bytes:
    """Equal for rollouts of one task. The index alone would mix the tasks of different files."""
    index = line.get("_ng_task_index")
    params = json.dumps(line.get("responses_create_params"), sort_keys=True).encode()
    return blake2b(b"%b %r %b" % (agent_of(line).encode(), index, params), digest_size=16).digest()


def _pairs(said: Sequence[_Scored], choice: Choice) -> tuple[list[tuple[_Scored, _Scored]], str]:
    """The pairs of a task, better one first; if there are none, why."""
    if len(said) < 2:
        return [], "fewer than two rollouts that can be used"
    # Stable: of equal rewards the rollout that was written first counts.
    ranked = sorted(said, key=lambda scored: -scored[0])
    if ranked[0][0] == ranked[-1][0]:
        return [], "all rewards are equal"
    if ranked[0][0] - ranked[-1][0] < choice.min_gap:
        return [], "no gap of --min-gap"
    if choice.min_reward is not None and ranked[0][0] < choice.min_reward:
        return [], "no reward of --min-reward"
    if not choice.every_pair:
        worst = next(scored for scored in ranked if scored[0] == ranked[-1][0])
        candidates = [(ranked[0], worst)]
    else:
        candidates = [pair for pair in combinations(ranked, 2) if _far_enough(*pair, choice)]
    pairs = [pair for pair in candidates if pair[0][1].completion != pair[1][1].completion]
    return pairs, "the same words were rewarded differently"


def _far_enough(better: _Scored, worse: _Scored, choice: Choice) -> bool:
    gap = better[0] - worse[0]
    return gap > 0 and gap >= choice.min_gap and (choice.min_reward is None or better[0] >= choice.min_reward)


def _row(better: _Scored, worse: _Scored) -> dict[str, Any]:
    row = {
        "prompt": better[1].prompt,
        "chosen": better[1].completion,
        "rejected": worse[1].completion,
        "chosen_reward": better[0],
        "rejected_reward": worse[0],
    }
    return row | {"tools": better[1].tools} if better[1].tools else row

"""Rollouts of gymd in the forms that TRL takes. Knows gymd's client and numpy; neither TRL nor torch.

A dataset has one column, `prompt`: the dataset row of the environment, as the line of JSON that it is. TRL
hands nothing but prompts to a `rollout_func`, so a prompt that is the whole row needs no way back to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from gymapi.v1.rollout_pb2 import Outcome, Rollout, Task
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.client import Rejection, RolloutClient, RolloutSession, deadlines
from gymd.client.rows import RowError, is_success, make_task, parse_row
from gymd.client.tokens import Branch, branches, prompt_and_completion

__all__ = ["Source", "collect", "describe", "env_reward", "make_rollout_func", "read_rows", "trainable"]

RolloutFunc = Callable[[list[str], Any], dict[str, Any]]


@dataclass(frozen=True)
class Source:
    """Where rollouts come from, and what is the same for all of them."""

    address: str
    """Of the daemon, `host:port`."""
    agent: str = ""
    """Runs rows that name none in `agent_ref`."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Create params that replace those of every row, such as `temperature`."""
    rollout_timeout: float | None = None
    """Seconds that one rollout may run; None: as the daemon is configured."""

    def task(self, row: str) -> Task:
        """The task of a row.

        Raises:
            ValueError: the row is no dataset row; the text says why.
        """
        return make_task(parse_row(row), self.agent, self.params)

    def session(self, client: RolloutClient, *, credits: int) -> RolloutSession:
        """A session whose rollouts carry token ids and logprobs."""
        limits = deadlines(rollout=self.rollout_timeout)
        return client.session(credits=credits, return_tokens=True, deadlines=limits, policy_version=0)


def read_rows(path: str | Path) -> list[str]:
    """The rows of a JSONL file, each as its line: the `prompt` column of a dataset.

    Raises:
        ValueError: a line is no dataset row, or there is none.
    """
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), start=1):
        if not (line := line.strip()):
            continue
        try:
            make_task(parse_row(line))
        except (RowError, ValueError) as problem:
            raise ValueError(f"{path}:{number}: {problem}") from None
        rows.append(line)
    if not rows:
        raise ValueError(f"{path} holds no rows")
    return rows


async def collect(source: Source, rows: Sequence[str]) -> list[Rollout]:
    """One rollout of each row, in the order of the rows; equal neighbours are one group.

    Raises:
        ValueError: a row is no dataset row.
        GymdError: the daemon refused a task, or went away for longer than the session's resume window.
    """
    found: dict[int, Rollout] = {}
    async with (
        RolloutClient(source.address, client_name="trl") as client,
        source.session(client, credits=len(rows)) as session,
    ):
        async for result in session.run(_groups(source, rows)):
            if isinstance(result, Rejection):
                raise result.error
            found[int(result.rollout.task_id) + result.rollout.index] = result.rollout
    return [found[place] for place in range(len(rows))]


def _groups(source: Source, rows: Sequence[str]) -> list[TaskSubmission]:
    """TRL repeats a prompt once for each of its completions; the task's id is the place of its first one."""
    groups, place = [], 0
    for row, repeats in groupby(rows):
        count = sum(1 for _ in repeats)
        name = str(place)
        groups.append(TaskSubmission(task_id=name, group_id=name, rollout_count=count, task=source.task(row)))
        place += count
    return groups


def trainable(rollout: Rollout) -> list[Branch]:
    """The branches of a rollout that hold tokens to train on; none if it failed, or its reward says so.

    Raises:
        ValueError: it went well, but the model server returned no token ids or no logprobs.
    """
    reward = rollout.reward
    if not is_success(rollout) or (reward.HasField("use_for_loss") and not reward.use_for_loss):
        return []
    found = branches(rollout)
    lacking = [branch for branch in found if np.isnan(branch.logprobs[branch.sampled]).any()]
    # A prompt that is too long is answered with nothing, which has no ids.
    if lacking or (rollout.response.usage.output_tokens and not found):
        what = "logprobs" if lacking else "token ids"
        raise ValueError(
            f"rollout {rollout.rollout_id} came without {what}: the policy must be a model server that "
            "returns them, such as vllm_model/vllm_model_for_training"
        )
    return [branch for branch in found if branch.sampled.any()]


def make_rollout_func(source: Source) -> RolloutFunc:
    """The `rollout_func` of TRL's GRPOTrainer; give it `env_reward` as reward function.

    Temperature, top_p and the length of an answer are those of the trainer's arguments, unless the source's
    params say otherwise. What is longer than `max_completion_length` altogether is cut at its end. A rollout
    that failed, or from which its verifier wants nothing learned, becomes one masked token without a reward,
    which TRL leaves out of the group's baseline; with its reward if the verifier wants it to count there.
    """

    def rollout_func(prompts: list[str], trainer: Any) -> dict[str, Any]:
        args = trainer.args
        given = {
            "temperature": args.temperature,
            "top_p": args.top_p,
            "max_output_tokens": args.max_completion_length,
        }
        full = Source(source.address, source.agent, {**given, **source.params}, source.rollout_timeout)
        rollouts = asyncio.run(collect(full, prompts))
        eos = trainer.processing_class.eos_token_id
        return _batch(rollouts, filler=eos, max_length=args.max_completion_length)

    return rollout_func


def _batch(rollouts: Sequence[Rollout], *, filler: int, max_length: int) -> dict[str, Any]:
    """What a rollout_func returns: a list for each field, with an entry for each rollout."""
    fields = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "env_reward", "outcome")
    batch: dict[str, list[Any]] = {name: [] for name in fields}
    trained = 0
    for rollout in rollouts:
        found = trainable(rollout)
        trained += bool(found)
        # TRL takes one sequence of a rollout: of one that forked, the one with most to learn from.
        best = max(found, key=lambda branch: int(branch.sampled.sum()), default=None)
        parts = _masked(filler) if best is None else prompt_and_completion(best)
        batch["prompt_ids"].append(list(map(int, parts["prompt_ids"])))
        for name, key in (
            ("completion_ids", "completion_ids"),
            ("logprobs", "logprobs"),
            ("env_mask", "completion_mask"),
        ):
            batch[name].append(np.asarray(parts[key])[:max_length].tolist())
        counts = best is not None or rollout.reward.use_for_baseline
        scored = counts and rollout.reward.HasField("value")
        batch["env_reward"].append(rollout.reward.value if scored else None)
        batch["outcome"].append(Outcome.Name(rollout.outcome).removeprefix("OUTCOME_").lower())
    if rollouts and not trained:
        raise RuntimeError(
            f"none of {len(rollouts)} rollouts can be trained on; the first: {describe(rollouts[0])}"
        )
    return batch


def _masked(token: int) -> dict[str, list[Any]]:
    """Stands for a rollout of which nothing is trained on."""
    return {"prompt_ids": [token], "completion_ids": [token], "completion_mask": [0], "logprobs": [0.0]}


def describe(rollout: Rollout) -> str:
    """How a rollout ended, for people."""
    outcome = Outcome.Name(rollout.outcome).removeprefix("OUTCOME_").lower()
    return f"{outcome}: {rollout.failure.status.message}" if rollout.HasField("failure") else outcome


def env_reward(*, env_reward: Sequence[float | None], **_: Any) -> list[float | None]:
    """A reward function for TRL: what the environment said; None where it said nothing."""
    return list(env_reward)

"""Rollouts in the form that NeMo Gym's rollout collection writes, for trainers and tools that read that.

The ids of every model call's whole prompt stand on the last output item of the call, as JSON numbers. That is
large: a rollout of 60 turns and 145,000 tokens takes 30 MB, against less than 1 MB as it arrives. Prefer
`gymd.client.tokens` where the reader can be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gymapi.v1.rollout_pb2 import FailureClass, Rollout, TokenSegment, Trajectory
from gymd.convert import loads, response_to_json

__all__ = ["item_tokens", "legacy_response", "legacy_rollout"]

# Bookkeeping of NeMo Gym's rows.
TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
ATTEMPT_INDEX = "_ng_attempt_index"
FAILURE_CLASS = "_ng_failure_class"
FAILURE_TERMINAL = "_ng_failure_terminal"


def legacy_rollout(
    rollout: Rollout, row: Mapping[str, Any] | None = None, *, task_index: int | None = None
) -> dict[str, Any]:
    """The line of a rollout as a JSON value: the row, then `response`, the verifier's members and `reward`.

    A rollout that nobody scored has no `reward`, where NeMo Gym writes 0.0 for some; one that failed has
    `_ng_failure_class` (infra, data, policy, client) and `_ng_failure_terminal` (a repeat gives the same).

    Args:
        rollout: as the daemon delivered it.
        row: the dataset row that it is an attempt at, with `responses_create_params`.
        task_index: number of the row in its dataset; None: as the row says, if it does.
    """
    line = dict(row or {})
    if rollout.agent:
        line.setdefault("agent_ref", {"type": "responses_api_agents", "name": rollout.agent})
    if task_index is not None:
        line[TASK_INDEX] = task_index
    line[ROLLOUT_INDEX] = rollout.index
    if rollout.attempt > 1:
        line[ATTEMPT_INDEX] = rollout.attempt - 1
    if rollout.HasField("response"):
        line["response"] = legacy_response(rollout)
    reward = rollout.reward
    if reward.extras_json:
        extras = _extras(reward.extras_json)
        line.update({key: value for key, value in extras.items() if key not in _kept(line)})
    if reward.HasField("value"):
        line["reward"] = reward.value
    if reward.components:
        line["reward_components"] = dict(sorted(reward.components.items()))
    if rollout.HasField("failure"):
        name = FailureClass.Name(rollout.failure.failure_class)
        line[FAILURE_CLASS] = name.removeprefix("FAILURE_CLASS_").lower()
        line[FAILURE_TERMINAL] = not rollout.failure.retriable
    return line


def legacy_response(rollout: Rollout) -> dict[str, Any]:
    """The response as a JSON value, with the tokens of each model call on its last output item."""
    response: dict[str, Any] = response_to_json(rollout.response)
    output = response.get("output") or []
    for index, keys in item_tokens(rollout.trajectory):
        if 0 <= index < len(output) and isinstance(output[index], dict):
            output[index].update(keys)
    return response


def item_tokens(trajectory: Trajectory) -> Iterator[tuple[int, dict[str, Any]]]:
    """For each model call the index of its last output item, and the three token keys of that item.

    A call without logprobs, or whose sampled ids do not stand at its end, has no such form and is left out.
    """
    branches: list[list[int]] = []
    for segment in trajectory.segments:
        parent = branches[segment.parent] if segment.HasField("parent") else []
        before = parent[: len(parent) - segment.dropped_token_count]
        ids = segment.token_ids[:]
        branches.append(before + ids)
        start = _sampled_from(segment)
        if start is not None and segment.item_indices:
            yield (
                segment.item_indices[-1],
                {
                    "prompt_token_ids": before + ids[:start],
                    "generation_token_ids": ids[start:],
                    "generation_log_probs": segment.logprobs[:],
                },
            )


def _sampled_from(segment: TokenSegment) -> int | None:
    """From which id on a segment was sampled; None if it has no legacy form."""
    at = start = segment.sampled_spans[0].start if segment.sampled_spans else -1
    for span in segment.sampled_spans:
        if span.start != at:
            return None
        at += span.length
    fits = start >= 0 and at == len(segment.token_ids) and len(segment.logprobs) == at - start
    return start if fits else None


def _extras(text: str) -> dict[str, Any]:
    """What a verifier added; a foreign one's mistake is kept as the text it is."""
    try:
        extras = loads(text)
    except ValueError:
        extras = None
    return extras if isinstance(extras, dict) else {"verifier_extras": text}


def _kept(line: Mapping[str, Any]) -> frozenset[str]:
    """Members that a verifier's extras never replace."""
    own = ("responses_create_params", "agent_ref", "response", TASK_INDEX, ROLLOUT_INDEX, ATTEMPT_INDEX)
    return frozenset(key for key in own if key in line)

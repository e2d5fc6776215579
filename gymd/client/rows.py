"""Dataset rows and rollouts: a JSONL line becomes a task, a rollout becomes a JSONL line again.

A row's members are carried as the text they came in, so that numbers, escapes and key order survive: what the
verifier gets, and what an output line repeats, is byte for byte what the file held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import orjson
from google.protobuf.duration_pb2 import Duration

from gymapi.v1.errors_pb2 import ErrorStatus
from gymapi.v1.rollout_pb2 import FailureClass, Outcome, Reward, Rollout, Stage, Task, Timing
from gymd.client.legacy import ROLLOUT_INDEX, TASK_INDEX, legacy_response
from gymd.convert import params_from_json
from gymd.errors import GymdError, from_status_message

__all__ = [
    "Row",
    "RowError",
    "dump_json",
    "failure_line",
    "is_success",
    "load_line",
    "make_task",
    "parse_row",
    "rescored_line",
    "rollout_line",
    "stored_task",
]

PARAMS = "responses_create_params"
AGENT_REF = "agent_ref"
# What only the daemon's answer may set; the verifier's extras and the row's own keys give way.
_OWN_KEYS = frozenset(
    {
        PARAMS,
        AGENT_REF,
        TASK_INDEX,
        ROLLOUT_INDEX,
        "response",
        "reward",
        "reward_components",
        "rollout",
        "failure",
    }
)

_SUCCESSES = frozenset(
    {
        Outcome.OUTCOME_COMPLETED,
        Outcome.OUTCOME_TRUNCATED_TOKENS,
        Outcome.OUTCOME_TRUNCATED_TURNS,
        Outcome.OUTCOME_EMPTY,
        Outcome.OUTCOME_PARTIAL,
    }
)


class RowError(ValueError):
    """A line is no dataset row; the text says why."""


@dataclass(slots=True)
class Row:
    """One dataset row."""

    members: dict[str, str]
    """JSON text of every member, in order."""
    params: dict[str, Any]
    """`responses_create_params`, parsed."""
    agent: str
    """Name in `agent_ref`; "" if there is none."""
    task_index: int | None
    """`_ng_task_index`, where the row brings one."""
    rollout_index: int | None
    """`_ng_rollout_index`, where the row brings one."""


def parse_row(line: str) -> Row:
    """Reads one line of a dataset.

    Raises:
        RowError: it is no JSON object, or a member that gymd reads has the wrong form.
    """
    members, values = _split(line)
    params = values.get(PARAMS)
    if not isinstance(params, dict):
        state = "is missing" if PARAMS not in values else "must be an object"
        raise RowError(f"{PARAMS} {state}")
    return Row(
        members=members,
        params=params,
        agent=_agent_name(values.get(AGENT_REF)),
        task_index=_index(values, TASK_INDEX),
        rollout_index=_index(values, ROLLOUT_INDEX),
    )


def make_task(row: Row, default_agent: str = "", overrides: Mapping[str, Any] | None = None) -> Task:
    """The task of a row; `overrides` replace members of the create params.

    Raises:
        ValueError: the create params cannot be converted.
    """
    params = {**row.params, **overrides} if overrides else row.params
    fields = [f"{_quote(key)}:{text}" for key, text in row.members.items() if key not in (PARAMS, AGENT_REF)]
    return Task(
        agent=row.agent or default_agent,
        create_params=params_from_json(params),
        fields_json="{" + ",".join(fields) + "}" if fields else "",
    )


def stored_task(row: Row, default_agent: str = "") -> Task:
    """The task behind a line of rollouts: what the row itself held, without what came of it.

    Raises:
        ValueError: the create params cannot be converted.
    """
    members = {key: text for key, text in row.members.items() if key not in _OWN_KEYS or key == PARAMS}
    return make_task(Row(members, row.params, row.agent, row.task_index, row.rollout_index), default_agent)


def is_success(rollout: Rollout) -> bool:
    """Whether a rollout ended with a trajectory to keep, rewarded or not."""
    return rollout.outcome in _SUCCESSES and not rollout.HasField("failure")


def rollout_line(
    row: Row, rollout: Rollout, task_index: int, overrides: Mapping[str, Any] | None = None
) -> bytes:
    """The output line of a rollout: the row's own members, then what came of it. No newline at the end."""
    members = _row_members(row, rollout.agent, task_index, rollout.index, overrides)
    if rollout.HasField("response"):
        members["response"] = dump_json(legacy_response(rollout))
    facts = _facts(rollout, task_index)
    if rollout.HasField("reward") and (extras := _add_reward(members, rollout.reward)):
        facts["reward_extras"] = extras
    members["rollout"] = dump_json(facts)
    if rollout.HasField("failure"):
        members["failure"] = dump_json(_failure(rollout))
    return _join(members)


def failure_line(
    row: Row, index: int, refusal: ErrorStatus, task_index: int, overrides: Mapping[str, Any] | None = None
) -> bytes:
    """The line of a task that the daemon refused, so that nothing ran."""
    members = _row_members(row, row.agent, task_index, index, overrides)
    members["failure"] = dump_json({"class": "rejected", **_status(refusal)})
    return _join(members)


def rescored_line(line: str, verdict: Reward | GymdError, *, original: Row | None = None) -> bytes:
    """A stored line of rollouts with another verdict. No newline at the end.

    Args:
        line: as `rollout_line` made it.
        verdict: what the verifier says now, or why it failed.
        original: the row that it was made from, where it is known: then what the old verdict had put over the
            row's own members is undone.
    """
    members, values = _split(line)
    facts = values.get("rollout")
    facts = dict(facts) if isinstance(facts, dict) else {}
    old_extras = facts.pop("reward_extras", ())
    if original is not None:
        for name in old_extras:
            if name in original.members:
                members[name] = original.members[name]
            else:
                members.pop(name, None)
    facts["reverified"], facts["previous_reward"] = True, values.get("reward")
    for key in ("reward", "reward_components", "failure", "rollout"):
        members.pop(key, None)
    if isinstance(verdict, Reward):
        if extras := _add_reward(members, verdict):
            facts["reward_extras"] = extras
        if facts.get("outcome") == "verify_failed":
            facts["outcome"] = "completed"
    else:
        facts["outcome"] = "verify_failed"
        members["failure"] = dump_json({"stage": "verify", **_error(verdict)})
    members["rollout"] = dump_json(facts)
    return _join(members)


def load_line(line: bytes) -> Any:
    """The JSON value of a line of rows or rollouts. Lone surrogates pass, which orjson refuses.

    Raises:
        ValueError: it is no JSON; the text says why.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            return _decoder.decode(line.decode())
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def dump_json(value: Any) -> str:
    """Compact JSON text; integers of any size."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer of more than 64 bits, or a lone surrogate: only its escape can be written
        return json.dumps(value, separators=(",", ":"))


# ---- reading


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)
_blank = re.compile(r"[ \t\n\r]*").match


def _split(line: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The members of a JSON object: their text, and their values."""
    members: dict[str, str] = {}
    values: dict[str, Any] = {}
    try:
        at = _skip(line, 0)
        if line[at : at + 1] != "{":
            raise RowError("the line is no JSON object")
        at = _skip(line, at + 1)
        if line[at : at + 1] == "}":
            return _end(line, at + 1, members, values)
        while True:
            if line[at : at + 1] != '"':
                raise _bad(line, at, "a member's name in double quotes is missing")
            key, at = scanstring(line, at + 1, True)
            at = _skip(line, at)
            if line[at : at + 1] != ":":
                raise _bad(line, at, "':' is missing")
            start = _skip(line, at + 1)
            values[key], at = _decoder.raw_decode(line, start)
            members[key] = line[start:at]
            at = _skip(line, at)
            mark = line[at : at + 1]
            if mark == "}":
                return _end(line, at + 1, members, values)
            if mark != ",":
                raise _bad(line, at, "',' or '}' is missing")
            at = _skip(line, at + 1)
    except json.JSONDecodeError as problem:
        raise _bad(line, problem.pos, problem.msg.lower()) from None
    except RecursionError:
        raise RowError("the JSON is nested too deeply") from None
    except RowError:
        raise
    except ValueError as problem:
        raise RowError(f"the line is no valid JSON: {problem}") from None


def _skip(line: str, at: int) -> int:
    found = _blank(line, at)
    return found.end() if found else at


def _bad(line: str, at: int, why: str) -> RowError:
    near = line[at : at + 20]
    return RowError(
        f"the line is no valid JSON: {why} at column {at + 1}" + (f" (near {near!r})" if near else "")
    )


def _end(
    line: str, at: int, members: dict[str, str], values: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    at = _skip(line, at)
    if at != len(line):
        raise _bad(line, at, "something follows the object")
    return members, values


def _agent_name(reference: Any) -> str:
    if reference is None:
        return ""
    name = reference.get("name") if isinstance(reference, dict) else None
    if not isinstance(name, str) or not name:
        raise RowError('agent_ref must be an object with a name, such as {"name": "simple_agent"}')
    return name


def _index(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 2**31:
        raise RowError(f"{key} must be a whole number from 0")
    return value


# ---- writing


def _quote(key: str) -> str:
    try:
        return json.dumps(key, ensure_ascii=False).encode().decode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be written
        return json.dumps(key)


def _join(members: Mapping[str, str]) -> bytes:
    return ("{" + ",".join(f"{_quote(key)}:{value}" for key, value in members.items()) + "}").encode()


def _row_members(
    row: Row, agent: str, task_index: int, index: int, overrides: Mapping[str, Any] | None
) -> dict[str, str]:
    members = {
        key: text for key, text in row.members.items() if key not in _OWN_KEYS or key in (PARAMS, AGENT_REF)
    }
    if overrides:
        members[PARAMS] = dump_json({**row.params, **overrides})
    if agent and not row.agent:
        members[AGENT_REF] = dump_json({"type": "responses_api_agents", "name": agent})
    members[TASK_INDEX] = str(task_index)
    members[ROLLOUT_INDEX] = str(index)
    return members


def _add_reward(members: dict[str, str], reward: Reward) -> list[str]:
    """Adds the reward; returns which members are the verifier's extras, for they may hide the row's own."""
    names: list[str] = []
    if reward.extras_json:
        try:
            extras, _ = _split(reward.extras_json)
        except RowError:  # a foreign verifier's mistake: kept as the text it is
            extras = {"verifier_extras": dump_json(reward.extras_json)}
        names = [key for key in extras if key not in _OWN_KEYS]
        members.update((key, extras[key]) for key in names)
    if reward.HasField("value"):
        members["reward"] = dump_json(reward.value)
    if reward.components:
        members["reward_components"] = dump_json(dict(sorted(reward.components.items())))
    return names


def _facts(rollout: Rollout, task_index: int) -> dict[str, Any]:
    return {
        "task_index": task_index,
        "index": rollout.index,
        "attempt": rollout.attempt,
        "agent": rollout.agent,
        "outcome": _word(Outcome, rollout.outcome, "OUTCOME_"),
        "termination_reason": rollout.termination_reason,
        "model_calls": rollout.model_call_count,
        "tool_calls": rollout.tool_call_count,
        "tool_errors": rollout.tool_error_count,
        "timing": _timing(rollout.timing),
        **_flags(rollout),
    }


def _flags(rollout: Rollout) -> dict[str, Any]:
    """What the verifier said about the rollout's use, and the versions of the policy; what is known of it."""
    found: dict[str, Any] = {}
    for name in ("use_for_loss", "use_for_baseline"):
        if rollout.reward.HasField(name):
            found[name] = getattr(rollout.reward, name)
    if rollout.HasField("policy"):
        policy = rollout.policy
        found["policy_versions"] = [policy.start_version, policy.end_version]
        if policy.stale:
            found["stale"] = True
    return found


def _timing(timing: Timing) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("accept_time", "start_time", "end_time"):
        if timing.HasField(name):
            found[name] = getattr(timing, name).ToJsonString()
    if timing.HasField("start_time") and timing.HasField("end_time"):
        found["seconds"] = (timing.end_time.ToNanoseconds() - timing.start_time.ToNanoseconds()) / 1e9
    for name in ("model", "tool", "seed", "verify", "release"):
        span: Duration = getattr(timing, f"{name}_duration")
        if timing.HasField(f"{name}_duration"):
            found[f"{name}_seconds"] = span.ToNanoseconds() / 1e9
    return found


def _failure(rollout: Rollout) -> dict[str, Any]:
    failure = rollout.failure
    found: dict[str, Any] = {
        "class": _word(FailureClass, failure.failure_class, "FAILURE_CLASS_"),
        "stage": _word(Stage, failure.stage, "STAGE_"),
        "retriable": failure.retriable,
        **_status(failure.status),
    }
    if failure.HasField("upstream_status"):
        found["upstream_status"] = failure.upstream_status
    if failure.upstream_body:
        found["upstream_body"] = failure.upstream_body
    if failure.attempts:
        found["attempts"] = [{"attempt": one.attempt, **_status(one.status)} for one in failure.attempts]
    return found


def _status(status: ErrorStatus) -> dict[str, Any]:
    return _error(from_status_message(status))


def _error(error: GymdError) -> dict[str, Any]:
    return {
        "code": error.code,
        "reason": error.reason_name,
        "message": error.message,
        "metadata": dict(sorted(error.metadata.items())),
    }


def _word(enum: Any, value: int, prefix: str) -> str:
    try:
        name: str = enum.Name(value)
    except ValueError:  # a value of a newer daemon
        return str(value)
    return name.removeprefix(prefix).lower()

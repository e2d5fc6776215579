"""Whether a submitted task may run: every check that needs no server, so that bad tasks cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from gymapi.v1.agent_service_pb2 import Deadlines, RunRolloutRequest
from gymapi.v1.rollout_service_pb2 import (
    OpenSession,
    PolicyConstraint,
    StalenessMode,
    TaskPurpose,
    TaskSubmission,
)
from gymd.daemon.lanes import Share
from gymd.daemon.work import TaskWork, merged_deadlines, to_seconds
from gymd.errors import GymdError, error

__all__ = ["Agents", "Gate", "SessionLimits", "check_deadlines"]

MAX_ROLLOUT_COUNT = 65_536
MAX_INDEX = 2**31 - 1
MAX_ID_LENGTH = 512
MAX_RETRY_LIMIT = 100
MIN_WEIGHT, MAX_WEIGHT = 0.001, 1000.0
MAX_TASK_BYTES = 16 * 1024 * 1024
"""Largest task; it has to fit into one message on its way to the agent, with room to spare."""


@dataclass(frozen=True)
class SessionLimits:
    """What the daemon's configuration says about sessions; times in seconds."""

    rollout_s: float = 3600.0
    queue_s: float = 86_400.0
    infra_retries: int = 2
    deadlines: Deadlines = field(default_factory=Deadlines)
    """Limits of the parts that the configuration sets; absent ones are the agent servers' own affair."""
    retention_s: float = 86_400.0
    """Longest resume window of a session."""
    max_running: int = 8192
    max_message_bytes: int = 64 * 1024 * 1024
    max_task_bytes: int = MAX_TASK_BYTES
    version: str = ""


class Agents:
    """What sessions ask about agents.

    Args:
        default: the agent that tasks without one run on, "" if there is none.
        refusal: why an agent cannot be given tasks, or None.
        of_environment: those that work with a resources server; raises NotFound when none is known to.
    """

    def __init__(
        self,
        default: Callable[[], str],
        refusal: Callable[[str], GymdError | None],
        of_environment: Callable[[str], Collection[str]],
    ) -> None:
        self.default = default
        self.refusal = refusal
        self.of_environment = of_environment


def check_deadlines(deadlines: Deadlines, where: str) -> GymdError | None:
    """Every limit that is set must be more than zero."""
    for descriptor, value in deadlines.ListFields():
        if to_seconds(value) <= 0:
            text = f"deadlines.{descriptor.name} of {where} must be more than 0; leave it out for the default"
            return error("INVALID_REQUEST", text, field=f"deadlines.{descriptor.name}")
    return None


class Gate:
    """Checks the tasks of one session and turns them into work.

    Args:
        opening: how the session was opened.
        limits: the daemon's configuration.
        agents: see Agents.

    Raises:
        InvalidRequest: the opening holds a value that is out of range.
    """

    def __init__(self, opening: OpenSession, limits: SessionLimits, agents: Agents) -> None:
        if opening.HasField("deadlines") and (wrong := check_deadlines(opening.deadlines, "the session")):
            raise wrong
        for name in ("infra_retry_limit", "data_retry_limit", "policy_version"):
            if getattr(opening, name) < 0:
                raise _invalid(name, f"{name} is {getattr(opening, name)}; it must not be negative")
        self._limits = limits
        self._agents = agents
        self._default_agent = opening.default_agent
        self._deadlines = merged_deadlines(limits.deadlines, opening.deadlines)
        self._return_tokens = opening.return_tokens if opening.HasField("return_tokens") else None
        self._retry_limit = limits.infra_retries
        if opening.HasField("infra_retry_limit"):
            self._retry_limit = min(opening.infra_retry_limit, MAX_RETRY_LIMIT)
        self._data_retry_limit = min(opening.data_retry_limit, MAX_RETRY_LIMIT)
        self.shares = _shares(opening)

    def check(self, submission: TaskSubmission) -> GymdError | None:
        """Why a task cannot be accepted, whatever the session's state; None if it can."""
        task_id = submission.task_id
        if not task_id or len(task_id) > MAX_ID_LENGTH:
            return _invalid("task_id", f"task_id must be 1 to {MAX_ID_LENGTH} characters")
        if len(submission.group_id) > MAX_ID_LENGTH:
            return _invalid("group_id", f"group_id of task {task_id!r} is over {MAX_ID_LENGTH} characters")
        if not 0 <= submission.rollout_count <= MAX_ROLLOUT_COUNT:
            count = submission.rollout_count
            text = f"rollout_count of task {task_id!r} is {count}; the range is 0 to {MAX_ROLLOUT_COUNT}"
            return _invalid("rollout_count", text)
        if not 0 <= submission.first_index <= MAX_INDEX - MAX_ROLLOUT_COUNT:
            text = f"first_index of task {task_id!r} is {submission.first_index}; it must be 0 or more"
            return _invalid("first_index", text)
        if submission.wanted_count < 0:
            text = f"wanted_count of task {task_id!r} is {submission.wanted_count}; it must not be negative"
            return _invalid("wanted_count", text)
        if submission.purpose not in TaskPurpose.values():
            return _invalid("purpose", f"task {task_id!r} has a purpose that this daemon does not know")
        if submission.HasField("policy_constraint") and (wrong := _check_constraint(submission)):
            return wrong
        return self._check_task(submission)

    def _check_task(self, submission: TaskSubmission) -> GymdError | None:
        task_id, task = submission.task_id, submission.task
        if not submission.HasField("task"):
            return _invalid("task", f"task {task_id!r} holds no task")
        params = task.create_params
        if params.WhichOneof("input") is None and not params.HasField("prompt"):
            return _invalid("task.create_params.input", f"task {task_id!r} has no input for the model")
        if submission.HasField("deadlines"):
            wrong = check_deadlines(submission.deadlines, f"task {task_id!r}")
            if wrong is not None:
                return wrong
        size, limit = task.ByteSize(), self._limits.max_task_bytes
        if size > limit:
            text = f"task {task_id!r} has {size} bytes; the limit is {limit}"
            return error("MESSAGE_TOO_LARGE", text, size_bytes=size, limit_bytes=limit, task_id=task_id)
        agent = self.agent_of(submission)
        if not agent:
            text = (
                f"task {task_id!r} names no agent, the session has no default agent, "
                "and the daemon does not serve exactly one; name an agent"
            )
            return _invalid("task.agent", text)
        return self._agents.refusal(agent)

    def agent_of(self, submission: TaskSubmission) -> str:
        """The agent that a task runs on; "" if nothing says which."""
        return submission.task.agent or self._default_agent or self._agents.default()

    def admit(self, submission: TaskSubmission, now: float, wall: float) -> TaskWork:
        """The work of a task that passed the checks. It copies what it keeps: frames are not held."""
        request = RunRolloutRequest(task_id=submission.task_id, group_id=submission.group_id)
        request.task.CopyFrom(submission.task)
        if not request.task.agent:
            request.task.agent = self.agent_of(submission)
        deadlines = self._deadlines
        if submission.HasField("deadlines"):
            deadlines = merged_deadlines(deadlines, submission.deadlines)
        if deadlines.ByteSize():
            request.deadlines.CopyFrom(deadlines)
        if self._return_tokens is not None:
            request.return_tokens = self._return_tokens
        limits = self._limits
        constraint = None
        if submission.HasField("policy_constraint"):
            constraint = PolicyConstraint()
            constraint.CopyFrom(submission.policy_constraint)
        return TaskWork(
            request,
            max(1, submission.rollout_count),
            first_index=submission.first_index,
            accepted=now,
            wall=wall,
            rollout_s=to_seconds(deadlines.rollout) if deadlines.HasField("rollout") else limits.rollout_s,
            queue_s=to_seconds(deadlines.queue) if deadlines.HasField("queue") else limits.queue_s,
            retry_limit=self._retry_limit,
            data_retry_limit=self._data_retry_limit,
            wanted=submission.wanted_count,
            rank=0 if submission.purpose == TaskPurpose.TASK_PURPOSE_EVAL else 1,
            constraint=constraint,
        )


def _check_constraint(submission: TaskSubmission) -> GymdError | None:
    task_id, constraint = submission.task_id, submission.policy_constraint
    if constraint.min_version < 0 or constraint.max_version_lag < 0:
        text = f"policy_constraint of task {task_id!r} holds a negative number"
        return _invalid("policy_constraint", text)
    if constraint.mode not in StalenessMode.values():
        text = f"policy_constraint of task {task_id!r} has a mode that this daemon does not know"
        return _invalid("policy_constraint.mode", text)
    return None


def _shares(opening: OpenSession) -> dict[str, Share]:
    """The parts of the agents; raises InvalidRequest."""
    shares = {}
    for agent, share in opening.agent_shares.items():
        weight = share.weight or 1.0
        if not MIN_WEIGHT <= weight <= MAX_WEIGHT or not 0 <= share.min_share <= 1:
            text = (
                f"agent_shares of {agent!r}: weight {share.weight:g} and min_share {share.min_share:g}; "
                f"the ranges are {MIN_WEIGHT:g} to {MAX_WEIGHT:g} and 0 to 1"
            )
            raise _invalid("agent_shares", text)
        shares[agent] = Share(weight, share.min_share)
    if sum(share.minimum for share in shares.values()) > 1 + 1e-9:
        raise _invalid("agent_shares", "the min_share of all agents together must not be more than 1")
    return shares


def _invalid(name: str, text: str) -> GymdError:
    return error("INVALID_REQUEST", text, field=name)

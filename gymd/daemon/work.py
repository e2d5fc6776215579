"""What sessions hand to the scheduler: accepted tasks and their rollouts, and the results they end in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymapi.v1.agent_service_pb2 import STOP_MODE_UNSPECIFIED, Deadlines, RunRolloutRequest
from gymapi.v1.errors_pb2 import ErrorStatus
from gymapi.v1.rollout_pb2 import FailedAttempt, FailureClass, Outcome, Rollout, Stage

if TYPE_CHECKING:
    import asyncio

    from gymapi.v1.rollout_service_pb2 import PolicyConstraint
    from gymd.daemon.groups import Group
    from gymd.daemon.lanes import Client, Lane
    from gymd.daemon.replicas import Replica

__all__ = [
    "REWARDED_OUTCOMES",
    "Job",
    "TaskWork",
    "cancelled_rollout",
    "complete",
    "failed_rollout",
    "merged_deadlines",
    "stamp",
    "to_seconds",
]

# A reward may be present with these only (rollout.proto).
REWARDED_OUTCOMES = frozenset(
    (
        Outcome.OUTCOME_COMPLETED,
        Outcome.OUTCOME_TRUNCATED_TOKENS,
        Outcome.OUTCOME_TRUNCATED_TURNS,
        Outcome.OUTCOME_EMPTY,
        Outcome.OUTCOME_PARTIAL,
    )
)

# Seconds are split by hand: Timestamp.FromNanoseconds is a slow Python function, and this runs per rollout.
_NANOS = 1_000_000_000


def stamp(timestamp: object, seconds: float) -> None:
    """Sets a Timestamp message to Unix time `seconds`."""
    whole = int(seconds)
    timestamp.seconds = whole  # type: ignore[attr-defined]
    timestamp.nanos = int((seconds - whole) * _NANOS)  # type: ignore[attr-defined]


def to_seconds(duration: object) -> float:
    """The seconds of a Duration message."""
    return duration.seconds + duration.nanos / _NANOS  # type: ignore[attr-defined]


class TaskWork:
    """One accepted task, until its last rollout has ended.

    Attributes:
        task_id: the client's id.
        request: what its rollouts are asked, complete but for index, attempt and rollout id.
        count: how many rollouts it has.
        first_index: index of the first one.
        jobs: its rollouts that did not end yet, by index.
        group: the group it belongs to, perhaps alone.
        number: in the journal, from 1; 0: it is in none.
        rollout_s, queue_s: limits from acceptance on, in seconds.
        retry_limit: infrastructure failures that are tried again, per rollout.
        data_retry_limit: failures of the task or its verifier that are tried again, per rollout.
        wanted: so many rollouts with a reward are enough for its group; 0: all.
        rank: 0 for evaluation, 1 for training.
        constraint: how old the policy may be; None: as old as it likes.
    """

    __slots__ = (
        "accepted",
        "constraint",
        "count",
        "data_retry_limit",
        "first_index",
        "group",
        "jobs",
        "number",
        "queue_s",
        "rank",
        "request",
        "retry_limit",
        "rollout_s",
        "task_id",
        "wall",
        "wanted",
    )

    group: Group

    def __init__(
        self,
        request: RunRolloutRequest,
        count: int,
        *,
        first_index: int = 0,
        accepted: float,
        wall: float,
        rollout_s: float,
        queue_s: float,
        retry_limit: int,
        data_retry_limit: int = 0,
        wanted: int = 0,
        rank: int = 1,
        constraint: PolicyConstraint | None = None,
    ) -> None:
        self.task_id = request.task_id
        self.request = request
        self.count = count
        self.first_index = first_index
        self.jobs: dict[int, Job] = {}
        self.number = 0
        self.accepted = accepted
        self.wall = wall
        self.rollout_s = rollout_s
        self.queue_s = queue_s
        self.retry_limit = retry_limit
        self.data_retry_limit = data_retry_limit
        self.wanted = wanted
        self.rank = rank
        self.constraint = constraint

    @property
    def agent(self) -> str:
        """The agent that runs it."""
        return self.request.task.agent


class Job:
    """One rollout of a task on its way through the scheduler."""

    __slots__ = (
        "attempt",
        "avoid",
        "call",
        "cancel_reason",
        "client",
        "data_failures",
        "done",
        "expires",
        "failures",
        "finished",
        "index",
        "lane",
        "refusals",
        "replica",
        "started",
        "stopping",
        "task",
        "timer",
        "version",
    )

    def __init__(
        self, task: TaskWork, index: int, client: Client, done: Callable[[Job, Rollout], None]
    ) -> None:
        self.task = task
        self.index = index
        self.client = client
        self.done = done
        self.attempt = 1
        self.refusals = 0
        self.data_failures = 0
        self.avoid: Replica | None = None
        self.replica: Replica | None = None
        self.call: asyncio.Future[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.cancel_reason = ""
        self.stopping: int = STOP_MODE_UNSPECIFIED
        # Where it waits; None: nowhere yet, or for a newer version of the policy.
        self.lane: Lane | None = None
        # The policy's version when it began.
        self.version: int | None = None
        self.failures: list[FailedAttempt] | None = None
        self.finished = False
        self.started = 0.0
        # When it must have been started, on the scheduler's clock.
        self.expires = task.accepted + min(task.queue_s, task.rollout_s)

    @property
    def rollout_id(self) -> str:
        """`<task_id>/<index>`."""
        return f"{self.task.task_id}/{self.index}"

    def build_request(self) -> RunRolloutRequest:
        """What the agent is asked for this attempt."""
        request = self.task.request
        if self.task.count > 1:
            # The rollouts of a task run at the same time; a lone one may use the task's own message.
            request = RunRolloutRequest()
            request.CopyFrom(self.task.request)
        if self.client.policy_session:
            request.policy_session = self.client.policy_session
        if self.version is not None:
            request.policy_version = self.version
        request.rollout_id = self.rollout_id
        request.index = self.index
        request.attempt = self.attempt
        return request


def merged_deadlines(*layers: Deadlines) -> Deadlines:
    """Limits with later layers over earlier ones, field by field."""
    merged = Deadlines()
    for layer in layers:
        merged.MergeFrom(layer)
    return merged


def failed_rollout(
    outcome: int,
    status: ErrorStatus,
    *,
    failure_class: int,
    stage: int = Stage.STAGE_UNSPECIFIED,
    word: str = "error",
    retriable: bool = False,
) -> Rollout:
    """A rollout that ended without the agent's word on it. It has no reward: nobody scored it."""
    rollout = Rollout(outcome=outcome, termination_reason=word)  # type: ignore[arg-type]
    failure = rollout.failure
    failure.failure_class = failure_class  # type: ignore[assignment]
    failure.stage = stage  # type: ignore[assignment]
    failure.retriable = retriable
    failure.status.CopyFrom(status)
    return rollout


def cancelled_rollout(status: ErrorStatus, stage: int) -> Rollout:
    """A rollout that the client or a shutdown stopped."""
    return failed_rollout(
        Outcome.OUTCOME_CANCELLED,
        status,
        failure_class=FailureClass.FAILURE_CLASS_CLIENT,
        stage=stage,
        word="cancelled",
    )


def complete(job: Job, rollout: Rollout, end: float | None = None) -> Rollout:
    """Fills in what the daemon knows better than the agent: identity, attempts and times. Returns it."""
    request = job.task.request
    rollout.rollout_id = job.rollout_id
    rollout.task_id = request.task_id
    rollout.group_id = request.group_id
    rollout.index = job.index
    rollout.attempt = job.attempt
    rollout.agent = request.task.agent
    timing = rollout.timing
    stamp(timing.accept_time, job.task.wall)
    if job.started and not timing.HasField("start_time"):
        stamp(timing.start_time, job.started)
    if not timing.HasField("end_time"):
        stamp(timing.end_time, time.time() if end is None else end)
    if job.failures and rollout.HasField("failure"):
        rollout.failure.attempts.extend(job.failures)
    return rollout

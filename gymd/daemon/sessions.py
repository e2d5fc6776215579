"""The protocol of StreamRollouts as a state machine: frames in, frames out, rollouts to the scheduler.

No gRPC, no tasks, no sleeping; the clock is injected. One `RolloutSession` is one open stream. What it keeps
is bounded by the credits: a task is forgotten when its last result was put into a frame, so a task id may be
used again after that (only ids of live tasks are refused as doubles).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    CancelMode,
    CancelWork,
    GrantCredits,
    OpenSession,
    SessionInfo,
    StreamRolloutsRequest,
    StreamRolloutsResponse,
    SubmitTasks,
    TaskAdmission,
    TaskSubmission,
)
from gymd.daemon.admission import Agents, Gate, SessionLimits
from gymd.daemon.groups import Groups
from gymd.daemon.lanes import Client
from gymd.daemon.outbox import Outbox, outcome_counts
from gymd.daemon.work import Job, TaskWork, stamp, to_seconds
from gymd.errors import GymdError, error, to_status_message

__all__ = ["FEATURES", "Executor", "RolloutSession"]

FEATURES = ("groups",)
"""What this daemon can do beyond the base protocol."""

PROGRESS_DEFAULT_S = 10.0
PROGRESS_MIN_S = 1.0
PROGRESS_MAX_S = 60.0


class Executor(Protocol):
    """Runs rollouts: the scheduler, or a test's stand-in."""

    def new_client(self) -> Client:
        """A place for one session."""

    def close_client(self, client: Client) -> None:
        """Gives the place back."""

    def submit(self, client: Client, jobs: Iterable[Job]) -> None:
        """Queues rollouts."""

    def cancel(self, job: Job, reason: str) -> bool:
        """Stops one rollout; False if it ended already."""


class RolloutSession:
    """One stream of rollouts.

    Args:
        session_id: the daemon's name for it.
        executor: runs the rollouts.
        agents: which agents there are.
        limits: the daemon's configuration.
        wake: called when there may be something to send.
        clock: seconds that never jump, the scheduler's.
        wall: Unix time in seconds.
    """

    def __init__(
        self,
        session_id: str,
        executor: Executor,
        agents: Agents,
        limits: SessionLimits,
        *,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.session_id = session_id
        self.client_name = ""
        self.run_id = ""
        self.finished = False
        """The summary was taken: nothing follows."""
        self.accepted_total = 0
        self.rejected_total = 0
        self._executor = executor
        self._agents = agents
        self._limits = limits
        self._wake = wake
        self._clock = clock
        self._wall = wall
        self._client = executor.new_client()
        self._outbox = Outbox(0, self._delivered)
        self._gate: Gate | None = None
        self._tasks: dict[str, TaskWork] = {}
        self._groups = Groups()
        self._granted = 0
        self._used = 0
        self._ended = 0
        self._retried = 0
        self._acked = 0
        self._closing = False
        self._draining: GymdError | None = None
        self._abandoned = False
        self._interval = PROGRESS_DEFAULT_S
        self._last_sent = clock()
        self._open_wall = wall()

    # Frames in.

    def receive(self, frame: StreamRolloutsRequest) -> None:
        """Takes a frame of the client.

        Raises:
            GymdError: the stream cannot go on (PROTOCOL_VIOLATION, INVALID_REQUEST, NOT_IMPLEMENTED).
        """
        kind = frame.WhichOneof("frame")
        if kind is None:
            raise _unimplemented("unknown_frame", "the frame is of a kind that this daemon does not know")
        if self._gate is None and kind != "open":
            raise _violation(f"the first frame must be open, not {kind}", kind)
        if kind == "submit":
            self._on_submit(frame.submit)
        elif kind == "ack":
            self._on_ack(frame.ack)
        elif kind == "grant":
            self._on_grant(frame.grant)
        elif kind == "cancel":
            self._on_cancel(frame.cancel)
        elif kind == "open":
            self._on_open(frame.open)
        elif kind == "policy_update":
            raise _unimplemented("policy_versions", "this daemon has no policy versions yet")
        else:
            raise _unimplemented("trainer_policy", "this daemon cannot ask the trainer's policy yet")
        self._wake()

    def half_close(self) -> None:
        """The client submits nothing more.

        Raises:
            InvalidRequest: it never opened the session.
        """
        if self._gate is None:
            raise _violation("the stream ended before its open frame", "half-close")
        self._closing = True
        self._wake()

    def _on_open(self, opening: OpenSession) -> None:
        if self._gate is not None:
            raise _violation("the session is open already", "open")
        if self._draining is not None:
            raise self._draining
        if opening.session_id or opening.last_sequence:
            raise _unimplemented("resume", "this daemon cannot resume sessions yet; open a new one")
        self._gate = Gate(opening, self._limits, self._agents)
        self._on_grant(GrantCredits(granted_rollouts=opening.granted_rollouts))
        if opening.max_message_bytes < 0:
            raise error(
                "INVALID_REQUEST", "max_message_bytes must not be negative", field="max_message_bytes"
            )
        self._outbox = Outbox(opening.max_message_bytes, self._delivered)
        if opening.HasField("progress_interval"):
            wanted = to_seconds(opening.progress_interval)
            self._interval = min(max(wanted, PROGRESS_MIN_S), PROGRESS_MAX_S)
        self.client_name, self.run_id = opening.client_name[:200], opening.run_id[:200]
        frame = StreamRolloutsResponse()
        opened = frame.opened
        opened.session_id = self.session_id
        opened.progress_interval.FromNanoseconds(int(self._interval * 1e9))
        opened.max_running_rollouts = self._limits.max_running
        opened.max_message_bytes = self._limits.max_message_bytes
        opened.features.extend(FEATURES)
        opened.daemon_version = self._limits.version
        self._outbox.answer(frame)

    def _on_grant(self, grant: GrantCredits) -> None:
        if grant.granted_rollouts < 0:
            text = f"granted_rollouts is {grant.granted_rollouts}; it must be 0 or more"
            raise error("INVALID_REQUEST", text, field="granted_rollouts")
        self._granted = max(self._granted, grant.granted_rollouts)

    def _on_ack(self, ack: AckResults) -> None:
        if ack.through_sequence > self._outbox.last_sequence:
            sent = self._outbox.last_sequence
            raise error(
                "PROTOCOL_VIOLATION",
                f"ack of result {ack.through_sequence}, but only {sent} were sent",
                through_sequence=ack.through_sequence,
                last_sequence=sent,
            )
        self._acked = max(self._acked, ack.through_sequence)

    # Tasks in.

    def _on_submit(self, submit: SubmitTasks) -> None:
        if self._closing:
            raise _violation("tasks after the half-close", "submit")
        admissions, jobs = [], []
        for submission in submit.tasks:
            admission = TaskAdmission(task_id=submission.task_id)
            refusal = self._refusal(submission)
            if refusal is None:
                jobs += self._accept(submission)
            else:
                self.rejected_total += 1
                admission.rejection.CopyFrom(to_status_message(refusal))
            admissions.append(admission)
        self._outbox.admissions(admissions)
        if jobs:
            self._executor.submit(self._client, jobs)

    def _refusal(self, submission: TaskSubmission) -> GymdError | None:
        assert self._gate is not None
        if self._draining is not None:
            return self._draining
        task_id = submission.task_id
        if task_id in self._tasks:
            text = f"task id {task_id!r} is in use; ids must be unique within the session"
            return error("NAME_TAKEN", text, task_id=task_id)
        if wrong := self._gate.check(submission):
            return wrong
        cost, free = max(1, submission.rollout_count), self._granted - self._used
        if cost > free:
            text = f"task {task_id!r} costs {cost} credits and {free} are free; grant more first"
            return error("CREDIT_EXCEEDED", text, task_id=task_id, cost=cost, free=free)
        return None

    def _accept(self, submission: TaskSubmission) -> list[Job]:
        assert self._gate is not None
        work = self._gate.admit(submission, self._clock(), self._wall())
        self._tasks[submission.task_id] = work
        self.accepted_total += 1
        self._used += work.count
        self._groups.add(work)
        first, client, done = submission.first_index, self._client, self._on_done
        work.jobs = {index: Job(work, index, client, done) for index in range(first, first + work.count)}
        return list(work.jobs.values())

    # Cancelling.

    def _on_cancel(self, cancel: CancelWork) -> None:
        if cancel.mode not in (CancelMode.CANCEL_MODE_UNSPECIFIED, CancelMode.CANCEL_MODE_ABORT):
            raise _unimplemented("partial_cancel", "this daemon can only cancel with mode ABORT yet")
        frame = StreamRolloutsResponse()
        reason = f"the client cancelled it: {cancel.reason}" if cancel.reason else "the client cancelled it"
        frame.cancelled.cancelled_count = self._cancel(self._covered(cancel), reason)
        frame.cancelled.request.CopyFrom(cancel)
        self._outbox.answer(frame)

    def _covered(self, cancel: CancelWork) -> list[TaskWork]:
        scope = cancel.WhichOneof("scope")
        if scope == "task_id":
            return [self._tasks[cancel.task_id]] if cancel.task_id in self._tasks else []
        if scope == "group_id":
            return self._groups.tasks(cancel.group_id)
        if scope == "agent":
            return [work for work in self._tasks.values() if work.agent == cancel.agent]
        if scope == "all" and cancel.all:
            return list(self._tasks.values())
        if scope == "older_than_version":
            raise _unimplemented("policy_versions", "this daemon has no policy versions yet")
        raise error("INVALID_REQUEST", "cancel must say its scope; `all` must be true", field="scope")

    def _cancel(self, tasks: Iterable[TaskWork], reason: str) -> int:
        cancel = self._executor.cancel
        return sum(cancel(job, reason) for work in tasks for job in list(work.jobs.values()))

    def drain(self, time_left: float, reason: str) -> None:
        """The daemon shuts down: says so, refuses further tasks, ends the stream when all is delivered."""
        if self._draining is not None or self._abandoned:
            return
        self._draining = error("DRAINING", f"the daemon is shutting down: {reason}")
        if self._gate is not None:
            frame = StreamRolloutsResponse()
            frame.draining.time_left.FromNanoseconds(int(time_left * 1e9))
            frame.draining.reason = reason
            self._outbox.answer(frame)
        self._wake()

    def cancel_all(self, reason: str) -> int:
        """Stops everything under way; the results follow. Returns how many rollouts were stopped."""
        count = self._cancel(list(self._tasks.values()), reason)
        self._wake()
        return count

    def abandon(self) -> None:
        """The stream broke: stops everything under way and drops what was not sent. Safe to repeat."""
        self._abandoned = True
        self._cancel(list(self._tasks.values()), "the client went away")
        self._tasks.clear()
        self._groups.clear()
        self._outbox.clear()
        self._executor.close_client(self._client)

    # Rollouts out.

    def _on_done(self, job: Job, rollout: Rollout) -> None:
        self._ended += 1
        self._retried += job.attempt > 1
        if not self._abandoned:
            self._outbox.result(job, rollout)
            self._wake()

    def _delivered(self, job: Job, rollout: Rollout) -> None:
        """Forgets what was put into a frame."""
        work = job.task
        del work.jobs[job.index]
        if not work.jobs:
            del self._tasks[work.task_id]
        completed = self._groups.delivered(work, rollout)
        if completed is not None:
            self._outbox.answer(StreamRolloutsResponse(group_completed=completed))

    # Frames out.

    @property
    def refused(self) -> GymdError | None:
        """Why the stream should end at once: the daemon shuts down and the session was never opened."""
        return self._draining if self._gate is None else None

    @property
    def congested(self) -> bool:
        """Whether no frame should be received until some were taken: the client does not read its answers."""
        return self._outbox.congested

    def next_frame(self) -> StreamRolloutsResponse | None:
        """The next frame to send, or None: then wait for `wake`, at most `silence_left()` seconds."""
        frame = self._outbox.take()
        if frame is None and self._complete():
            frame = self._summary()
            self.finished = True
        if frame is None and self._gate is not None and self.silence_left() <= 0:
            frame = StreamRolloutsResponse()
            self._progress(frame.progress)
        if frame is not None:
            self._last_sent = self._clock()
        return frame

    def silence_left(self) -> float:
        """Seconds until a progress frame is due."""
        if self._gate is None:
            return self._interval
        return max(0.0, self._last_sent + self._interval - self._clock())

    def _complete(self) -> bool:
        over = self._closing or self._draining is not None
        return over and not self._tasks and not self.finished and self._gate is not None

    def _summary(self) -> StreamRolloutsResponse:
        frame = StreamRolloutsResponse()
        summary = frame.summary
        summary.accepted_task_count = self.accepted_total
        summary.rejected_task_count = self.rejected_total
        summary.result_count = self._outbox.last_sequence
        summary.outcome_counts.extend(outcome_counts(self._outbox.outcomes))
        summary.retried_count = self._retried
        return frame

    def _progress(self, progress: object) -> None:
        progress.last_sequence = self._outbox.last_sequence  # type: ignore[attr-defined]
        progress.queued_count = self._client.queued  # type: ignore[attr-defined]
        progress.running_count = self._client.running  # type: ignore[attr-defined]
        progress.done_count = self._ended  # type: ignore[attr-defined]
        progress.acked_sequence = self._acked  # type: ignore[attr-defined]

    def info(self) -> SessionInfo:
        """The session for ListSessions."""
        info = SessionInfo(session_id=self.session_id, client_name=self.client_name)
        stamp(info.open_time, self._open_wall)
        self._progress(info.progress)
        info.granted_rollouts = self._granted
        return info


def _violation(text: str, frame: str) -> GymdError:
    return error("PROTOCOL_VIOLATION", text, frame=frame)


def _unimplemented(feature: str, text: str) -> GymdError:
    return error("NOT_IMPLEMENTED", text, feature=feature)

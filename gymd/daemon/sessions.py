"""The protocol of StreamRollouts as a state machine: frames in, frames out, rollouts to the scheduler.

No gRPC, no tasks, no sleeping; the clock is injected. A `RolloutSession` lives as long as its stream, or,
with a resume window, until the client ended it or stayed away for longer than the window; then it holds
results until the client acknowledged them and writes what it accepts and numbers into the journal. What it
keeps is bounded by the credits: a task is forgotten when its last result was released. What waits in the
journal takes no memory beyond some thousand results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    CancelWork,
    GrantCredits,
    OpenSession,
    PolicyUpdate,
    PolicyUpdateAck,
    SessionInfo,
    StreamRolloutsRequest,
    StreamRolloutsResponse,
    SubmitTasks,
    TaskAdmission,
    TaskSubmission,
)
from gymd.daemon.admission import Agents, Gate, SessionLimits
from gymd.daemon.answers import Answers
from gymd.daemon.cancels import carry_out, stop_restored
from gymd.daemon.executor import Executor
from gymd.daemon.frames import fill_opened, fill_progress, fill_summary, first_grant
from gymd.daemon.groups import Group
from gymd.daemon.journal import StoredSession
from gymd.daemon.ledger import Ledger
from gymd.daemon.policy_desk import PolicyDesk
from gymd.daemon.record import SessionRecord
from gymd.daemon.versions import PolicyVersions
from gymd.daemon.work import Job, stamp, to_seconds
from gymd.errors import GymdError, error, to_status_message

__all__ = ["RolloutSession", "violation"]

PROGRESS_DEFAULT_S = 10.0
PROGRESS_MIN_S = 1.0
PROGRESS_MAX_S = 60.0
DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024
"""What a client accepts that does not say: gRPC's default."""
MIN_MESSAGE_BYTES = 4096
FRAME_BYTES = 1024
"""Room for what surrounds a rollout in its message."""


class RolloutSession:
    """One session of the rollout stream.

    Args:
        session_id: the daemon's name for it.
        executor: runs the rollouts.
        agents: which agents there are.
        limits: the daemon's configuration.
        new_record: a place in the journal, for a session with a resume window; None: there is no journal.
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
        new_record: Callable[[], SessionRecord] | None = None,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.session_id = session_id
        self.client_name = ""
        self.run_id = ""
        self.window_s = 0.0
        """How long it outlives a broken stream."""
        self.finished = False
        """The summary was taken: nothing follows on this stream."""
        self.ended = False
        """The client gave it up."""
        self.wake = wake
        self.attached = True
        """A stream has it."""
        self._executor = executor
        self._agents = agents
        self._limits = limits
        self._new_record = new_record
        self._clock = clock
        self._wall = wall
        self._client = executor.new_client()
        self._versions = PolicyVersions(
            session_id, self._client, executor, lambda: self.ledger.live_jobs(), self._policy_answer
        )
        self._answers = Answers()
        self.policy = self._client.desk = PolicyDesk(lambda: self.wake())
        """Model calls of its rollouts that the client answers."""
        self._gate: Gate | None = None
        self._message_bytes = DEFAULT_MESSAGE_BYTES
        self._chunks = False
        self.ledger = self._new_ledger(None)
        self._draining: GymdError | None = None
        self._interval = PROGRESS_DEFAULT_S
        self._last_sent = clock()
        self._open_wall = wall()

    def _new_ledger(self, record: SessionRecord | None) -> Ledger:
        return Ledger(
            self._client,
            record,
            keep=self.window_s > 0,
            max_bytes=None if self._chunks else self._message_bytes - FRAME_BYTES,
            changed=lambda: self.wake(),
            enough=self._enough,
            serves=lambda: self.policy.serves,
        )

    # Frames in.

    def receive(self, frame: StreamRolloutsRequest) -> None:
        """Takes a frame of the client.

        Raises:
            GymdError: the stream cannot go on (PROTOCOL_VIOLATION, INVALID_REQUEST, NOT_IMPLEMENTED).
        """
        kind = frame.WhichOneof("frame")
        if kind is None:
            text = "the frame is of a kind that this daemon does not know"
            raise error("NOT_IMPLEMENTED", text, feature="unknown_frame")
        if self._gate is None and kind != "open":
            raise violation(f"the first frame must be open, not {kind}", kind)
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
        elif kind == "end":
            self.ended = True
        elif kind == "policy_update":
            self._on_policy(frame.policy_update)
        else:
            self.policy.take(frame.generate_results)
        self.wake()

    def half_close(self) -> None:
        """The client submits nothing more.

        Raises:
            InvalidRequest: it never opened the session.
        """
        if self._gate is None:
            raise violation("the stream ended before its open frame", "half-close")
        self.ledger.closing = True
        self.ledger.results.granted_bytes = 0  # the client cannot grant more, and everything is to come
        self.ledger.note_state()
        self.wake()

    def _on_open(self, opening: OpenSession) -> None:
        if self._gate is not None:
            raise violation("the session is open already", "open")
        if self._draining is not None:
            raise self._draining
        self._configure(opening)
        record = self._new_record() if self.window_s and self._new_record is not None else None
        self.ledger = self._new_ledger(record)
        self._on_grant(first_grant(opening))
        if opening.HasField("policy_version"):
            self._versions.begin(opening.policy_version)
        if record is not None:
            state = self.ledger.state()
            record.begin(self.session_id, opening.SerializeToString(), self._open_wall, state)
        self._opened()

    def _configure(self, opening: OpenSession) -> None:
        self._gate = Gate(opening, self._limits, self._agents)
        self._client.shares = self._gate.shares
        if opening.max_message_bytes and opening.max_message_bytes < MIN_MESSAGE_BYTES:
            text = f"max_message_bytes is {opening.max_message_bytes}; it must be {MIN_MESSAGE_BYTES} or more"
            raise _invalid("max_message_bytes", text)
        self._message_bytes = opening.max_message_bytes or DEFAULT_MESSAGE_BYTES
        self.policy.open(serves=opening.serves_policy, message_bytes=self._message_bytes)
        self._chunks = opening.accepts_chunks
        if opening.HasField("progress_interval"):
            wanted = to_seconds(opening.progress_interval)
            self._interval = min(max(wanted, PROGRESS_MIN_S), PROGRESS_MAX_S)
        self.window_s = min(max(0.0, to_seconds(opening.resume_window)), self._limits.retention_s)
        self.client_name, self.run_id = opening.client_name[:200], opening.run_id[:200]

    def _opened(self, task_ids: list[str] | None = None) -> None:
        frame = StreamRolloutsResponse()
        frame.opened.session_id = self.session_id
        intervals = {"interval_s": self._interval, "window_s": self.window_s}
        fill_opened(frame.opened, self.ledger, self._client, self._limits, **intervals, task_ids=task_ids)
        self._answers.add(frame, self.ledger.mark)

    def restore(self, opening: OpenSession, record: SessionRecord, stored: StoredSession) -> None:
        """Goes on after a restart of the daemon, without a client at first.

        The limits of what did not end yet count from now on.
        """
        self._configure(opening)
        self._open_wall = stored.open_unix_s
        self.ledger = self._new_ledger(record)
        assert self._gate is not None
        gate = self._gate
        jobs = self.ledger.restore(
            stored,
            lambda task: gate.admit(
                TaskSubmission.FromString(task.submission), self._clock(), task.accepted_unix_s
            ),
        )
        self.attached = False
        self.policy.detach()
        if stored.policy_version is not None:
            self._versions.begin(stored.policy_version)
        self._client.held = stored.held
        self.policy.serves = stored.serves_policy
        self._executor.submit(self._client, jobs)
        stop_restored(jobs, stored.stops, self.ledger, self._executor)
        self._stop_surplus(jobs)

    def resume(self, opening: OpenSession, wake: Callable[[], None]) -> None:
        """Goes on with a new stream; whatever the old one had not sent is sent on this one.

        Raises:
            OutOfRange: RESUME_POINT_GONE, results after last_sequence are not kept any more.
            InvalidRequest: last_sequence was never sent, a grant is negative, or messages are to be smaller.
            LimitReached: MESSAGE_TOO_LARGE, the ids of its tasks take more than the client accepts.
        """
        last = opening.last_sequence
        accepts = opening.max_message_bytes or DEFAULT_MESSAGE_BYTES
        if accepts < self._message_bytes:
            text = (
                f"the session was opened for messages of {self._message_bytes} bytes; accept at least as much"
            )
            raise _invalid("max_message_bytes", text)
        task_ids = self.ledger.check_resume(self.session_id, last, accepts - FRAME_BYTES)
        self._on_grant(first_grant(opening))
        self.wake()  # the old stream, if there is one, finds itself replaced
        self.wake, self.attached = wake, True
        self.finished = self.ledger.closing = False
        self._answers.clear()
        self.policy.attach(serves=opening.serves_policy)
        if opening.HasField("policy_version"):
            self._versions.begin(opening.policy_version)
            self._versions.lift()
        self.ledger.results.rewind(last)
        self._last_sent = self._clock()
        self._opened(task_ids)
        # The client may have the last result of a group and not what was told behind it.
        for news in self.ledger.results.news(through=last):
            self._answers.add(news)

    def _on_grant(self, grant: GrantCredits) -> None:
        for name in ("granted_rollouts", "granted_groups", "granted_bytes"):
            if (value := getattr(grant, name)) < 0:
                raise _invalid(name, f"{name} is {value}; it must be 0 or more")
        ledger = self.ledger
        ledger.granted = max(ledger.granted, grant.granted_rollouts)
        ledger.granted_groups = max(ledger.granted_groups, grant.granted_groups)
        ledger.results.granted_bytes = max(ledger.results.granted_bytes, grant.granted_bytes)

    def _on_ack(self, ack: AckResults) -> None:
        through, acked, sent = ack.through_sequence, self.ledger.acked, self.ledger.results.sent_sequence
        highest = max(through, max(ack.rejected_sequences, default=0))
        if highest > sent:
            raise error(
                "PROTOCOL_VIOLATION",
                f"ack of result {highest}, but only {sent} were sent",
                through_sequence=through,
                last_sequence=sent,
            )
        if highest > through:
            text = f"result {highest} is rejected in an ack of results up to {through}"
            raise error("PROTOCOL_VIOLATION", text, through_sequence=through)
        if through > acked:
            # What an earlier ack covered is settled: acks may be repeated.
            self.ledger.ack(through, {number for number in ack.rejected_sequences if number > acked})

    # Tasks in.

    def _on_submit(self, submit: SubmitTasks) -> None:
        assert self._gate is not None
        if self.ledger.closing:
            raise violation("tasks after the half-close", "submit")
        ledger, now, wall = self.ledger, self._clock(), self._wall()
        admissions: list[TaskAdmission] = []
        jobs: list[Job] = []
        for submission in submit.tasks:
            admission = TaskAdmission(task_id=submission.task_id)
            if ledger.is_known(submission):
                admission.known = True
            elif (refusal := self._refusal(submission)) is not None:
                # A durable session's task is not refused for good: the next daemon gets it.
                ledger.rejected += refusal is not self._draining or not ledger.durable
                admission.rejection.CopyFrom(to_status_message(refusal))
            else:
                jobs += ledger.accept(self._gate.admit(submission, now, wall))
            admissions.append(admission)
        ledger.note_state()
        self._answers.admissions(admissions, ledger.mark, self._message_bytes - FRAME_BYTES)
        if jobs:
            self._executor.submit(self._client, jobs)
            self._stop_surplus(jobs)

    def _stop_surplus(self, jobs: list[Job]) -> None:
        """Stops what belongs to groups that have enough already."""
        for group in {job.task.group for job in jobs if job.task.group.wanted}:
            if group.enough:
                self._enough(group)

    def _refusal(self, submission: TaskSubmission) -> GymdError | None:
        assert self._gate is not None
        if self._draining is not None:
            return self._draining
        task_id = submission.task_id
        if self.ledger.has_task(task_id):
            text = f"task id {task_id!r} is in use; ids must be unique within the session"
            return error("NAME_TAKEN", text, task_id=task_id)
        return self._gate.check(submission) or self.ledger.refusal(submission)

    # Cancelling.

    def _on_cancel(self, cancel: CancelWork) -> None:
        if self._draining is not None and self.ledger.silenced:
            raise self._draining  # everything is being stopped for the next daemon, which gets the cancel too
        answer = carry_out(cancel, self.ledger, self._executor, self._agents)
        self._answers.add(StreamRolloutsResponse(cancelled=answer), self.ledger.mark)

    def _cancel(self, jobs: Iterable[Job], reason: str) -> int:
        return sum(self._executor.cancel(job, reason) for job in jobs)

    def _enough(self, group: Group) -> None:
        jobs = [job for work in group.tasks.values() for job in work.jobs.values()]
        self._cancel(jobs, f"{group.wanted} rollouts of the group were wanted, and they are there")

    # The policy.

    def _on_policy(self, update: PolicyUpdate) -> None:
        self._versions.update(update)
        self.ledger.note_state()

    def _policy_answer(self, ack: PolicyUpdateAck) -> None:
        self._answers.add(StreamRolloutsResponse(policy_update_ack=ack), self.ledger.mark)
        self.wake()

    # The end, in its ways.

    def drain(self, time_left: float, reason: str) -> None:
        """The daemon shuts down: says so, refuses further tasks, ends the stream when all is delivered."""
        if self._draining is not None or self.ledger.silenced:
            return
        self._draining = error("DRAINING", f"the daemon is shutting down: {reason}")
        if self._gate is not None:
            frame = StreamRolloutsResponse()
            frame.draining.time_left.FromNanoseconds(int(time_left * 1e9))
            frame.draining.reason = reason
            self._answers.add(frame)
        self.wake()

    def cancel_all(self, reason: str) -> int:
        """The grace is over: stops everything under way. Returns how many rollouts were stopped.

        Their results follow; those of a durable session run again after the restart instead.
        """
        if self.ledger.durable:
            self.ledger.silenced = True
        self.ledger.shutdown = True
        count = self._cancel(self.ledger.live_jobs(), reason)
        self.wake()
        return count

    def detach(self, wake: Callable[[], None]) -> None:
        """The stream broke: goes on without a client until one resumes it."""
        self.wake, self.attached = wake, False
        self._answers.clear()
        self.policy.detach()

    def abandon(self) -> None:
        """Stops everything under way and drops what was not sent, for good. Safe to repeat."""
        self.ledger.silenced = True
        self._cancel(self.ledger.live_jobs(), "the client went away")
        self.ledger.drop()
        self._answers.clear()
        self.policy.close("its session has ended")
        self._executor.close_client(self._client)

    @property
    def over(self) -> bool:
        """Whether nothing is left to say to the client, on this stream or another."""
        ledger = self.ledger
        return (
            self.ended
            or not self.window_s
            or (self.finished and ledger.acked == ledger.results.last_sequence)
        )

    # Frames out.

    @property
    def busy(self) -> bool:
        """Whether a shutdown should wait for it: a stream that has something to say, or a rollout that
        runs."""
        if self.attached:
            return True
        return bool(self.ledger.live) and not self.ledger.silenced

    @property
    def has_news(self) -> bool:
        """Whether there is something to send, now or when the journal has kept it."""
        return bool(len(self._answers) or self.ledger.results.unsent)

    @property
    def refused(self) -> GymdError | None:
        """Why the stream should end at once, or None."""
        if self._draining is None or (self._gate is not None and not self.ledger.durable):
            return None
        # A durable session goes on after the restart, so nothing is waited for but what runs within the
        # grace.
        busy = self.ledger.live and not self.ledger.silenced
        return None if busy or self.has_news else self._draining

    @property
    def congested(self) -> bool:
        """Whether no frame should be received until some were taken: the client does not read its answers."""
        return self._answers.congested

    def next_frame(self) -> StreamRolloutsResponse | bytes | None:
        """The next frame to send, perhaps serialized already, or None.

        Then wait for `wake`, at most `silence_left()` seconds.
        """
        frame: StreamRolloutsResponse | bytes | None = self._answers.take(self.ledger.committed)
        if frame is None and not len(self._answers):
            frame = self.policy.next_frame() or self._next_results()
        if frame is None and self._complete():
            frame = StreamRolloutsResponse()
            fill_summary(frame.summary, self.ledger)
            self.finished = True
        if frame is None and self._gate is not None and self.silence_left() <= 0:
            if self.ledger.closing:  # not earlier: a stream that breaks may look half-closed for a moment
                self.policy.close("it half-closed its stream, on which it would answer")
            frame = StreamRolloutsResponse()
            fill_progress(frame.progress, self.ledger, self._client)
        if frame is not None:
            self._last_sent = self._clock()
        return frame

    def _next_results(self) -> bytes | None:
        found = self.ledger.results.take(self._message_bytes - FRAME_BYTES)
        if found is None:
            return None
        frame, results = found
        for result in results:
            if result.news is not None:
                self._answers.add(result.news)
        self.ledger.sent(results)
        return frame

    def silence_left(self) -> float:
        """Seconds until a progress frame is due."""
        if self._gate is None:
            return self._interval
        return max(0.0, self._last_sent + self._interval - self._clock())

    def _complete(self) -> bool:
        ledger = self.ledger
        over = ledger.closing or (self._draining is not None and not ledger.durable)
        waits = ledger.live or self.has_news
        return over and not waits and not self.finished and self._gate is not None

    def info(self) -> SessionInfo:
        """The session for ListSessions."""
        info = SessionInfo(session_id=self.session_id, client_name=self.client_name)
        stamp(info.open_time, self._open_wall)
        fill_progress(info.progress, self.ledger, self._client)
        info.granted_rollouts = self.ledger.granted
        return info


def violation(text: str, frame: str) -> GymdError:
    """The error for a frame that may not come now."""
    return error("PROTOCOL_VIOLATION", text, frame=frame)


def _invalid(name: str, text: str) -> GymdError:
    return error("INVALID_REQUEST", text, field=name)

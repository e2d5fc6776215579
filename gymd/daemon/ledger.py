"""The account of one session: what was accepted, what ended, what the client has stored. Exact after a
restart too.

Without a journal a task is forgotten when its last result was sent; with a resume window, when the client has
acknowledged it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from gymapi.v1.rollout_pb2 import FailureClass, Outcome, Rollout, Stage
from gymapi.v1.rollout_service_pb2 import SessionOpened, TaskPurpose, TaskSubmission
from gymd.daemon.cancel_log import CancelLog
from gymd.daemon.groups import Group, Groups
from gymd.daemon.journal import StoredResult, StoredSession, StoredTask
from gymd.daemon.lanes import Client
from gymd.daemon.record import SessionRecord
from gymd.daemon.results import Result, ResultLog
from gymd.daemon.work import Job, TaskWork, complete, failed_rollout
from gymd.errors import GymdError, error, to_status_message

__all__ = ["Ledger"]

MAX_INDEX_DIGITS = 10


class Ledger:
    """The account.

    Args:
        client: the session's place in the scheduler.
        record: the session's part of the journal; None: it has none.
        keep: hold results until they are acknowledged, not only until they are sent.
        max_bytes: largest rollout that the client can receive; None: any.
        changed: called when a result was added.
        enough: called when a group has as many rollouts as are wanted.
        serves: whether the client answers model calls.
    """

    def __init__(
        self,
        client: Client,
        record: SessionRecord | None,
        *,
        keep: bool,
        max_bytes: int | None,
        changed: Callable[[], None],
        enough: Callable[[Group], None] = lambda group: None,
        serves: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._record = record
        self._keep = keep
        self._max_bytes = max_bytes
        self._changed = changed
        self._enough = enough
        self._serves = serves
        self._last_task = 0
        self._stored_outcomes: Counter[int] = Counter()
        self._stored_retried = 0
        # Without a journal: numbers of results that are the last of their group and not acknowledged yet.
        self._lasts: set[int] = set()
        # With a journal: rollouts of which it knows that they were told to stop, and has no result.
        self._stopping: set[Job] = set()
        self._task_bytes = 0  # of the submissions that the journal has
        self.tasks: dict[str, TaskWork] = {}
        """Those that have a rollout under way, by id."""
        self.groups = Groups()
        self.results = ResultLog(record, keep=keep)
        self.cancels = CancelLog(record)
        """Those that the client numbered."""
        self.accepted = 0
        self.rejected = 0
        self.granted = 0
        self.used = 0
        self.granted_groups = 0
        """Groups that the client is ready to receive in all; 0: they are not counted."""
        self.used_groups = 0
        self.ended = 0
        """Rollouts that ended, since the daemon started."""
        self.retried = 0
        self.acked = 0
        self.live = 0
        """Rollouts that did not end yet."""
        self.closing = False
        """The client said that it has no more tasks."""
        self.shutdown = False
        """What is cancelled from now on is by the daemon's own end."""
        self.silenced = False
        """What ends from now on is nobody's business: it runs again after a restart, or never."""

    @property
    def durable(self) -> bool:
        """Whether it survives a restart of the daemon."""
        return self._record is not None

    @property
    def trouble(self) -> GymdError | None:
        """Why the journal takes no task now, or None."""
        return self._record.trouble if self._record is not None else None

    @property
    def committed(self) -> int:
        """The journal's mark up to which things may be told."""
        return self._record.committed if self._record is not None else 0

    @property
    def mark(self) -> int:
        """The journal's mark of all that was noted so far."""
        return self._record.mark if self._record is not None else 0

    # Tasks in.

    def is_known(self, submission: TaskSubmission) -> bool:
        """Whether a client that resumed repeats what was accepted."""
        known = self._submitted(submission.task_id) if self._keep else None
        return known is not None and (
            known.rollout_count == max(1, submission.rollout_count)
            and known.first_index == submission.first_index
            and known.wanted_count == submission.wanted_count
            and known.group_id == submission.group_id
            and known.task.create_params == submission.task.create_params
            and known.task.fields_json == submission.task.fields_json
        )

    def _submitted(self, task_id: str) -> TaskSubmission | None:
        """A task that is not forgotten yet."""
        if (work := self.tasks.get(task_id)) is not None:
            return _submission(work)
        kept = self.results.task(task_id)
        if isinstance(kept, int):
            assert self._record is not None
            kept = self._record.read_task(kept)
        return TaskSubmission.FromString(kept) if kept is not None else None

    def has_task(self, task_id: str) -> bool:
        """Whether a task is not forgotten yet: its id is taken."""
        return task_id in self.tasks or self.results.task(task_id) is not None

    def task_ids(self) -> list[str]:
        """The tasks that are not forgotten yet."""
        return [*self.results.task_ids(), *self.tasks]

    def job_of(self, rollout_id: str) -> Job | None:
        """A rollout that has not ended; None: it is none of this session."""
        task_id, _, index = rollout_id.rpartition("/")
        work = self.tasks.get(task_id)
        if work is None or not index.isdecimal() or len(index) > MAX_INDEX_DIGITS:
            return None
        job = work.jobs.get(int(index))
        return job if job is not None and job.rollout_id == rollout_id else None  # "t/07" names nothing

    def accept(self, work: TaskWork) -> list[Job]:
        """Takes a task in; returns its rollouts, to be run. Call `note_state` after a batch of them."""
        self.accepted += 1
        self.used += work.count
        self.used_groups += self.begins_group(work.request.group_id)
        self._last_task += 1
        work.number = self._last_task
        self._begin(work)
        work.group = self.groups.add(work)
        if self._record is not None:
            submission = _submission(work).SerializeToString()
            self._add_rows(work, len(submission))
            self._record.task(work.number, submission, work.wall, work.group.number)
        return list(work.jobs.values())

    def _add_rows(self, work: TaskWork, size: int) -> None:
        work.group.rows.add_task(work.number, size)
        self._task_bytes += size

    def refusal(self, submission: TaskSubmission) -> GymdError | None:
        """Why there is no credit for a task, or no room in the journal; None if there is."""
        task_id = submission.task_id
        cost, free = max(1, submission.rollout_count), self.granted - self.used
        if cost > free:
            text = f"task {task_id!r} costs {cost} credits and {free} are free; grant more first"
            return error("CREDIT_EXCEEDED", text, task_id=task_id, cost=cost, free=free)
        groups = self.granted_groups
        if groups and self.used_groups >= groups and self.begins_group(submission.group_id):
            text = f"task {task_id!r} begins a group, and all {groups} granted ones are taken; grant more"
            return error("CREDIT_EXCEEDED", text, task_id=task_id, granted_groups=groups)
        return self.trouble

    def check_resume(self, session_id: str, last: int, room: int) -> list[str]:
        """Whether results after number `last` can be sent (again), and all tasks named in so many bytes;
        returns their names: a stalled client's lie on the shelf, to be read once.

        Raises:
            GymdError: OutOfRange or InvalidRequest, they cannot; LimitReached, the names need more room.
        """
        if last < self.acked:
            text = (
                f"results up to {self.acked} were acknowledged and are not kept; session {session_id} can be "
                f"resumed from {self.acked}, not from {last}"
            )
            raise error("RESUME_POINT_GONE", text, earliest_sequence=self.acked + 1, last_sequence=last)
        newest = self.results.last_sequence
        if last > newest:
            text = (
                f"last_sequence is {last}, but the newest result is {newest}; resume from {newest}, and tell "
                "rollouts that come twice by their rollout_id"
            )
            raise error("INVALID_REQUEST", text, field="last_sequence")
        task_ids = self.task_ids()
        size = SessionOpened(task_ids=task_ids).ByteSize()
        if size > room:
            text = (
                f"the ids of the session's tasks take {size} bytes, and the client accepts {room}; resume "
                "with a larger max_message_bytes"
            )
            raise error("MESSAGE_TOO_LARGE", text, size_bytes=size, limit_bytes=room)
        return task_ids

    def begins_group(self, group_id: str) -> bool:
        """Whether a task of this group would take one of the granted groups."""
        return not (group_id and self.groups.has(group_id))

    def _begin(self, work: TaskWork) -> None:
        self.tasks[work.task_id] = work
        indices = range(work.first_index, work.first_index + work.count)
        work.jobs = {index: Job(work, index, self._client, self._on_done) for index in indices}
        self.live += len(work.jobs)

    def note_stop(self, job: Job, mode: int, reason: str) -> None:
        """Notes that a rollout was told to stop: if the daemon ends before it has, it does not run again."""
        if self._record is not None and not job.finished:
            self._stopping.add(job)
            self._record.stop(job.task.number, job.index, mode, reason)

    def is_stopping(self, job: Job) -> bool:
        """Whether `note_stop` was called for it."""
        return job in self._stopping

    def live_jobs(self) -> list[Job]:
        """The rollouts that did not end yet."""
        return [job for work in self.tasks.values() for job in work.jobs.values()]

    # Results out.

    def _on_done(self, job: Job, rollout: Rollout) -> None:
        work = job.task
        del work.jobs[job.index]
        self.live -= 1
        if self.silenced:
            return
        self.ended += 1
        self.retried += job.attempt > 1
        payload = rollout.SerializeToString()
        if self._max_bytes is not None and len(payload) > self._max_bytes:
            rollout = complete(job, _too_large(rollout, len(payload), self._max_bytes))
            payload = rollout.SerializeToString()
        outcome = rollout.outcome
        reward = rollout.reward.value if rollout.reward.HasField("value") else None
        mark = 0
        sequence = self.results.last_sequence + 1
        if self._record is not None:
            mark = self._record.result(
                sequence, work.number, job.index, outcome, reward, job.attempt, payload
            )
            if self._stopping and job in self._stopping:
                self._stopping.discard(job)
                self._record.stopped(work.number, job.index)
        result = Result(payload, len(payload), mark, outcome, retried=job.attempt > 1)
        had_enough = work.group.enough
        self._count(work, result, sequence, reward)
        self.results.append(result)
        self._changed()
        if not had_enough and work.group.enough:
            self._enough(work.group)

    def _count(self, work: TaskWork, result: Result, sequence: int, reward: float | None) -> None:
        """Counts a rollout that ended, and hands its result what is left of a task or group that ends
        with it."""
        group = work.group
        result.last = group.ended(work, result.outcome, reward)
        if self._record is not None:
            group.rows.results.append(sequence)
        if not work.jobs:
            # A restart meets the id twice if it was free again before the group of the first was over.
            if self.tasks.get(work.task_id) is work:
                del self.tasks[work.task_id]
            result.task_id, result.task = work.task_id, work.number
            if self._keep and self._record is None:
                result.task = _submission(work).SerializeToString()
        if result.last:
            result.news = group.news(shutdown=self.shutdown)
            self.groups.complete(group)
            if self._record is not None:
                result.rows = group.rows

    def sent(self, results: Iterable[Result]) -> None:
        """Notes results that were put into a frame, the last ones so far."""
        if not self._keep:
            results = list(results)
            for sequence, result in enumerate(results, self.results.sent_sequence - len(results) + 1):
                if result.last and self.granted_groups:
                    self._lasts.add(sequence)
                self._released(result)

    def ack(self, through: int, rejected: Collection[int] = ()) -> None:
        """Notes that the client has stored the results up to a number, and cannot use some of them.

        Args:
            rejected: numbers of results above the last ack and up to this one; their credits are free again.
        """
        before, self.acked = self.acked, through
        self.used -= len(rejected)
        if not self._keep:
            self.used_groups -= len(self._lasts.intersection(rejected))
            self._lasts = {number for number in self._lasts if number > through}
            return
        size = 0
        for sequence, result in self.results.release(through):
            size += result.size
            self.used_groups -= result.last and sequence in rejected
            self._released(result)
        if self._record is not None:
            self._record.stored(before, through, size)
            self.note_state()

    def _released(self, result: Result, *, counted: bool = False) -> None:
        if not counted:
            self._stored_outcomes[result.outcome] += 1
            self._stored_retried += result.retried
        if self._record is not None and (rows := result.rows) is not None:
            self._record.forget(rows.tasks, rows.results, rows.size)
            self._task_bytes -= rows.size

    def drop(self) -> None:
        """Forgets everything, in the journal too."""
        self.silenced = True
        if self._record is not None:
            self._record.end(self._task_bytes + self.results.size)
            self._record = None
        self.tasks.clear()
        self.groups.clear()
        self.results.clear()
        self.cancels = CancelLog(None)

    # The journal.

    def state(self) -> dict[str, Any]:
        """The counters that the journal keeps; what results that wait add follows from their rows."""
        return {
            "granted": self.granted,
            "acked": self.acked,
            "closing": self.closing,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "retried": self._stored_retried,
            "used": self.used,
            "granted_groups": self.granted_groups,
            "used_groups": self.used_groups,
            "granted_bytes": self.results.granted_bytes,
            "released_bytes": self.results.released_bytes,
            "policy_version": self._client.version,
            "held": self._client.held,
            "serves_policy": self._serves(),
            "last_task": self._last_task,
            "outcomes": dict(self._stored_outcomes),
        }

    def note_state(self) -> None:
        """Writes the counters into the journal."""
        if self._record is not None:
            self._record.state(self.state())

    def restore(self, stored: StoredSession, admit: Callable[[StoredTask], TaskWork]) -> list[Job]:
        """Takes over what the journal kept; returns the rollouts that did not end.

        Those of them that `is_stopping` tells must not run again.
        """
        self.granted, self.acked, self.closing = stored.granted, stored.acked, stored.closing
        self.accepted, self.rejected, self.used = stored.accepted, stored.rejected, stored.used
        self.granted_groups, self.used_groups = stored.granted_groups, stored.used_groups
        self._last_task = stored.last_task
        self._stored_outcomes, self._stored_retried = stored.outcomes.copy(), stored.retried
        self.retried = stored.retried
        self.results.start_after(stored.acked, stored.outcomes, stored.released_bytes)
        self.results.granted_bytes = stored.granted_bytes
        works: dict[int, TaskWork] = {}
        for task in stored.tasks:
            work = works[task.number] = admit(task)
            work.number = task.number
            self._begin(work)
        self.groups.restore(works.values(), {task.number: task.group for task in stored.tasks})
        for task in stored.tasks:
            self._add_rows(works[task.number], len(task.submission))
        for found in stored.results:
            self._restore_result(found, works[found.task_number])
        self.cancels.restore(stored.cancels)
        self._stopping.update(works[stop.task_number].jobs[stop.index] for stop in stored.stops)
        return [job for work in works.values() for job in work.jobs.values()]

    def _restore_result(self, found: StoredResult, work: TaskWork) -> None:
        """Replays the end of one rollout."""
        del work.jobs[found.index]
        self.live -= 1
        result = Result(None, found.size, 0, found.outcome, retried=found.attempt > 1)
        self._count(work, result, found.sequence, found.reward)
        if found.sequence <= self.acked:
            self._released(result, counted=True)
        else:
            self.results.restore(found.sequence, result)
            self.retried += result.retried


def _submission(work: TaskWork) -> TaskSubmission:
    """A task as it is kept: what was submitted, with all defaults settled."""
    request = work.request
    submission = TaskSubmission(
        task_id=work.task_id,
        group_id=request.group_id,
        task=request.task,
        rollout_count=work.count,
        first_index=work.first_index,
        wanted_count=work.wanted,
        purpose=TaskPurpose.TASK_PURPOSE_TRAIN if work.rank else TaskPurpose.TASK_PURPOSE_EVAL,
        policy_constraint=work.constraint,
    )
    if request.HasField("deadlines"):
        submission.deadlines.CopyFrom(request.deadlines)
    return submission


def _too_large(rollout: Rollout, size: int, limit: int) -> Rollout:
    text = (
        f"the rollout has {size} bytes and the client accepts {limit}; open the session with a larger "
        "max_message_bytes"
    )
    failure = error("MESSAGE_TOO_LARGE", text, size_bytes=size, limit_bytes=limit)
    small = failed_rollout(
        Outcome.OUTCOME_ENV_FAILED,
        to_status_message(failure),
        failure_class=FailureClass.FAILURE_CLASS_CLIENT,
        stage=Stage.STAGE_TRANSPORT,
    )
    small.timing.CopyFrom(rollout.timing)
    return small

"""What waits to be sent on a session's stream, and how it is put into frames. No I/O, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from gymapi.v1.rollout_service_pb2 import (
    CancelWork,
    PolicyPhase,
    PolicyUpdate,
    StreamRolloutsRequest,
    TaskAdmission,
    TaskSubmission,
)
from gymd.client.window import CreditWindow
from gymd.errors import GymdError, error, from_status_message

__all__ = ["FRAME_TASKS", "Outbox"]

# One frame holds what is ready, up to this much: enough to make a frame's fixed cost small.
FRAME_TASKS = 64
FRAME_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Task:
    """A task on its way."""

    submission: TaskSubmission
    size: int
    again: bool = False
    """It was sent on a broken connection, so the daemon may know it already."""

    @property
    def count(self) -> int:
        """Its rollouts."""
        return self.submission.rollout_count or 1


class Outbox:
    """Tasks and cancels in the order in which the caller gave them, at most FRAME_TASKS tasks."""

    def __init__(self, window: CreditWindow) -> None:
        self._window = window
        self._queue: deque[_Task | CancelWork | PolicyUpdate] = deque()
        # What was sent and not answered yet, in that order; its tasks are bounded by the credits.
        self._sent: deque[_Task | CancelWork | PolicyUpdate] = deque()
        self._refused: list[_Task] = []  # by a daemon that shuts down: the next one gets them
        self._task_count = 0
        self._again_count = 0
        self._ending = False

    @property
    def full(self) -> bool:
        """Whether it takes no more tasks until a frame was made."""
        return self._task_count >= FRAME_TASKS

    def add(self, submission: TaskSubmission, size: int) -> None:
        """Queues a task of `size` bytes; its rollouts count as submitted."""
        self._window.submit(submission.rollout_count or 1)
        self._queue.append(_Task(submission, size))
        self._task_count += 1

    def add_control(self, control: CancelWork | PolicyUpdate) -> None:
        """Queues a cancel or a policy update; it covers the tasks that were added before."""
        self._queue.append(control)

    def give_up(self) -> None:
        """Ends the session instead of anything else that waits."""
        self._queue.clear()
        self._ending = True

    def drop_tasks(self) -> None:
        """Forgets the tasks that were not sent yet; the daemon may have those that were sent before."""
        kept: deque[_Task | CancelWork | PolicyUpdate] = deque()
        for entry in self._queue:
            if isinstance(entry, _Task) and not entry.again:
                self._window.take_back(entry.count)
                self._task_count -= 1
            else:
                kept.append(entry)
        self._queue = kept

    def next_frame(self, *, idle: bool) -> StreamRolloutsRequest | None:
        """The next frame to write, or None; `idle` sends acks without waiting for a batch of them."""
        frame = StreamRolloutsRequest()
        if self._ending:
            self._ending = False
            frame.end.SetInParent()
            return frame
        if (granted := self._window.next_grant()) is not None:
            frame.grant.granted_rollouts = granted
            return frame
        if (granted := self._window.next_byte_grant(idle=idle)) is not None:
            frame.grant.granted_bytes = granted
            return frame
        # Before tasks, because it frees their ids; but not before one that is sent again: the daemon may
        # have it, and would run it once more if all its results were acknowledged.
        if not self._again_count and (through := self._window.next_ack(idle=idle)) is not None:
            frame.ack.through_sequence = through
            return frame
        if self._queue:
            head = self._queue[0]
            if isinstance(head, _Task):
                self._fill_submit(frame)
            else:
                self._fill_control(frame, head)
            return frame
        return None

    def answer(self, admission: TaskAdmission, *, resumable: bool) -> GymdError | None:
        """Takes the daemon's answer to the oldest unanswered task.

        Args:
            admission: the answer.
            resumable: another connection may follow; it gets what a daemon refuses because it shuts down.

        Returns: why the task was refused, so that it costs nothing; None: its results come.

        Raises:
            InvalidRequest: PROTOCOL_VIOLATION, it is the answer to another task.
        """
        task_id, due = admission.task_id, self._oldest_task()
        if due is None or due.submission.task_id != task_id:
            other = due.submission.task_id if due is not None else ""
            text = f"an answer for task {task_id!r} came where that for {other!r} was due"
            raise error("PROTOCOL_VIOLATION", text, task_id=task_id, due=other)
        if admission.HasField("rejection"):
            refusal = from_status_message(admission.rejection)
            if resumable and refusal.reason_name == "DRAINING":
                self._refused.append(due)
                return None
        elif admission.known and not due.again:
            text = f"task id {task_id!r} was handed in twice; ids must be unique within the session"
            refusal = error("NAME_TAKEN", text, task_id=task_id)
        else:
            return None
        self._window.take_back(due.count)
        return refusal

    def control_answered(self, control: CancelWork | PolicyUpdate) -> None:
        """Takes the daemon's answer to this very control, which is not sent again."""
        self._sent = deque(entry for entry in self._sent if entry is not control)

    def reconnected(self) -> None:
        """Queues again, in front, whatever was sent on a broken connection without an answer.

        Policy updates before one that went live are left out: the daemon may know that one, and takes no
        older version then.
        """
        live = next((entry for entry in reversed(self._sent) if _goes_live(entry)), None)
        passed = live is not None
        again: list[_Task | CancelWork | PolicyUpdate] = [*self._refused]
        names: set[str] = set()
        for entry in self._sent:
            passed = passed and entry is not live
            if isinstance(entry, _Task):
                # A second one of the same id is a double as before.
                again.append(replace(entry, again=entry.submission.task_id not in names))
                names.add(entry.submission.task_id)
            elif not (passed and isinstance(entry, PolicyUpdate)):
                again.append(entry)
        self._queue.extendleft(reversed(again))
        self._task_count += sum(isinstance(entry, _Task) for entry in again)
        self._again_count = sum(isinstance(entry, _Task) and entry.again for entry in self._queue)
        self._refused.clear()
        self._sent.clear()
        self._window.reconnected()

    def _oldest_task(self) -> _Task | None:
        """Takes out the task that was sent first."""
        for place, entry in enumerate(self._sent):  # nearly always the first: controls are few
            if isinstance(entry, _Task):
                del self._sent[place]
                return entry
        return None

    def _fill_control(self, frame: StreamRolloutsRequest, control: CancelWork | PolicyUpdate) -> None:
        if isinstance(control, CancelWork):
            frame.cancel.CopyFrom(control)
        else:
            frame.policy_update.CopyFrom(control)
        self._queue.popleft()
        self._sent.append(control)

    def _fill_submit(self, frame: StreamRolloutsRequest) -> None:
        tasks = frame.submit.tasks
        size = 0
        while self._queue and len(tasks) < FRAME_TASKS:
            head = self._queue[0]
            if not isinstance(head, _Task) or (tasks and size + head.size > FRAME_BYTES):
                break
            self._queue.popleft()
            self._task_count -= 1
            self._again_count -= head.again
            size += head.size
            tasks.append(head.submission)
            self._sent.append(head)


def _goes_live(entry: _Task | CancelWork | PolicyUpdate) -> bool:
    return isinstance(entry, PolicyUpdate) and entry.phase == PolicyPhase.POLICY_PHASE_LIVE

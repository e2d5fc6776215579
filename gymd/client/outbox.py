"""What waits to be sent on a session's stream, and how it is put into frames. No I/O, no clock."""

from __future__ import annotations

from collections import deque

from gymapi.v1.rollout_service_pb2 import CancelWork, StreamRolloutsRequest, TaskSubmission
from gymd.client.window import CreditWindow
from gymd.errors import error

__all__ = ["FRAME_TASKS", "Outbox"]

# One frame holds what is ready, up to this much: enough to make a frame's fixed cost small.
FRAME_TASKS = 64
FRAME_BYTES = 1024 * 1024


class Outbox:
    """Tasks and cancels in the order in which the caller gave them, at most FRAME_TASKS tasks."""

    def __init__(self, window: CreditWindow) -> None:
        self._window = window
        self._queue: deque[tuple[TaskSubmission, int] | CancelWork] = deque()
        self._unanswered: deque[tuple[str, int]] = (
            deque()
        )  # sent tasks and their counts; bounded by the credits
        self._task_count = 0

    @property
    def full(self) -> bool:
        """Whether it takes no more tasks until a frame was made."""
        return self._task_count >= FRAME_TASKS

    @property
    def unanswered_count(self) -> int:
        """Tasks that were sent and neither accepted nor rejected yet."""
        return len(self._unanswered)

    def add(self, submission: TaskSubmission, size: int) -> None:
        """Queues a task of `size` bytes; its rollouts count as submitted."""
        self._window.submit(submission.rollout_count or 1)
        self._queue.append((submission, size))
        self._task_count += 1

    def add_cancel(self, work: CancelWork) -> None:
        """Queues a cancel; it covers the tasks that were added before."""
        self._queue.append(work)

    def drop_tasks(self) -> None:
        """Forgets the tasks that were not sent yet."""
        for entry in self._queue:
            if isinstance(entry, tuple):
                self._window.take_back(entry[0].rollout_count or 1)
        self._queue = deque(entry for entry in self._queue if not isinstance(entry, tuple))
        self._task_count = 0

    def next_frame(self, *, idle: bool) -> StreamRolloutsRequest | None:
        """The next frame to write, or None; `idle` sends acks without waiting for a batch of them."""
        frame = StreamRolloutsRequest()
        if (granted := self._window.next_grant()) is not None:
            frame.grant.granted_rollouts = granted
            return frame
        if self._queue:
            head = self._queue[0]
            if isinstance(head, CancelWork):
                frame.cancel.CopyFrom(head)
                self._queue.popleft()
            else:
                self._fill_submit(frame)
            return frame
        if (through := self._window.next_ack(idle=idle)) is not None:
            frame.ack.through_sequence = through
            return frame
        return None

    def answer(self, task_id: str, *, rejected: bool) -> None:
        """Takes the daemon's answer to the oldest unanswered task.

        Raises:
            InvalidRequest: PROTOCOL_VIOLATION, it is the answer to another task.
        """
        due, count = self._unanswered.popleft() if self._unanswered else ("", 0)
        if due != task_id or not count:
            text = f"an answer for task {task_id!r} came where that for {due!r} was due"
            raise error("PROTOCOL_VIOLATION", text, task_id=task_id, due=due)
        if rejected:
            self._window.take_back(count)

    def _fill_submit(self, frame: StreamRolloutsRequest) -> None:
        tasks = frame.submit.tasks
        size = 0
        while self._queue and len(tasks) < FRAME_TASKS:
            head = self._queue[0]
            if isinstance(head, CancelWork) or (tasks and size + head[1] > FRAME_BYTES):
                break
            self._queue.popleft()
            self._task_count -= 1
            submission, submission_size = head
            size += submission_size
            tasks.append(submission)
            self._unanswered.append((submission.task_id, submission.rollout_count or 1))

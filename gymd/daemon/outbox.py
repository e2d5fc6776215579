"""What a session has to say: frames in order, results batched and numbered, all of it bounded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from gymapi.v1.rollout_pb2 import FailureClass, Outcome, Rollout, Stage
from gymapi.v1.rollout_service_pb2 import OutcomeCount, StreamRolloutsResponse, TaskAdmission
from gymd.daemon.work import Job, complete, failed_rollout
from gymd.errors import error, to_status_message

__all__ = ["BATCH_BYTES", "BATCH_RESULTS", "Outbox", "outcome_counts"]

BATCH_RESULTS = 64
BATCH_BYTES = 1024 * 1024
"""A frame of results is closed at either of these: large enough to be cheap, small enough to flow."""
ADMISSIONS_PER_FRAME = 1000
CONGESTED_FRAMES = 256
"""Answers that may wait; beyond it the session reads no further frames until the client reads some."""
DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024
"""What a client accepts that does not say: gRPC's default."""
FRAME_BYTES = 1024
"""Room for what surrounds a rollout in its message."""


class Outbox:
    """Frames to send.

    Args:
        message_bytes: largest message that the client accepts; 0 means gRPC's default.
        delivered: called with every rollout when it is put into a frame.
    """

    def __init__(self, message_bytes: int, delivered: Callable[[Job, Rollout], None]) -> None:
        self._limit = message_bytes or DEFAULT_MESSAGE_BYTES
        self._delivered = delivered
        self._answers: deque[StreamRolloutsResponse] = deque()
        self._results: deque[tuple[Job, Rollout]] = deque()
        self.last_sequence = 0
        """Number of the last result that was put into a frame."""
        self.outcomes: Counter[int] = Counter()

    @property
    def congested(self) -> bool:
        """Whether so many answers wait that no more should be made."""
        return len(self._answers) > CONGESTED_FRAMES

    @property
    def empty(self) -> bool:
        """Whether everything was put into frames."""
        return not self._answers and not self._results

    def clear(self) -> None:
        """Drops everything: nobody will read it."""
        self._answers.clear()
        self._results.clear()

    def answer(self, frame: StreamRolloutsResponse) -> None:
        """Queues a frame that is no result."""
        self._answers.append(frame)

    def admissions(self, admissions: Sequence[TaskAdmission]) -> None:
        """Queues the answers to submitted tasks."""
        for start in range(0, len(admissions), ADMISSIONS_PER_FRAME):
            frame = StreamRolloutsResponse()
            frame.admissions.admissions.extend(admissions[start : start + ADMISSIONS_PER_FRAME])
            self._answers.append(frame)

    def result(self, job: Job, rollout: Rollout) -> None:
        """Queues a rollout that ended."""
        self._results.append((job, rollout))

    def take(self) -> StreamRolloutsResponse | None:
        """The next frame to send: answers first, then a batch of results; None if there is nothing."""
        if self._answers:
            return self._answers.popleft()
        if not self._results:
            return None
        return self._batch()

    def _batch(self) -> StreamRolloutsResponse:
        frame = StreamRolloutsResponse()
        results = frame.results.results
        room = min(BATCH_BYTES, self._limit - FRAME_BYTES)
        while self._results and len(results) < BATCH_RESULTS:
            job, rollout = self._results[0]
            size = rollout.ByteSize()
            if size > self._limit - FRAME_BYTES:
                rollout = complete(job, _too_large(rollout, size, self._limit))
                size = rollout.ByteSize()
            if results and size > room:
                break
            self._results.popleft()
            room -= size + 16
            self.last_sequence += 1
            self.outcomes[rollout.outcome] += 1
            result = results.add()
            result.sequence = self.last_sequence
            result.rollout.CopyFrom(rollout)
            self._delivered(job, rollout)
        return frame


def outcome_counts(outcomes: Counter[int]) -> list[OutcomeCount]:
    """The counts as messages, in the order of the enum."""
    return [OutcomeCount(outcome=o, count=n) for o, n in sorted(outcomes.items())]  # type: ignore[arg-type]


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

"""The numbered cancels of one session: which ones were taken, and what was answered to the last of them."""

from __future__ import annotations

from collections.abc import Iterable

from gymapi.v1.rollout_service_pb2 import WorkCancelled
from gymd.daemon.journal import StoredCancel
from gymd.daemon.record import SessionRecord

__all__ = ["CancelLog"]

KEPT_NUMBERS = 100
"""Answers are kept to numbers that are less than this below the last. A client that has more cancels under
way when its stream breaks learns no count for the others."""


class CancelLog:
    """What a client that sends a cancel again is told.

    Args:
        record: the session's part of the journal; None: it has none.
    """

    def __init__(self, record: SessionRecord | None) -> None:
        self._record = record
        self._answers: dict[int, WorkCancelled] = {}
        self.last = 0
        """The highest number that was taken; 0: none was."""

    def answer(self, number: int) -> WorkCancelled | None:
        """What to answer to a number that was taken before; None: it was not."""
        if not 0 < number <= self.last:
            return None
        answer = WorkCancelled(known=True)
        if (first := self._answers.get(number)) is not None:
            answer.MergeFrom(first)
        return answer

    def note(self, number: int, answer: WorkCancelled) -> None:
        """Takes a number, in the journal together with what was noted since the event loop turned last: with
        what the cancel stopped. Without effect for 0, no number.

        Args:
            answer: without the request, which whoever repeats it has.
        """
        if not number:
            return
        self._take(number, answer)
        if self._record is not None:
            self._record.cancel(number, answer.SerializeToString(), number - KEPT_NUMBERS)

    def restore(self, stored: Iterable[StoredCancel]) -> None:
        """Takes over what the journal kept, lowest number first."""
        for found in stored:
            self._take(found.number, WorkCancelled.FromString(found.answer))

    def _take(self, number: int, answer: WorkCancelled) -> None:
        self.last = number
        self._answers[number] = answer
        while next(iter(self._answers)) <= number - KEPT_NUMBERS:
            del self._answers[next(iter(self._answers))]

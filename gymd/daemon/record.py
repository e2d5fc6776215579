"""What one session writes into the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gymd.daemon.journal import Journal, Shelf, schema
from gymd.errors import GymdError

__all__ = ["SessionRecord"]

MAX_CANCEL = (1 << 63) - 1
"""The highest number that the contract has room for."""


class SessionRecord:
    """A session's part of the journal.

    Args:
        journal: the daemon's journal.
        number: the session's number in it.
    """

    def __init__(self, journal: Journal, number: int) -> None:
        self._journal = journal
        self.number = number
        self.shelf: Shelf = journal.shelf(number)
        """Where it puts away what it would otherwise remember about results that wait."""

    @property
    def committed(self) -> int:
        """The mark up to which everything is kept."""
        return self._journal.committed

    @property
    def mark(self) -> int:
        """Names everything that was noted so far."""
        return self._journal.mark

    @property
    def trouble(self) -> GymdError | None:
        """Why no task should be accepted now, or None."""
        return self._journal.trouble

    def begin(self, session_id: str, opening: bytes, unix_s: float, state: dict[str, Any]) -> None:
        """Notes a new session."""
        self._note(schema.ADD_SESSION, self.number, session_id, opening, unix_s, json.dumps(state))

    def state(self, state: dict[str, Any]) -> None:
        """Notes the session's counters."""
        self._note(schema.UPDATE_SESSION, json.dumps(state), self.number)

    def task(self, number: int, submission: bytes, unix_s: float, group: int) -> None:
        """Notes an accepted task: its submission, when it was accepted, and its group's first task."""
        self._journal.bytes += len(submission)
        self._note(schema.ADD_TASK, self._key(number), submission, unix_s, group)

    def result(
        self,
        sequence: int,
        task: int,
        index: int,
        outcome: int,
        reward: float | None,
        attempt: int,
        payload: bytes,
    ) -> int:
        """Notes a result; returns the mark that must be committed before it is told."""
        self._journal.bytes += len(payload)
        self._note(schema.ADD_RESULT, self._key(sequence), task, index, outcome, reward, attempt, payload)
        return self._journal.mark

    def stop(self, task: int, index: int, mode: int, reason: str) -> None:
        """Notes that a rollout was told to stop, in place of what was noted of it before."""
        self._note(schema.ADD_STOP, self._key(task), index, mode, reason)

    def stopped(self, task: int, index: int) -> None:
        """Notes that such a rollout has ended."""
        self._note(schema.DELETE_STOP, self._key(task), index)

    def cancel(self, number: int, answer: bytes, gone: int) -> None:
        """Notes a numbered cancel and its answer; drops those up to the number `gone`."""
        self._note(schema.DELETE_CANCELS, self.number, gone)
        self._note(schema.ADD_CANCEL, self.number, number, answer)

    def stored(self, after: int, through: int, size: int) -> None:
        """Notes that the client has stored the results after one number up to another: `size` bytes in
        all."""
        self._journal.bytes -= size
        self._note(schema.CLEAR_RESULTS, self._key(after), self._key(through))

    def forget(self, tasks: Iterable[int], results: Iterable[int], size: int) -> None:
        """Drops tasks, whose submissions have `size` bytes, and their results, all by number."""
        self._journal.bytes -= size
        operations: list[tuple[str, Any]] = [(schema.DELETE_TASK, (self._key(number),)) for number in tasks]
        operations += [(schema.DELETE_RESULT, (self._key(sequence),)) for sequence in results]
        self._journal.note(operations)

    def end(self, size: int) -> None:
        """Drops the whole session, whose tasks and results have `size` bytes."""
        self._journal.bytes -= size
        whole = (self._key(0), schema.row_id(self.number + 1, 0))
        self._journal.note(
            [
                (schema.DELETE_TASKS, whole),
                (schema.DELETE_RESULTS, whole),
                (schema.DELETE_STOPS, whole),
                (schema.DELETE_CANCELS, (self.number, MAX_CANCEL)),
                (schema.DELETE_SESSION, (self.number,)),
            ]
        )

    def read(self, sequence: int) -> list[tuple[int, bytes]]:
        """Committed results from a number on, some at a time: number and serialized rollout."""
        return self._journal.read(self.number, sequence)

    def read_task(self, number: int) -> bytes:
        """The serialized submission of a task that was accepted and not forgotten."""
        return self._journal.read_task(self.number, number)

    def _key(self, number: int) -> int:
        return schema.row_id(self.number, number)

    def _note(self, statement: str, *values: Any) -> None:
        self._journal.note(((statement, values),))

"""The numbered results of one session: what was sent, what is stored by the client, and where sending stands.

Results are kept as the bytes they travel in. With a journal they stay in memory only until they are sent, and
only up to a bound: the rest is read back when its turn comes. Beyond a number of results, what else there is
to know about one goes onto a shelf, which is a file too: a client that stalls costs disk, not memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gymapi.v1.rollout_service_pb2 import ResultChunk, StreamRolloutsResponse
from gymd.convert.wire import delimited, varint
from gymd.daemon.groups import Rows
from gymd.daemon.journal import Shelved

if TYPE_CHECKING:
    from gymd.daemon.journal import Shelf
    from gymd.daemon.record import SessionRecord

__all__ = ["BATCH_BYTES", "BATCH_RESULTS", "MEMORY_BYTES", "MEMORY_RESULTS", "Result", "ResultLog"]

BATCH_RESULTS = 64
BATCH_BYTES = 1024 * 1024
"""A frame of results is closed at either of these: large enough to be cheap, small enough to flow."""
CHUNK_BYTES = 1024 * 1024
MEMORY_BYTES = 16 * 1024 * 1024
"""Bytes of results of one session that are held in memory when a journal holds them too."""
MEMORY_RESULTS = 2048
"""Results of one session about which something is held in memory when there is a journal."""
SHELF_BATCH = 256
"""Results that go onto the shelf together."""


class Result:
    """One numbered result.

    Attributes:
        payload: the serialized rollout; None: the journal has it.
        size: bytes of the payload.
        outcome: how it ended.
        retried: whether it was tried more than once.
        mark: it may be sent when the journal has committed this; 0: at once.
        task_id: the task whose last rollout this is; None: others of it were under way.
        task: what is kept of that task: with a journal its number there, otherwise the submission.
        last: it is the last one of its group.
        rows: what the journal has of the group then; None without a journal.
        news: what there is to tell about the group then, a serialized StreamRolloutsResponse.
        shelved: the shelf has it; this is a copy.
    """

    __slots__ = (
        "last",
        "mark",
        "news",
        "outcome",
        "payload",
        "retried",
        "rows",
        "shelved",
        "size",
        "task",
        "task_id",
    )

    def __init__(self, payload: bytes | None, size: int, mark: int, outcome: int, *, retried: bool) -> None:
        self.payload = payload
        self.size = size
        self.mark = mark
        self.outcome = outcome
        self.retried = retried
        self.task_id: str | None = None
        self.task: int | bytes = 0
        self.last = False
        self.rows: Rows | None = None
        self.news: bytes | None = None
        self.shelved = False

    def to_shelf(self, sequence: int) -> Shelved:
        """What the shelf keeps."""
        task, rows = self.task, self.rows
        assert isinstance(task, int)
        return Shelved(
            sequence,
            self.mark,
            self.size,
            self.outcome,
            self.retried,
            self.task_id,
            task,
            None if rows is None else rows.tasks.tobytes(),
            None if rows is None else rows.results.tobytes(),
            0 if rows is None else rows.size,
            self.news,
        )

    @classmethod
    def from_shelf(cls, facts: Shelved) -> Result:
        """A copy of what the shelf has."""
        result = cls(None, facts.size, facts.mark, facts.outcome, retried=bool(facts.retried))
        result.shelved = True
        result.task_id, result.task, result.news = facts.task_id, facts.task, facts.news
        if facts.group_tasks is not None and facts.group_results is not None:
            result.last = True
            result.rows = Rows(facts.group_tasks, facts.group_results, facts.group_size)
        return result


class ResultLog:
    """The results that are not released yet, by number.

    Args:
        record: the session's part of the journal; None: it has none.
        keep: hold results until the client acknowledged them; otherwise only until they are sent.
    """

    def __init__(self, record: SessionRecord | None = None, *, keep: bool = False) -> None:
        self._record = record
        self._keep = keep
        # Those in memory; what is neither here nor released is on the shelf.
        self._results: dict[int, Result] = {}
        self._shelf = record.shelf if record is not None else None
        self._shelve_at = MEMORY_RESULTS + SHELF_BATCH
        self._ended: dict[str, Result] = {}  # those in memory that are the last of their task, by its id
        self._in_memory = 0
        self._cursor = 1
        self._first = 1  # the first that is kept until it is acknowledged
        self._offset = 0  # in the result that is sent in chunks
        self.last_sequence = 0
        """Number of the last result."""
        self.outcomes: Counter[int] = Counter()
        self.size = 0
        """Bytes of the results that are not released yet."""
        self.granted_bytes = 0
        """Bytes of results that the client is ready to receive in all; 0: they are not counted."""
        self.sent_bytes = 0
        """Bytes of the results that were sent; each counts once."""
        self.released_bytes = 0
        """Bytes of those that were released."""

    @property
    def unsent(self) -> int:
        """Results that were not sent yet on the current stream."""
        return self.last_sequence - self._cursor + 1

    @property
    def sent_sequence(self) -> int:
        """Number of the last result that was sent."""
        return self._cursor - 1

    def task(self, task_id: str) -> int | bytes | None:
        """What is kept of a task that ended with a result that is not released; None: there is none."""
        if (result := self._ended.get(task_id)) is not None:
            return result.task
        return self._shelf.find(task_id) if self._shelf is not None else None

    def task_ids(self) -> list[str]:
        """Those tasks."""
        return [*(self._shelf.task_ids() if self._shelf is not None else ()), *self._ended]

    def append(self, result: Result) -> None:
        """Numbers a result."""
        if self._record is not None and self._in_memory + result.size > MEMORY_BYTES:
            result.payload = None  # the journal is about to have it, and nothing is sent before
        else:
            self._in_memory += result.size
        self._add(self.last_sequence + 1, result)

    def _add(self, sequence: int, result: Result) -> None:
        self.last_sequence = sequence
        self._results[sequence] = result
        self.outcomes[result.outcome] += 1
        self.size += result.size
        if result.task_id is not None:
            self._ended[result.task_id] = result
        if self._shelf is not None and len(self._results) >= self._shelve_at:
            self._shelve(self._shelf)

    def _shelve(self, shelf: Shelf) -> None:
        """Puts away what is needed last: first what was sent and waits for its ack, then the newest."""
        for number in [number for number, result in self._results.items() if result.shelved]:
            self._drop(self._results.pop(number))
        newest_first = sorted(self._results, reverse=True)
        sent = [number for number in newest_first if number < self._cursor]
        away = [*sent[:SHELF_BATCH], *newest_first][:SHELF_BATCH]
        self._shelve_at = MEMORY_RESULTS + SHELF_BATCH
        if not shelf.put([self._results[number].to_shelf(number) for number in away]):
            self._shelve_at = len(self._results) + SHELF_BATCH  # they stay, and it is tried again
            return
        for number in away:
            result = self._results.pop(number)
            self._drop(result)
            if result.task_id is not None:
                del self._ended[result.task_id]

    def _get(self, sequence: int) -> Result | None:
        """A result that is not released yet, from the shelf if need be."""
        result = self._results.get(sequence)
        if result is None and self._shelf is not None and sequence <= self.last_sequence:
            for facts in self._shelf.read(sequence, BATCH_RESULTS):
                if facts.sequence not in self._results:
                    self._results[facts.sequence] = Result.from_shelf(facts)
            result = self._results.get(sequence)
        return result

    @property
    def _committed(self) -> int:
        return self._record.committed if self._record is not None else 0

    @property
    def waiting_bytes(self) -> int:
        """Size of the next result if the client granted too few bytes for it, else 0."""
        result = self._get(self._cursor)
        return result.size if result is not None and not self._fits(result) else 0

    def _fits(self, result: Result) -> bool:
        return not self.granted_bytes or self.sent_bytes + result.size <= self.granted_bytes

    def start_after(self, sequence: int, outcomes: Counter[int], size: int) -> None:
        """Goes on behind results that the client has stored, counted in `outcomes`, with `size` bytes."""
        self.last_sequence = sequence
        self.sent_bytes = self.released_bytes = size
        self._cursor = self._first = sequence + 1
        self.outcomes = outcomes.copy()

    def restore(self, sequence: int, result: Result) -> None:
        """Takes back a result that the journal holds."""
        self._add(sequence, result)

    def clear(self) -> None:
        """Drops everything: nobody will read it."""
        self._results.clear()
        self._ended.clear()
        self.size = 0
        if self._shelf is not None:
            self._shelf.drop()
        self._cursor = self.last_sequence + 1

    def rewind(self, last_sequence: int) -> None:
        """Sends again from the result after `last_sequence` on."""
        size = sum(result.size for number, result in self._held() if number <= last_sequence)
        if self._shelf is not None:
            size += self._shelf.size(last_sequence)
        self.sent_bytes = self.released_bytes + size
        self._offset = 0
        self._cursor = last_sequence + 1

    def _held(self) -> Iterator[tuple[int, Result]]:
        """What is in memory and not on the shelf."""
        return ((number, result) for number, result in self._results.items() if not result.shelved)

    def news(self, *, through: int) -> list[bytes]:
        """What there is to tell behind the results up to a number that are not released yet, in order."""
        found = self._shelf.news(through) if self._shelf is not None else {}
        for number, result in self._held():
            if number <= through and result.news is not None:
                found[number] = result.news
        return [found[number] for number in sorted(found)]

    def release(self, through: int) -> Iterator[tuple[int, Result]]:
        """Takes out the results up to a number, in order, each with its number."""
        first, self._first = self._first, through + 1
        for sequence in range(first, through + 1):
            result = self._get(sequence)
            assert result is not None
            self._release(sequence, result)
            yield sequence, result
        if self._shelf is not None:
            self._shelf.drop(through)

    def _release(self, sequence: int, result: Result) -> None:
        del self._results[sequence]
        self._drop(result)
        self.size -= result.size
        self.released_bytes += result.size
        if result.task_id is not None and not result.shelved:
            del self._ended[result.task_id]

    def take(self, room: int) -> tuple[bytes, list[Result]] | None:
        """The next frame (a serialized StreamRolloutsResponse) with what it completes; None: there is none.

        Args:
            room: bytes that the results of one frame may have together; a larger one goes in chunks.
        """
        first = self._get(self._cursor)
        if first is not None and first.size > room and first.mark <= self._committed and self._fits(first):
            return self._chunk(first, room)
        committed = self._committed
        parts: list[bytes] = []
        taken: list[Result] = []
        left = min(room, BATCH_BYTES)
        while len(taken) < BATCH_RESULTS and (result := self._get(self._cursor)) is not None:
            if result.mark > committed or (taken and result.size > left) or not self._fits(result):
                break
            if result.payload is None:
                self._read_back(self._cursor)
            assert result.payload is not None
            parts.append(_result_bytes(self._cursor, result.payload))
            taken.append(result)
            left -= result.size + 16
            self._sent(result)
        if not taken:
            return None
        return delimited(_RESULTS, *parts), taken

    def _sent(self, result: Result) -> None:
        """Moves on behind a result that was sent as a whole."""
        self.sent_bytes += result.size
        if not self._keep:
            self._release(self._cursor, result)
        elif self._record is not None:
            self._drop(result)
            if result.shelved and len(self._results) > MEMORY_RESULTS:
                del self._results[self._cursor]
        self._cursor += 1

    def _chunk(self, result: Result, room: int) -> tuple[bytes, list[Result]]:
        """The next part of a result that is too large for a frame."""
        if result.payload is None:
            self._read_back(self._cursor)
        assert result.payload is not None
        size = min(room, CHUNK_BYTES)
        chunk = ResultChunk(sequence=self._cursor, offset_bytes=self._offset)
        chunk.data = result.payload[self._offset : self._offset + size]
        self._offset += len(chunk.data)
        chunk.last = self._offset >= result.size
        if chunk.last:
            chunk.sha256 = hashlib.sha256(result.payload).hexdigest()
            self._offset = 0
            self._sent(result)
        frame = StreamRolloutsResponse(result_chunk=chunk)
        return frame.SerializeToString(), [result] if chunk.last else []

    def _drop(self, result: Result) -> None:
        if result.payload is not None:
            self._in_memory -= result.size
            result.payload = None

    def _read_back(self, sequence: int) -> None:
        assert self._record is not None
        for number, payload in self._record.read(sequence):
            result = self._results.get(number)
            if result is not None and result.payload is None:
                result.payload = payload
                self._in_memory += result.size


# A frame is written by hand from parts that are serialized already: a large rollout is copied, never parsed.
_RESULTS = 3  # StreamRolloutsResponse.results
_RESULT = 1  # RolloutResults.results
_SEQUENCE = 1 << 3  # RolloutResult.sequence, a varint
_ROLLOUT = 2  # RolloutResult.rollout


def _result_bytes(sequence: int, rollout: bytes) -> bytes:
    return delimited(_RESULT, varint(_SEQUENCE), varint(sequence), delimited(_ROLLOUT, rollout))

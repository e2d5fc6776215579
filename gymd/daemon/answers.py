"""What a session has to say on its stream: answers first, then results, each when it may be told."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gymapi.v1.rollout_service_pb2 import StreamRolloutsResponse, TaskAdmission, TaskAdmissions
from gymd.convert.wire import delimited

__all__ = ["Answers"]

ADMISSIONS_PER_FRAME = 1000
CONGESTED_FRAMES = 256
"""Answers that may wait; beyond it the session reads no further frames until the client reads some."""

_ADMISSIONS = StreamRolloutsResponse.ADMISSIONS_FIELD_NUMBER
_ADMISSION = TaskAdmissions.ADMISSIONS_FIELD_NUMBER


class Answers:
    """Frames that are no results, in order, each with the journal's mark that has to be committed before
    it. Those that may be many wait as the bytes they travel in."""

    def __init__(self) -> None:
        self._frames: deque[tuple[int, StreamRolloutsResponse | bytes]] = deque()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def congested(self) -> bool:
        """Whether so many wait that no more should be made."""
        return len(self._frames) > CONGESTED_FRAMES

    def clear(self) -> None:
        """Drops everything: nobody will read it."""
        self._frames.clear()

    def add(self, frame: StreamRolloutsResponse | bytes, mark: int = 0) -> None:
        """Queues a frame."""
        self._frames.append((mark, frame))

    def admissions(self, admissions: Iterable[TaskAdmission], mark: int, room: int) -> None:
        """Queues the answers to submitted tasks, in frames of `room` bytes at most."""
        parts: list[bytes] = []
        left = room
        for admission in admissions:
            part = delimited(_ADMISSION, admission.SerializeToString())
            if parts and (len(part) > left or len(parts) == ADMISSIONS_PER_FRAME):
                self.add(delimited(_ADMISSIONS, *parts), mark)
                parts, left = [], room
            parts.append(part)
            left -= len(part)
        if parts:
            self.add(delimited(_ADMISSIONS, *parts), mark)

    def take(self, committed: int) -> StreamRolloutsResponse | bytes | None:
        """The next frame, if it may be told already."""
        if self._frames and self._frames[0][0] <= committed:
            return self._frames.popleft()[1]
        return None

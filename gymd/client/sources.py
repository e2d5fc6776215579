"""Tasks on their way in: where they come from, their limits, and what is said of those that are refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.duration_pb2 import Duration

from gymapi.v1.agent_service_pb2 import Deadlines
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.errors import GymdError, error

__all__ = ["Rejection", "Submissions", "as_async", "deadlines", "too_large"]

T = TypeVar("T")
Submissions = Iterable[TaskSubmission] | AsyncIterable[TaskSubmission]

# Room that a frame needs around its only task.
_FRAME_OVERHEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Rejection:
    """The daemon (or the client, for a task larger than a message may be) refused a task; it cost nothing."""

    task_id: str
    error: GymdError


def too_large(submission: TaskSubmission, size: int, limit: int) -> Rejection | None:
    """The refusal of a task that no message of at most `limit` bytes (0: any) can hold."""
    if not limit or size + _FRAME_OVERHEAD_BYTES <= limit:
        return None
    text = f"task {submission.task_id} has {size:,} bytes; the daemon accepts {limit:,} in a message"
    return Rejection(submission.task_id, error("MESSAGE_TOO_LARGE", text, size_bytes=size, limit_bytes=limit))


def deadlines(
    *,
    rollout: float | None = None,
    queue: float | None = None,
    model: float | None = None,
    tool: float | None = None,
    verify: float | None = None,
) -> Deadlines:
    """Limits of the parts of a rollout, in seconds; None leaves a part to the daemon's configuration."""
    message = Deadlines()
    parts = {"rollout": rollout, "queue": queue, "model": model, "tool": tool, "verify": verify}
    for name, seconds in parts.items():
        if seconds is not None:
            getattr(message, name).CopyFrom(Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9)))
    return message


async def as_async(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    """The items one by one; a plain iterable is pulled on the event loop, so it must not block."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item

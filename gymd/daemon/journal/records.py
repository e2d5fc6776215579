"""What the journal gives back after a restart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["StoredCancel", "StoredResult", "StoredSession", "StoredStop", "StoredTask"]


@dataclass(slots=True)
class StoredTask:
    """An accepted task that is not forgotten yet."""

    number: int
    """Within the session, from 1, in the order of acceptance."""
    submission: bytes
    """A serialized TaskSubmission with its agent filled in."""
    accepted_unix_s: float
    group: int
    """Number of the first task of its group: the id of a group that is complete may be used again."""


@dataclass(slots=True)
class StoredResult:
    """A rollout that ended. Its payload stays in the journal until it is read."""

    sequence: int
    task_number: int
    index: int
    outcome: int
    reward: float | None
    attempt: int
    size: int
    """Bytes of the serialized rollout; 0: the client has stored it, and only the fact is kept."""


@dataclass(slots=True)
class StoredStop:
    """A rollout that was told to stop and had not ended."""

    task_number: int
    index: int
    mode: int
    """The StopMode that was asked for last."""
    reason: str


@dataclass(slots=True)
class StoredCancel:
    """One of the last numbered cancels."""

    number: int
    """As the client counts."""
    answer: bytes
    """A serialized WorkCancelled, without the request."""


@dataclass(slots=True)
class StoredSession:
    """A session as it was when the daemon ended."""

    number: int
    session_id: str
    opening: bytes
    """The serialized OpenSession that began it."""
    open_unix_s: float
    granted: int = 0
    acked: int = 0
    closing: bool = False
    accepted: int = 0
    """Tasks accepted, those forgotten since included."""
    rejected: int = 0
    retried: int = 0
    used: int = 0
    """Credits that accepted tasks took."""
    granted_groups: int = 0
    used_groups: int = 0
    granted_bytes: int = 0
    released_bytes: int = 0
    """Bytes of the results that the client has stored."""
    policy_version: int | None = None
    """Of the policy that was live."""
    held: bool = False
    """The policy was paused."""
    serves_policy: bool = False
    """The client answers model calls."""
    last_task: int = 0
    outcomes: Counter[int] = field(default_factory=Counter)
    """Of the results that the client has stored."""
    tasks: list[StoredTask] = field(default_factory=list)
    results: list[StoredResult] = field(default_factory=list)
    stops: list[StoredStop] = field(default_factory=list)
    cancels: list[StoredCancel] = field(default_factory=list)

"""The ids of earlier turns, so that the next prompt begins with them and not with a new tokenization.

Agents send conversations without ids: sending those of all turns back each time would cost as much as the
full prompts that the trajectory avoids. So the server that got them remembers them. The key is the rollout
and a digest of everything said so far, the answer included: ids are only ever used for the very conversation
that they came from, however often an agent branches, goes back, or begins again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

__all__ = ["TokenMemory", "Turn"]

# What a turn costs beside its ids: objects and table slots.
_OVERHEAD = 400


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """Ids of a call's prompt and answer, packed: what they begin with, and what the call added."""

    earlier: Turn | None
    added: bytes

    def ids(self) -> bytes:
        """All of them."""
        parts = []
        turn: Turn | None = self
        while turn is not None:
            parts.append(turn.added)
            turn = turn.earlier
        return b"".join(reversed(parts))


@dataclass(slots=True)
class _Rollout:
    turns: dict[bytes, Turn] = field(default_factory=dict)
    size: int = 0


class TokenMemory:
    """Turns by rollout and digest; the rollouts used least recently are forgotten first. Safe in threads.

    Args:
        max_bytes: kept at most, over all rollouts; the newest rollout is kept in any case.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self._rollouts: OrderedDict[str, _Rollout] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, rollout_id: str, digest: bytes) -> Turn | None:
        """The turn that ends the conversation with this digest; None if it is unknown."""
        with self._lock:
            rollout = self._rollouts.get(rollout_id)
            if rollout is None:
                return None
            self._rollouts.move_to_end(rollout_id)
            return rollout.turns.get(digest)

    def keep(self, rollout_id: str, digest: bytes, ids: bytes, earlier: Turn | None = None) -> None:
        """Remembers ids; they take little room if they begin with those of an earlier turn."""
        turn = Turn(None, ids)
        if earlier is not None and ids.startswith(begin := earlier.ids()):
            turn = Turn(earlier, ids[len(begin) :])
        with self._lock:
            rollout = self._rollouts.setdefault(rollout_id, _Rollout())
            if turn.earlier is not None and turn.earlier not in rollout.turns.values():
                turn = Turn(None, ids)  # forgotten meanwhile: its ids count again
            self._add(rollout_id, rollout, digest, turn)

    def _add(self, rollout_id: str, rollout: _Rollout, digest: bytes, turn: Turn) -> None:
        self._rollouts.move_to_end(rollout_id)
        rollout.turns[digest] = turn
        size = len(turn.added) + _OVERHEAD
        rollout.size += size
        self.size += size
        while self.size > self.max_bytes and len(self._rollouts) > 1:
            _, oldest = self._rollouts.popitem(last=False)
            self.size -= oldest.size

"""The arithmetic of the rollout stream, seen from the client: credits, results, acks. No I/O, no clock."""

from __future__ import annotations

__all__ = ["CreditWindow"]

# Acks go out in batches of this many results, and whenever the caller has nothing left to consume.
ACK_BATCH = 64
# Refilling one credit at a time would send one frame per task; waiting for a few costs little concurrency.
_REFILL_SHARE = 16
_REFILL_MAX = 32


class CreditWindow:
    """Keeps at most `credits` rollouts between "handed in" and "consumed by the caller".

    Grants are absolute: consumed results plus the window. A caller that stops consuming therefore stops the
    flow, and what waits for it anywhere is at most `credits` rollouts.
    """

    def __init__(self, credits: int) -> None:
        if credits < 1:
            raise ValueError(f"credits must be at least 1, not {credits}")
        self.credits = credits
        self.granted = credits
        """What the daemon was told so far."""
        self.submitted = 0
        """Rollouts handed in; those of rejected tasks are taken back."""
        self.consumed = 0
        """Results that the caller is done with; also the highest sequence that may be acknowledged."""
        self.acked = 0
        """What the daemon was told is stored."""
        self._refill = max(1, min(_REFILL_MAX, credits // _REFILL_SHARE))

    @property
    def outstanding(self) -> int:
        """Rollouts handed in and not consumed yet."""
        return self.submitted - self.consumed

    def has_room(self, count: int) -> bool:
        """Whether a task of `count` rollouts may be handed in now.

        A task larger than the whole window may go when nothing else is outstanding, as it could never go
        otherwise.
        """
        return self.outstanding + count <= self.credits or self.outstanding == 0

    def worth_refilling(self) -> bool:
        """Whether enough has been consumed since the window was full to hand in more."""
        return self.outstanding + self._refill <= self.credits

    def submit(self, count: int) -> None:
        """Counts a task as handed in."""
        self.submitted += count

    def take_back(self, count: int) -> None:
        """Undoes `submit` for a task that was rejected or never sent."""
        self.submitted -= count

    def next_grant(self) -> int | None:
        """The grant that has to go out before what was submitted; None: the last one covers it."""
        if self.submitted <= self.granted:
            return None
        self.granted = max(self.consumed + self.credits, self.submitted)
        return self.granted

    def next_ack(self, *, idle: bool) -> int | None:
        """The number to acknowledge now; None: nothing new, or not worth a frame yet."""
        unacked = self.consumed - self.acked
        if unacked >= ACK_BATCH or (idle and unacked):
            self.acked = self.consumed
            return self.acked
        return None

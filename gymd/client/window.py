"""The arithmetic of the rollout stream, seen from the client: credits, results, acks. No I/O, no clock."""

from __future__ import annotations

__all__ = ["CreditWindow"]

# Acks go out in batches of this many results, and whenever the caller has nothing left to consume.
ACK_BATCH = 64
# Refilling one credit at a time would send one frame per task; waiting for a few costs little concurrency.
_REFILL_SHARE = 16
_REFILL_MAX = 32
_BYTE_REFILL_SHARE = 4
# More bytes than any session has: the grant of a caller that does not count them.
_ANY_BYTES = 1 << 62


class CreditWindow:
    """Keeps at most `credits` rollouts between "handed in" and "consumed by the caller".

    Grants are absolute: consumed results plus the window. A caller that stops consuming therefore stops the
    flow, and what waits for it anywhere is at most `credits` rollouts.
    """

    def __init__(self, credits: int, byte_credits: int = 0) -> None:
        if credits < 1:
            raise ValueError(f"credits must be at least 1, not {credits}")
        if byte_credits < 0:
            raise ValueError(f"byte_credits must be at least 0, not {byte_credits}")
        self.credits = credits
        self.byte_credits = byte_credits
        """Bytes of results that may wait to be consumed; 0: they are not counted."""
        self.granted_bytes = byte_credits
        self.consumed_bytes = 0
        self.waiting_bytes = 0
        """Size of a result that waits for a grant; 0: none does. One larger than the window comes alone."""
        self.granted = credits
        """What the daemon was told so far."""
        self.submitted = 0
        """Rollouts handed in; those of rejected tasks are taken back."""
        self.consumed = 0
        """Results that the caller took; unless `stored` says less, they may be acknowledged."""
        self.acked = 0
        """What the daemon was told is stored."""
        self.stored: int | None = None
        """Results that may be acknowledged, if not all that were consumed."""
        self._refill = max(1, min(_REFILL_MAX, credits // _REFILL_SHARE))

    def adopt(
        self, *, consumed: int, used: int, granted: int, granted_bytes: int = 0, consumed_bytes: int = 0
    ) -> None:
        """Goes on with a session that another process began.

        Args:
            consumed: results that the caller has stored.
            used: credits that accepted tasks took.
            granted: credits granted so far.
            granted_bytes, consumed_bytes: the same in bytes of results.
        """
        self.granted_bytes, self.consumed_bytes = granted_bytes, consumed_bytes
        self.consumed, self.acked = consumed, 0  # the daemon may have missed the last acks
        self.submitted = used
        self.granted = granted

    def reconnected(self) -> None:
        """The daemon may have missed the last acks."""
        self.acked = 0

    @property
    def outstanding(self) -> int:
        """Rollouts handed in and not consumed yet."""
        return self.submitted - self.consumed

    def consume(self, size: int) -> None:
        """Counts a result as consumed; `size`: its bytes, if they are counted."""
        self.consumed += 1
        self.consumed_bytes += size

    def next_byte_grant(self, *, idle: bool) -> int | None:
        """The grant of bytes that is due; None: the last one leaves at least three quarters of the window.

        `idle` grants whatever there is: the next result may need more than what is left.
        """
        if not self.byte_credits and not self.granted_bytes:
            return None  # this session does not count them
        window = max(self.byte_credits, self.waiting_bytes)
        wanted = self.consumed_bytes + window if self.byte_credits else _ANY_BYTES
        due = wanted - self.granted_bytes
        now = idle or self.waiting_bytes
        if due <= 0 or (not now and due < self.byte_credits // _BYTE_REFILL_SHARE):
            return None
        self.granted_bytes = wanted
        return wanted

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
        through = self.consumed if self.stored is None else min(self.consumed, self.stored)
        unacked = through - self.acked
        if unacked >= ACK_BATCH or (idle and unacked > 0):
            self.acked = through
            return self.acked
        return None

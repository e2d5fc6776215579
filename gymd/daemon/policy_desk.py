"""Model calls of a session's rollouts on their way to its trainer, and the answers on their way back.

Calls in, frames out, answers back; no gRPC, no tasks, no sleeping. The calls of each model server wait in a
queue of their own, so that one of which the trainer has enough holds up no other.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gymapi.v1.rollout_service_pb2 import (
    GenerateRequest,
    GenerateResult,
    GenerateResults,
    StreamRolloutsResponse,
)
from gymd.errors import GymdError, error

__all__ = ["PolicyCall", "PolicyDesk"]

BATCH_CALLS = 64
BATCH_BYTES = 1024 * 1024
"""A frame of calls is closed at either of these."""
CALL_OVERHEAD_BYTES = 256
"""Room for what surrounds a call in its message."""
MAX_CANCELLED = 1000
CANCELLED_BYTES = 64
"""Room for an id that is given up, of which a frame holds so many."""
MAX_WAITING = 65_536
"""Calls of one session that may wait to be sent."""


class PolicyCall:
    """One model call on its way to the trainer.

    Attributes:
        call_id, server: of the request.
        request: what the trainer is asked.
        ends: when nobody waits any more, on the monotonic clock.
        limit: calls of its server that the trainer may have at a time.
        done: takes the answer or the error, once.
        number: its place among the calls of the desk.
        sent: the trainer has it.
    """

    __slots__ = ("call_id", "done", "ends", "limit", "number", "request", "sent", "server", "size")

    def __init__(
        self,
        request: GenerateRequest,
        seconds: float,
        limit: int,
        done: Callable[[GenerateResult | GymdError], None],
    ) -> None:
        self.call_id = request.call_id
        self.server = request.server
        self.request = request
        self.ends = time.monotonic() + seconds
        self.limit = limit
        self.done = done
        self.size = request.ByteSize()
        self.number = 0
        self.sent = False


@dataclass(slots=True)
class _Queue:
    """The calls of one model server: those that wait, oldest first, and how many the trainer has."""

    waiting: OrderedDict[str, PolicyCall] = field(default_factory=OrderedDict)
    busy: int = 0

    def head(self) -> PolicyCall | None:
        """The call to send next; None: none waits, or the trainer has enough."""
        call = next(iter(self.waiting.values()), None)
        return call if call is not None and self.busy < call.limit else None


class PolicyDesk:
    """The calls of one session's rollouts that its trainer has to answer.

    Args:
        wake: called when there is something to send.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._calls: dict[str, PolicyCall] = {}  # that are not answered, oldest first
        self._queues: dict[str, _Queue] = {}  # by the name of the model server
        self._asked = 0
        self._waiting = 0
        self._cancelled: list[str] = []
        self._message_bytes = 0
        self.serves = False
        """The client said that it answers calls."""
        self.attached = True
        """A stream is there to send them on."""

    @property
    def open_count(self) -> int:
        """Calls that are not answered."""
        return len(self._calls)

    def open(self, *, serves: bool, message_bytes: int) -> None:
        """The session was opened by a client that serves a policy or not, and accepts messages so large."""
        self.serves = serves
        self._message_bytes = message_bytes

    # Calls in.

    def ask(self, call: PolicyCall) -> None:
        """Queues a call; `call.done` is called once, unless it is dropped.

        Raises:
            InvalidRequest: the session serves no policy.
            LimitReached: too many calls wait, or the call is larger than the trainer accepts.
        """
        if not self.serves:
            raise error(
                "INVALID_REQUEST",
                "the session of this rollout serves no policy: open it with serves_policy (in Python: "
                "Trainer(address, policy=...)), or give the agent another model server",
                field="serves_policy",
            )
        room = self._message_bytes - CALL_OVERHEAD_BYTES
        if call.size > room:
            text = (
                f"the model call has {call.size} bytes and the trainer accepts {room}; open the session with "
                "a larger max_message_bytes"
            )
            raise error("MESSAGE_TOO_LARGE", text, size_bytes=call.size, limit_bytes=room)
        if self._waiting >= MAX_WAITING:
            text = f"{MAX_WAITING} model calls wait for the trainer; run fewer rollouts at a time"
            raise error("LIMIT_REACHED", text, limit=MAX_WAITING)
        self._asked += 1
        call.number = self._asked
        self._calls[call.call_id] = call
        self._wait(call)
        self._wake()

    def drop(self, call: PolicyCall) -> None:
        """Nobody waits for the answer any more; the trainer is told if it has the call."""
        if self._remove(call.call_id) is None:
            return
        if call.sent:
            self._cancelled.append(call.call_id)
            self._wake()
        elif not self.attached:
            # The trainer may have had it before its stream broke.
            self._cancelled.append(call.call_id)
            del self._cancelled[:-MAX_WAITING]

    def _wait(self, call: PolicyCall) -> None:
        queue = self._queues.get(call.server)
        if queue is None:
            queue = self._queues[call.server] = _Queue()
        queue.waiting[call.call_id] = call
        self._waiting += 1

    def _remove(self, call_id: str) -> PolicyCall | None:
        call = self._calls.pop(call_id, None)
        if call is None:
            return None
        queue = self._queues[call.server]
        if call.sent:
            queue.busy -= 1
        else:
            del queue.waiting[call_id]
            self._waiting -= 1
        return call

    # Answers back.

    def take(self, frame: GenerateResults) -> None:
        """Takes the trainer's answers; unknown and late ones are ignored."""
        for result in frame.results:
            # Also what waits to be sent again: it was answered before the stream broke.
            call = self._remove(result.call_id)
            if call is not None:
                call.done(result)
        if self._waiting:
            self._wake()

    # Frames out.

    def next_frame(self) -> StreamRolloutsResponse | None:
        """The next calls to send and those to give up, or None."""
        frame = StreamRolloutsResponse()
        asked = frame.generate_requests
        room = min(BATCH_BYTES, self._message_bytes)
        if self._cancelled:
            given_up = self._cancelled[: min(MAX_CANCELLED, room // CANCELLED_BYTES)]
            asked.cancelled_call_ids.extend(given_up)
            del self._cancelled[: len(given_up)]
            room -= CANCELLED_BYTES * len(given_up)
        while len(asked.requests) < BATCH_CALLS:
            call = self._next_call()
            size = call.size + CALL_OVERHEAD_BYTES if call is not None else 0
            if call is None or (size > room and (asked.requests or asked.cancelled_call_ids)):
                break
            room -= size
            queue = self._queues[call.server]
            del queue.waiting[call.call_id]
            self._waiting -= 1
            queue.busy += 1
            call.sent = True
            left = max(0.0, call.ends - time.monotonic())  # it may have waited, and be sent again
            call.request.time_left.FromNanoseconds(int(left * 1e9))
            asked.requests.append(call.request)
        return frame if frame.HasField("generate_requests") else None

    def _next_call(self) -> PolicyCall | None:
        """The oldest call that may be sent."""
        oldest = None
        for queue in self._queues.values():
            call = queue.head()
            if call is not None and (oldest is None or call.number < oldest.number):
                oldest = call
        return oldest

    # The stream.

    def detach(self) -> None:
        """The stream broke: everything that is not answered will be sent again."""
        self.attached = False
        self._queues, self._waiting = {}, 0
        for call in self._calls.values():
            call.sent = False
            self._wait(call)

    def attach(self, *, serves: bool) -> None:
        """Another stream has the session."""
        self.detach()
        self.attached, self.serves = True, serves
        if not serves:
            self.close("the client that resumed the session serves no policy")

    def close(self, why: str) -> None:
        """Fails everything: no answer will come."""
        calls = self._calls
        self._calls, self._queues, self._waiting, self._cancelled = {}, {}, 0, []
        self.serves = False
        for call in calls.values():
            call.done(_unavailable(why))

    def too_late(self, seconds: float) -> GymdError:
        """The error for a call that was not answered in time."""
        if not self.attached:
            return _unavailable(f"its stream broke, and it did not come back within {seconds:g} s")
        text = (
            f"the trainer's policy did not answer within {seconds:g} s; is it stuck? Allow more time with "
            "the server's `timeout` or deadlines.model"
        )
        return error("DEADLINE_EXCEEDED", text, deadline_seconds=f"{seconds:g}")


def _unavailable(why: str) -> GymdError:
    text = f"the trainer that serves the policy is gone: {why}; start it again, and run the rollout again"
    return error("UPSTREAM_UNAVAILABLE", text)

"""Cancels and policy updates of a session: what was asked, and who waits for the answer. No I/O, no clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Any, Literal, TypeVar, get_args

from gymapi.v1.rollout_service_pb2 import (
    CancelWork,
    InflightMode,
    PolicyPhase,
    PolicyUpdate,
    PolicyUpdateAck,
    SessionOpened,
    StreamRolloutsResponse,
)
from gymd.client.outbox import Outbox
from gymd.errors import GymdError, error, from_status_message

__all__ = ["CancelWord", "Controls", "InflightWord", "PhaseWord", "cancel_work", "policy_update"]

T = TypeVar("T")

CancelWord = Literal["abort", "partial", "finish_turn"]
PhaseWord = Literal["pending", "paused", "live"]
InflightWord = Literal["continue", "hold", "abort_resume", "drain"]


_LATER_SCOPES = ("rollout_id", "environment")


def cancel_work(mode: CancelWord, reason: str, features: Collection[str], **scopes: Any) -> CancelWork:
    """The request to cancel one scope; None, "" and False mean: not this one.

    Raises:
        InvalidRequest: it is not exactly one, or the mode is none.
        Unimplemented: a daemon with these features does not know it.
    """
    _check_word("mode", mode, CancelWord)
    scope = {
        name: value for name, value in scopes.items() if not (value is None or value is False or value == "")
    }
    if len(scope) != 1:
        raise error("INVALID_REQUEST", f"cancel needs exactly one of {', '.join(scopes)}", field="scope")
    [name] = scope
    if name in _LATER_SCOPES and "cancel_scopes" not in features:
        text = f"the daemon is too old to cancel by {name}; update it, or cancel by task or agent"
        raise error("NOT_IMPLEMENTED", text, feature="cancel_scopes")
    if scope.pop("everything", False):
        scope["all"] = True
    return CancelWork(**scope, mode=f"CANCEL_MODE_{mode.upper()}", reason=reason)


def policy_update(version: int, phase: PhaseWord, inflight: InflightWord) -> PolicyUpdate:
    """The request to note a version. Raises InvalidRequest."""
    _check_word("phase", phase, PhaseWord)
    _check_word("inflight", inflight, InflightWord)
    return PolicyUpdate(
        version=version,
        phase=f"POLICY_PHASE_{phase.upper()}",
        inflight=f"INFLIGHT_MODE_{inflight.upper()}",
    )


def _check_word(name: str, word: str, kind: Any) -> None:
    if word not in (words := get_args(kind)):
        raise error("INVALID_REQUEST", f"{name} is {word!r}, not one of {', '.join(words)}", field=name)


class Controls:
    """What was asked and not answered yet. Cancels are answered in their order, updates in any.

    Args:
        outbox: where requests wait to be sent, and to be sent again after a broken connection.

    Attributes:
        live: newest version that was said to be live; 0: none was.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.live = 0
        self._cancel_count = 0
        self._cancels: deque[tuple[CancelWork, asyncio.Future[int]]] = deque()
        self._updates: list[tuple[PolicyUpdate, asyncio.Future[PolicyUpdateAck]]] = []

    def begin(self, opened: SessionOpened) -> None:
        """Goes on from where the session is, which may be another process's."""
        self.live = opened.policy_version
        self._cancel_count = opened.last_cancel_number

    def cancel(self, work: CancelWork) -> asyncio.Future[int]:
        """Numbers and queues a cancel; the future tells how many rollouts were stopped, or why none could be.

        It keeps its number when it is sent again, so that it stops nothing that was handed in after it.
        """
        self._cancel_count += 1
        work.number = self._cancel_count
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._outbox.add_control(work)
        self._cancels.append((work, answer))
        return answer

    def update(self, update: PolicyUpdate) -> asyncio.Future[PolicyUpdateAck]:
        """Queues a policy update; raises InvalidRequest for an old version, which would end the stream."""
        if update.version < self.live:
            text = f"version {update.version} is older than {self.live}, which is live; versions only grow, "
            text += "also when older weights come back"
            raise error("INVALID_REQUEST", text, field="version")
        if update.phase == PolicyPhase.POLICY_PHASE_LIVE:
            self.live = update.version
        answer: asyncio.Future[PolicyUpdateAck] = asyncio.get_running_loop().create_future()
        self._outbox.add_control(update)
        self._updates.append((update, answer))
        return answer

    def take(self, frame: StreamRolloutsResponse) -> None:
        """Takes an answer of the daemon, if the frame is one."""
        kind = frame.WhichOneof("frame")
        if kind == "cancelled":
            if self._cancels:
                work, answer = self._cancels.popleft()
                self._outbox.control_answered(work)
                if not frame.cancelled.HasField("error"):
                    _resolve(answer, frame.cancelled.cancelled_count)
                elif not answer.done():
                    answer.set_exception(from_status_message(frame.cancelled.error))
        elif kind == "policy_update_ack":
            self._take_ack(frame.policy_update_ack)

    def _take_ack(self, ack: PolicyUpdateAck) -> None:
        """The oldest update of that version and phase is done, and with one that is live all before it.

        One that drains is acknowledged once more, when nothing runs: that is the answer, unless nobody waits
        for it any more.
        """
        for place, (update, answer) in enumerate(self._updates):
            if (update.version, update.phase) != (ack.version, ack.phase):
                continue
            live = update.phase == PolicyPhase.POLICY_PHASE_LIVE
            drains = update.inflight == InflightMode.INFLIGHT_MODE_DRAIN and not live
            if drains and ack.running_count and not answer.done():
                continue
            begin = 0 if live else place
            done = self._updates[begin : place + 1]
            del self._updates[begin : place + 1]
            for settled, waiting in done:
                self._outbox.control_answered(settled)
                _resolve(waiting, ack)
            return

    def fail(self, failure: GymdError) -> None:
        """Nothing is answered any more."""
        waiting: list[asyncio.Future[Any]] = [answer for _, answer in self._cancels]
        waiting += [answer for _, answer in self._updates]
        self._cancels.clear()
        self._updates.clear()
        for answer in waiting:
            if not answer.done():
                answer.set_exception(failure)


def _resolve(answer: asyncio.Future[T], value: T) -> None:
    if not answer.done():  # the caller may be gone
        answer.set_result(value)

"""Answers of the daemon to what was sent, in any order, and what is sent again when the stream broke."""

from __future__ import annotations

import asyncio
from typing import Any

from gymapi.v1.rollout_service_pb2 import (
    PolicyUpdateAck,
    SessionOpened,
    StreamRolloutsResponse,
    TaskAdmission,
    TaskSubmission,
)
from gymd.client.controls import Controls, cancel_work, policy_update
from gymd.client.outbox import Outbox
from gymd.client.window import CreditWindow
from gymd.errors import error, to_status_message


class Side:
    """The controls of a session, and what they send."""

    def __init__(self) -> None:
        self.window = CreditWindow(16)
        self.outbox = Outbox(self.window)
        self.controls = Controls(self.outbox)

    def update(self, version: int, phase: Any = "live", inflight: Any = "continue") -> asyncio.Future[Any]:
        return self.controls.update(policy_update(version, phase, inflight))

    def acked(self, version: int, phase: str, running: int = 0) -> None:
        ack = PolicyUpdateAck(version=version, phase=f"POLICY_PHASE_{phase}", running_count=running)
        self.controls.take(StreamRolloutsResponse(policy_update_ack=ack))

    def add(self, name: str) -> None:
        self.outbox.add(TaskSubmission(task_id=name), 10)

    def sent(self) -> list[Any]:
        """Sends everything; task ids, and versions of updates, and scopes of cancels, in order."""
        found: list[Any] = []
        while (frame := self.outbox.next_frame(idle=False)) is not None:
            found += [task.task_id for task in frame.submit.tasks]
            if frame.HasField("policy_update"):
                found.append(frame.policy_update.version)
            if frame.HasField("cancel"):
                found.append(frame.cancel.WhichOneof("scope"))
        return found

    def numbers(self) -> list[int]:
        """Sends everything; the numbers of the cancels."""
        found = []
        while (frame := self.outbox.next_frame(idle=False)) is not None:
            found.append(frame.cancel.number)
        return found


async def test_acks_may_overtake_each_other() -> None:
    side = Side()
    pending, paused = side.update(2, "pending"), side.update(2, "paused")
    side.acked(2, "PAUSED")
    assert paused.done()
    assert not pending.done()
    side.acked(2, "PENDING")
    assert pending.done()


async def test_one_that_is_live_settles_what_was_before_it() -> None:
    side = Side()
    earlier = [side.update(2, "pending", "drain"), side.update(2, "paused")]
    live, later = side.update(2), side.update(3, "pending")
    side.sent()
    side.acked(2, "LIVE", running=5)
    assert all(answer.done() for answer in (*earlier, live))
    assert not later.done()
    side.outbox.reconnected()
    assert side.sent() == [3]


async def test_a_caller_that_is_gone_is_in_nobodys_way() -> None:
    side = Side()
    gone = side.update(2, "pending", "drain")
    again = side.update(2, "pending", "drain")
    gone.cancel()
    side.sent()
    side.acked(2, "PENDING", running=3)  # for the one that is gone
    side.acked(2, "PENDING", running=3)
    assert not again.done()
    side.acked(2, "PENDING")
    assert again.result().running_count == 0
    side.outbox.reconnected()
    assert side.sent() == []


async def test_the_very_control_that_was_answered_is_forgotten() -> None:
    side = Side()
    first, second = side.update(2, "pending"), side.update(2, "paused")
    side.sent()
    side.acked(2, "PAUSED")
    side.outbox.reconnected()
    [frame] = [side.outbox.next_frame(idle=False)]
    assert frame is not None
    assert frame.policy_update.phase == policy_update(2, "pending", "continue").phase
    assert second.done()
    assert not first.done()


async def test_updates_before_one_that_went_live_are_not_sent_again() -> None:
    side = Side()
    old = [side.update(2, "pending"), side.update(2), side.update(3, "paused")]
    side.add("a")
    live = side.update(3)
    later = side.update(4, "pending")
    assert side.sent() == [2, 2, 3, "a", 3, 4]
    waiting = side.update(4)
    side.outbox.reconnected()
    assert side.sent() == ["a", 3, 4, 4]
    side.acked(3, "LIVE")
    assert all(answer.done() for answer in (*old, live))
    assert not later.done()
    assert not waiting.done()


async def test_a_cancel_keeps_its_number_when_it_is_sent_again() -> None:
    side = Side()
    side.controls.begin(SessionOpened(last_cancel_number=4))  # of an earlier process
    for name in ("a", "b"):
        side.controls.cancel(cancel_work("abort", "", (), task_id=name))
    assert side.numbers() == [5, 6]
    side.controls.take(StreamRolloutsResponse(cancelled={"cancelled_count": 1}))
    side.outbox.reconnected()
    side.controls.cancel(cancel_work("abort", "", (), task_id="c"))
    assert side.numbers() == [6, 7]


async def test_what_was_sent_is_sent_again_in_that_order() -> None:
    side = Side()
    side.add("a")
    answer = side.controls.cancel(cancel_work("abort", "", (), everything=True, task_id=""))
    side.add("b")
    side.add("c")
    assert side.sent() == ["a", "all", "b", "c"]
    side.add("d")
    assert len(side.outbox._sent) == 4  # not `d`: its frame was not made yet
    refused = TaskAdmission(task_id="a", rejection=to_status_message(error("DRAINING", "it stops")))
    assert side.outbox.answer(refused, resumable=True) is None
    assert side.outbox.answer(TaskAdmission(task_id="b"), resumable=True) is None
    side.outbox.reconnected()
    assert side.sent() == ["a", "all", "c", "d"]
    side.controls.take(StreamRolloutsResponse(cancelled={"cancelled_count": 2}))
    assert answer.result() == 2
    side.outbox.reconnected()
    assert side.sent() == ["a", "c", "d"]


async def test_no_ack_overtakes_a_task_that_is_sent_again() -> None:
    """The daemon may have it, with all its results stored here; acknowledged, it is a new one."""
    side = Side()
    side.add("a")
    side.controls.cancel(cancel_work("abort", "", (), task_id="b"))
    side.add("c")
    assert side.sent() == ["a", "task_id", "c"]
    side.outbox.reconnected()
    side.add("new")
    side.window.consume(0)  # the result of "a", which came before the answer to it
    frames = []
    while (frame := side.outbox.next_frame(idle=True)) is not None:
        frames.append(frame)
    kinds = [frame.WhichOneof("frame") for frame in frames]
    assert kinds == ["submit", "cancel", "submit", "ack"]
    assert [task.task_id for task in frames[2].submit.tasks] == ["c", "new"]
    side.add("last")  # of which nobody knows
    side.window.consume(0)
    first = side.outbox.next_frame(idle=True)
    assert first is not None
    assert first.ack.through_sequence == 2


async def test_what_the_daemon_may_have_is_not_forgotten() -> None:
    side = Side()
    side.add("sent")
    assert side.sent() == ["sent"]
    side.outbox.reconnected()
    side.add("new")
    side.outbox.drop_tasks()  # its results may come: they are waited for
    assert side.window.outstanding == 1
    assert side.sent() == ["sent"]
    assert not side.outbox.full

"""What a session does when its connection breaks, ends early or is given up: streams played by script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest
from grpc.aio import Metadata

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import (
    OpenSession,
    RolloutResult,
    SessionOpened,
    StreamRolloutsRequest,
    StreamRolloutsResponse,
    TaskSubmission,
)
from gymd.client import Rejection, RolloutSession
from gymd.client.stream import Stream
from gymd.errors import Cancelled, Internal, NotFound, Unavailable, error, to_status_message

Opens = Callable[[], SessionOpened]


def opened(**fields: Any) -> SessionOpened:
    return SessionOpened(session_id="s", resume_window={"seconds": 60}, **fields)


def lost() -> SessionOpened:
    raise error("PEER_UNREACHABLE", "nobody is there")


class Line:
    """One stream; the test puts what the daemon says into `news`: frames, errors, None for its end."""

    def __init__(self, opens: Opens = opened) -> None:
        self.opens = opens
        self.opening = OpenSession()
        self.dialled = asyncio.Event()
        self.sent: list[StreamRolloutsRequest] = []
        self.wrote = asyncio.Event()
        self.news: asyncio.Queue[StreamRolloutsResponse | Exception | None] = asyncio.Queue()

    async def open(self, opening: OpenSession) -> SessionOpened:
        self.opening.CopyFrom(opening)
        self.dialled.set()
        return self.opens()

    async def write(self, frame: StreamRolloutsRequest) -> bool:
        self.sent.append(frame)
        self.wrote.set()
        return True

    async def done_writing(self) -> None:
        self.sent.append(StreamRolloutsRequest())
        self.wrote.set()

    async def frames(self, interval: object) -> AsyncIterator[StreamRolloutsResponse]:
        while (item := await self.news.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def abandon(self) -> None:
        self.cancel()

    def cancel(self) -> None:
        self.news.put_nowait(error("CANCELLED", "the stream was broken off"))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until what was sent fits."""
        async with asyncio.timeout(20):
            while not condition():
                self.wrote.clear()
                await self.wrote.wait()

    @property
    def kinds(self) -> list[str | None]:
        return [frame.WhichOneof("frame") for frame in self.sent]

    def say(self, **frame: Any) -> None:
        self.news.put_nowait(StreamRolloutsResponse(**frame))

    def accept(self, *names: str) -> None:
        self.say(admissions={"admissions": [{"task_id": name} for name in names]})

    def deliver(self, *numbers: int) -> None:
        results = [RolloutResult(sequence=n, rollout=Rollout(task_id=f"t{n}")) for n in numbers]
        self.say(results={"results": results})


class Hanging(Line):
    """A daemon that takes the call and says nothing."""

    async def open(self, opening: OpenSession) -> SessionOpened:
        await super().open(opening)
        await asyncio.Event().wait()
        raise AssertionError


def session_of(*lines: Line, **options: Any) -> RolloutSession:
    left = iter(lines)
    opening = OpenSession(
        session_id=options.pop("session_id", ""), policy_version=options.pop("policy_version", None)
    )
    credits = options.pop("credits", 4)
    return RolloutSession(lambda: next(left), opening, credits, **options)  # type: ignore[arg-type,return-value]


def tasks(count: int) -> Iterator[TaskSubmission]:
    return (TaskSubmission(task_id=f"t{number}") for number in range(1, count + 1))


async def all_of(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


async def test_a_drained_daemon_that_ends_in_order_leaves_no_task_unmentioned() -> None:
    line = Line()
    async with session_of(line, credits=2) as session:
        running = asyncio.create_task(all_of(session.run(tasks(3))))
        await line.until(lambda: "submit" in line.kinds)
        line.say(draining={"reason": "asked to stop"})
        line.accept("t1", "t2")
        line.deliver(1, 2)
        line.say(summary={"result_count": 2})
        line.news.put_nowait(None)
        with pytest.raises(Unavailable, match="not every task was handed in"):
            await running
    assert session.summary is not None


async def test_a_task_that_is_sent_again_may_be_known_and_a_double_of_it_may_not() -> None:
    first, second = Line(), Line()
    double = [TaskSubmission(task_id=name) for name in ("t1", "t2", "t1")]
    async with session_of(first, second) as session:
        running = asyncio.create_task(all_of(session.run(double)))
        await first.until(lambda: sum(len(frame.submit.tasks) for frame in first.sent) == 3)
        first.news.put_nowait(error("PEER_UNREACHABLE", "it broke"))
        await second.until(lambda: "submit" in second.kinds)
        known = [{"task_id": one.task_id, "known": True} for one in double]
        second.say(admissions={"admissions": known})
        second.deliver(1, 2)
        await second.until(lambda: None in second.kinds)
        second.say(summary={"result_count": 2})
        second.news.put_nowait(None)
        found = await running
    [refused] = [one for one in found if isinstance(one, Rejection)]
    assert (refused.task_id, refused.error.reason_name) == ("t1", "NAME_TAKEN")
    assert len(found) == 3


async def test_a_task_of_an_earlier_process_is_passed_over_once() -> None:
    line = Line(lambda: opened(granted_rollouts=4, used_rollouts=1, task_ids=["t1"]))
    async with session_of(line, session_id="s") as session:
        running = asyncio.create_task(all_of(session.run([*tasks(1), *tasks(1)])))
        await line.until(lambda: "submit" in line.kinds)
        line.accept("t1")  # it was free again
        line.deliver(1, 2)
        await line.until(lambda: None in line.kinds)
        line.say(summary={"result_count": 2})
        line.news.put_nowait(None)
        assert len(await running) == 2
    assert [len(frame.submit.tasks) for frame in line.sent if frame.HasField("submit")] == [1]


async def test_the_granted_bytes_are_said_again() -> None:
    first, second = Line(), Line()
    async with session_of(first, second, byte_credits=1000, policy_version=3) as session:
        running = asyncio.create_task(all_of(session.run(tasks(1))))
        await first.until(lambda: "submit" in first.kinds)
        first.news.put_nowait(error("PEER_UNREACHABLE", "it broke"))
        await second.until(lambda: "submit" in second.kinds)
        assert (first.opening.granted_bytes, second.opening.granted_bytes) == (1000, 1000)
        # The version is not: it would end a pause that this trainer asked for.
        assert (first.opening.policy_version, second.opening.HasField("policy_version")) == (3, False)
        second.accept("t1")
        second.deliver(1)
        await second.until(lambda: None in second.kinds)
        second.say(summary={"result_count": 1})
        second.news.put_nowait(None)
        assert len(await running) == 1


async def test_a_cancel_is_sent_again_under_its_number() -> None:
    """The first stream breaks before the answer; what the daemon took meanwhile changes nothing."""
    first, second = Line(lambda: opened(last_cancel_number=2)), Line(lambda: opened(last_cancel_number=3))
    async with session_of(first, second, session_id="s") as session:
        answer = asyncio.create_task(session.cancel(everything=True))
        await first.until(lambda: "cancel" in first.kinds)
        first.news.put_nowait(error("PEER_UNREACHABLE", "it broke"))
        await second.until(lambda: "cancel" in second.kinds)
        second.say(cancelled={"cancelled_count": 7, "known": True})
        assert await answer == 7
        later = asyncio.create_task(session.cancel(everything=True))
        await second.until(lambda: second.kinds.count("cancel") == 2)
        later.cancel()
    numbers = [[one.cancel.number for one in line.sent if one.HasField("cancel")] for line in (first, second)]
    assert numbers == [[3], [3, 4]]


async def test_a_resumed_session_whose_bytes_nobody_counts_any_more() -> None:
    line = Line(lambda: opened(granted_bytes=10, sent_bytes=10, granted_rollouts=4, used_rollouts=1))
    async with session_of(line, session_id="s"):
        await line.until(lambda: bool(line.sent))
    assert line.sent[0].grant.granted_bytes > 1 << 60


async def test_a_result_in_the_callers_hands_is_not_missing() -> None:
    line = Line()
    async with session_of(line) as session:
        stream = session.run(tasks(1))
        first = asyncio.ensure_future(anext(stream))
        await line.until(lambda: "submit" in line.kinds)
        line.accept("t1")
        line.deliver(1)
        assert (await first).sequence == 1
        line.say(summary={"result_count": 1})
        line.news.put_nowait(None)
        assert session._connection is not None
        await asyncio.wait_for(session._connection, 20)
        assert await all_of(stream) == []


@pytest.mark.parametrize("submitted", [1, 2])
async def test_results_that_did_not_come_are_missed(submitted: int) -> None:
    line = Line(lambda: SessionOpened(session_id="s"))
    async with session_of(line) as session:
        running = asyncio.create_task(all_of(session.run(tasks(submitted))))
        await line.until(lambda: "submit" in line.kinds)
        line.accept(*(f"t{n}" for n in range(1, submitted + 1)))
        line.deliver(1)
        line.say(summary={"result_count": 2})
        line.news.put_nowait(None)
        with pytest.raises(Unavailable, match="before all rollouts"):
            await asyncio.wait_for(running, 20)


@pytest.mark.parametrize("second", [lambda: Line(lost), Hanging])
async def test_giving_up_between_two_streams(second: Callable[[], Line]) -> None:
    first, next_one = Line(), second()
    more = [Line(lost) for _ in range(20)]
    async with session_of(first, next_one, *more) as session:
        running = asyncio.create_task(all_of(session.run(tasks(1))))
        await first.until(lambda: "submit" in first.kinds)
        first.news.put_nowait(error("PEER_UNREACHABLE", "it broke"))
        await next_one.dialled.wait()
        session.abandon()
        with pytest.raises(Cancelled, match="broken off"):
            await asyncio.wait_for(running, 20)
        with pytest.raises(Cancelled):
            await session.cancel(everything=True)


async def test_a_bug_of_the_client_ends_the_run() -> None:
    line = Line()
    async with session_of(line) as session:
        running = asyncio.create_task(all_of(session.run(tasks(1))))
        await line.until(lambda: "submit" in line.kinds)
        line.news.put_nowait(RuntimeError("oops"))
        with pytest.raises(Internal, match="RuntimeError: oops"):
            await asyncio.wait_for(running, 20)


async def test_stopping_while_the_source_has_nothing_to_say() -> None:
    line = Line()
    asked = asyncio.Event()

    async def source() -> AsyncIterator[TaskSubmission]:
        yield TaskSubmission(task_id="t1")
        asked.set()
        await asyncio.Event().wait()

    async with session_of(line) as session:
        running = asyncio.create_task(all_of(session.run(source())))
        await line.until(lambda: "submit" in line.kinds)
        await asked.wait()
        line.accept("t1")
        session.stop()
        line.deliver(1)
        await line.until(lambda: None in line.kinds)
        line.say(summary={"result_count": 1})
        line.news.put_nowait(None)
        assert len(await asyncio.wait_for(running, 20)) == 1


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED", "INTERNAL"])
async def test_a_connection_that_breaks_while_it_opens_may_be_tried_again(code: str) -> None:
    class Broken:
        async def write(self, frame: object) -> None:
            raise grpc.aio.AioRpcError(grpc.StatusCode[code], Metadata(), Metadata(), "it broke")

        def StreamRollouts(self) -> Broken:
            return self

    with pytest.raises(Unavailable) as caught:
        await Stream(Broken(), "127.0.0.1:1").open(OpenSession())
    assert caught.value.reason_name == "PEER_UNREACHABLE"


async def test_a_daemon_that_is_not_there_yet_is_waited_for() -> None:
    def wrong() -> SessionOpened:
        raise error("SESSION_NOT_FOUND", "no such session", session_id="s")

    async with session_of(Line(lost), Line(lost), Line(), patience=10) as session:
        assert session.session_id == "s"
    with pytest.raises(Unavailable, match="nobody is there"):
        async with session_of(Line(lost), Line(), patience=0):
            pass
    with pytest.raises(NotFound, match="no such session"):  # no other attempt would help
        async with session_of(Line(wrong), Line(), patience=10):
            pass


async def test_what_holds_the_daemon_up_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    async with session_of(line) as session:
        running = asyncio.create_task(all_of(session.run(tasks(1))))
        await line.until(lambda: "submit" in line.kinds)
        for condition in ("the disk is full", "the disk is full", "", "the disk is full"):
            line.say(progress={"condition": condition})
        line.accept("t1")
        line.deliver(1)
        await line.until(lambda: None in line.kinds)
        line.say(summary={"result_count": 1})
        line.news.put_nowait(None)
        await asyncio.wait_for(running, 5)
    told = [record.getMessage() for record in caplog.records if "held up" in record.getMessage()]
    assert told == ["the daemon is held up: the disk is full"] * 2


async def test_a_session_that_is_over_is_not_dialled_again() -> None:
    """A daemon without a journal that shuts down refuses what is on its way, and ends the session."""
    line = Line()  # the only one
    async with session_of(line) as session:
        running = asyncio.create_task(all_of(session.run(tasks(2))))
        await line.until(lambda: "submit" in line.kinds)
        line.say(draining={"reason": "asked to stop"})
        refusal = to_status_message(error("DRAINING", "the daemon is shutting down"))
        line.say(admissions={"admissions": [{"task_id": "t1"}, {"task_id": "t2", "rejection": refusal}]})
        line.deliver(1)
        line.say(summary={"result_count": 1})
        line.news.put_nowait(None)
        with pytest.raises(Unavailable, match="not every task was handed in"):
            await asyncio.wait_for(running, 5)


async def test_a_stream_that_breaks_after_the_last_word_has_said_all() -> None:
    line = Line()
    async with session_of(line) as session:
        running = asyncio.create_task(all_of(session.run(tasks(1))))
        await line.until(lambda: "submit" in line.kinds)
        line.accept("t1")
        line.deliver(1)
        await line.until(lambda: None in line.kinds)
        line.say(summary={"result_count": 1})
        line.news.put_nowait(error("PEER_UNREACHABLE", "it broke"))
        assert len(await asyncio.wait_for(running, 5)) == 1


async def test_ctrl_c_while_the_session_is_left() -> None:
    line = Line()  # which does not answer `end`
    session = session_of(line)
    await session.__aenter__()
    leaving = asyncio.create_task(session.__aexit__(None, None, None))
    await line.until(lambda: "end" in line.kinds)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert session._connection is not None
    assert session._connection.done()

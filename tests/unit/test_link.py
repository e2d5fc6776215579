"""One end of a link, fed by hand: what it does with calls that are cancelled."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1.link_service_pb2 import ConnectRequest, ConnectResponse, LinkCancel, LinkFrame, LinkMessage
from gymapi.v1.model_service_pb2 import StreamResponseRequest
from gymd.errors import GymdError
from gymd.mesh import LocalServers, cancel_all, on_cancel
from gymd.mesh import link as links
from gymd.mesh.link import Link
from gymd.mesh.methods import METHODS
from gymd.sdk.testing import eventually
from tests.fakes.wiring import Probe


class End:
    """A link over a probe, and what it wrote."""

    def __init__(self) -> None:
        self.probe = Probe()
        self.written: list[LinkFrame] = []
        self.batches: list[ConnectResponse] = []
        local = LocalServers()
        local.add("env", "resources", self.probe)
        self.link = Link(local, ConnectResponse, "host")

    async def write(self, batch: ConnectResponse) -> None:
        self.batches.append(batch)
        self.written += batch.frames

    def ask(self) -> asyncio.Task[object]:
        """A call of ours."""
        method = METHODS["/gymapi.v1.ResourcesService/CallTool"]
        return asyncio.create_task(self.link.call(method, "env", pb.CallToolRequest(), 20, {}))

    def wrote(self, kind: str) -> int:
        return sum(frame.WhichOneof("kind") == kind for frame in self.written)

    def call(self, call_id: int, name: str) -> None:
        frame = LinkFrame(call_id=call_id)
        frame.call.method, frame.call.server = "/gymapi.v1.ResourcesService/CallTool", "env"
        frame.call.body = pb.CallToolRequest(name=name, arguments_json="hello").SerializeToString()
        self.link.feed(ConnectRequest(frames=[frame]))

    def cancel(self, call_id: int) -> None:
        self.link.feed(ConnectRequest(frames=[LinkFrame(call_id=call_id, cancel=LinkCancel())]))

    def answers(self) -> dict[int, str | None]:
        return {frame.call_id: frame.WhichOneof("kind") for frame in self.written if frame.call_id}


@pytest.fixture
async def end() -> AsyncIterator[End]:
    one = End()
    pump = asyncio.create_task(one.link.pump(one.write))
    yield one
    one.link.close("the test is over")
    await asyncio.wait([pump])


async def test_nobody_waits_for_the_answer_of_a_call_that_the_caller_cancelled(end: End) -> None:
    end.call(1, "hang")
    await end.probe.started.wait()
    end.cancel(1)
    end.call(2, "hang")
    end.cancel(2)  # before it began
    end.call(3, "echo")
    await eventually(lambda: 3 in end.answers(), "the answer of the next call")
    assert end.probe.stopped.is_set()
    assert end.answers() == {3: "message"}
    assert end.link.serving_tasks() == []


async def test_a_caller_that_still_waits_is_told(end: End) -> None:
    end.call(1, "hang")
    await end.probe.started.wait()
    for task in end.link.serving_tasks():  # as a host does that shuts down
        task.cancel()
    await eventually(lambda: 1 in end.answers(), "the answer")
    assert end.answers() == {1: "error"}


async def test_the_cancels_of_many_calls_leave_together_and_once(end: End) -> None:
    calls = [end.ask() for _ in range(3 * links.BATCH_FRAMES)]
    await eventually(lambda: end.wrote("call") == len(calls), "the calls")
    cancel_all(calls)
    await asyncio.wait(calls)
    await end.link.flushed()
    cancels = [batch.frames for batch in end.batches if batch.frames[0].HasField("cancel")]
    assert [len(frames) for frames in cancels] == [len(calls)]
    assert len({frame.call_id for frame in cancels[0]}) == len(calls)


async def test_calls_that_are_cancelled_in_one_message_are_aborted_before_one_unwinds(end: End) -> None:
    events: list[str] = []

    async def hang(request: pb.CallToolRequest, context: object) -> None:
        forget = on_cancel(lambda: events.append("aborted"))
        try:
            await asyncio.Event().wait()
        finally:
            forget()
            events.append("unwound")

    end.probe.CallTool = hang  # type: ignore[assignment,method-assign]
    for call_id in (1, 2):
        end.call(call_id, "")
    await asyncio.sleep(0)
    frames = [LinkFrame(call_id=call_id, cancel=LinkCancel()) for call_id in (1, 2)]
    end.link.feed(ConnectRequest(frames=frames))
    await eventually(lambda: not end.link.serving_tasks(), "the end of both")
    assert events == ["aborted", "aborted", "unwound", "unwound"]


async def test_a_cancelled_call_unwinds_before_a_later_call_of_the_same_message_begins(end: End) -> None:
    events: list[str] = []

    async def run(request: pb.CallToolRequest, context: object) -> pb.CallToolResponse:
        events.append(f"{request.name} begins")
        try:
            await (asyncio.Event().wait() if request.name == "first" else asyncio.sleep(0))
        finally:
            events.append(f"{request.name} ends")
        return pb.CallToolResponse()

    end.probe.CallTool = run  # type: ignore[assignment,method-assign]
    end.call(1, "first")
    await asyncio.sleep(0)
    call = LinkFrame(call_id=2)
    call.call.method, call.call.server = "/gymapi.v1.ResourcesService/CallTool", "env"
    call.call.body = pb.CallToolRequest(name="second").SerializeToString()
    end.link.feed(ConnectRequest(frames=[LinkFrame(call_id=1, cancel=LinkCancel()), call]))
    await eventually(lambda: 2 in end.answers(), "the answer of the second")
    assert events == ["first begins", "first ends", "second begins", "second ends"]


async def test_a_reader_that_stays_behind_is_told_and_the_call_given_up(
    end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "STREAM_BACKLOG", 2)
    method = METHODS["/gymapi.v1.ModelService/StreamResponse"]
    stream = end.link.stream(method, "policy", StreamResponseRequest(), 20, {})
    first = asyncio.create_task(anext(stream))
    await eventually(lambda: end.wrote("call") == 1, "the call")
    (call,) = [frame for frame in end.written if frame.HasField("call")]
    messages = [LinkFrame(call_id=call.call_id, message=LinkMessage(body=b"")) for _ in range(4)]
    end.link.feed(ConnectRequest(frames=messages))
    read = [await first]
    with pytest.raises(GymdError) as caught:
        read += [response async for response in stream]
    assert caught.value.reason_name == "LIMIT_REACHED"
    await end.link.flushed()
    assert end.wrote("cancel") == 1

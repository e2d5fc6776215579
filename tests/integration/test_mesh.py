"""The three channels behave the same: in-process, link and plain gRPC, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1.agent_service_pb2 import RunRolloutRequest
from gymapi.v1.model_service_pb2 import CreateResponseRequest, StreamResponseRequest
from gymd.errors import GymdError
from gymd.sdk.testing import eventually, expect_error
from tests.fakes.wiring import BIG, TRANSPORTS, Wiring, wired


@pytest.fixture(params=TRANSPORTS)
async def wiring(request: pytest.FixtureRequest) -> AsyncIterator[Wiring]:
    async with wired(request.param) as running:
        yield running


@pytest.fixture(params=["link", "plain"])
async def remote(request: pytest.FixtureRequest) -> AsyncIterator[Wiring]:
    async with wired(request.param) as running:
        yield running


# Errors.


async def test_errors_keep_code_reason_text_values_and_delay(wiring: Wiring) -> None:
    failure = await expect_error("LIMIT_REACHED", wiring.tool("error"), "the call")
    assert (type(failure).__name__, failure.code) == ("LimitReached", 8)
    assert str(failure) == "no more sessions: später"
    assert failure.metadata == {"limit": "3", "who": "ä"}
    assert failure.retry_delay == 1.5


async def test_code_that_raises_is_named(wiring: Wiring) -> None:
    failure = await expect_error("SERVER_CODE_FAILED", wiring.tool("raise"), "the call")
    assert "env.CallTool raised ValueError: broken code" in str(failure)


async def test_a_handler_that_exits_ends_its_call_alone(wiring: Wiring) -> None:
    failure = await expect_error("SERVER_CODE_FAILED", wiring.tool("exit"), "the call")
    assert "env.CallTool raised SystemExit: 3" in str(failure)
    assert await wiring.tool("echo", "still here") == "still here"


async def test_a_long_text_of_raising_code_does_not_hide_what_happened(wiring: Wiring) -> None:
    failure = await expect_error("SERVER_CODE_FAILED", wiring.tool("raise", "später " * 10_000), "the call")
    assert "env.CallTool raised ValueError: später später" in str(failure)


async def test_a_server_that_is_not_there(wiring: Wiring) -> None:
    peer = wiring.mesh.pick("env", "resources")
    for name, kind in (("other", "resources"), ("agent", "agent")):
        peer.name, peer.kind, peer.server_id = name, kind, name
        peer.host_id = "server"
        if wiring.transport == "in-process":
            return  # the mesh looks before it calls
        stub = wiring.mesh.stub(peer)
        if kind == "agent":
            call = stub.RunRollout(RunRolloutRequest(), timeout=5)
        else:
            call = stub.ListTools(pb.ListToolsRequest(), timeout=5)
        await expect_error("SERVER_NOT_FOUND", call, f"a call of {name}")


# Deadlines and cancelling.


async def test_deadlines_are_passed_down_and_hold(wiring: Wiring) -> None:
    left = float(await wiring.tool("time", timeout=7.0))
    assert 6.0 < left <= 7.1  # the grpc-timeout header is rounded up
    failure = await expect_error("DEADLINE_EXCEEDED", wiring.tool("hang", timeout=0.2), "a call that hangs")
    assert failure.code == 4
    await eventually(wiring.probe.stopped.is_set, "stopping the handler")
    assert await wiring.tool("echo", "still alive") == "still alive"


async def test_without_a_deadline_there_is_none(wiring: Wiring) -> None:
    request = pb.CallToolRequest(name="time")
    assert (await wiring.env().CallTool(request)).output == "None"


async def test_a_deadline_does_not_cancel_the_caller(wiring: Wiring) -> None:
    await expect_error("DEADLINE_EXCEEDED", wiring.tool("hang", timeout=0.05), "the call")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_cancelling_reaches_the_handler(wiring: Wiring) -> None:
    running = asyncio.ensure_future(wiring.tool("hang"))
    await eventually(wiring.probe.started.is_set, "the call")
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    await eventually(wiring.probe.stopped.is_set, "stopping the handler")
    assert await wiring.tool("echo", "still alive") == "still alive"


# Streaming.


async def test_streams(wiring: Wiring) -> None:
    events = [event async for event in wiring.stream(1_000)]
    assert [event.text_delta.output_index for event in events] == list(range(1_000))
    assert [event async for event in wiring.stream(0)] == []


async def test_a_stream_that_fails_gives_what_it_had(wiring: Wiring) -> None:
    seen = []

    async def read() -> None:
        async for event in wiring.stream(3, "fail"):
            seen.append(event.text_delta.output_index)

    failure = await expect_error("UPSTREAM_UNAVAILABLE", read(), "a stream that fails")
    assert (seen, str(failure)) == ([0, 1, 2], "half an answer")


async def test_deadline_of_a_stream(wiring: Wiring) -> None:
    async def read() -> None:
        async for _ in wiring.stream(2, "hang", timeout=0.2):
            pass

    await expect_error("DEADLINE_EXCEEDED", read(), "a stream that hangs")
    await eventually(wiring.probe.stopped.is_set, "stopping the handler")


async def test_cancelling_a_stream_stops_its_handler(wiring: Wiring) -> None:
    async def read() -> None:
        async for _ in wiring.stream(2, "hang"):
            pass

    reading = asyncio.ensure_future(read())
    await eventually(wiring.probe.started.is_set, "the stream")
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    await eventually(wiring.probe.stopped.is_set, "stopping the handler")


async def test_leaving_a_stream_stops_its_handler(wiring: Wiring) -> None:
    stream = wiring.stream(2, "hang")
    assert (await anext(stream)).text_delta.output_index == 0
    assert not wiring.probe.stopped.is_set()
    await stream.aclose()
    await eventually(wiring.probe.stopped.is_set, "stopping the handler")


# Sizes and numbers.


async def test_large_bodies_both_ways(wiring: Wiring) -> None:
    texts = [str(number) * BIG for number in range(3)]
    answers = await asyncio.gather(
        *(wiring.tool("echo", text) for text in texts), wiring.tool("echo", "small")
    )
    assert answers == [*texts, "small"]
    events = [event async for event in wiring.stream(3, big=True)]
    assert [len(event.text_delta.delta) for event in events] == [BIG] * 3


async def test_a_burst_of_calls(wiring: Wiring) -> None:
    answers = await asyncio.gather(*(wiring.tool("echo", str(number)) for number in range(2_000)))
    assert answers == [str(number) for number in range(2_000)]


async def test_calls_that_wait_do_not_hold_up_others(wiring: Wiring) -> None:
    waiting = [asyncio.ensure_future(wiring.tool("wait")) for _ in range(200)]
    await eventually(lambda: len(wiring.probe.calls) == 200, "the calls")
    assert await wiring.tool("echo", "quick") == "quick"
    wiring.probe.go.set()
    await asyncio.gather(*waiting)


async def test_metadata_travels(wiring: Wiring) -> None:
    request = pb.CallToolRequest(name="echo")
    await wiring.env().CallTool(request, timeout=5, metadata={"trace-id": "t1"})
    (context,) = wiring.probe.contexts
    assert context.metadata["trace-id"] == "t1"
    assert context.server == "env"


# Draining and broken connections.


async def test_draining_refuses_new_work_and_finishes_what_runs(remote: Wiring) -> None:
    assert remote.wire is not None
    waiting = asyncio.ensure_future(remote.tool("wait"))
    await eventually(remote.probe.started.is_set, "the call")
    await remote.wire.drain()
    seed = pb.SeedSessionRequest(session_id="new")
    await expect_error("DRAINING", remote.env().SeedSession(seed, timeout=5), "new work")
    assert not waiting.done()
    remote.probe.go.set()
    await waiting


async def test_stopping_waits_for_calls_within_the_grace_and_cancels_the_rest(remote: Wiring) -> None:
    assert remote.wire is not None
    waiting = asyncio.ensure_future(remote.tool("wait"))
    await eventually(remote.probe.started.is_set, "the call")
    hanging = asyncio.ensure_future(remote.tool("hang"))
    await eventually(lambda: len(remote.probe.calls) == 2, "the calls")
    stopping = asyncio.ensure_future(remote.wire.stop(0.5))
    remote.probe.go.set()
    await waiting
    await stopping
    await eventually(remote.probe.stopped.is_set, "stopping the handler")
    ended = await asyncio.gather(hanging, return_exceptions=True)
    assert isinstance(ended[0], GymdError)
    assert ended[0].reason_name in ("CANCELLED", "PEER_UNREACHABLE", "SESSION_LOST")


async def test_a_lost_host_fails_calls_under_way(remote: Wiring) -> None:
    assert remote.wire is not None
    request = CreateResponseRequest()
    await remote.policy().CreateResponse(request, timeout=5)
    seen = []

    async def read() -> None:
        async for event in remote.stream(2, "hang"):
            seen.append(event)

    reading = asyncio.ensure_future(read())
    await eventually(remote.probe.started.is_set, "the stream")
    await remote.wire.grpc.stop(0)  # as if the process had died
    await expect_error("PEER_UNREACHABLE", reading, "a stream whose host is gone")
    assert len(seen) == 2


async def test_nobody_listens(remote: Wiring) -> None:
    assert remote.wire is not None
    await remote.wire.stop(0)
    call = remote.policy().CreateResponse(CreateResponseRequest(), timeout=5)
    failure = await expect_error("PEER_UNREACHABLE", call, "a call to nobody")
    assert remote.address in str(failure)


async def test_repeatable_calls_are_repeated_after_a_restart(remote: Wiring) -> None:
    assert remote.wire is not None
    assert await remote.tool("echo", "before") == "before"
    address = remote.address
    await remote.wire.stop(0)

    async def restart() -> None:
        await asyncio.sleep(0.03)
        await remote.serve(address)

    restarting = asyncio.ensure_future(restart())
    answers = []
    while not answers:
        with contextlib.suppress(GymdError):
            answers.append(await remote.tool("echo", "after"))
    await restarting
    assert answers == ["after"]


async def test_a_repeated_call_keeps_its_call_id(remote: Wiring) -> None:
    """The first connection breaks under the call; the repeat arrives over the next one."""
    assert remote.wire is not None
    waiting = asyncio.ensure_future(remote.tool("wait", call_id="once"))
    await eventually(remote.probe.started.is_set, "the call")
    address = remote.address
    remote.probe.go.set()  # the repeat will not wait
    remote.probe.go = asyncio.Event()
    remote.probe.go.set()
    await remote.wire.grpc.stop(0)
    await remote.serve(address)
    with contextlib.suppress(GymdError):  # the restart may have taken longer than the retries
        await waiting
    assert set(remote.probe.calls) == {"once"}


async def test_closing_the_mesh_fails_calls_under_way() -> None:
    for transport in ("link", "plain"):
        async with wired(transport) as wiring:
            stub, request = wiring.policy(), CreateResponseRequest()
            hanging = asyncio.ensure_future(wiring.tool("hang"))
            await eventually(wiring.probe.started.is_set, "the call")
            await wiring.mesh.close()
            await expect_error("PEER_UNREACHABLE", hanging, f"a call over a {transport} that closes")
            await expect_error("PEER_UNREACHABLE", stub.CreateResponse(request, timeout=5), "a later call")
            with pytest.raises(GymdError, match=wiring.address):
                _ = [event async for event in stub.StreamResponse(StreamResponseRequest(), timeout=5)]

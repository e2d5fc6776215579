"""Sessions of a resources server: seeding, idling, and their end."""

import asyncio
from typing import Any

import pytest

from gymapi.v1 import resources_service_pb2 as pb
from gymd.sdk import Session, tool
from gymd.sdk import resources as module
from gymd.sdk.testing import eventually, expect_error
from tests.fakes.made_resources import started


async def test_idle_sessions_are_closed_and_busy_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_S", 0.02)
    closed, go = [], asyncio.Event()

    async def close_session(self: Any, session: Session) -> None:
        closed.append(session.id)
        if session.id == "broken":
            raise RuntimeError("cannot close")

    @tool
    async def wait(self: Any) -> str:
        """Wait."""
        await go.wait()
        return "done"

    async with started(close_session=close_session, wait=wait) as server:
        for name in ("idle", "busy", "broken"):
            request = pb.SeedSessionRequest(session_id=name)
            request.idle_timeout.FromMilliseconds(60)
            await server.call("SeedSession", request)
        await server.seed({}, session_id="patient")
        call = pb.CallToolRequest(session_id="busy", call_id="c", name="wait")
        waiting = asyncio.ensure_future(server.call("CallTool", call))
        await eventually(lambda: set(closed) == {"idle", "broken"}, "closing the idle sessions")
        assert set(server.open_sessions) == {"busy", "patient"}
        go.set()
        assert (await waiting).output == "done"
        await eventually(lambda: "busy" in closed, "closing the session that was busy")
        gone = pb.CallToolRequest(session_id="idle", call_id="c", name="wait")
        await expect_error("SESSION_NOT_FOUND", server.call("CallTool", gone), "a call after expiry")


async def test_a_session_whose_verifier_runs_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_S", 0.02)
    closed, begun, go = [], asyncio.Event(), asyncio.Event()

    async def close_session(self: Any, session: Session) -> None:
        closed.append(session.id)

    async def verify(self: Any, session: Session) -> float:
        begun.set()
        await go.wait()
        return 1.0

    async with started(close_session=close_session, verify=verify) as server:
        for name in ("busy", "idle"):
            request = pb.SeedSessionRequest(session_id=name)
            request.idle_timeout.FromMilliseconds(60)
            await server.call("SeedSession", request)
            if name == "busy":
                verifying = asyncio.ensure_future(server.call("Verify", pb.VerifyRequest(session_id=name)))
                await begun.wait()
        await eventually(lambda: closed == ["idle"], "closing the idle session")
        go.set()
        assert (await verifying).reward.value == 1.0


@pytest.mark.parametrize("at_work", ["tool", "verify", "seed"])
async def test_a_session_is_closed_when_what_was_given_up_has_ended(at_work: str) -> None:
    events: list[str] = []

    async def work() -> None:
        events.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)  # killing a program takes a while
            events.append("ended")

    async def seed_session(self: Any) -> None:
        if at_work == "seed":
            await work()

    @tool
    async def look(self: Any) -> str:
        """Look."""
        await work()
        return ""

    async def verify(self: Any) -> float:
        await work()
        return 1.0

    async def close_session(self: Any, session: Session) -> None:
        events.append("closed")

    methods = {"seed_session": seed_session, "look": look, "verify": verify, "close_session": close_session}
    async with started(**methods) as server:
        calls: dict[str, tuple[str, Any]] = {
            "tool": ("CallTool", pb.CallToolRequest(session_id="s", call_id="c", name="look")),
            "verify": ("Verify", pb.VerifyRequest(session_id="s")),
            "seed": ("SeedSession", pb.SeedSessionRequest(session_id="s")),
        }
        if at_work != "seed":
            await server.call("SeedSession", pb.SeedSessionRequest(session_id="s"))
        call = asyncio.ensure_future(server.call(*calls[at_work]))
        await eventually(lambda: events == ["begun"], "the work")
        call.cancel()
        await server.call("CloseSession", pb.CloseSessionRequest(session_id="s"))
        assert events[:2] == ["begun", "ended"]
        assert events[2:] == ([] if at_work == "seed" else ["closed"])  # what was never seeded has no end
        await asyncio.wait([call])


async def test_work_that_does_not_end_does_not_hold_up_the_end_of_its_session_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNWIND_S", 0.05)
    closed, go = [], asyncio.Event()

    async def close_session(self: Any, session: Session) -> None:
        closed.append(session.id)

    @tool
    async def wait(self: Any) -> str:
        """Wait."""
        await go.wait()
        return "done"

    async with started(close_session=close_session, wait=wait) as server:
        await server.seed({}, session_id="s")
        request = pb.CallToolRequest(session_id="s", call_id="c", name="wait")
        waiting = asyncio.ensure_future(server.call("CallTool", request))
        await asyncio.sleep(0)
        ends = [server.call("CloseSession", pb.CloseSessionRequest(session_id="s")) for _ in range(2)]
        await asyncio.gather(*ends)
        assert closed == ["s"]
        go.set()
        assert (await waiting).output == "done"


async def test_a_repeated_seed_waits_for_the_first() -> None:
    go, seeds = asyncio.Event(), []

    async def seed_session(self: Any, session: Session) -> None:
        seeds.append(session.id)
        await go.wait()
        session.state = "ready"

    async with started(seed_session=seed_session) as server:
        first = asyncio.ensure_future(server.seed({}, session_id="s"))
        await eventually(lambda: seeds, "seeding")
        second = asyncio.ensure_future(server.seed({}, session_id="s"))
        await asyncio.sleep(0)
        assert not second.done()
        go.set()
        await asyncio.gather(first, second)
        assert seeds == ["s"]
        await (await first).close()


async def test_a_repeated_seed_fails_as_the_first_does() -> None:
    go, seeds = asyncio.Event(), []

    async def seed_session(self: Any, session: Session) -> None:
        seeds.append(session.id)
        await go.wait()
        raise ValueError("no such world")

    async with started(seed_session=seed_session) as server:
        failing = [asyncio.ensure_future(server.seed({}, session_id="s")) for _ in range(2)]
        interrupted = [asyncio.ensure_future(server.seed({}, session_id="t")) for _ in range(2)]
        await eventually(lambda: len(seeds) == 2, "seeding")
        await asyncio.sleep(0)
        interrupted[0].cancel()
        await expect_error("SESSION_LOST", interrupted[1], "a repeat of an interrupted seed")
        go.set()
        for seeding in failing:
            await expect_error("SERVER_CODE_FAILED", seeding, "a broken seed")
        assert seeds == ["s", "t"]
        assert server.open_sessions == []


async def test_a_seed_that_raises_leaves_no_session() -> None:
    async def seed_session(self: Any) -> None:
        raise ValueError("no such world")

    async with started(seed_session=seed_session) as server:
        failure = await expect_error("SERVER_CODE_FAILED", server.seed({}), "a broken seed")
        assert "no such world" in str(failure)
        assert server.open_sessions == []


async def test_sessions_are_closed_when_the_server_stops() -> None:
    closed = []

    async def close_session(self: Any, session: Session) -> None:
        closed.append(session.id)

    async with started(close_session=close_session) as server:
        await server.seed({}, session_id="a")
        await server.seed({}, session_id="b")
    assert closed == ["a", "b"]


async def test_closing_goes_on_when_its_caller_gives_up_and_a_repeat_waits_for_it() -> None:
    events: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    async def close_session(self: Any, session: Session) -> None:
        begun.set()
        await go.wait()
        events.append("closed")

    request = pb.CloseSessionRequest(session_id="a")
    async with started(close_session=close_session) as server:
        await server.seed({}, session_id="a")
        given_up = asyncio.ensure_future(server.call("CloseSession", request))
        await begun.wait()
        given_up.cancel()
        await asyncio.wait([given_up])
        repeat = asyncio.ensure_future(server.call("CloseSession", request))
        await asyncio.sleep(0.05)
        assert given_up.cancelled()
        assert not repeat.done()
        go.set()
        await repeat
    assert events == ["closed"]


async def test_closing_does_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_LIMIT_S", 0.05)

    async def close_session(self: Any, session: Session) -> None:
        await asyncio.Event().wait()

    async with started(close_session=close_session) as server:
        await server.seed({}, session_id="a")
        call = server.call("CloseSession", pb.CloseSessionRequest(session_id="a"))
        await expect_error("DEADLINE_EXCEEDED", call, "an endless close")

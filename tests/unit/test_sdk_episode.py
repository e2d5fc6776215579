"""What is left of rollouts that were cancelled."""

import asyncio
from typing import Any

from gymapi.v1.rollout_pb2 import OUTCOME_ENV_FAILED
from gymd.sdk.episode import sessions_closed
from gymd.sdk.testing import FakeModel, eventually, start_servers
from gymd.sdk.testing.mesh import Servers
from gymservers.agents.simple_agent.server import SimpleAgent
from gymservers.resources.example_single_tool_call.server import Weather

COUNT = 50
ROW = {"responses_create_params": {"input": "Hello"}}


async def test_every_session_of_many_cancelled_rollouts_is_closed() -> None:
    asked = stopped = 0

    async def never(*_: Any) -> str:
        nonlocal asked, stopped
        asked += 1
        try:
            await asyncio.Event().wait()
        finally:
            stopped += 1
        return ""

    agent = {"model_server": {"name": "policy_model"}, "resources_server": {"name": "env"}}
    servers: Servers = {
        "policy_model": (FakeModel, {"script": never}),
        "env": (Weather, {}),
        "agent": (SimpleAgent, agent),
    }
    async with start_servers(servers, transport="in-process") as mesh:
        running = [asyncio.ensure_future(mesh.run_rollout("agent", ROW)) for _ in range(COUNT)]
        await eventually(lambda: asked == COUNT, "every model call")
        assert len(mesh["env"].open_sessions) == COUNT
        for rollout in running:
            rollout.cancel()
        await asyncio.wait(running)
        assert stopped == COUNT
        assert mesh["env"].open_sessions, "model calls end before the sessions are closed"
        await sessions_closed()
        assert mesh["env"].open_sessions == []


class Panic(BaseException):
    """What a Rust extension raises when it panics."""


class Panicking(SimpleAgent):
    async def run(self, run: Any) -> None:
        raise Panic("no tokenizer")


async def test_an_agent_that_raises_no_exception_fails_its_rollout_and_closes_its_session() -> None:
    agent = {"model_server": {"name": "policy_model"}, "resources_server": {"name": "env"}}
    servers: Servers = {
        "policy_model": (FakeModel, {"script": []}),
        "env": (Weather, {}),
        "agent": (Panicking, agent),
    }
    async with start_servers(servers) as mesh, asyncio.timeout(20):
        rollout = await mesh.run_rollout("agent", ROW)
        assert rollout.outcome == OUTCOME_ENV_FAILED
        assert "run raised Panic: no tokenizer" in rollout.failure.status.message
        assert mesh["env"].open_sessions == []

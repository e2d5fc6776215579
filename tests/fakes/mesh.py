"""A whole daemon in the test's process, with real hosts as children, and a client that plays by plan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import grpc
import psutil

from gymapi.v1 import registry_service_pb2 as registry_pb
from gymapi.v1 import rollout_service_pb2 as pb
from gymapi.v1.registry_service_pb2_grpc import RegistryServiceStub
from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub
from gymd.config import DaemonSettings, GymConfig, ServerSpec
from gymd.config.problems import Origins
from gymd.daemon.app import Daemon
from gymd.mesh import dial

TOY = f"{Path(__file__).with_name('toy_agent.py')}:ToyAgent"
LIMIT_S = 60.0


def toy(name: str = "toy", **fields: Any) -> ServerSpec:
    """A toy agent as the configuration describes it."""
    return ServerSpec(name=name, kind="agent", implementation="toy", entrypoint=TOY, **fields)


def configuration(state_dir: Path, *servers: ServerSpec, **settings: Any) -> GymConfig:
    """A configuration on any free port, with one pool host unless told otherwise."""
    values = {
        "listen": "127.0.0.1:0",
        "pool_hosts": 1,
        "grace_s": 5.0,
        "restart_backoff_min_s": 0.05,
        **settings,
    }
    raw = {server.name: {"agents": {"toy": server.config}} for server in servers}
    return GymConfig(list(servers), DaemonSettings(state_dir=state_dir, **values), raw, [], Origins())


class Stream:
    """One StreamRollouts call, frame by frame."""

    def __init__(self, stub: RolloutServiceStub) -> None:
        self.call = stub.StreamRollouts()
        self.results: list[pb.RolloutResult] = []
        self.seen: list[str] = []
        self.opened = pb.SessionOpened()
        self._frames: list[pb.StreamRolloutsResponse] = []

    async def open(self, credits: int = 1000, **fields: Any) -> Self:
        """Opens or resumes the session."""
        await self.send(open=pb.OpenSession(client_name="test", granted_rollouts=credits, **fields))
        self.opened = await self.expect("opened")
        return self

    def frames(self, kind: str) -> list[Any]:
        """What the frames of a kind hold that came so far."""
        return [getattr(frame, kind) for frame in self._frames if frame.WhichOneof("frame") == kind]

    async def send(self, **frame: Any) -> None:
        """Sends a frame."""
        await self.call.write(pb.StreamRolloutsRequest(**frame))

    async def submit(self, *tasks: pb.TaskSubmission) -> None:
        """Submits tasks."""
        await self.send(submit=pb.SubmitTasks(tasks=tasks))

    async def read(self) -> pb.StreamRolloutsResponse | None:
        """The next frame; None at the end of the stream. Results are also collected."""
        async with asyncio.timeout(LIMIT_S):
            frame = await self.call.read()
        if frame is grpc.aio.EOF:
            return None
        self.seen.append(frame.WhichOneof("frame"))
        self._frames.append(frame)
        self.results.extend(frame.results.results)
        return frame

    async def expect(self, kind: str) -> Any:
        """Reads on to the next frame of a kind and returns what it holds."""
        while (frame := await self.read()) is not None:
            if frame.WhichOneof("frame") == kind:
                return getattr(frame, kind)
        raise AssertionError(f"the stream ended before a {kind} frame; it held {self.seen}")

    async def until(self, count: int) -> list[Rollout]:
        """Reads until so many results came."""
        while len(self.results) < count:
            await self.expect("results")
        return [result.rollout for result in self.results]

    async def finish(self) -> pb.SessionSummary:
        """Half-closes and reads to the end."""
        await self.call.done_writing()
        summary: pb.SessionSummary = await self.expect("summary")
        assert await self.read() is None
        return summary


def task(task_id: str, text: str = "hello", **fields: Any) -> pb.TaskSubmission:
    """A task for the toy agent."""
    one = pb.TaskSubmission(task_id=task_id, **fields)
    one.task.create_params.input_text = text
    return one


class RunningMesh:
    """A daemon and the stubs to talk to it."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.channel = dial(daemon.address)
        self.registry = RegistryServiceStub(self.channel)
        self.rollouts = RolloutServiceStub(self.channel)

    def stream(self) -> Stream:
        """A new stream, not opened."""
        return Stream(self.rollouts)

    async def servers(self, name: str = "") -> list[registry_pb.Server]:
        """The servers as ListServers tells them."""
        answer = await self.registry.ListServers(registry_pb.ListServersRequest(name=name), timeout=30)
        return list(answer.servers)

    async def until(self, wanted: Callable[[list[registry_pb.Server]], bool]) -> list[registry_pb.Server]:
        """Follows WatchServers until the servers are as wanted."""
        known: dict[str, registry_pb.Server] = {}
        async with asyncio.timeout(LIMIT_S):
            async for change in self.registry.WatchServers(registry_pb.WatchServersRequest()):
                if change.snapshot:
                    known.clear()
                for server_id in change.removed_server_ids:
                    known.pop(server_id, None)
                known.update({server.server_id: server for server in change.servers})
                if wanted(list(known.values())):
                    return list(known.values())
        raise AssertionError("the watch ended")

    async def until_metric(self, name: str, value: float) -> None:
        """Waits until a metric has a value."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                if await self.metric(name) == value:
                    return
                await asyncio.sleep(0.01)

    async def metric(self, name: str) -> float:
        """One metric, summed over its labels."""
        answer = await self.rollouts.GetMetrics(pb.GetMetricsRequest(), timeout=30)
        return sum(metric.value for metric in answer.metrics if metric.name == name)

    async def logged(self, server: str, text: str) -> str:
        """Waits for a line that a server wrote."""
        request = registry_pb.GetServerLogsRequest(name=server, line_count=2000)
        async with asyncio.timeout(LIMIT_S):
            while True:
                logs = (await self.registry.GetServerLogs(request, timeout=30)).logs
                found = [line for log in logs for line in log.lines if text in line]
                if found:
                    return found[0]
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running(
    state_dir: Path, *servers: ServerSpec, ready: bool = True, **settings: Any
) -> AsyncIterator[RunningMesh]:
    """Runs a daemon; afterwards no child and no announcement of it may be left."""
    children = set(psutil.Process().children(recursive=True))
    daemon = Daemon(configuration(state_dir, *servers, **settings))
    await daemon.start()
    mesh = RunningMesh(daemon)
    try:
        if ready:
            async with asyncio.timeout(LIMIT_S):
                assert await daemon.wait_ready() == []
        yield mesh
    finally:
        await mesh.channel.close()
        await daemon.stop()
    assert set(psutil.Process().children(recursive=True)) <= children
    assert not (state_dir / "daemon.json").exists()

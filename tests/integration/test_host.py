"""The host process as the daemon starts it: registers, renews, watches, and leaves."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from gymapi.v1 import registry_service_pb2 as pb
from gymapi.v1 import registry_service_pb2_grpc
from gymapi.v1.agent_service_pb2 import RunRolloutRequest
from gymapi.v1.resources_service_pb2 import CallToolRequest, ListToolsRequest, SeedSessionRequest
from gymd.errors import GymdError, abort, error
from gymd.mesh import Directory, LocalServers, Mesh
from gymd.sdk import lease
from gymd.sdk.host import Bootstrap, Host, configure
from gymd.sdk.testing import eventually, expect_error
from gymservers.resources.example_single_tool_call.server import Weather

WEATHER = {"name": "weather", "kind": "resources", "implementation": "example_single_tool_call"}
AGENT = {
    "name": "agent",
    "kind": "agent",
    "implementation": "simple_agent",
    "config": {"model_server": {"name": "policy_model"}, "resources_server": {"name": "weather"}},
}
START_S = 20.0

SLOW = '''
import asyncio, pathlib
from gymd.sdk import ResourcesServer, Session, tool

class Slow(ResourcesServer):
    """Takes its time, and writes down what becomes of its sessions."""

    @tool
    async def wait(self, seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "done"

    @tool
    def block(self) -> str:
        """Never come back, in a thread that nobody can kill."""
        import time
        while True:
            time.sleep(1)

    async def close_session(self, session: Session) -> None:
        with pathlib.Path(__file__).with_suffix(".closed").open("a") as file:
            file.write(session.id + "\\n")

    async def verify(self) -> float:
        return 1.0
'''


class FakeRegistry(registry_service_pb2_grpc.RegistryServiceServicer):
    """Takes registrations, counts renewals, tells watchers, forgets on request."""

    def __init__(self, ttl: float) -> None:
        self.ttl = ttl
        self.address = ""
        self.servers: dict[str, pb.Server] = {}
        self.renewals = 0
        self.registrations: list[pb.RegisterServerRequest] = []
        self.left: list[str] = []
        self.refuse = ""
        self.changed = asyncio.Event()
        self.server: Any = None
        self._number = 0

    async def RegisterServer(self, request: Any, context: Any) -> pb.RegisterServerResponse:
        if self.refuse:
            await abort(context, error("NAME_TAKEN", self.refuse, server=request.name))
        if request.server_id and request.server_id not in self.servers:
            await abort(context, error("SERVER_NOT_FOUND", "the lease ran out", server=request.name))
        self.renewals += bool(request.server_id)
        self._number += 1
        server_id = request.server_id or f"{request.name}-{self._number}"
        self.registrations.append(request)
        self.servers[server_id] = pb.Server(
            server_id=server_id,
            name=request.name,
            kind=request.kind,
            address=request.address,
            host_id=request.host_id,
            state=pb.SERVER_STATE_READY if request.ready else pb.SERVER_STATE_UNHEALTHY,
            condition=request.condition,
            capabilities=request.capabilities,
            labels=request.labels,
            pid=request.pid,
        )
        self.tell()
        answer = pb.RegisterServerResponse(server_id=server_id)
        answer.lease_ttl.FromMilliseconds(int(self.ttl * 1000))
        return answer

    async def DeregisterServer(self, request: Any, context: Any) -> pb.DeregisterServerResponse:
        server = self.servers.pop(request.server_id, None)
        if server is not None:
            self.left.append(server.name)
        self.tell()
        return pb.DeregisterServerResponse()

    async def WatchServers(self, request: Any, context: Any) -> AsyncIterator[pb.WatchServersResponse]:
        while True:
            changed = self.changed
            yield pb.WatchServersResponse(snapshot=True, servers=self.servers.values())
            await changed.wait()

    async def stop(self) -> None:
        """As if the daemon had been killed."""
        await self.server.stop(0)

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def named(self, name: str) -> pb.Server:
        return next(server for server in self.servers.values() if server.name == name)


@contextlib.asynccontextmanager
async def fake_registry(ttl: float = 15.0) -> AsyncIterator[FakeRegistry]:
    registry, server = FakeRegistry(ttl), grpc.aio.server()
    registry_service_pb2_grpc.add_RegistryServiceServicer_to_server(registry, server)
    registry.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    registry.server = server
    await server.start()
    try:
        yield registry
    finally:
        await server.stop(0)


class HostProcess:
    """`python -m gymd.sdk.host` with its bootstrap on stdin."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stderr is not None
        self._reading = asyncio.ensure_future(process.stderr.read())

    async def ended(self, timeout: float = 20.0) -> tuple[int, str]:
        """Its exit code and everything it wrote to stderr."""
        async with asyncio.timeout(timeout):
            code = await self.process.wait()
            return code, (await self._reading).decode()

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        self.close_stdin()
        await self.ended()


@contextlib.asynccontextmanager
async def host(*servers: dict[str, Any], daemon: str = "", **bootstrap: Any) -> AsyncIterator[HostProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gymd.sdk.host",
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    text = json.dumps({"host_id": "host-1", "daemon": daemon, "servers": servers, "grace_s": 5.0} | bootstrap)
    assert process.stdin is not None
    process.stdin.write(text.encode() + b"\n")
    running = HostProcess(process)
    try:
        yield running
    finally:
        await running.kill()


@contextlib.asynccontextmanager
async def mesh_of(registry: FakeRegistry) -> AsyncIterator[Mesh]:
    directory = Directory()
    directory.replace(registry.servers.values())
    mesh = Mesh("test", LocalServers(), directory)
    try:
        yield mesh
    finally:
        await mesh.close()


async def registered(registry: FakeRegistry, count: int) -> None:
    await eventually(lambda: len(registry.servers) >= count, "registering", timeout=START_S)


async def test_registers_serves_renews_and_leaves_on_sigterm() -> None:
    async with fake_registry(ttl=0.3) as registry, host(WEATHER, AGENT, daemon=registry.address) as running:
        await registered(registry, 2)
        weather, agent = registry.named("weather"), registry.named("agent")
        assert (weather.kind, agent.kind) == (pb.SERVER_KIND_RESOURCES, pb.SERVER_KIND_AGENT)
        assert weather.address == agent.address != ""
        assert (weather.host_id, weather.pid) == ("host-1", running.process.pid)
        assert dict(agent.labels) == {"model_server": "policy_model", "resources_server": "weather"}
        assert weather.capabilities.link
        assert weather.capabilities.api_version == "v1"
        assert weather.capabilities.max_message_bytes > 4 * 1024 * 1024
        assert weather.capabilities.implementation.startswith("gymservers.resources.example_single_tool_call")
        async with mesh_of(registry) as mesh:
            stub = mesh.stub(mesh.pick("weather", "resources"))
            tools = await stub.ListTools(ListToolsRequest(), timeout=10)
            assert [tool.name for tool in tools.tools] == ["get_weather"]
        renewals = registry.renewals
        await eventually(lambda: registry.renewals >= renewals + 4, "renewing")
        running.process.terminate()
        code, errors = await running.ended()
        assert (code, errors) == (0, "")
        assert sorted(registry.left) == ["agent", "weather"]
        assert registry.registrations[-1].ready is False  # said so before it left


async def test_registers_again_when_the_lease_ran_out() -> None:
    async with fake_registry(ttl=0.3) as registry, host(WEATHER, daemon=registry.address) as running:
        await registered(registry, 1)
        registry.servers.clear()
        await registered(registry, 1)
        running.process.terminate()
        assert (await running.ended())[0] == 0


async def test_leaves_when_its_stdin_ends() -> None:
    """However the daemon dies: the pipe breaks, and nobody is left behind."""
    async with fake_registry() as registry, host(WEATHER, daemon=registry.address) as running:
        await registered(registry, 1)
        running.close_stdin()
        code, errors = await running.ended()
        assert (code, errors) == (0, "")
        assert registry.left == ["weather"]


async def test_outlives_the_registry_and_still_leaves() -> None:
    """A daemon that was killed: the host keeps serving until its stdin ends or it is told to leave."""
    async with contextlib.AsyncExitStack() as stack:
        registry = await stack.enter_async_context(fake_registry(ttl=0.3))
        running = await stack.enter_async_context(host(WEATHER, daemon=registry.address))
        await registered(registry, 1)
        async with mesh_of(registry) as mesh:
            await registry.stop()
            stub = mesh.stub(mesh.pick("weather", "resources"))
            assert (await stub.ListTools(ListToolsRequest(), timeout=10)).tools
        running.process.terminate()
        assert (await running.ended())[0] == 0


def entry(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    return {"name": "slow", "kind": "resources", "implementation": "slow", "entrypoint": f"{file}:Slow"}


@pytest.mark.parametrize(("seconds", "finished"), [(0.5, True), (60.0, False)])
async def test_work_under_way_gets_the_grace(tmp_path: Path, seconds: float, finished: bool) -> None:
    async with (
        fake_registry() as registry,
        host(entry(tmp_path), daemon=registry.address, grace_s=1.5) as running,
    ):
        await registered(registry, 1)
        async with mesh_of(registry) as mesh:
            stub = mesh.stub(mesh.pick("slow", "resources"))
            await stub.SeedSession(SeedSessionRequest(session_id="s"), timeout=10)
            call = CallToolRequest(session_id="s", call_id="c", name="wait")
            call.arguments_json = json.dumps({"seconds": seconds})
            waiting = asyncio.ensure_future(stub.CallTool(call, timeout=30))
            # The link keeps order: an answer to this means that the call above has arrived.
            await stub.ListTools(ListToolsRequest(), timeout=10)
            begin = time.monotonic()
            running.process.terminate()
            if finished:
                assert (await waiting).output == "done"
            else:
                with pytest.raises(Exception, match=r"closed|lost|cancelled|interrupted|refused"):
                    await waiting
            assert (await running.ended())[0] == 0
            assert time.monotonic() - begin < 25
    assert (tmp_path / "slow.closed").read_text() == "s\n"


async def test_a_thread_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    async with (
        fake_registry() as registry,
        host(entry(tmp_path), daemon=registry.address, grace_s=0.5) as running,
    ):
        await registered(registry, 1)
        async with mesh_of(registry) as mesh:
            stub = mesh.stub(mesh.pick("slow", "resources"))
            await stub.SeedSession(SeedSessionRequest(session_id="s"), timeout=10)
            call = CallToolRequest(session_id="s", call_id="c", name="block")
            await expect_error("DEADLINE_EXCEEDED", stub.CallTool(call, timeout=0.3), "a tool that hangs")
            running.process.terminate()
            assert (await running.ended(10))[0] == 0


async def test_knows_the_peers_that_the_registry_tells_it() -> None:
    """The agent in one process finds the model in another, which comes later."""
    script = {"name": "policy_model", "kind": "model", "implementation": "x"}
    script["entrypoint"] = "gymd.sdk.testing:FakeModel"
    async with fake_registry() as registry, host(WEATHER, AGENT, daemon=registry.address) as running:
        await registered(registry, 2)
        async with mesh_of(registry) as mesh:
            stub = mesh.stub(mesh.pick("agent", "agent"))
            request = RunRolloutRequest(rollout_id="r")
            request.task.create_params.input_text = "Hi."
            waiting = asyncio.ensure_future(stub.RunRollout(request, timeout=30))
            model = script | {"config": {"script": ["Hello."]}}
            async with host(model, daemon=registry.address, host_id="host-2") as other:
                rollout = (await waiting).rollout
                assert rollout.response.output[0].message.content_parts.parts[0].output_text.text == "Hello."
                assert rollout.reward.value == 1.0
                other.process.terminate()
                assert (await other.ended())[0] == 0
        running.process.terminate()
        assert (await running.ended())[0] == 0


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (
            WEATHER | {"config": {"citty": 1, "unit": 2}},
            "gymd-host: cannot start weather: its configuration is wrong: citty: "
            "no such key; there are: none; unit: no such key; there are: none",
        ),
        (WEATHER | {"implementation": "wether"}, "gymd-host: cannot start weather: cannot import "),
        (
            WEATHER | {"entrypoint": "gymd.sdk:NoSuch"},
            "gymd-host: cannot start weather: gymd.sdk has no class",
        ),
    ],
)
async def test_a_server_that_cannot_start(server: dict[str, Any], says: str) -> None:
    async with fake_registry() as registry, host(server, daemon=registry.address) as running:
        code, errors = await running.ended()
    assert code == 3
    assert errors.startswith(says)
    assert errors.count("\n") == 1
    assert registry.servers == {}


async def test_a_start_that_raises_many_lines_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(
        "from gymd.sdk import ResourcesServer\nclass Broken(ResourcesServer):\n"
        "    async def start(self):\n        raise OSError('no disk:\\n  buy one')\n"
        "    async def verify(self):\n        return 1.0\n"
    )
    block = {"name": "b", "kind": "resources", "implementation": "x", "entrypoint": f"{file}:Broken"}
    async with host(block) as running:
        assert await running.ended() == (3, "gymd-host: cannot start b: OSError: no disk: buy one\n")


TROUBLED = """
from gymd.sdk import ResourcesServer, tool

class Base(ResourcesServer):
    async def verify(self) -> float:
        return 1.0

class Bad(Base):
    def __init__(self, *arguments):
        raise ValueError("no weights")

class Shy(Base):
    def labels(self):
        raise KeyError("no facts")

class Good(Base):
    async def start(self):
        self.pool = []

    async def stop(self):
        self.pool.clear()

    @tool
    async def fail(self) -> str:
        '''Fail.'''
        raise ValueError("no seats left")
"""


def troubled(folder: Path, cls: str, name: str) -> dict[str, Any]:
    file = folder / "troubled.py"
    file.write_text(TROUBLED)
    return {"name": name, "kind": "resources", "implementation": "x", "entrypoint": f"{file}:{cls}"}


async def test_a_daemon_that_answers_late_or_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "START_TIMEOUT_S", 1.0)
    one = Host(Bootstrap("h", "127.0.0.1:1", [], []))
    one.add(configure(Weather, "weather", {}, one.mesh))
    registration = lease.Registration(one, "127.0.0.1:2")
    with pytest.raises(GymdError, match=r"127.0.0.1:1 did not take .* within 1 s; check that it runs"):
        await registration.start()
    await registration.stop()


async def test_labels_that_raise_do_not_end_the_renewals(tmp_path: Path) -> None:
    async with (
        fake_registry(ttl=0.3) as registry,
        host(troubled(tmp_path, "Shy", "shy"), daemon=registry.address) as running,
    ):
        await eventually(lambda: registry.renewals > 2, "renewing", timeout=START_S)
        running.process.terminate()
        assert "labels_raised server=shy why=KeyError('no facts')" in (await running.ended())[1]


async def test_what_was_never_started_is_not_stopped(tmp_path: Path) -> None:
    good, bad = troubled(tmp_path, "Good", "good"), troubled(tmp_path, "Bad", "bad")
    async with host(good, bad) as running:
        assert await running.ended() == (3, "gymd-host: cannot start bad: ValueError: no weights\n")


async def test_its_log_says_which_server_what_and_why(tmp_path: Path) -> None:
    async with (
        fake_registry() as registry,
        host(troubled(tmp_path, "Good", "good"), daemon=registry.address) as running,
    ):
        await registered(registry, 1)
        async with mesh_of(registry) as mesh:
            stub = mesh.stub(mesh.pick("good", "resources"))
            await stub.SeedSession(SeedSessionRequest(session_id="s"), timeout=10)
            await stub.CallTool(CallToolRequest(session_id="s", call_id="c", name="fail"), timeout=10)
        running.process.terminate()
        errors = (await running.ended())[1]
    assert "gymd.server.good tool_raised tool=fail why=ValueError: no seats left" in errors


async def test_a_registry_that_refuses() -> None:
    async with fake_registry() as registry:
        registry.refuse = "the name weather is taken by an agent"
        async with host(WEATHER, daemon=registry.address) as running:
            code, errors = await running.ended()
    assert (code, errors) == (3, "gymd-host: the name weather is taken by an agent\n")


async def test_a_taken_address_is_named() -> None:
    async with fake_registry() as registry, host(WEATHER, listen=[registry.address]) as running:
        code, errors = await running.ended()
    assert code == 3
    assert f"cannot listen on {registry.address}" in errors


async def test_without_parameters_it_says_how_it_is_started() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gymd.sdk.host",
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 3
    assert b"use `gymd` or `gymctl up`" in errors


async def test_secrets_do_not_show_in_the_process_list() -> None:
    secret = "sk-0123456789"
    server = AGENT | {"config": {"model_server": {"name": secret}}}
    async with fake_registry() as registry, host(server, daemon=registry.address) as running:
        await registered(registry, 1)
        process = psutil.Process(running.process.pid)
        assert secret not in " ".join(process.cmdline())
        assert secret not in " ".join(process.environ().values())
        os.kill(running.process.pid, signal.SIGINT)
        assert (await running.ended())[0] == 0

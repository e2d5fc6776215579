"""Starts servers on real sockets for the length of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from gymapi.v1 import registry_service_pb2 as registry
from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import Rollout
from gymd.mesh import Directory, LocalServers, Mesh
from gymd.sdk.base import Server
from gymd.sdk.host import Bootstrap, Host, configure
from gymd.sdk.lease import KINDS
from gymd.sdk.testing.fake_model import FakeModel
from gymd.sdk.testing.running import RunningServer

__all__ = ["RunningMesh", "Transport", "reach_server", "start_server", "start_servers"]

Transport = Literal["link", "plain", "in-process"]
"""link: batched frames between two ends; plain: unary gRPC; in-process: direct calls, no socket."""
Kind = Literal["model", "agent", "resources"]
Servers = Mapping[str, tuple[type[Server], Mapping[str, Any]]]

GRACE_S = 2.0


class RunningMesh(Mapping[str, RunningServer]):
    """Running servers by name.

    Attributes:
        mesh: the caller's side; pick a peer and take its stub, as a server would.
    """

    def __init__(self, mesh: Mesh, servers: dict[str, RunningServer]) -> None:
        self.mesh = mesh
        self._servers = servers

    def __getitem__(self, name: str) -> RunningServer:
        return self._servers[name]

    def __iter__(self) -> Any:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)

    async def run_rollout(self, agent: str, row: Mapping[str, Any], **options: Any) -> Rollout:
        """One rollout; the options are those of RunningServer.run_rollout."""
        return await self[agent].run_rollout(row, **options)

    async def ask(self, agent: str, params: Mapping[str, Any] | str) -> Response:
        """One conversation without a verifier."""
        return await self[agent].ask(params)


@contextlib.asynccontextmanager
async def start_servers(servers: Servers, *, transport: Transport = "link") -> AsyncIterator[RunningMesh]:
    """Runs servers that find each other by name:

        async with start_servers({
            "policy_model": (FakeModel, {"script": ["Hello."]}),
            "weather": (Weather, {}),
            "agent": (SimpleAgent, {"model_server": {"name": "policy_model"},
                                    "resources_server": {"name": "weather"}}),
        }) as mesh:
            rollout = await mesh.run_rollout("agent", {"responses_create_params": {"input": "Hi"}})

    Args:
        servers: class and configuration by name.
        transport: how all of them are called, by the test and by each other. With `link` and `plain` each
            has a process's worth of wiring to itself: its own gRPC server on a free port of 127.0.0.1.

    Raises:
        GymdError: a server cannot start; the text names it and says why.
        AssertionError: at the end, when a FakeModel has answers left.
    """
    hosts: list[Host] = []
    try:
        groups = [dict(servers)] if transport == "in-process" else [{name: servers[name]} for name in servers]
        running: dict[str, RunningServer] = {}
        entries: list[registry.Server] = []
        shells: list[tuple[Server, Any, str]] = []
        for number, group in enumerate(groups):
            listen = [] if transport == "in-process" else ["127.0.0.1:0"]
            host = Host(Bootstrap(f"host-{number}", "", [], listen, grace_s=GRACE_S))
            hosts.append(host)
            for name, (cls, config) in group.items():
                server = configure(cls, name, dict(config), host.mesh)
                shells.append((server, host.add(server), ""))
            address = next(iter(await host.start()), "")
            entries += [_entry(server, host, address, transport) for server in host.servers]
            shells = [(server, shell, where or address) for server, shell, where in shells]
        for host in hosts:
            host.directory.replace(entries)
        async with _caller(hosts, entries, transport) as caller:
            for server, shell, address in shells:
                stub = caller.stub(caller.pick(server.name, server.kind))
                running[server.name] = RunningServer(server.name, stub, address, server, shell)
            yield RunningMesh(caller, running)
            for server, _, _ in shells:
                if isinstance(server, FakeModel):
                    assert not server.unused, (
                        f"{server.name} has {server.unused} answers that nobody asked for"
                    )
    finally:
        # Agents first: they may be calling the others.
        for host in sorted(hosts, key=lambda host: all(server.kind != "agent" for server in host.servers)):
            await host.stop()


@contextlib.asynccontextmanager
async def start_server(
    cls: type[Server],
    config: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    transport: Transport = "link",
) -> AsyncIterator[RunningServer]:
    """Runs one server: `async with start_server(Weather) as server: ...`; see start_servers."""
    name = name or cls.__name__.lower()
    async with start_servers({name: (cls, config or {})}, transport=transport) as mesh:
        yield mesh[name]


@contextlib.asynccontextmanager
async def reach_server(address: str, kind: Kind, *, name: str = "server") -> AsyncIterator[RunningServer]:
    """A server that runs already, in any language, called by plain gRPC.

    Args:
        address: where it listens, "host:port" or "unix:/path".
        kind: what it serves.
        name: the `gymd-server` of the calls, where the address serves several.
    """
    entry = registry.Server(
        server_id=name,
        name=name,
        kind=KINDS[kind],
        address=address,
        state=registry.SERVER_STATE_READY,
    )
    async with _caller([], [entry], "plain") as caller:
        yield RunningServer(name, caller.stub(caller.pick(name, kind)), address)


@contextlib.asynccontextmanager
async def no_tasks_left(timeout: float = 5.0) -> AsyncIterator[None]:
    """Fails when tasks that began inside still run at the end, `timeout` seconds later."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before
    if left:
        _, left = await asyncio.wait(left, timeout=timeout)
    assert not left, f"tasks left behind: {[task.get_coro() for task in left]}"


@contextlib.asynccontextmanager
async def _caller(
    hosts: list[Host], entries: list[registry.Server], transport: Transport
) -> AsyncIterator[Mesh]:
    if transport == "in-process":
        yield hosts[0].mesh
        return
    directory = Directory()
    directory.replace(entries)
    mesh = Mesh("test", LocalServers(), directory)
    try:
        yield mesh
    finally:
        await mesh.close()


def _entry(server: Server, host: Host, address: str, transport: Transport) -> registry.Server:
    entry = registry.Server(
        server_id=server.name,
        name=server.name,
        kind=KINDS[server.kind],
        address=address,
        host_id=host.bootstrap.host_id,
        state=registry.SERVER_STATE_READY,
    )
    entry.capabilities.link = transport == "link"
    return entry

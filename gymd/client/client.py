"""The client of one daemon: rollout sessions, and what people ask the registry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import grpc

from gymapi.v1 import registry_service_pb2 as registry
from gymapi.v1 import rollout_service_pb2 as rollouts
from gymapi.v1.agent_service_pb2 import AgentServiceCreateResponseRequest, Deadlines
from gymapi.v1.agent_service_pb2_grpc import AgentServiceStub
from gymapi.v1.registry_service_pb2_grpc import RegistryServiceStub
from gymapi.v1.resources_service_pb2 import (
    AggregateMetricsRequest,
    AggregateMetricsResponse,
    ListToolsRequest,
    ScoredRollout,
)
from gymapi.v1.resources_service_pb2_grpc import ResourcesServiceStub
from gymapi.v1.responses_pb2 import FunctionTool, Response, ResponseCreateParams
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub
from gymd.client.session import RolloutSession
from gymd.client.stream import Stream, unary_error
from gymd.errors import error
from gymd.mesh.options import MAX_MESSAGE_BYTES
from gymd.mesh.plain import PlainChannel, dial

__all__ = ["DEFAULT_CREDITS", "RolloutClient"]

# Every unary call to the daemon: it answers from memory.
CALL_TIMEOUT_S = 10.0
# One conversation with an agent, model calls and tools included.
AGENT_TIMEOUT_S = 600.0
# Code of an environment over all rollouts of a collection.
METRICS_TIMEOUT_S = 120.0
DEFAULT_CREDITS = 256


class RolloutClient:
    """A connection to one daemon; use it as an async context manager.

    Args:
        address: `host:port` or `unix:/path` of the daemon.
        client_name: for the daemon's logs and ListSessions.
    """

    def __init__(self, address: str, *, client_name: str = "") -> None:
        self.address = address
        self.client_name = client_name
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        self._channel = dial(self.address)
        self._registry = RegistryServiceStub(self._channel)
        self._rollouts = RolloutServiceStub(self._channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            await self._channel.close()

    def session(
        self,
        *,
        credits: int = DEFAULT_CREDITS,
        default_agent: str = "",
        deadlines: Deadlines | None = None,
        return_tokens: bool | None = None,
        infra_retry_limit: int | None = None,
        run_id: str = "",
    ) -> RolloutSession:
        """A new session of the rollout stream; opened by `async with`.

        Args:
            credits: most rollouts between "handed in" and "consumed"; this bounds the memory on both sides.
            default_agent: runs tasks that name none; "" leaves it to the daemon.
            deadlines: limits for tasks that bring none; see `gymd.client.deadlines`.
            return_tokens: ask for token ids and logprobs; None leaves it to the servers.
            infra_retry_limit: tries again after infrastructure failures; None leaves it to the daemon.
            run_id: the run that the rollouts belong to, for logs.
        """
        opening = rollouts.OpenSession(
            client_name=self.client_name,
            run_id=run_id,
            default_agent=default_agent,
            deadlines=deadlines,
            infra_retry_limit=infra_retry_limit,
            max_message_bytes=MAX_MESSAGE_BYTES,
        )
        if return_tokens is not None:
            opening.return_tokens = return_tokens
        return RolloutSession(Stream(self._rollouts, self.address), opening, credits)

    async def list_servers(self, name: str = "", kind: int = 0) -> registry.ListServersResponse:
        """The servers of a name and ServerKind (all when left out), and the daemon's own facts."""
        request = registry.ListServersRequest(name=name, kind=kind)  # type: ignore[arg-type]
        return await self._call(self._registry.ListServers, request)

    async def watch_servers(self, kind: int = 0) -> AsyncIterator[registry.WatchServersResponse]:
        """Yields a snapshot of the servers, then every change, until the caller stops asking."""
        request = registry.WatchServersRequest(kind=kind)  # type: ignore[arg-type]
        call = self._registry.WatchServers(request)
        try:
            while (change := await call.read()) is not grpc.aio.EOF:
                yield change
        except grpc.aio.AioRpcError as failure:
            raise unary_error(failure, self.address) from None
        finally:
            call.cancel()

    async def drain_server(self, name: str = "", *, server_id: str = "") -> list[registry.Server]:
        """Stops new work for all replicas of a name, or for one replica; returns them."""
        request = registry.DrainServerRequest(name=name, server_id=server_id)
        return list((await self._call(self._registry.DrainServer, request)).servers)

    async def restart_server(self, name: str) -> list[str]:
        """Restarts the process of a server; returns the names of all servers in that process."""
        request = registry.RestartServerRequest(name=name)
        return list((await self._call(self._registry.RestartServer, request)).restarted_names)

    async def server_logs(self, name: str, line_count: int = 0) -> list[registry.ServerLog]:
        """The last lines that each replica of a server wrote to stderr (0: 100 lines)."""
        request = registry.GetServerLogsRequest(name=name, line_count=line_count)
        return list((await self._call(self._registry.GetServerLogs, request)).logs)

    async def list_sessions(self) -> list[rollouts.SessionInfo]:
        """The open rollout sessions, oldest first."""
        return list((await self._call(self._rollouts.ListSessions, rollouts.ListSessionsRequest())).sessions)

    async def metrics(self) -> list[rollouts.Metric]:
        """Counters and gauges of the daemon."""
        return list((await self._call(self._rollouts.GetMetrics, rollouts.GetMetricsRequest())).metrics)

    async def ask_agent(
        self, agent: str, params: ResponseCreateParams, *, timeout: float = AGENT_TIMEOUT_S
    ) -> Response:
        """Runs one conversation with an agent (no task, no verifier), dialling the agent directly.

        Raises:
            NotFound, NotReady: no replica of that agent is registered, or none is ready.
            GymdError: the agent failed.
        """
        async with self._dialled(agent, registry.SERVER_KIND_AGENT) as channel:
            request = AgentServiceCreateResponseRequest(params=params)
            answer = await AgentServiceStub(channel).CreateResponse(request, timeout=timeout)
        response: Response = answer.response
        return response

    async def list_tools(self, resources: str) -> list[FunctionTool]:
        """The tools of a resources server, as a dataset row would declare them."""
        async with self._dialled(resources, registry.SERVER_KIND_RESOURCES) as channel:
            answer = await ResourcesServiceStub(channel).ListTools(ListToolsRequest(), timeout=CALL_TIMEOUT_S)
        return list(answer.tools)

    async def aggregate_metrics(
        self, resources: str, rollouts: Iterable[ScoredRollout], *, timeout: float = METRICS_TIMEOUT_S
    ) -> AggregateMetricsResponse:
        """Has a resources server compute its own metrics over scored rollouts.

        Args:
            resources: name of the resources server.
            rollouts: of any number of tasks; those of one task share its task_id.
            timeout: seconds.

        Raises:
            NotFound, NotReady: no replica of that server is registered, or none is ready.
            LimitReached: the rollouts do not fit into one message.
            Unimplemented: a server in another language that has no such method.
            GymdError: the server failed.
        """
        server = await self._ready(resources, registry.SERVER_KIND_RESOURCES)
        request = AggregateMetricsRequest(rollouts=rollouts)
        size = request.ByteSize()
        limit = min(server.capabilities.max_message_bytes or MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES)
        if size > limit:
            text = f"the scored rollouts are {size:,} bytes, and {resources} takes {limit:,} in one message"
            raise error("MESSAGE_TOO_LARGE", text, size_bytes=size, limit_bytes=limit)
        async with dial(server.address) as channel:
            stub = ResourcesServiceStub(PlainChannel(channel, resources, server.address))
            answer: AggregateMetricsResponse = await stub.AggregateMetrics(request, timeout=timeout)
        return answer

    @asynccontextmanager
    async def _dialled(self, name: str, kind: int) -> AsyncIterator[PlainChannel]:
        """A channel to a ready replica of a server."""
        ready = await self._ready(name, kind)
        async with dial(ready.address) as channel:
            yield PlainChannel(channel, name, ready.address)

    async def _ready(self, name: str, kind: int) -> registry.Server:
        """A ready replica of a server."""
        listed = (await self.list_servers(name, kind)).servers
        word = registry.ServerKind.Name(kind).removeprefix("SERVER_KIND_").lower()
        if not listed:
            text = f"no {word} server is called {name}"
            raise error("SERVER_NOT_FOUND", text, server=name)
        ready = next((server for server in listed if server.state == registry.SERVER_STATE_READY), None)
        if ready is None:
            state = registry.ServerState.Name(listed[0].state).removeprefix("SERVER_STATE_").lower()
            why = f": {listed[0].condition}" if listed[0].condition else ""
            raise error("SERVER_NOT_READY", f"{word} server {name} is {state}{why}", server=name)
        return ready

    async def _call(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as failure:
            raise unary_error(failure, self.address) from None

"""The client of one daemon: rollout sessions, and what people ask the registry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
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
    VerifyRequest,
    VerifyResponse,
)
from gymapi.v1.resources_service_pb2_grpc import ResourcesServiceStub
from gymapi.v1.responses_pb2 import FunctionTool, Response, ResponseCreateParams
from gymapi.v1.rollout_pb2 import Reward
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub
from gymd.client.policy import PolicyRunner
from gymd.client.session import RolloutSession
from gymd.client.stream import Stream, unary_error
from gymd.errors import error
from gymd.memory import keep_large_blocks
from gymd.mesh.options import MAX_MESSAGE_BYTES
from gymd.mesh.plain import PlainChannel, dial

__all__ = ["DEFAULT_CREDITS", "RolloutClient", "Verifier"]

# Every unary call to the daemon: it answers from memory.
CALL_TIMEOUT_S = 10.0
# One conversation with an agent, model calls and tools included.
AGENT_TIMEOUT_S = 600.0
# Code of an environment over all rollouts of a collection.
METRICS_TIMEOUT_S = 120.0
DEFAULT_CREDITS = 256
RESUME_WINDOW_S = 600.0
"""How long the daemon keeps a session whose client is gone: a trainer restarts in minutes."""


class _NotEntered:
    """In the place of the stubs."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("use the client as `async with RolloutClient(...) as client:`")


class Verifier:
    """Scores rollouts on one resources server; made by `RolloutClient.verifier`."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def verify(self, request: VerifyRequest, *, timeout: float) -> Reward:
        """The reward of a rollout; raises GymdError where the verifier fails."""
        answer: VerifyResponse = await self._stub.Verify(request, timeout=timeout)
        return answer.reward


class RolloutClient:
    """A connection to one daemon; use it as an async context manager.

    Args:
        address: `host:port` or `unix:/path` of the daemon.
        client_name: for the daemon's logs and ListSessions.
        wait_for_daemon: seconds that a session, new or resumed, waits for a daemon that is not there yet or
            is shutting down; 0: it must be there.
    """

    def __init__(self, address: str, *, client_name: str = "", wait_for_daemon: float = 0.0) -> None:
        if address.startswith(("http://", "https://")):
            raise ValueError(f"an address is host:port or unix:/path, not a URL: {address}")
        self.address = address
        self.client_name = client_name
        self.wait_for_daemon = wait_for_daemon
        self._channel: grpc.aio.Channel | None = None
        self._registry: Any = _NotEntered()
        self._rollouts: Any = _NotEntered()

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
        data_retry_limit: int | None = None,
        byte_credits: int = 0,
        agent_shares: Mapping[str, tuple[float, float]] | None = None,
        policy_version: int | None = None,
        run_id: str = "",
        resume_window: float = RESUME_WINDOW_S,
        policy: PolicyRunner | None = None,
    ) -> RolloutSession:
        """A new session of the rollout stream; opened by `async with`.

        It outlives a broken connection and a restart of the daemon: the client connects again by itself. A
        process that was killed goes on in a new one with `resume`.

        Args:
            credits: most rollouts between "handed in" and "consumed"; this bounds the memory on both sides.
            default_agent: runs tasks that name none; "" leaves it to the daemon.
            deadlines: limits for tasks that bring none; see `gymd.client.deadlines`.
            return_tokens: ask for token ids and logprobs; None leaves it to the servers. True also lets this
                process keep freed memory for the next rollouts (see gymd.memory): with ids they are large.
            infra_retry_limit: tries again after infrastructure failures; None leaves it to the daemon.
            data_retry_limit: tries again after failures that the task or its verifier caused; None: none.
            byte_credits: bytes of results that may wait to be consumed; 0: any. A larger result comes alone,
                and only after a pause (the daemon's progress frame says that it waits).
            agent_shares: weight (1 for others) and minimum share (0 to 1) of agents' places while several of
                them have tasks waiting.
            policy_version: of the policy that is live; see `RolloutSession.update_policy`.
            run_id: the run that the rollouts belong to, for logs.
            resume_window: seconds that the daemon keeps the session without a connection; 0: breaking the
                connection cancels everything, and nothing is written to the daemon's disk.
            policy: answers model calls to a trainer_policy server; see gymd.client.Trainer.
        """
        opening = rollouts.OpenSession(
            client_name=self.client_name,
            run_id=run_id,
            default_agent=default_agent,
            deadlines=deadlines,
            infra_retry_limit=infra_retry_limit,
            data_retry_limit=data_retry_limit,
            policy_version=policy_version,
            max_message_bytes=MAX_MESSAGE_BYTES,
            accepts_chunks=True,
        )
        for agent, (weight, min_share) in (agent_shares or {}).items():
            opening.agent_shares[agent].weight = weight
            opening.agent_shares[agent].min_share = min_share
        if return_tokens is not None:
            opening.return_tokens = return_tokens
            if return_tokens:
                keep_large_blocks()
        if resume_window > 0:
            opening.resume_window.FromNanoseconds(int(resume_window * 1e9))
        return RolloutSession(self._stream, opening, credits, byte_credits, policy, self.wait_for_daemon)

    def resume(
        self,
        session_id: str,
        *,
        last_sequence: int,
        credits: int = DEFAULT_CREDITS,
        byte_credits: int = 0,
        policy_version: int | None = None,
        policy: PolicyRunner | None = None,
    ) -> RolloutSession:
        """A session that an earlier process began; opened by `async with`.

        Results after `last_sequence` come (again). Hand in the tasks whose results are missing: those that
        the daemon accepted before do not run twice.

        Args:
            session_id: `RolloutSession.session_id` of the earlier process.
            last_sequence: `RolloutResult.sequence` of the last result that was stored.
            policy_version: of the policy that is live; also ends a pause that the earlier process asked for.
            credits, byte_credits, policy: as in `session`.

        Raises (when it is opened):
            NotFound: SESSION_NOT_FOUND, it has ended or its window has passed.
            OutOfRange: RESUME_POINT_GONE, results after last_sequence were acknowledged.
        """
        opening = rollouts.OpenSession(
            client_name=self.client_name,
            session_id=session_id,
            last_sequence=last_sequence,
            policy_version=policy_version,
            max_message_bytes=MAX_MESSAGE_BYTES,
            accepts_chunks=True,
        )
        return RolloutSession(self._stream, opening, credits, byte_credits, policy, self.wait_for_daemon)

    def _stream(self) -> Stream:
        return Stream(self._rollouts, self.address)

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
    async def verifier(self, resources: str) -> AsyncIterator[Verifier]:
        """A connection to a resources server that scores rollouts without a session.

        Raises:
            NotFound, NotReady: no replica of that server is registered, or none is ready.
        """
        async with self._dialled(resources, registry.SERVER_KIND_RESOURCES) as channel:
            yield Verifier(ResourcesServiceStub(channel))

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
            names = sorted({server.name for server in (await self.list_servers(kind=kind)).servers})
            there = f"registered are {', '.join(names)}" if names else "none is registered"
            text = f"no {word} server is called {name}: {there}"
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

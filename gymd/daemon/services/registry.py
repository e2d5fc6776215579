"""RegistryService on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import grpc

from gymapi.v1 import registry_service_pb2 as pb
from gymapi.v1.registry_service_pb2_grpc import RegistryServiceServicer
from gymd.daemon.registry import Registry
from gymd.daemon.supervisor import Supervisor
from gymd.errors import GymdError, abort

__all__ = ["RegistryShell"]

DEFAULT_LINES = 100
MAX_LINES = 2000


class RegistryShell(RegistryServiceServicer):
    """Serves the registry.

    Args:
        registry: the servers.
        supervisor: their processes.
        facts: gives the daemon's own facts.
    """

    def __init__(
        self, registry: Registry, supervisor: Supervisor, facts: Callable[[], pb.DaemonInfo]
    ) -> None:
        self._registry = registry
        self._supervisor = supervisor
        self._facts = facts

    async def RegisterServer(
        self, request: pb.RegisterServerRequest, context: grpc.aio.ServicerContext
    ) -> pb.RegisterServerResponse:
        """Registers or renews."""
        try:
            return self._registry.register(request)
        except GymdError as failure:
            await abort(context, failure)

    async def ListServers(
        self, request: pb.ListServersRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListServersResponse:
        """Lists the servers."""
        return pb.ListServersResponse(
            servers=self._registry.servers(request.name, request.kind),
            revision=self._registry.revision,
            daemon=self._facts(),
        )

    async def WatchServers(
        self, request: pb.WatchServersRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.WatchServersResponse]:
        """Streams the snapshot and the changes."""
        watcher = self._registry.subscribe(request.kind)
        try:
            while True:
                change = await watcher.get()
                if change is None:
                    return
                yield change
        finally:
            self._registry.unsubscribe(watcher)

    async def DrainServer(
        self, request: pb.DrainServerRequest, context: grpc.aio.ServicerContext
    ) -> pb.DrainServerResponse:
        """Stops new work for a server."""
        try:
            servers = self._registry.drain(server_id=request.server_id, name=request.name)
        except GymdError as failure:
            await abort(context, failure)
        return pb.DrainServerResponse(servers=servers)

    async def DeregisterServer(
        self, request: pb.DeregisterServerRequest, context: grpc.aio.ServicerContext
    ) -> pb.DeregisterServerResponse:
        """Removes a server."""
        self._registry.deregister(request.server_id)
        return pb.DeregisterServerResponse()

    async def RestartServer(
        self, request: pb.RestartServerRequest, context: grpc.aio.ServicerContext
    ) -> pb.RestartServerResponse:
        """Restarts the processes of a server."""
        try:
            names = self._supervisor.restart(request.name)
        except GymdError as failure:
            await abort(context, failure)
        return pb.RestartServerResponse(restarted_names=names)

    async def GetServerLogs(
        self, request: pb.GetServerLogsRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetServerLogsResponse:
        """Returns the last lines of a server's processes."""
        count = min(request.line_count if request.line_count > 0 else DEFAULT_LINES, MAX_LINES)
        try:
            logs = self._supervisor.logs(request.name, count)
        except GymdError as failure:
            await abort(context, failure)
        return pb.GetServerLogsResponse(logs=logs)

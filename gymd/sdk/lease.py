"""A host's place in the registry: leases kept alive, and the list of peers kept current."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import grpc

from gymapi.v1 import registry_service_pb2 as pb
from gymapi.v1.registry_service_pb2_grpc import RegistryServiceStub
from gymd import __version__
from gymd.errors import GymdError, error, from_rpc_error
from gymd.mesh import MAX_MESSAGE_BYTES, dial

if TYPE_CHECKING:
    from gymd.sdk.base import Server
    from gymd.sdk.host import Host

__all__ = ["Registration"]

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 5.0
START_TIMEOUT_S = 30.0
RETRY_S = 0.5
KINDS = {
    "model": pb.ServerKind.SERVER_KIND_MODEL,
    "agent": pb.ServerKind.SERVER_KIND_AGENT,
    "resources": pb.ServerKind.SERVER_KIND_RESOURCES,
}


def _labels(server: Server) -> dict[str, str]:
    """A server's facts for people. An author's mistake there must not end the renewals: the host would be
    killed as hung."""
    try:
        said = {str(key): str(value) for key, value in server.labels().items()}
    except Exception as failure:
        log.warning("labels_raised", extra={"server": server.name, "why": repr(failure)})
        said = {}
    return {**said, **server.fixed_labels()}


class Registration:
    """Keeps every server of a host registered and its directory current.

    Args:
        host: the host.
        address: where its servers are dialled.
    """

    def __init__(self, host: Host, address: str) -> None:
        self._host = host
        self._address = address
        self._channel = dial(host.bootstrap.daemon)
        self._registry = RegistryServiceStub(self._channel)
        self._ids: dict[str, str] = {}
        self._ttl = 15.0
        self._ready = True
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Registers every server, learns the peers, and keeps both current; raises GymdError."""
        watching = asyncio.Event()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                names = [server.name for server in self._host.servers]
                # Not the limit of one call: a daemon that starts many hosts at once answers late.
                await asyncio.gather(*(self._register(name, timeout=2 * START_TIMEOUT_S) for name in names))
                self._spawn(self._renew())
                self._spawn(self._watch(watching))
                await watching.wait()
        except TimeoutError:
            daemon = self._host.bootstrap.daemon
            text = (
                f"the daemon at {daemon} did not take the registration within {START_TIMEOUT_S:g} s; "
                "check that it runs and that this is its address"
            )
            raise error("DEADLINE_EXCEEDED", text, deadline_seconds=START_TIMEOUT_S) from None

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(coroutine))

    async def _register(self, name: str, *, wait: bool = True, timeout: float = CALL_TIMEOUT_S) -> None:
        server = next(server for server in self._host.servers if server.name == name)
        request = pb.RegisterServerRequest(
            server_id=self._ids.get(name, ""),
            name=name,
            kind=KINDS[server.kind],
            address=self._address,
            host_id=self._host.bootstrap.host_id,
            ready=self._ready,
            condition="" if self._ready else "the host is shutting down",
            labels=_labels(server),
            pid=os.getpid(),
        )
        capabilities = request.capabilities
        capabilities.api_version, capabilities.link = "v1", True
        capabilities.max_message_bytes = MAX_MESSAGE_BYTES
        capabilities.implementation = f"{type(server).__module__}.{type(server).__name__} {__version__}"
        try:
            answer = await self._registry.RegisterServer(request, timeout=timeout, wait_for_ready=wait)
        except grpc.aio.AioRpcError as failure:
            raise from_rpc_error(failure, f"the daemon at {self._host.bootstrap.daemon}") from None
        self._ids[name] = answer.server_id
        self._ttl = answer.lease_ttl.ToNanoseconds() / 1e9
        if answer.draining and self._ready:
            log.info("server_draining", extra={"server": name})

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._ttl / 3)
            for server in self._host.servers:
                try:
                    await self._register(server.name)
                except GymdError as failure:
                    if failure.reason_name == "SERVER_NOT_FOUND":
                        self._ids.pop(server.name, None)  # the lease ran out: register anew next time
                    log.warning("lease_not_renewed", extra={"server": server.name, "why": str(failure)})

    async def _watch(self, watching: asyncio.Event) -> None:
        directory = self._host.directory
        while True:
            try:
                async for change in self._registry.WatchServers(pb.WatchServersRequest()):
                    if change.snapshot:
                        directory.replace(change.servers)
                        watching.set()
                    else:
                        directory.update(change.servers, change.removed_server_ids)
            except grpc.aio.AioRpcError as failure:
                # The last known peers stay in use meanwhile.
                log.warning("watch_lost", extra={"why": failure.details()})
            await asyncio.sleep(RETRY_S)

    async def draining(self) -> None:
        """Tells the registry that this host takes no new work."""
        self._ready = False
        for server in self._host.servers:
            with contextlib.suppress(GymdError):  # the daemon may be gone already: that is a reason to leave
                await self._register(server.name, wait=False)

    async def stop(self) -> None:
        """Leaves the registry."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server_id in self._ids.values():
            with contextlib.suppress(grpc.aio.AioRpcError):  # the lease runs out by itself
                request = pb.DeregisterServerRequest(server_id=server_id)
                await self._registry.DeregisterServer(request, timeout=1.0)
        await self._channel.close()

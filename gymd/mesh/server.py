"""The wire shell of a process: plain gRPC, links, health and reflection on one gRPC server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gymapi.v1 import link_service_pb2, link_service_pb2_grpc
from gymd.errors import GymdError, abort, error
from gymd.mesh.link import Link
from gymd.mesh.local import SERVER_KEY, CallContext, LocalServers
from gymd.mesh.methods import METHODS, Method
from gymd.mesh.options import SERVER_OPTIONS

__all__ = ["MeshServer", "build_server"]

log = logging.getLogger(__name__)

REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


def build_server(local: LocalServers, listen: Sequence[str], host_id: str = "") -> MeshServer:
    """A server for the given "host:port" (port 0: any) and "unix:/path" addresses; not started yet."""
    return MeshServer(local, listen, host_id)


class MeshServer:
    """A gRPC server over the servers of this process.

    Attributes:
        grpc: the grpc.aio server, to add further services before start().
        addresses: what it listens on, with real ports; filled by start().
    """

    def __init__(self, local: LocalServers, listen: Sequence[str], host_id: str) -> None:
        self.grpc = grpc.aio.server(options=SERVER_OPTIONS)
        self.addresses: list[str] = []
        self._local = local
        self._listen = list(listen)
        self._links = _LinkServicer(local, host_id)
        self._health = health.aio.HealthServicer()
        self._services = [health.SERVICE_NAME, REFLECTION]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)

    def add_service(self, name: str) -> None:
        """Announces a further service (added to `grpc` by the caller) to reflection and health."""
        self._services.append(name)

    async def start(self) -> list[str]:
        """Listens; returns the bound addresses.

        Raises:
            AlreadyExists: an address is taken (NAME_TAKEN; metadata.address names it).
        """
        local_services = self._local.services()
        if local_services:
            self.grpc.add_generic_rpc_handlers((_Handlers(self._local),))
            link_service_pb2_grpc.add_LinkServiceServicer_to_server(self._links, self.grpc)
            self._services += [*local_services, "gymapi.v1.LinkService"]
        self.grpc.add_generic_rpc_handlers((_Reflection(self._services),))
        for address in self._listen:
            self.addresses.append(self._bind(address))
        await self.grpc.start()
        for service in ["", *self._services]:
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        return self.addresses

    def _bind(self, address: str) -> str:
        try:
            port = self.grpc.add_insecure_port(address)
        except RuntimeError:  # which says no more than that it failed
            raise _taken(address) from None
        if port == 0:
            raise _taken(address)
        return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    async def drain(self) -> None:
        """Takes no new work: refuses it, says so on every link, and turns health to NOT_SERVING."""
        self._local.draining = True
        self._links.drain()
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace: float) -> None:
        """Lets calls under way end within `grace` seconds, then cancels them and closes the sockets."""
        deadline = asyncio.get_running_loop().time() + grace
        await self.drain()
        await self._links.finish(deadline)
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        # An open stream holds a graceful stop for the whole grace, so the links were closed before.
        await self.grpc.stop(left)


class _Reflection(grpc.GenericRpcHandler):
    """Server reflection, imported at its first call: the import takes 0.1 s and most starts never need it."""

    def __init__(self, services: list[str]) -> None:
        self._services = services
        self._handler: Any = None

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method != f"/{REFLECTION}/ServerReflectionInfo":
            return None
        if self._handler is None:
            from grpc_reflection.v1alpha import reflection, reflection_pb2

            servicer = reflection.aio.ReflectionServicer(self._services)
            self._handler = grpc.stream_stream_rpc_method_handler(
                servicer.ServerReflectionInfo,
                request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
                response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
            )
        return self._handler


def _taken(address: str) -> GymdError:
    text = (
        f"cannot listen on {address}: the address is taken or not of this machine. Choose another port, or "
        "port 0 for any free one (the daemon's: gymd.listen=HOST:PORT)"
    )
    return error("NAME_TAKEN", text, address=address)


class _Handlers(grpc.GenericRpcHandler):
    """Plain gRPC: every method of the kinds that live here."""

    def __init__(self, local: LocalServers) -> None:
        # Also of the kinds that do not: the answer then names what lives here, as over a link.
        self._handlers = {path: _handler(local, method) for path, method in METHODS.items()}

    def service(self, handler_call_details: Any) -> Any:
        return self._handlers.get(handler_call_details.method)


def _handler(local: LocalServers, method: Method) -> Any:
    def call_context(context: Any) -> CallContext:
        metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        left = context.time_remaining()
        deadline = None if left is None else asyncio.get_running_loop().time() + left
        return CallContext(metadata.get(SERVER_KEY, ""), deadline, metadata)

    async def unary(request: Any, context: Any) -> Any:
        try:
            local.refuse_when_draining(method)
            return await local.call(method, request, call_context(context))
        except GymdError as failure:
            await abort(context, failure)

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            local.refuse_when_draining(method)
            async with contextlib.aclosing(local.stream(method, request, call_context(context))) as responses:
                async for response in responses:
                    yield response
        except GymdError as failure:
            await abort(context, failure)

    make, behaviour = (
        (grpc.unary_stream_rpc_method_handler, stream)
        if method.streaming
        else (grpc.unary_unary_rpc_method_handler, unary)
    )
    return make(
        behaviour,
        request_deserializer=method.request_type.FromString,
        response_serializer=method.response_type.SerializeToString,
    )


class _LinkServicer(link_service_pb2_grpc.LinkServiceServicer):
    """The dialled side of links."""

    def __init__(self, local: LocalServers, host_id: str) -> None:
        self._local = local
        self._host_id = host_id
        self._links: dict[Link, asyncio.Task[None]] = {}

    async def Connect(self, request_iterator: Any, context: Any) -> None:
        link = Link(self._local, link_service_pb2.ConnectResponse, self._host_id)
        pump = asyncio.get_running_loop().create_task(link.pump(context.write))
        pump.add_done_callback(lambda task: task.cancelled() or task.exception())
        reader = asyncio.get_running_loop().create_task(_read(link, request_iterator))
        self._links[link] = reader
        try:
            # Either side may end first: the peer closes (reader), or a write fails because it is gone (pump).
            await asyncio.wait([reader, pump], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.pop(link, None)
            link.close("the peer closed the link")
            for task in (reader, pump):
                task.cancel()
            await asyncio.wait([reader, pump])

    def drain(self) -> None:
        for link in self._links:
            link.drain()

    async def finish(self, deadline: float) -> None:
        """Waits for the calls that run here, until `deadline` (loop time); then closes every link."""
        loop = asyncio.get_running_loop()
        for link in list(self._links):
            serving = link.serving_tasks()
            if serving:
                await asyncio.wait(serving, timeout=max(0.0, deadline - loop.time()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.1, deadline - loop.time())):
                    await link.flushed()
        for reader in list(self._links.values()):
            reader.cancel()


async def _read(link: Link, request_iterator: Any) -> None:
    try:
        async for batch in request_iterator:
            link.feed(batch)
    except (grpc.aio.AioRpcError, grpc.aio.AbortError, grpc.aio.InternalError) as failure:
        log.debug("link_lost", extra={"why": str(failure)})

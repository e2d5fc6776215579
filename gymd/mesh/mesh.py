"""The mesh as one process sees it: pick a peer, get a stub, call it.

Where the peer lives decides the channel.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import grpc

from gymapi.v1.agent_service_pb2_grpc import AgentServiceStub
from gymapi.v1.link_service_pb2 import ConnectRequest
from gymapi.v1.link_service_pb2_grpc import LinkServiceStub
from gymapi.v1.model_service_pb2_grpc import ModelServiceStub
from gymapi.v1.resources_service_pb2_grpc import ResourcesServiceStub
from gymd.errors import GymdError, error, from_rpc_error
from gymd.mesh.directory import Directory, Peer
from gymd.mesh.link import Link, LinkChannel
from gymd.mesh.local import InProcessChannel, LocalServers
from gymd.mesh.methods import METHODS
from gymd.mesh.plain import PlainChannel, dial

__all__ = ["Mesh", "dial_link"]

log = logging.getLogger(__name__)

STUBS: dict[str, Any] = {
    "model": ModelServiceStub,
    "agent": AgentServiceStub,
    "resources": ResourcesServiceStub,
}

RETRIES = 2
"""Repeats of a repeatable call whose peer could not be reached."""
RETRY_BASE_S = 0.05
DIAL_TIMEOUT_S = 5.0


class Mesh:
    """Calls to the peers of this process.

    Args:
        host_id: this process; peers with the same id are called in-process.
        local: the servers of this process.
        directory: who serves what.
    """

    def __init__(self, host_id: str, local: LocalServers, directory: Directory) -> None:
        self.host_id = host_id
        self.local = local
        self.directory = directory
        self._stubs: dict[tuple[str, str], Any] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._links: dict[str, _DialledLink] = {}
        self._closed = False

    def pick(self, name: str, kind: str, key: str = "") -> Peer:
        """The replica for a key; see Directory.pick."""
        return self.directory.pick(name, kind, key, self.host_id)

    async def wait(self, name: str, kind: str, timeout: float) -> Peer:
        """Like pick, but waits up to `timeout` seconds for a replica to become ready."""
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            change = self.directory.next_change()
            try:
                return self.pick(name, kind)
            except GymdError as failure:
                try:
                    async with asyncio.timeout_at(deadline):
                        await change.wait()
                except TimeoutError:
                    raise failure from None

    def stub(self, peer: Peer) -> Any:
        """The generated stub of the peer's service, over the channel that fits where the peer lives."""
        key = (peer.server_id or peer.name, peer.address)
        stub = self._stubs.get(key)
        if stub is None:
            if len(self._stubs) > 4096:  # replicas that came and went; the live ones are made again
                self._stubs.clear()
            stub = self._stubs[key] = STUBS[peer.kind](self._channel(peer))
        return stub

    def _channel(self, peer: Peer) -> Any:
        if peer.host_id == self.host_id and self.local.has(peer.name, peer.kind):
            return InProcessChannel(self.local, peer.name)
        if peer.link:
            channel: Any = LinkChannel(lambda: self._link(peer.address), peer.name)
        else:
            channel = PlainChannel(self._grpc(peer.address), peer.name, peer.address)
        return _RetryingChannel(channel)

    def _grpc(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = dial(address)
        return channel

    async def _link(self, address: str) -> Link:
        if self._closed:
            text = f"cannot call {address}: this side is shutting down"
            raise error("PEER_UNREACHABLE", text, address=address)
        dialled = self._links.get(address)
        if dialled is None or not dialled.usable:
            # Every start of a host has another port: what is over is not kept.
            self._links = {where: one for where, one in self._links.items() if not one.link.closed}
            dialled = self._links[address] = _DialledLink(self.local, self.host_id, address)
        return await dialled.ready()

    async def close(self) -> None:
        """Closes every channel; calls under way fail with PEER_UNREACHABLE."""
        self._closed = True  # or a call that is repeated would dial again
        links, self._links = list(self._links.values()), {}
        channels, self._channels = list(self._channels.values()), {}
        self._stubs.clear()
        for dialled in links:
            await dialled.close()
        for channel in channels:
            await channel.close()


class _RetryingChannel:
    """Repeats repeatable unary calls a bounded number of times when the peer could not be reached."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def unary_unary(self, path: str, *args: Any, **kwargs: Any) -> Any:
        invoke = self._channel.unary_unary(path, *args, **kwargs)
        method = METHODS.get(path)
        if method is None or not method.repeatable:
            return invoke

        async def call(request: Any, *, timeout: float | None = None, metadata: Any = None) -> Any:
            loop = asyncio.get_running_loop()
            deadline = None if timeout is None else loop.time() + timeout
            for attempt in range(RETRIES + 1):
                left = None if deadline is None else deadline - loop.time()
                try:
                    return await invoke(request, timeout=left, metadata=metadata)
                except GymdError as failure:
                    pause = RETRY_BASE_S * 2**attempt * random.uniform(0.5, 1.5)
                    late = deadline is not None and loop.time() + pause >= deadline
                    if attempt == RETRIES or late or failure.reason_name != "PEER_UNREACHABLE":
                        raise
                    log.info(
                        "call_repeated", extra={"method": path, "attempt": attempt + 1, "why": str(failure)}
                    )
                    await asyncio.sleep(pause)
            raise AssertionError("unreachable")

        return call

    def unary_stream(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return self._channel.unary_stream(path, *args, **kwargs)


class _DialledLink:
    """The dialling side of a link: the gRPC stream, its reader and its writer."""

    def __init__(self, local: LocalServers, host_id: str, address: str) -> None:
        self.link = Link(local, ConnectRequest, host_id)
        self._address = address
        self._channel = dial(address)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def usable(self) -> bool:
        """Whether new calls may start on it."""
        return self.link.usable

    async def ready(self) -> Link:
        """The link, once the other side said hello; raises Unavailable when it cannot be reached."""
        if not self._opened.done():
            await asyncio.shield(self._opened)
        self._opened.result()
        return self.link

    async def _run(self) -> None:
        call = LinkServiceStub(self._channel).Connect(wait_for_ready=False)
        pump = asyncio.get_running_loop().create_task(self.link.pump(call.write))
        pump.add_done_callback(lambda task: task.cancelled() or task.exception())
        why = f"the host at {self._address} closed the connection"
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S) as limit:
                while (batch := await call.read()) is not grpc.aio.EOF:
                    if not self._opened.done():
                        limit.reschedule(None)
                        self._opened.set_result(None)
                    self.link.feed(batch)
        except grpc.aio.AioRpcError as failure:
            why = f"lost the host at {self._address}: {from_rpc_error(failure).message}"
        except TimeoutError:
            why = f"the host at {self._address} did not answer within {DIAL_TIMEOUT_S:g} s"
        except asyncio.CancelledError:
            why = "this process is shutting down"
        finally:
            self.link.close(why)
            if not self._opened.done():
                self._opened.set_exception(error("PEER_UNREACHABLE", why, address=self._address))
            pump.cancel()
            call.cancel()
            await self._channel.close()

    async def close(self) -> None:
        """Ends the stream."""
        self._task.cancel()
        await asyncio.wait([self._task])


def dial_link(local: LocalServers, host_id: str, address: str) -> _DialledLink:
    """Dials a link outside a Mesh, for tests and measurements."""
    return _DialledLink(local, host_id, address)

"""Plain gRPC to any peer in any language: adds the server's name, turns statuses into our exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc

from gymd.errors import error, from_rpc_error
from gymd.mesh.local import SERVER_KEY
from gymd.mesh.options import CHANNEL_OPTIONS

__all__ = ["PlainChannel", "dial"]


def dial(address: str) -> grpc.aio.Channel:
    """Opens a channel with the mesh's options; connecting happens on the first call."""
    return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)


class PlainChannel:
    """A channel to one server at a gRPC address, for generated stubs."""

    def __init__(self, channel: grpc.aio.Channel, server: str, address: str) -> None:
        self._channel = channel
        self._server = server
        self._address = address

    def unary_unary(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """A callable for one unary method."""
        invoke = self._channel.unary_unary(path, *args, **kwargs)

        async def call(
            request: Any, *, timeout: float | None = None, metadata: Mapping[str, str] | None = None
        ) -> Any:
            try:
                return await invoke(request, timeout=timeout, metadata=self._metadata(metadata))
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError) as failure:
                raise self._failure(failure) from None

        return call

    def unary_stream(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """A callable for one server-streaming method."""
        invoke = self._channel.unary_stream(path, *args, **kwargs)

        async def call(
            request: Any, *, timeout: float | None = None, metadata: Mapping[str, str] | None = None
        ) -> AsyncIterator[Any]:
            rpc = None
            try:
                rpc = invoke(request, timeout=timeout, metadata=self._metadata(metadata))
                async for response in rpc:
                    yield response
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError) as failure:
                raise self._failure(failure) from None
            finally:
                if rpc is not None:
                    rpc.cancel()  # a reader that leaves; without effect on a stream that has ended

        return call

    def _failure(self, failure: BaseException) -> BaseException:
        """What to raise for what grpc raised."""
        where = f"{self._server} at {self._address}"
        if isinstance(failure, grpc.aio.AioRpcError):
            return from_rpc_error(failure, where)
        task = asyncio.current_task()
        if isinstance(failure, asyncio.CancelledError) and (task is None or task.cancelling()):
            return failure
        # grpc cancels the calls of a channel that is closed under them, and refuses new ones.
        return error("PEER_UNREACHABLE", f"{where}: the channel was closed", peer=where)

    def _metadata(self, metadata: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
        return ((SERVER_KEY, self._server), *(metadata or {}).items())

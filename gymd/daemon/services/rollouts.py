"""RolloutService on the wire: one task reads a stream and never writes, one writes it and never reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import grpc

from gymapi.v1 import rollout_service_pb2 as pb
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceServicer
from gymd.daemon.hub import Hub
from gymd.daemon.sessions import RolloutSession
from gymd.errors import GymdError, abort, error

__all__ = ["RolloutShell"]

log = logging.getLogger(__name__)

SERVICE = "gymapi.v1.RolloutService"
HALF_CLOSE_S = 0.2
"""How long the half-close of a session that outlives its stream is doubted."""


class RolloutShell(RolloutServiceServicer):
    """Serves the sessions of the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers the service. Not by the generated function: frames of results come serialized already."""
        handlers = {
            "StreamRollouts": grpc.stream_stream_rpc_method_handler(
                self.StreamRollouts,
                request_deserializer=pb.StreamRolloutsRequest.FromString,
                response_serializer=_serialize,
            ),
            "ListSessions": grpc.unary_unary_rpc_method_handler(
                self.ListSessions,
                request_deserializer=pb.ListSessionsRequest.FromString,
                response_serializer=pb.ListSessionsResponse.SerializeToString,
            ),
            "GetMetrics": grpc.unary_unary_rpc_method_handler(
                self.GetMetrics,
                request_deserializer=pb.GetMetricsRequest.FromString,
                response_serializer=pb.GetMetricsResponse.SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    async def StreamRollouts(
        self, request_iterator: AsyncIterator[pb.StreamRolloutsRequest], context: grpc.aio.ServicerContext
    ) -> None:
        """Runs tasks and streams their rollouts."""
        stream = _Stream(request_iterator, context)
        try:
            session = self._hub.enter(await stream.first_frame(self._hub.draining), stream.wake)
        except GymdError as refusal:
            await abort(context, refusal)
        failure = None
        try:
            failure = await stream.serve(session)
        finally:
            # Also when the client broke the stream: a blocked write then ends with an error of grpc's own.
            self._hub.leave(session, stream.wake)
            await stream.close()
            facts = {"session_id": session.session_id, "client": session.client_name}
            log.info("stream_closed", extra=facts)
        if failure is not None:
            await abort(context, failure)

    async def ListSessions(
        self, request: pb.ListSessionsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListSessionsResponse:
        """Lists the open sessions."""
        return pb.ListSessionsResponse(sessions=[session.info() for session in self._hub.infos()])

    async def GetMetrics(
        self, request: pb.GetMetricsRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetMetricsResponse:
        """Returns counters and gauges."""
        return pb.GetMetricsResponse(metrics=self._hub.metrics())


class _Stream:
    """One stream: a task reads it and never writes, the handler writes it and never reads."""

    def __init__(
        self, frames: AsyncIterator[pb.StreamRolloutsRequest], context: grpc.aio.ServicerContext
    ) -> None:
        self._frames = frames
        self._context = context
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        # One object for its whole life: the hub tells streams apart by it.
        self.wake = self._news.set

    async def first_frame(self, draining: asyncio.Event) -> pb.StreamRolloutsRequest:
        """What the client says first; an empty frame if it says nothing, or the daemon shuts down
        meanwhile."""
        first = asyncio.ensure_future(anext(aiter(self._frames), pb.StreamRolloutsRequest()))
        ending = asyncio.ensure_future(draining.wait())
        try:
            await asyncio.wait([first, ending], return_when=asyncio.FIRST_COMPLETED)
            return first.result() if first.done() else pb.StreamRolloutsRequest()
        finally:
            first.cancel()
            ending.cancel()

    async def serve(self, session: RolloutSession) -> GymdError | None:
        """Writes the session's frames until its summary; returns the error that ends the stream instead."""
        reader = self._reader = asyncio.get_running_loop().create_task(self._read(session))
        while True:
            self._news.clear()
            while session.wake is self.wake and (frame := session.next_frame()) is not None:
                self._room.set()
                await self._context.write(frame)
            if session.wake is not self.wake:
                text = f"another stream has resumed session {session.session_id}"
                return error("CANCELLED", text, session_id=session.session_id)
            if session.finished or session.ended:
                return None
            if reader.done() and (failure := reader.exception()) is not None:
                if isinstance(failure, GymdError):
                    return failure
                raise failure
            if session.refused is not None:
                return session.refused
            try:
                async with asyncio.timeout(session.silence_left()):
                    await self._news.wait()
            except TimeoutError:
                pass  # time for a progress frame

    async def _read(self, session: RolloutSession) -> None:
        """Feeds the session; ends at the half-close, or raises what the session cannot accept."""
        try:
            async for frame in self._frames:
                if session.wake is not self.wake:
                    return  # another stream has the session
                session.receive(frame)
                while session.congested:
                    self._room.clear()
                    await self._room.wait()
            if session.window_s:
                # A stream that breaks looks half-closed for a moment; then this task is cancelled.
                await asyncio.sleep(HALF_CLOSE_S)
            if session.wake is self.wake:
                session.half_close()
        finally:
            self._news.set()

    async def close(self) -> None:
        """Ends the reading task."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)


def _serialize(frame: pb.StreamRolloutsResponse | bytes) -> bytes:
    return frame if isinstance(frame, bytes) else frame.SerializeToString()

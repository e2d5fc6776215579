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
from gymd.errors import GymdError, abort

__all__ = ["RolloutShell"]

log = logging.getLogger(__name__)


class RolloutShell(RolloutServiceServicer):
    """Serves the sessions of the hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def StreamRollouts(
        self, request_iterator: AsyncIterator[pb.StreamRolloutsRequest], context: grpc.aio.ServicerContext
    ) -> None:
        """Runs tasks and streams their rollouts."""
        wake = asyncio.Event()
        try:
            session = self._hub.open(wake.set)
        except GymdError as refusal:
            await abort(context, refusal)
        room = asyncio.Event()
        reader = asyncio.get_running_loop().create_task(_read(request_iterator, session, room, wake))
        failure = None
        try:
            failure = await _write(context, session, reader, room, wake)
        finally:
            # Also when the client broke the stream: a blocked write then ends with an error of grpc's own.
            reader.cancel()
            self._hub.close(session)
            await asyncio.gather(reader, return_exceptions=True)
            log.info(
                "session_closed", extra={"session_id": session.session_id, "client": session.client_name}
            )
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


async def _read(
    frames: AsyncIterator[pb.StreamRolloutsRequest],
    session: RolloutSession,
    room: asyncio.Event,
    wake: asyncio.Event,
) -> None:
    """Feeds the session; ends at the half-close, or raises what the session cannot accept."""
    try:
        async for frame in frames:
            session.receive(frame)
            while session.congested:
                room.clear()
                await room.wait()
        session.half_close()
    finally:
        wake.set()


async def _write(
    context: grpc.aio.ServicerContext,
    session: RolloutSession,
    reader: asyncio.Task[None],
    room: asyncio.Event,
    wake: asyncio.Event,
) -> GymdError | None:
    """Writes the session's frames until its summary; returns the error that ends the stream instead."""
    while True:
        wake.clear()
        while (frame := session.next_frame()) is not None:
            room.set()
            await context.write(frame)
        if session.finished:
            return None
        if reader.done() and (failure := reader.exception()) is not None:
            if isinstance(failure, GymdError):
                return failure
            raise failure
        if session.refused is not None:
            return session.refused
        try:
            async with asyncio.timeout(session.silence_left()):
                await wake.wait()
        except TimeoutError:
            pass  # time for a progress frame

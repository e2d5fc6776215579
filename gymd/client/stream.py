"""The transport of a session: one bidi call, its handshake, its silence, and what its end means."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from gymapi.v1.rollout_service_pb2 import (
    Draining,
    OpenSession,
    SessionOpened,
    StreamRolloutsRequest,
    StreamRolloutsResponse,
)
from gymd.client.window import CreditWindow
from gymd.errors import GymdError, error, from_rpc_error

__all__ = [
    "BROKEN",
    "CONNECT_TIMEOUT_S",
    "Stream",
    "client_bug",
    "dial",
    "ended_early",
    "no_daemon",
    "reopening",
]

log = logging.getLogger(__name__)

# Reasons of a daemon that is lost, stuck, or about to start again.
BROKEN = frozenset(("PEER_UNREACHABLE", "DRAINING"))

# From dialling to `opened`. The daemon answers at once; slower is only an address that swallows packets.
CONNECT_TIMEOUT_S = 10.0
# The daemon promises a frame per progress interval; after this many in a row without one it is dead or stuck.
_SILENT_INTERVALS = 4
_DEFAULT_INTERVAL_S = 10.0
_REDIAL_BASE_S = 0.05
_REDIAL_MAX_S = 2.0


def no_daemon(address: str, why: str = "") -> GymdError:
    """The error for an address where nobody answers."""
    text = f"no daemon at {address}: start one with `gymctl up`"
    return error("PEER_UNREACHABLE", f"{text} ({why})" if why else text, peer=address)


# What the transport says of a connection that is gone, also in the middle of a write (INTERNAL). The daemon's
# own word has an ErrorInfo.
_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)


def reopening(
    first: OpenSession, opened: SessionOpened, last_sequence: int, window: CreditWindow
) -> OpenSession:
    """What a stream that takes a session up again begins with."""
    opening = OpenSession()
    opening.CopyFrom(first)
    opening.session_id = opened.session_id
    opening.last_sequence = last_sequence
    opening.ClearField("policy_version")  # it would end a pause that this trainer asked for
    opening.granted_rollouts = window.granted
    opening.granted_bytes = window.granted_bytes
    return opening


async def dial(
    new: Callable[[], Stream], opening: OpenSession, patience: float
) -> tuple[Stream, SessionOpened]:
    """Opens a stream; dials again for `patience` seconds while the daemon is not there or shutting down.

    Raises:
        GymdError: what `Stream.open` raised last.
    """
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + patience, _REDIAL_BASE_S
    while True:
        stream = new()
        try:
            return stream, await stream.open(opening)
        except GymdError as failure:
            pause = min(pause * 2, _REDIAL_MAX_S)
            wait = pause * random.uniform(0.5, 1.0)
            if failure.reason_name not in BROKEN or loop.time() + wait > deadline:
                raise
            await asyncio.sleep(wait)


class Stream:
    """One call of StreamRollouts; raises only GymdError."""

    def __init__(self, stub: Any, address: str) -> None:
        self._stub = stub
        self._address = address
        self._call: Any = None
        self._silent = 0
        self._gone_silent = False
        self._abandoned = False

    async def open(self, opening: OpenSession) -> SessionOpened:
        """Dials, sends `open` and waits for `opened`."""
        self._call = self._stub.StreamRollouts()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._call.write(StreamRolloutsRequest(open=opening))
                frame = await self._call.read()
        except TimeoutError:
            self._call.cancel()
            raise no_daemon(self._address, f"no answer within {CONNECT_TIMEOUT_S:.0f} s") from None
        except grpc.aio.AioRpcError as failure:
            if failure.code() in _BROKEN and not _has_error_info(failure):
                raise no_daemon(self._address, failure.details() or "") from None
            raise unary_error(failure, self._address) from None
        except asyncio.InvalidStateError:
            # A call that was over before it was written to does not say why.
            raise no_daemon(self._address) from None
        if frame is grpc.aio.EOF or frame.WhichOneof("frame") != "opened":
            self._call.cancel()
            raise error("PROTOCOL_VIOLATION", f"{self._address} did not answer `open` with `opened`")
        return frame.opened

    async def write(self, frame: StreamRolloutsRequest) -> bool:
        """Sends a frame and returns when the transport took it; False: the stream has ended, see `frames`."""
        try:
            # Not call.write(): when the daemon has just ended the stream, that replaces its status by an
            # internal error, and what the daemon sent before the end could not be read any more.
            await self._call._cython_call.send_serialized_message(frame.SerializeToString())
        except grpc.aio.InternalError:
            return False
        return True

    async def done_writing(self) -> None:
        """Half-closes: no more tasks."""
        try:
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            pass  # the stream has ended: the reader sees how

    async def frames(self, progress_interval: Duration) -> AsyncIterator[StreamRolloutsResponse]:
        """Yields what the daemon sends until it ends the stream with OK."""
        interval = progress_interval.ToNanoseconds() / 1e9 or _DEFAULT_INTERVAL_S
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def tick() -> None:
            # Counted in ticks of the loop, not in seconds: a caller that blocked the loop for minutes gets
            # the chance to read what came meanwhile.
            nonlocal timer
            self._silent += 1
            if self._silent >= _SILENT_INTERVALS:
                self._gone_silent = True
                self._call.cancel()
            else:
                timer = loop.call_later(interval, tick)

        timer = loop.call_later(interval, tick)
        try:
            while (frame := await self._call.read()) is not grpc.aio.EOF:
                self._silent = 0
                yield frame
        except grpc.aio.AioRpcError as failure:
            raise self._broken(failure) from None
        except asyncio.CancelledError:
            # Raised when this side cancelled the call, and when the reading task itself is cancelled.
            if self._abandoned:
                raise error("CANCELLED", "the stream was broken off") from None
            if not self._gone_silent:
                raise
            silence = f"has been silent for {interval * _SILENT_INTERVALS:.0f} s"
            text = f"the daemon at {self._address} {silence}: it is stuck or unreachable"
            raise error("PEER_UNREACHABLE", text, peer=self._address) from None
        finally:
            timer.cancel()

    def abandon(self) -> None:
        """Breaks the stream; `frames` raises Cancelled."""
        self._abandoned = True
        self.cancel()

    def cancel(self) -> None:
        """Breaks the stream; without effect on one that has ended."""
        if self._call is not None:
            self._call.cancel()

    def _broken(self, failure: grpc.aio.AioRpcError) -> GymdError:
        found = from_rpc_error(failure, self._address)
        # CANCELLED: a daemon that stops, and had no time to say so.
        if failure.code() in _BROKEN and not _has_error_info(failure):
            text = f"the connection to the daemon at {self._address} broke ({failure.details()})"
            return error("PEER_UNREACHABLE", text, peer=self._address)
        return found


def client_bug(problem: Exception) -> GymdError:
    """The error for a mistake of the client's own, which is logged."""
    log.error("session_failed", exc_info=problem)
    kind = type(problem).__name__
    return error("INTERNAL", f"the client's own code raised {kind}: {problem}", exception=kind)


def ended_early(draining: Draining | None) -> GymdError:
    """The error for a stream that ended in order before all was delivered; `draining`: why it did, if the
    daemon said."""
    if draining is None:
        return error("PEER_UNREACHABLE", "the daemon ended the stream before all rollouts were delivered")
    why = draining.reason or "no reason given"
    text = f"the daemon is shutting down ({why}); not every task was handed in"
    return error("DRAINING", text, why=why)


def unary_error(failure: grpc.aio.AioRpcError, address: str) -> GymdError:
    """The error of a unary call or a handshake, where UNAVAILABLE without details means nobody is there."""
    if not _has_error_info(failure):
        if failure.code() is grpc.StatusCode.UNAVAILABLE:
            return no_daemon(address)
        if failure.code() is grpc.StatusCode.UNIMPLEMENTED:
            text = f"{address} is no gymd daemon (or an older one): {failure.details()}"
            return error("NOT_IMPLEMENTED", text, peer=address)
    return from_rpc_error(failure, address)


def _has_error_info(failure: grpc.aio.AioRpcError) -> bool:
    return any(key == "grpc-status-details-bin" for key, _ in failure.trailing_metadata() or ())

"""Links: many calls in batched frames on one stream (protos/gymapi/v1/link_service.proto).

A Link is one end of the stream and knows no gRPC: it is fed with batches of frames and hands out batches to
write. Frames queue while one write is under way and leave together, at most BATCH_FRAMES a message; there is
no timer. Both ends are alike: each may call the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from gymapi.v1.link_service_pb2 import ConnectRequest, ConnectResponse, LinkFrame
from gymd.errors import GymdError, error, from_status_message, to_status_message
from gymd.mesh.aborts import cancel_all, on_cancel
from gymd.mesh.local import NO_METADATA, CallContext, Deadline, LocalServers, too_late
from gymd.mesh.methods import METHODS, Method

__all__ = ["Link", "LinkChannel"]

log = logging.getLogger(__name__)

BATCH_FRAMES = 64
"""Frames in one message, cancels not counted; more makes whole stages march in step (16 to 64 are alike)."""
BATCH_BYTES = 1024 * 1024
"""A message is closed once it holds this much, so one write never blocks small frames for long."""
CHUNK_BYTES = 512 * 1024
"""Bodies above this travel in parts."""
QUEUE_BYTES = 64 * 1024 * 1024
"""Senders wait while this much is queued: the peer reads too slowly."""
STREAM_BACKLOG = 10_000
"""Unread replies of one streaming call; more is an error, because a reader must not stall all calls."""

Batch = ConnectRequest | ConnectResponse


class _Pending:
    """A call of ours that waits for its answer."""

    __slots__ = ("future", "replies", "timer")

    def __init__(self, future: asyncio.Future[bytes | None], replies: deque[bytes] | None) -> None:
        self.future = future
        self.replies = replies
        self.timer: asyncio.TimerHandle | None = None


class Link:
    """One end of a link.

    Args:
        local: the servers that the other end may call.
        batch_type: the message that this end sends.
        host_id: said in the hello.
    """

    def __init__(self, local: LocalServers, batch_type: type[Batch], host_id: str) -> None:
        self._local = local
        self._batch_type = batch_type
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[LinkFrame, int]] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._next_id = 0
        self._pending: dict[int, _Pending] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._given_up: set[int] = set()  # of those: cancelled by the other end, which expects no answer
        self._parts: dict[tuple[int, bool], list[bytes]] = {}
        self._failure: GymdError | None = None
        self._peer_draining = False
        hello = LinkFrame()
        hello.hello.api_version = "v1"
        hello.hello.host_id = host_id
        self._put(hello, 32)

    @property
    def closed(self) -> bool:
        """Whether the stream is broken or was closed."""
        return self._failure is not None

    @property
    def usable(self) -> bool:
        """Whether new calls may start here."""
        return self._failure is None and not self._peer_draining

    def serving_tasks(self) -> list[asyncio.Task[None]]:
        """Calls of the other end that run here."""
        return list(self._serving.values())

    # Calling.

    async def call(
        self, method: Method, server: str, request: Any, timeout: float | None, metadata: Any
    ) -> Any:
        """One unary call; raises GymdError."""
        call_id, pending = await self._start(method, server, request, timeout, metadata, None)
        forget = on_cancel(partial(self._cancel_remote, call_id))
        try:
            body = await pending.future
        except asyncio.CancelledError:
            self._cancel_remote(call_id)
            raise
        finally:
            forget()
            self._forget(call_id, pending)
        return method.response_type.FromString(body or b"")

    async def stream(
        self, method: Method, server: str, request: Any, timeout: float | None, metadata: Any
    ) -> AsyncGenerator[Any]:
        """One server-streaming call; raises GymdError."""
        replies: deque[bytes] = deque()
        call_id, pending = await self._start(method, server, request, timeout, metadata, replies)
        ended = False
        try:
            while not ended:
                if not replies and not pending.future.done():
                    await asyncio.wait([pending.future])
                if pending.future.done() and not replies:
                    ended = pending.future.result() is None  # raises what the call failed with
                    pending.future = self._loop.create_future()
                while replies:
                    yield method.response_type.FromString(replies.popleft())
        finally:
            if not ended:
                self._cancel_remote(call_id)
            self._forget(call_id, pending)

    async def _start(
        self,
        method: Method,
        server: str,
        request: Any,
        timeout: float | None,
        metadata: Mapping[str, str],
        replies: deque[bytes] | None,
    ) -> tuple[int, _Pending]:
        if self._queued_bytes > QUEUE_BYTES:
            await self._room.wait()
        if self._failure is not None:
            # A new one each time: a raised exception keeps the frames of everyone who raised it.
            raise error("PEER_UNREACHABLE", self._failure.message)
        if self._peer_draining:
            raise error("DRAINING", f"the host of {server} is draining; another replica will take the call")
        self._next_id = call_id = self._next_id + 1
        pending = _Pending(self._loop.create_future(), replies)
        frame = LinkFrame(call_id=call_id)
        call = frame.call
        call.method = method.path
        call.server = server
        body = request.SerializeToString()
        call.body = self._chunked(call_id, body, reply=False)
        if timeout is not None:
            # The callee gives up a little earlier, so that its own, better text arrives first.
            call.timeout_millis = max(1, int(1000 * (timeout - min(0.1, timeout * 0.05))))
            pending.timer = self._loop.call_later(timeout, self._expire, call_id, server, method, timeout)
        if metadata:
            call.metadata.update(metadata)
        self._pending[call_id] = pending
        self._put(frame, len(call.body) + 96)
        return call_id, pending

    def _expire(self, call_id: int, server: str, method: Method, timeout: float) -> None:
        pending = self._pending.get(call_id)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(too_late(server, method, timeout))
            self._cancel_remote(call_id)

    def _cancel_remote(self, call_id: int) -> None:
        """Gives a call up: its answer is not taken any more. Safe to repeat."""
        if self._pending.pop(call_id, None) is not None and self._failure is None:
            frame = LinkFrame(call_id=call_id)
            frame.cancel.SetInParent()
            self._put(frame, 8)

    def _forget(self, call_id: int, pending: _Pending) -> None:
        self._pending.pop(call_id, None)
        self._parts.pop((call_id, True), None)
        if pending.timer is not None:
            pending.timer.cancel()

    # Receiving.

    def feed(self, batch: Batch) -> None:
        """Takes a batch from the other end; never waits."""
        given_up: list[asyncio.Task[None]] = []
        for frame in batch.frames:
            kind = frame.WhichOneof("kind")
            if kind == "message":
                self._on_message(frame.call_id, frame.message.body, frame.message.last)
            elif kind == "call":
                # It may close what a cancelled one uses, so that one unwinds first.
                cancel_all(given_up)
                given_up.clear()
                self._on_call(frame.call_id, frame.call)
            elif kind == "error":
                self._settle(frame.call_id, None, from_status_message(frame.error))
            elif kind == "end":
                self._settle(frame.call_id, None, None)
            elif kind == "cancel":
                if task := self._serving.get(frame.call_id):
                    self._given_up.add(frame.call_id)
                    given_up.append(task)
            elif kind == "chunk":
                key = (frame.call_id, frame.chunk.reply)
                self._parts.setdefault(key, []).append(frame.chunk.data)
            elif kind == "drain":
                self._peer_draining = True
        cancel_all(given_up)

    def _joined(self, call_id: int, reply: bool, tail: bytes) -> bytes:
        parts = self._parts.pop((call_id, reply), None) if self._parts else None
        return tail if parts is None else b"".join([*parts, tail])

    def _on_message(self, call_id: int, body: bytes, last: bool) -> None:
        body = self._joined(call_id, True, body)
        pending = self._pending.get(call_id)
        if pending is None or pending.replies is None:
            self._settle(call_id, body, None)
            return
        pending.replies.append(body)
        if len(pending.replies) > STREAM_BACKLOG:
            text = f"more than {STREAM_BACKLOG} replies of a streaming call are unread"
            self._settle(call_id, None, error("LIMIT_REACHED", text, limit=STREAM_BACKLOG))
            self._cancel_remote(call_id)
        elif last:
            self._settle(call_id, None, None)
        elif not pending.future.done():
            pending.future.set_result(b"")  # wakes the reader; it makes a new future

    def _settle(self, call_id: int, body: bytes | None, failure: GymdError | None) -> None:
        pending = self._pending.get(call_id)
        if pending is None:
            return  # cancelled or too late meanwhile
        if pending.future.done():
            if pending.replies is None or pending.future.cancelled():
                return
            pending.future = self._loop.create_future()
        if failure is not None:
            pending.future.set_exception(failure)
            # The reader of a stream may have gone without looking at the end of it.
            pending.future.exception()
        else:
            pending.future.set_result(body)

    def _on_call(self, call_id: int, call: Any) -> None:
        # Nothing of the frame is kept: a sub-message would keep its whole batch alive while the call runs.
        method = METHODS.get(call.method)
        timeout = call.timeout_millis / 1000 if call.timeout_millis else None
        deadline = None if timeout is None else self._loop.time() + timeout
        context = CallContext(call.server, deadline, dict(call.metadata) if call.metadata else NO_METADATA)
        body = self._joined(call_id, False, call.body)
        if method is None:
            failure = error("NOT_IMPLEMENTED", f"no method {call.method}", feature=call.method)
            self._put_error(call_id, failure)
            return
        try:
            self._local.refuse_when_draining(method)
            request = method.request_type.FromString(body)
        except GymdError as refusal:
            self._put_error(call_id, refusal)
        except DecodeError as failure:
            text = f"the body of a {method.name} call is no {method.request_type.__name__}: {failure}"
            self._put_error(call_id, error("PROTOCOL_VIOLATION", text, method=method.path))
        else:
            if method.streaming:
                work = self._stream_replies(call_id, method, request, context)
            else:
                work = self._reply_once(call_id, method, request, context)
            task = self._loop.create_task(self._serve(call_id, method, work, context, timeout))
            self._serving[call_id] = task
            # Not in the task itself: one that is cancelled before its first step never runs a line.
            task.add_done_callback(partial(self._served, call_id, work))

    async def _serve(
        self,
        call_id: int,
        method: Method,
        work: Coroutine[Any, Any, None],
        context: CallContext,
        timeout: float | None,
    ) -> None:
        try:
            if context.deadline is None or timeout is None:
                await work
            else:
                with Deadline(context.deadline, context.server, method, timeout):
                    await work
        except GymdError as failure:
            self._put_error(call_id, failure)
        except asyncio.CancelledError:
            # The caller cancelled or is gone, or this host shuts down: then it still listens.
            if call_id not in self._given_up:
                self._put_error(call_id, error("CANCELLED", f"{method.path} was cancelled"))
        except Exception as failure:
            log.exception("link_call_failed", extra={"method": method.path, "server": context.server})
            text = f"{method.path}: {type(failure).__name__}: {failure}"
            self._put_error(call_id, error("INTERNAL", text))

    def _served(self, call_id: int, work: Coroutine[Any, Any, None], task: asyncio.Task[None]) -> None:
        self._serving.pop(call_id, None)
        if task.cancelled():
            work.close()
            if call_id not in self._given_up:
                self._put_error(call_id, error("CANCELLED", "the call was cancelled before it began"))
        self._given_up.discard(call_id)

    async def _reply_once(self, call_id: int, method: Method, request: Any, context: CallContext) -> None:
        call = self._local.call(method, request, context)
        del request  # thousands wait here
        response = await call
        await self._reply(call_id, response.SerializeToString(), last=True)

    async def _stream_replies(self, call_id: int, method: Method, request: Any, context: CallContext) -> None:
        async for response in self._local.stream(method, request, context):
            await self._reply(call_id, response.SerializeToString(), last=False)
        self._put_end(call_id)

    async def _reply(self, call_id: int, body: bytes, *, last: bool) -> None:
        if self._queued_bytes > QUEUE_BYTES:
            await self._room.wait()
        frame = LinkFrame(call_id=call_id)
        frame.message.body = self._chunked(call_id, body, reply=True)
        frame.message.last = last
        self._put(frame, len(frame.message.body) + 16)

    def _put_end(self, call_id: int) -> None:
        frame = LinkFrame(call_id=call_id)
        frame.end.SetInParent()
        self._put(frame, 8)

    def _put_error(self, call_id: int, failure: GymdError) -> None:
        if self._failure is None:
            self._put(LinkFrame(call_id=call_id, error=to_status_message(failure)), 256)

    # Sending.

    def _chunked(self, call_id: int, body: bytes, *, reply: bool) -> bytes:
        """Queues all but the last part of a large body; returns the last part."""
        if len(body) <= CHUNK_BYTES:
            return body
        start = 0
        while len(body) - start > CHUNK_BYTES:
            frame = LinkFrame(call_id=call_id)
            frame.chunk.data = body[start : start + CHUNK_BYTES]
            frame.chunk.reply = reply
            self._put(frame, CHUNK_BYTES + 16)
            start += CHUNK_BYTES
        return body[start:]

    def _put(self, frame: LinkFrame, size: int) -> None:
        if self._failure is None:
            self._queue.append((frame, size))
            self._queued_bytes += size
            self._idle.clear()
            self._wake.set()
            if self._queued_bytes > QUEUE_BYTES:
                self._room.clear()

    def drain(self) -> None:
        """Asks the other end to start no further calls here."""
        frame = LinkFrame()
        frame.drain.SetInParent()
        self._put(frame, 8)

    async def pump(self, write: Callable[[Any], Awaitable[None]]) -> None:
        """Writes batches until the link closes; `write` is the stream's write."""
        while self._failure is None:
            if not self._queue:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
                continue
            await write(self._take())

    def _take(self) -> Batch:
        batch, count, size = self._batch_type(), 0, 0
        frames = batch.frames
        while self._queue and count < BATCH_FRAMES and size < BATCH_BYTES:
            frame, bytes_ = self._queue.popleft()
            frames.append(frame)
            # Cancels start no work, and those of many calls have to arrive together.
            count += not frame.HasField("cancel")
            size += bytes_
        self._queued_bytes -= size
        if not self._room.is_set() and self._queued_bytes < QUEUE_BYTES // 2:
            self._room.set()
        return batch

    async def flushed(self) -> None:
        """Returns when everything queued is written, or the link is closed (used before a host goes away)."""
        await self._idle.wait()

    def close(self, why: str) -> None:
        """Fails every call of ours with PEER_UNREACHABLE and cancels every call of the other end."""
        if self._failure is not None:
            return
        self._failure = error("PEER_UNREACHABLE", why)
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(error("PEER_UNREACHABLE", why))
                pending.future.exception()
        cancel_all(self._serving.values())
        self._queue.clear()
        self._parts.clear()
        self._wake.set()
        self._room.set()
        self._idle.set()


class LinkChannel:
    """A channel to one server behind a link, for generated stubs.

    Args:
        link: gives the link to use; it dials again when the last one broke.
        server: the server's name.
    """

    def __init__(self, link: Callable[[], Awaitable[Link]], server: str) -> None:
        self._link = link
        self._server = server

    def unary_unary(self, path: str, *_: Any, **__: Any) -> Any:
        """A callable for one unary method."""
        method, server, get_link = METHODS[path], self._server, self._link

        async def call(
            request: Any, *, timeout: float | None = None, metadata: Mapping[str, str] | None = None
        ) -> Any:
            link = await get_link()
            return await link.call(method, server, request, timeout, metadata)

        return call

    def unary_stream(self, path: str, *_: Any, **__: Any) -> Any:
        """A callable for one server-streaming method."""
        method, server, get_link = METHODS[path], self._server, self._link

        async def call(
            request: Any, *, timeout: float | None = None, metadata: Mapping[str, str] | None = None
        ) -> AsyncIterator[Any]:
            link = await get_link()
            stream = link.stream(method, server, request, timeout, metadata)
            async with contextlib.aclosing(stream) as responses:
                async for response in responses:
                    yield response

        return call

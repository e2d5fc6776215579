"""The servers of this process, and the channel that calls them without a network."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any

from gymd.errors import GymdError, as_gymd_error, error
from gymd.mesh.methods import METHODS, SERVICE_OF_KIND, Method

__all__ = ["CallContext", "InProcessChannel", "LocalServers"]

SERVER_KEY = "gymd-server"
"""Call metadata key that names the server on a host with several."""


# All else is the handler's: sys.exit in it must not end the event loop, nor a panic of a Rust extension (no
# Exception either) leave the caller without an answer.
_NOT_OURS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)


class CallContext:
    """What a handler may know of its call, the same over every transport.

    Attributes:
        server: name under which the server was called.
        metadata: call metadata, such as trace ids.
        deadline: loop time at which the caller gives up, or None.
    """

    __slots__ = ("deadline", "metadata", "server")

    def __init__(self, server: str, deadline: float | None, metadata: Mapping[str, str]) -> None:
        self.server = server
        self.deadline = deadline
        self.metadata = metadata

    def time_left(self) -> float | None:
        """Seconds until the caller gives up (never negative), or None without a deadline."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


NO_METADATA: Mapping[str, str] = {}


class LocalServers:
    """The servers that live in this process, by service and name."""

    def __init__(self) -> None:
        self._servers: dict[str, dict[str, Any]] = {service: {} for service in SERVICE_OF_KIND.values()}
        self.draining = False

    def add(self, name: str, kind: str, servicer: object) -> None:
        """Makes `servicer` (an object with the service's methods) callable as `name`."""
        self._servers[SERVICE_OF_KIND[kind]][name] = servicer

    def has(self, name: str, kind: str) -> bool:
        """Whether a server of that name and kind lives here."""
        return name in self._servers[SERVICE_OF_KIND[kind]]

    def services(self) -> list[str]:
        """Full names of the services that at least one server here serves."""
        return [service for service, servers in self._servers.items() if servers]

    def resolve(self, method: Method, server: str) -> Any:
        """The bound handler. An empty name means the only server of the service here.

        Raises:
            NotFound: no such server, or the name is missing and there is more than one.
        """
        servers = self._servers[method.service]
        servicer = servers.get(server)
        if servicer is None and not server and len(servers) == 1:
            servicer = next(iter(servers.values()))
        if servicer is None:
            here = ", ".join(sorted(servers)) or "none"
            asked = f"no server {server!r}" if server else f"several servers, and no {SERVER_KEY} metadata"
            text = f"{asked} for {method.service} in this process; it holds: {here}"
            raise error("SERVER_NOT_FOUND", text, server=server, available=here)
        return getattr(servicer, method.name)

    async def call(
        self, method: Method, request: Any, context: CallContext, timeout: float | None = None
    ) -> Any:
        """Runs a unary method; whatever its code raises comes out as a GymdError.

        With `timeout` (the seconds that context.deadline was made of) it is cancelled at the deadline.
        """
        try:
            running = self.resolve(method, context.server)(request, context)
            # Thousands wait here: the handler decides how long the request is needed.
            del request
            if timeout is None or context.deadline is None:
                return await running
            with Deadline(context.deadline, context.server, method, timeout):
                return await running
        except (GymdError, *_NOT_OURS):
            raise
        except BaseException as failure:
            raise as_gymd_error(failure, f"{context.server}.{method.name}") from failure

    async def stream(self, method: Method, request: Any, context: CallContext) -> AsyncGenerator[Any]:
        """Runs a server-streaming method."""
        try:
            # Closed here, not by the garbage collector: a reader that leaves ends the handler at once.
            stream = self.resolve(method, context.server)(request, context)
            async with contextlib.aclosing(stream) as responses:
                async for response in responses:
                    yield response
        except (GymdError, *_NOT_OURS):
            raise
        except BaseException as failure:
            raise as_gymd_error(failure, f"{context.server}.{method.name}") from failure

    def refuse_when_draining(self, method: Method) -> None:
        """Raises Unavailable for new work while the process drains."""
        if self.draining and method.starts_work:
            raise error("DRAINING", "this process is draining and takes no new work; another replica will")


class InProcessChannel:
    """A channel to one server of this process: a direct call with the message object, no bytes.

    Messages are shared between caller and callee, so nobody edits a message it was given.
    """

    def __init__(self, local: LocalServers, server: str) -> None:
        self._local = local
        self._server = server

    def unary_unary(self, path: str, *_: Any, **__: Any) -> Any:
        """A callable for one unary method, as generated stubs ask for it."""
        method, local, server = METHODS[path], self._local, self._server
        loop = asyncio.get_running_loop()

        def call(
            request: Any, *, timeout: float | None = None, metadata: Mapping[str, str] = NO_METADATA
        ) -> Coroutine[Any, Any, Any]:
            deadline = None if timeout is None else loop.time() + timeout
            return local.call(method, request, CallContext(server, deadline, metadata), timeout)

        return call

    def unary_stream(self, path: str, *_: Any, **__: Any) -> Any:
        """A callable for one server-streaming method."""
        method, local, server = METHODS[path], self._local, self._server

        async def call(
            request: Any, *, timeout: float | None = None, metadata: Mapping[str, str] = NO_METADATA
        ) -> AsyncIterator[Any]:
            deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
            context = CallContext(server, deadline, metadata)
            async with contextlib.aclosing(local.stream(method, request, context)) as responses:
                while True:
                    try:
                        # Around each step: the time between them is the reader's own.
                        async with asyncio.timeout_at(deadline) as limit:
                            response = await anext(responses, None)
                    except TimeoutError:
                        if not limit.expired():
                            raise
                        raise too_late(server, method, timeout or 0.0) from None
                    if response is None:
                        return
                    yield response

        return call


class Deadline:
    """Bounds the block it wraps: cancels the task at `deadline` (loop time) and raises DeadlineExceeded.

    Six such blocks make a rollout, and thousands of them wait at a time: this costs a fraction of the time
    and memory of asyncio.timeout.
    """

    __slots__ = ("_cancelling", "_fired", "_handle", "_method", "_server", "_task", "_timeout")

    def __init__(self, deadline: float, server: str, method: Method, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._fired = False
        self._server = server
        self._method = method
        self._timeout = timeout
        self._handle = loop.call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._fired = True
        self._task.cancel()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        self._handle.cancel()
        if self._fired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise too_late(self._server, self._method, self._timeout) from None


def too_late(server: str, method: Method, timeout: float) -> GymdError:
    """The error for a call that did not end in time."""
    text = f"{server}.{method.name} did not end within {timeout:g} s"
    return error(
        "DEADLINE_EXCEEDED", text, server=server, method=method.name, deadline_seconds=f"{timeout:g}"
    )

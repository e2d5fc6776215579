"""A model endpoint for tests on a real socket: answers from a queue, records what it was asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

__all__ = [
    "Answer",
    "Backend",
    "Recorded",
    "chat_message",
    "openai_backend",
    "response_call",
    "response_text",
]


@dataclass(slots=True)
class Answer:
    """What to answer one request with.

    Attributes:
        status: HTTP status.
        json: body as JSON value; `body` wins.
        body: body as bytes.
        headers: further headers.
        hang: never answer; ends when the client goes away.
        drop: close the connection without an answer.
        chunked: do not announce the length of the body.
    """

    status: int = 200
    json: Any = None
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False
    chunked: bool = False


@dataclass(slots=True)
class Recorded:
    """A request that arrived."""

    path: str
    query: str
    headers: dict[str, str]
    json: Any
    peer: Any


@dataclass
class Backend:
    """A running endpoint.

    Attributes:
        url: base URL, ends with /v1.
        answers: used in order, one per request; `default` answers when it is empty.
        requests: what arrived, in order.
        arrived: set at each request.
        aborted: set when a client closed its connection before the answer.
    """

    url: str = ""
    answers: deque[Answer] = field(default_factory=deque)
    default: Callable[[Recorded], Answer] | None = None
    requests: list[Recorded] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0

    def plan(self, *answers: Answer) -> None:
        """Adds answers to the queue."""
        self.answers.extend(answers)

    def bodies(self, path: str) -> list[Any]:
        """The JSON bodies of the requests to a path."""
        return [request.json for request in self.requests if request.path.endswith(path)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        data = await request.read()
        assert request.transport is not None
        recorded = Recorded(
            path=request.path,
            query=request.query_string,
            headers=dict(request.headers),
            json=orjson.loads(data) if data else None,
            peer=request.transport.get_extra_info("peername"),
        )
        self.requests.append(recorded)
        self.arrived.set()
        if self.answers:
            answer = self.answers.popleft()
        elif self.default is not None:
            answer = self.default(recorded)
        else:
            answer = Answer(599, {"error": {"message": "the test planned no further answer"}})
        self.in_flight += 1
        try:
            return await self._send(request, answer)
        finally:
            self.in_flight -= 1

    async def _send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        if answer.hang:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.aborted.set()
                raise
        if answer.drop:
            assert request.transport is not None
            request.transport.abort()
        body = answer.body if answer.body is not None else orjson.dumps(answer.json)
        headers = {"Content-Type": "application/json", **answer.headers}
        made = web.Response(status=answer.status, body=body, headers=headers)
        if answer.chunked:
            made.enable_chunked_encoding()
        return made


@asynccontextmanager
async def openai_backend(*answers: Answer) -> AsyncIterator[Backend]:
    """Serves on a free port of the loopback; fails if planned answers were left unused."""
    backend = Backend()
    backend.plan(*answers)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", backend.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        backend.url = f"http://{host}:{port}/v1"
        yield backend
    finally:
        await runner.cleanup()
    assert not backend.answers, f"{len(backend.answers)} planned answers were not used"


def response_text(text: str = "Sunny.", **changes: Any) -> dict[str, Any]:
    """A Responses answer that is one message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    return _response([item], **changes)


def response_call(name: str, arguments: str = "{}", **changes: Any) -> dict[str, Any]:
    """A Responses answer that is one function call."""
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }
    return _response([item], **changes)


def _response(output: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 18,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "fake-model",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
        **changes,
    }


def chat_message(content: str | None = "Sunny.", **parts: Any) -> dict[str, Any]:
    """A chat completion; `choice` and `top` add keys to choice and whole, all others to the message."""
    choice, top = parts.pop("choice", {}), parts.pop("top", {})
    message = {"role": "assistant", "content": content, **parts}
    finish = "tool_calls" if parts.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "fake-model",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None, **choice}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        **top,
    }

"""A fake OpenAI-compatible backend that costs next to nothing: `python -m bench.backend --latency 2`.

It answers POST /v1/responses: a function call while tools are offered and no tool output is there yet, then a
message. Bodies are rendered once and only their ids change; requests are searched, never parsed. With
`--tokens N` every answer is a chat completion of N tokens as vLLM writes it, ids and logprobs included. The
first line on stdout is the base URL.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import resource
import struct
import sys
from collections.abc import Callable

try:
    import uvloop
except ImportError:  # no wheel on this platform: plain asyncio does
    uvloop = None  # type: ignore[assignment]

TEXT = "The answer is \\boxed{A}."
ID = b"@@id@@"


def render(output: list[dict]) -> bytes:
    """A response body with ID where the id goes."""
    usage = {
        "input_tokens": 64,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 76,
    }
    body = {
        "id": "resp_@@id@@",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "fake-model",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }
    return json.dumps(body, separators=(",", ":")).encode()


CALL = render(
    [
        {
            "type": "function_call",
            "id": "fc_@@id@@",
            "call_id": "call_@@id@@",
            "name": "get_weather",
            "arguments": '{"city":"San Francisco"}',
            "status": "completed",
        }
    ]
)
MESSAGE = render(
    [
        {
            "type": "message",
            "id": "msg_@@id@@",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}],
        }
    ]
)
numbers = itertools.count(1)


def render_chat(count: int) -> bytes:
    """A chat completion of vLLM with return_token_ids and return_tokens_as_token_ids: 3.4 MB for 32,768."""
    rng = random.Random(7)
    prompt, ids = ([rng.randrange(100, 150_000) for _ in range(length)] for length in (64, count))
    # vLLM's logprobs are float32, which JSON writes with all the digits of a double.
    values = struct.unpack(f"{count}f", struct.pack(f"{count}f", *(-3 * rng.random() for _ in ids)))
    entries = [
        {"token": f"token_id:{number}", "logprob": value, "bytes": [32, 116, 104], "top_logprobs": []}
        for number, value in zip(ids, values, strict=True)
    ]
    text = "".join(rng.choice("abcdefghi jklmn opqr stuvw xyz ") for _ in range(2 * count))
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": None, "tool_calls": []},
        "logprobs": {"content": entries},
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": ids,
    }
    usage = {"prompt_tokens": 64, "completion_tokens": count, "total_tokens": 64 + count}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "fake-model"}
    body |= {"choices": [choice], "usage": usage, "prompt_logprobs": None, "prompt_token_ids": prompt}
    return json.dumps(body, separators=(",", ":")).encode()


def answer(request: bytes) -> bytes:
    """The Responses answer to a request."""
    wants_tool = b'"tools":[{' in request and b'"function_call_output"' not in request
    return (CALL if wants_tool else MESSAGE).replace(ID, b"%012x" % next(numbers))


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, latency: float, answer: Callable[[bytes], bytes]) -> None:
        self._latency = latency
        self._answer = answer
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (request := self._take()) is not None:
            answer = self._answer(request)
            if self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._send, answer)
            else:
                self._send(answer)

    def _take(self) -> bytes | None:
        """The body of the next whole request."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._buffer[:end]).lower()
        at = head.find(b"content-length:")
        size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + size:
            return None
        body = bytes(self._buffer[end + 4 : end + 4 + size])
        del self._buffer[: end + 4 + size]
        return body

    def _send(self, body: bytes) -> None:
        if self._transport is not None:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            self._transport.writelines([head % len(body), body])


async def serve(latency: float, answer: Callable[[bytes], bytes]) -> None:
    """Listens on a free port until stdin ends (so it never outlives the bench)."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(latency, answer), "127.0.0.1", 0, backlog=65535)
    host, port = server.sockets[0].getsockname()[:2]
    sys.stdout.write(f"http://{host}:{port}/v1\n")
    sys.stdout.flush()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    server.close()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--tokens", type=int, default=0, help="chat completions of so many tokens")
    options = parser.parse_args()
    chat = render_chat(options.tokens) if options.tokens else b""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    (uvloop.run if uvloop else asyncio.run)(serve(options.latency, (lambda _: chat) if chat else answer))


if __name__ == "__main__":
    main()

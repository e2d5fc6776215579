"""What model servers in front of an HTTP endpoint share: configuration keys, the client, the request gate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar

import pydantic

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.convert import ConvertError, empty_completion, loads, response_from_chat
from gymd.errors import GymdError, error
from gymd.sdk.base import ServerConfig
from gymd.sdk.http import DEFAULT_TIMEOUT_S, MAX_CONNECTIONS, Endpoint, HttpClient, RetryPolicy
from gymd.sdk.http_outcomes import is_context_overflow
from gymd.sdk.model import ModelCall, ModelServer

__all__ = ["HttpModelConfig", "HttpModelServer", "overflow_response", "refused"]


class HttpModelConfig(ServerConfig):
    """Keys of every model server that calls an HTTP endpoint."""

    max_attempts: int = pydantic.Field(default=6, ge=1, le=100)
    """Requests made for one call at most: 429, 5xx and connection errors are tried again."""
    retry_budget_s: float = pydantic.Field(default=120.0, ge=0)
    """Seconds from the first request of a call after which none is repeated."""
    request_timeout_s: float = pydantic.Field(default=DEFAULT_TIMEOUT_S, gt=0)
    """Limit of a call whose caller set no deadline, in seconds, retries included."""
    max_connections: int = pydantic.Field(default=MAX_CONNECTIONS, ge=1)
    """Connections open at most; the limit of open files lowers it."""


class HttpModelServer(ModelServer):
    """Base of model servers in front of an HTTP endpoint.

    Attributes:
        http: the client, open between start and stop.
        gate: lets at most the configured number of requests pass at once.
    """

    Config: ClassVar[type[ServerConfig]] = HttpModelConfig
    http: HttpClient
    gate: AbstractAsyncContextManager[Any]

    async def start(self) -> None:
        """Opens the connection pool."""
        config = self.config
        self.http = HttpClient(
            retry=RetryPolicy(max_attempts=config.max_attempts, budget_s=config.retry_budget_s),
            max_connections=config.max_connections,
            timeout_s=config.request_timeout_s,
        )
        limit = self.concurrency()
        self.gate = asyncio.Semaphore(limit) if limit else nullcontext()
        await self.http.start()

    async def stop(self) -> None:
        """Closes every connection."""
        await self.http.close()

    def concurrency(self) -> int | None:
        """Requests under way at most, or None for no limit beside the connections."""
        return None

    async def post(
        self,
        endpoint: Endpoint,
        path: str,
        body: dict[str, Any],
        call: ModelCall,
        parse: Callable[[bytes], Any] = loads,
    ) -> Any:
        """Posts within the gate and the caller's deadline; None stands for a conversation that is too long.

        Raises: as HttpClient.post_json.
        """
        async with self.gate:
            try:
                return await self.http.post_json(endpoint, path, body, call.context.deadline, parse)
            except GymdError as failure:
                if not is_context_overflow(failure):
                    raise
                self.log.debug("context overflow rollout=%s %s", call.rollout_id, failure.message)
                return None


def overflow_response(params: ResponseCreateParams, model: str) -> Response:
    """The answer to a conversation that does not fit the context: empty, incomplete, max_output_tokens."""
    return response_from_chat(empty_completion("length", model), params)


def refused(problem: ConvertError) -> GymdError:
    """The error for create params that the endpoint's API cannot express."""
    text = f"this model server cannot send the request: {problem}; change the task's responses_create_params"
    return error("INVALID_REQUEST", text, field=problem.path)

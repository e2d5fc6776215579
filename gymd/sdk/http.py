"""The HTTP client of model servers: pooled connections, deadlines, bounded retries, one error per outcome.

aiohttp and orjson, because a call costs 0.2 ms of CPU with them and 2.5 ms with the openai client. A call
that the caller gives up on closes its connection, which is how an engine learns that it can stop generating.
"""

from __future__ import annotations

import asyncio
import io
import math
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from gymd.convert import dumps, loads
from gymd.errors import GymdError, error
from gymd.mesh import on_cancel
from gymd.sdk.http_outcomes import Endpoint, Trial, outcome_of_failure, outcome_of_status

__all__ = ["Endpoint", "HttpClient", "RetryPolicy", "raise_file_limit"]

MAX_CONNECTIONS = 28_000
"""Connections to one endpoint: Linux has some 28,000 local ports for one address and port."""
DEFAULT_TIMEOUT_S = 1200.0
"""Limit of a call whose caller set no deadline."""

# A burst of thousands of connections waits in the listen queue of the endpoint for several SYN repeats.
_CONNECT_TIMEOUT_S = 30.0
_KEEPALIVE_S = 60.0
# File descriptors left for everything that is no connection to an endpoint.
_SPARE_FILES = 512
_MAX_FILES = 1 << 20
_MAX_BODY_BYTES = 256 * 1024 * 1024
# The caller's own timer fires at the deadline; this one comes first, so that the text names the endpoint.
_MARGIN_S = 0.02
# aiohttp warns about larger bodies given as bytes, because one write of them holds the loop.
_MAX_WRITE_BYTES = 1 << 20
_MAX_RETRY_AFTER_S = 86_400.0
_RETRIED = frozenset({408, 425, 429})
_NOT_RETRIED = frozenset({501, 505})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is repeated after 429, 5xx and connection errors.

    Attributes:
        max_attempts: requests made at most, the first included.
        budget_s: seconds from the first request after which no further one is made.
        base_delay_s: wait before the second request; it doubles each time, with jitter.
        max_delay_s: longest wait, unless the endpoint asks for more with Retry-After.
    """

    max_attempts: int = 6
    budget_s: float = 120.0
    base_delay_s: float = 0.25
    max_delay_s: float = 20.0

    def delay(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait after the attempt of that number (from 1)."""
        if retry_after is not None:
            # Spread the return of the many that were told the same moment.
            return retry_after * random.uniform(1.0, 1.1)
        return min(self.max_delay_s, self.base_delay_s * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)


@dataclass(slots=True)
class HttpClient:
    """Posts JSON to endpoints; one per model server.

    Attributes:
        retry: when to try again.
        max_connections: connections open at most; further calls wait for one.
        timeout_s: limit of a call whose caller set no deadline.
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_connections: int = MAX_CONNECTIONS
    timeout_s: float = DEFAULT_TIMEOUT_S
    _session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Opens the pool; needs the running loop."""
        files = raise_file_limit()
        connector = _Connector(
            # aiohttp's default of 100 would make the 101st rollout wait.
            limit=max(1, min(self.max_connections, files - _SPARE_FILES)),
            keepalive_timeout=_KEEPALIVE_S,
            ttl_dns_cache=300,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
        )

    async def close(self) -> None:
        """Closes every connection; calls under way end with UPSTREAM_UNAVAILABLE."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post_json(
        self,
        endpoint: Endpoint,
        path: str,
        body: Any,
        deadline: float | None = None,
        parse: Callable[[bytes], Any] = loads,
    ) -> Any:
        """Posts `body` as JSON to the endpoint's base URL + `path` and returns the parsed answer.

        `deadline` is a time of the running loop. Cancelling the awaiting task closes the connection. `parse`
        reads the answer and raises ValueError for what is no JSON.

        Raises:
            GymdError: UPSTREAM_* as errors.proto says, with metadata upstream_status, upstream_body (2,000
                characters), url and attempts; DEADLINE_EXCEEDED.
        """
        loop = asyncio.get_running_loop()
        trial = Trial(endpoint, path)
        limit = loop.time() + self.timeout_s if deadline is None else deadline - _MARGIN_S
        started = loop.time()
        try:
            async with asyncio.timeout_at(limit):
                data = await self._attempts(trial, dumps(body), limit)
        except TimeoutError:
            raise trial.too_late(loop.time() - started) from None
        try:
            return parse(data)
        except (ValueError, RecursionError):
            raise trial.malformed("is not JSON", data) from None

    async def _attempts(self, trial: Trial, data: bytes, limit: float) -> bytes:
        loop = asyncio.get_running_loop()
        last_start = min(limit, loop.time() + self.retry.budget_s)
        while True:
            trial.attempts += 1
            failure = await self._attempt(trial, data)
            if isinstance(failure, bytes):
                return failure
            if not trial.again or trial.attempts >= self.retry.max_attempts:
                raise failure
            delay = self.retry.delay(trial.attempts, trial.retry_after)
            if loop.time() + delay > last_start:
                raise failure
            await asyncio.sleep(delay)

    async def _attempt(self, trial: Trial, data: bytes) -> bytes | GymdError:
        """One request: the body of a success, or the error; `trial.again` says whether to try again."""
        if self._session is None:
            raise error("UPSTREAM_UNAVAILABLE", "the model server is stopping; try again", url=trial.url)
        trial.retry_after = None
        trial.again = False
        sent = data if len(data) <= _MAX_WRITE_BYTES else io.BytesIO(data)
        try:
            async with self._session.post(
                trial.full_url, data=sent, headers=trial.endpoint.sent_headers, allow_redirects=False
            ) as reply:
                if (reply.content_length or 0) > _MAX_BODY_BYTES:
                    return trial.too_large(reply.content_length or 0, _MAX_BODY_BYTES)
                # Not read(): that copies a large answer twice more.
                pieces, size = [], 0
                async for piece, _ in reply.content.iter_chunks():
                    size += len(piece)
                    if size > _MAX_BODY_BYTES:  # its length was not announced
                        return trial.too_large(size, _MAX_BODY_BYTES)
                    pieces.append(piece)
                content = b"".join(pieces)
                if 200 <= reply.status < 300:
                    return content
                trial.retry_after = _retry_after(reply.headers.get("Retry-After"))
                trial.again = _may_pass(reply.status)
                return outcome_of_status(trial, reply.status, content, reply.headers.get("Location", ""))
        except (aiohttp.ClientError, OSError) as failure:
            # Without a session the connection was closed by close(): no use in trying again.
            trial.again = self._session is not None
            return outcome_of_failure(trial, failure)


class _Connector(aiohttp.TCPConnector):
    """Lets many calls that are cancelled together close their connections before the first one unwinds."""

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **kwargs)
        if connection.transport is not None:
            # Until it is released, which is before another call may have it.
            connection.add_callback(on_cancel(connection.transport.abort))
        return connection


def raise_file_limit() -> int:
    """Raises this process's soft limit of open files to the hard one (bounded); returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MAX_FILES if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # macOS refuses more than OPEN_MAX: stay with what there is
        return soft
    return wanted


def _may_pass(status: int) -> bool:
    return status in _RETRIED or (status >= 500 and status not in _NOT_RETRIED)


def _retry_after(value: str | None) -> float | None:
    """Seconds asked for by a Retry-After header: a number of seconds or a date."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    # Not more than an error can tell its caller; "nan" and "inf" are numbers to Python.
    return min(max(0.0, seconds), _MAX_RETRY_AFTER_S) if not math.isnan(seconds) else None

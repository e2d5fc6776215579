"""What model servers in front of an HTTP endpoint share: configuration keys, the client, the request gate."""

from __future__ import annotations

import pydantic

from gymd.sdk.base import ServerConfig
from gymd.sdk.http import DEFAULT_TIMEOUT_S, MAX_CONNECTIONS

__all__ = ["HttpModelConfig", "HttpModelServer", "overflow_response", "refused_params"]


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

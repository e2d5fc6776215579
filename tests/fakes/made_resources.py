"""Resources servers made of the methods that a test is about."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from gymd.sdk import ResourcesServer
from gymd.sdk.testing import RunningServer, start_server

__all__ = ["server_class", "started"]


def server_class(**methods: Any) -> type[ResourcesServer]:
    """The class; its verifier says 1 unless another one is given."""

    async def verify(self: Any) -> float:
        return 1.0

    return type("Made", (ResourcesServer,), {"verify": verify, **methods})


@contextlib.asynccontextmanager
async def started(**methods: Any) -> AsyncIterator[RunningServer]:
    """A running one."""
    async with start_server(server_class(**methods), transport="in-process") as server:
        yield server

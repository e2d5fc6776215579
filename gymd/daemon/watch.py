"""Subscriptions to the registry: changes coalesced per server, so a slow watcher costs a bounded amount."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from gymapi.v1.registry_service_pb2 import Server, WatchServersResponse

__all__ = ["WATCH_LIMIT", "Subscription"]

WATCH_LIMIT = 1024
"""Changed or removed servers that may wait for one watcher; beyond it the watcher gets a new snapshot."""


class Subscription:
    """What one watcher has not been told yet.

    Args:
        snapshot: gives the servers of the wanted kind, as they are now.
        revision: gives the registry's revision.
        kind: only this kind of server; 0 for all.
        limit: see WATCH_LIMIT.
    """

    def __init__(
        self,
        snapshot: Callable[[], list[Server]],
        revision: Callable[[], int],
        kind: int,
        limit: int = WATCH_LIMIT,
    ) -> None:
        self._snapshot = snapshot
        self._revision = revision
        self._kind = kind
        self._limit = limit
        self._changed: dict[str, Server | None] = {}
        self._whole = True
        self._closed = False
        self._wake = asyncio.Event()
        self._wake.set()

    def put(self, servers: Iterable[Server], removed_ids: Iterable[str]) -> None:
        """Notes changes; a later change of the same server replaces an earlier one that is still untold."""
        if self._whole:
            return
        for server in servers:
            if not self._kind or server.kind == self._kind:
                self._changed[server.server_id] = server
        for server_id in removed_ids:
            self._changed[server_id] = None
        if len(self._changed) > self._limit:
            self._changed.clear()
            self._whole = True
        if self._changed or self._whole:
            self._wake.set()

    def close(self) -> None:
        """Ends the watch: `get` returns None."""
        self._closed = True
        self._wake.set()

    async def get(self) -> WatchServersResponse | None:
        """Waits for something to tell and returns it: a snapshot first and after an overflow, else changes.

        None: the watch is over.

        One reader at a time.
        """
        await self._wake.wait()
        if self._closed:
            return None
        self._wake.clear()
        response = WatchServersResponse(revision=self._revision())
        if self._whole:
            self._whole = False
            response.snapshot = True
            response.servers.extend(self._snapshot())
            return response
        for server_id, server in self._changed.items():
            if server is None:
                response.removed_server_ids.append(server_id)
            else:
                response.servers.append(server)
        self._changed.clear()
        return response

"""Who serves what, as this process last heard it from the registry."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
from collections.abc import Iterable

from gymapi.v1.registry_service_pb2 import Server, ServerKind, ServerState
from gymd.errors import GymdError, error

__all__ = ["Directory", "Peer"]

_KIND_NAMES = {
    ServerKind.SERVER_KIND_MODEL: "model",
    ServerKind.SERVER_KIND_AGENT: "agent",
    ServerKind.SERVER_KIND_RESOURCES: "resources",
}
_ALIVE = frozenset((ServerState.SERVER_STATE_READY, ServerState.SERVER_STATE_UNHEALTHY))


class Peer:
    """One replica of a server. Attributes mirror registry_service.proto's Server."""

    __slots__ = (
        "address",
        "condition",
        "host_id",
        "kind",
        "link",
        "max_concurrency",
        "name",
        "server_id",
        "state",
    )

    def __init__(self, server: Server) -> None:
        self.server_id = server.server_id
        self.name = server.name
        self.kind = _KIND_NAMES.get(server.kind, "")
        self.address = server.address
        self.host_id = server.host_id
        self.link = server.capabilities.link
        self.max_concurrency = server.capabilities.max_concurrency
        self.state = server.state
        self.condition = server.condition

    @property
    def ready(self) -> bool:
        """Whether it can be given work."""
        return self.state == ServerState.SERVER_STATE_READY

    def __repr__(self) -> str:
        return f"Peer({self.name!r}, {self.kind}, {self.address}, {ServerState.Name(self.state)})"


class Directory:
    """The peers by name; whoever waits for a change is woken by it."""

    def __init__(self) -> None:
        self._by_id: dict[str, Peer] = {}
        self._by_name: dict[tuple[str, str], list[Peer]] = {}
        self._ready: dict[tuple[str, str], list[Peer]] = {}
        self._changed = asyncio.Event()

    def replace(self, servers: Iterable[Server]) -> None:
        """Takes a snapshot of everything there is."""
        self._by_id = {server.server_id: Peer(server) for server in servers}
        self._index()

    def update(self, servers: Iterable[Server], removed_ids: Iterable[str] = ()) -> None:
        """Takes changes."""
        for server_id in removed_ids:
            self._by_id.pop(server_id, None)
        for server in servers:
            self._by_id[server.server_id] = Peer(server)
        self._index()

    def _index(self) -> None:
        by_name: dict[tuple[str, str], list[Peer]] = {}
        for peer in self._by_id.values():
            by_name.setdefault((peer.kind, peer.name), []).append(peer)
        self._by_name = by_name
        self._ready = {
            key: ready for key, peers in by_name.items() if (ready := [p for p in peers if p.ready])
        }
        self._changed.set()
        self._changed = asyncio.Event()

    def peers(self, name: str, kind: str) -> list[Peer]:
        """All replicas of a server, whatever their state."""
        return self._by_name.get((kind, name), [])

    def names(self, kind: str) -> list[str]:
        """Names of all servers of a kind."""
        return sorted(name for other, name in self._by_name if other == kind)

    def next_change(self) -> asyncio.Event:
        """The event that the next change sets. Take it before looking, then no change is missed."""
        return self._changed

    def pick(self, name: str, kind: str, key: str = "", host_id: str = "") -> Peer:
        """The replica for a key: one of this process first, else always the same among those that are ready.

        Raises:
            NotFound: no server of that name and kind.
            NotReady: none of its replicas can take work now.
        """
        peers = self._by_name.get((kind, name), [])
        for peer in peers:
            # A lease that is late says nothing about a server of this very process.
            if host_id and peer.host_id == host_id and peer.state in _ALIVE:
                return peer
        ready = self._ready.get((kind, name))
        if not ready:
            if not peers:
                raise self.unknown(name, kind)
            why = "; ".join(sorted({peer.condition for peer in peers if peer.condition})) or "it is starting"
            raise error("SERVER_NOT_READY", f"{kind} server {name!r} cannot take work: {why}", server=name)
        if len(ready) == 1:
            return ready[0]
        # Highest random weight: a replica that comes or goes moves only its own share of the keys.
        return max(ready, key=lambda peer: hashlib.blake2b(f"{key}\0{peer.server_id}".encode()).digest())

    def unknown(self, name: str, kind: str) -> GymdError:
        """The error for a server that nobody registered, with the nearest name."""
        known = self.names(kind)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known) or 'none'}"
        return error(
            "SERVER_NOT_FOUND", f"no {kind} server {name!r} is registered{hint}", server=name, kind=kind
        )

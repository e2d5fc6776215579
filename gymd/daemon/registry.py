"""Who serves what, and whether it is alive: leases, drain, placeholders of servers that are not up.

Pure: no gRPC, no sleeping; the clocks are injected and `tick` moves time-bound states on. A `Server`
message is never changed once it was published: a change makes a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from uuid import uuid4

from gymapi.v1.registry_service_pb2 import (
    Placement,
    RegisterServerRequest,
    RegisterServerResponse,
    Server,
    ServerKind,
    ServerState,
)
from gymd.daemon.entries import Entry, check_registration, check_renewal, kind_name
from gymd.daemon.watch import WATCH_LIMIT, Subscription
from gymd.errors import GymdError, error

__all__ = ["DEFAULT_LEASE_TTL_S", "MAX_LEASE_TTL_S", "MIN_LEASE_TTL_S", "Registry"]

DEFAULT_LEASE_TTL_S = 15.0
MIN_LEASE_TTL_S = 1.0
MAX_LEASE_TTL_S = 300.0
MAX_SERVERS = 10_000
"""Servers that may be registered at a time; a client that never renews must not fill the memory."""
ENVIRONMENT_LABEL = "resources_server"
"""With it an agent says with which resources server it works."""
MAX_RETIRED = 1000
"""Ids of former processes that are remembered, so that one on its way out cannot register again."""

Listener = Callable[[list[Server], list[str]], None]


class Registry:
    """The servers of the mesh.

    Args:
        default_ttl: lease for servers that ask for none, in seconds.
        clock: seconds that never jump, for leases.
        wall: Unix time in seconds, for what people read.
    """

    def __init__(
        self,
        default_ttl: float = DEFAULT_LEASE_TTL_S,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._default_ttl = default_ttl
        self._clock = clock
        self._wall = wall
        self._entries: dict[str, Entry] = {}
        self._order = 0
        self._retired: dict[str, None] = {}
        self._refusals: tuple[int, dict[str, GymdError | None]] = (0, {})
        self._listeners: list[Listener] = []
        self._watchers: set[Subscription] = set()
        self.revision = 0
        """Grows with every change."""
        self.draining = False
        """No new servers; renewals are told to leave."""
        self.on_silent_host: Callable[[str], None] = lambda host_id: None
        """Called with the host_id of a supervised process whose lease is over for good: it hangs."""

    # Registration.

    def register(self, request: RegisterServerRequest) -> RegisterServerResponse:
        """Registers a server or renews its lease.

        Raises:
            InvalidRequest: a field is missing or malformed.
            AlreadyExists: another kind of server has that name.
            NotFound: the id is unknown; register anew.
            Unavailable: the daemon is shutting down.
            LimitReached: there are too many servers.
        """
        if request.server_id:
            entry = self._entries.get(request.server_id)
            if entry is None or not entry.registered:
                text = f"server id {request.server_id!r} is not registered: its lease ran out; register anew"
                raise error("SERVER_NOT_FOUND", text, server=request.server_id)
            check_renewal(request, entry.server)
        else:
            self._check_new(request)
            entry = self._seat(request)
        self._apply(entry, request)
        response = RegisterServerResponse(server_id=entry.server.server_id)
        response.lease_ttl.FromNanoseconds(int(entry.ttl * 1e9))
        response.draining = self.draining or self._host_leaves(entry)
        return response

    def _check_new(self, request: RegisterServerRequest) -> None:
        if self.draining:
            raise error("DRAINING", "the daemon is shutting down and takes no new servers")
        check_registration(request)
        if request.host_id in self._retired:
            raise error("DRAINING", f"process {request.host_id} was told to leave", host_id=request.host_id)
        for entry in self._entries.values():
            if entry.server.name == request.name and entry.server.kind != request.kind:
                kind = kind_name(entry.server.kind)
                text = f"the name {request.name!r} is taken by a server of kind {kind}; choose another name"
                raise error("NAME_TAKEN", text, server=request.name, kind=kind)

    def _seat(self, request: RegisterServerRequest) -> Entry:
        """The entry for a first registration: its placeholder, the same replica as before, or a new one."""
        waiting = None
        for entry in self._entries.values():
            server = entry.server
            if server.name != request.name:
                continue
            if request.host_id and server.host_id == request.host_id:
                return entry
            if entry.registered and not request.host_id and server.address == request.address:
                return entry  # registered again after a lost answer
            if not entry.registered and server.placement == Placement.PLACEMENT_REMOTE and waiting is None:
                waiting = entry
        if waiting is not None:
            return waiting
        if len(self._entries) >= MAX_SERVERS:
            text = f"{MAX_SERVERS} servers are registered already; deregister some"
            raise error("LIMIT_REACHED", text, limit=MAX_SERVERS)
        server = Server(name=request.name, kind=request.kind, placement=Placement.PLACEMENT_REMOTE)
        return self._add(server, placeholder=False)

    def _apply(self, entry: Entry, request: RegisterServerRequest) -> None:
        first = not entry.registered
        entry.registered = True
        entry.expired = False
        entry.ready = request.ready if request.HasField("ready") else True
        entry.condition = request.condition
        entry.ttl = self._ttl(request)
        entry.expires = self._clock() + entry.ttl
        server = Server()
        server.CopyFrom(entry.server)
        if request.address:
            server.address = request.address
        if request.host_id:
            server.host_id = request.host_id
        if request.pid:
            server.pid = request.pid
        if first or request.HasField("capabilities"):
            server.capabilities.CopyFrom(request.capabilities)
        for key, value in request.labels.items():
            server.labels[key] = value
        if first:
            server.register_time.FromNanoseconds(int(self._wall() * 1e9))
        self._publish(entry, server)

    def _ttl(self, request: RegisterServerRequest) -> float:
        wanted = self._default_ttl
        if request.HasField("lease_ttl"):
            wanted = request.lease_ttl.ToNanoseconds() / 1e9
        return min(max(wanted, MIN_LEASE_TTL_S), MAX_LEASE_TTL_S)

    def _host_leaves(self, entry: Entry) -> bool:
        """Whether all of the entry's process is drained; one drained server must not take its peers away."""
        host_id = entry.server.host_id
        if not host_id:
            return entry.drained
        return all(other.drained for other in self._entries.values() if other.server.host_id == host_id)

    def deregister(self, server_id: str) -> None:
        """Removes a server; one that the supervisor watches over becomes a placeholder again."""
        entry = self._entries.get(server_id)
        if entry is not None and entry.registered:
            self._leave(entry, "it deregistered")

    def drain(self, *, server_id: str = "", name: str = "") -> list[Server]:
        """Stops new work for one replica or for all of a name; returns them.

        Raises:
            NotFound: there is no such server.
        """
        if not server_id and not name:
            text = "say which server to drain: set server_id or name"
            raise error("INVALID_REQUEST", text, field="name")
        found = [
            entry
            for entry in self._entries.values()
            if (entry.server.server_id == server_id if server_id else entry.server.name == name)
        ]
        if not found:
            raise self.unknown(server_id or name)
        for entry in found:
            entry.drained = True
            self._publish(entry)
        return [self._shown(entry) for entry in found]

    def undrain(self, host_id: str) -> None:
        """Forgets that servers of a supervised process were drained: somebody asked for its restart."""
        for entry in self._of_host(host_id):
            entry.drained = False
            self._publish(entry)

    # Placeholders, for the supervisor.

    def expect(
        self,
        name: str,
        kind: int,
        placement: int,
        *,
        host_id: str = "",
        condition: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Shows a server that is not registered yet; its registration will attach to it.

        A `remote` one is matched by name and kind, any other by its host_id and name. Returns its id.
        """
        server = Server(name=name, kind=kind, placement=placement, host_id=host_id, labels=labels)  # type: ignore[arg-type]
        entry = self._add(server, placeholder=True)
        entry.condition = condition
        self._publish(entry)
        return entry.server.server_id

    def set_host(
        self,
        host_id: str,
        state: int,
        condition: str,
        *,
        only: Iterable[str] | None = None,
        pid: int = 0,
        restart_count: int = 0,
    ) -> None:
        """Says how a supervised process is that serves nothing (yet, or no more).

        What it had registered leaves at once. `only` limits the change to these servers of it.
        """
        names = None if only is None else set(only)
        for entry in self._of_host(host_id):
            if names is not None and entry.server.name not in names:
                continue
            if entry.registered:
                entry = self._reset(entry)
            entry.state, entry.condition = state, condition
            server = Server()
            server.CopyFrom(entry.server)
            server.pid, server.restart_count = pid, restart_count
            self._publish(entry, server)

    def rename_host(self, old: str, new: str) -> None:
        """Moves the placeholders of a process to its next id; the old one may not register again."""
        self._retired[old] = None
        while len(self._retired) > MAX_RETIRED:
            del self._retired[next(iter(self._retired))]
        for entry in self._of_host(old):
            if entry.registered:
                entry = self._reset(entry)
            server = Server()
            server.CopyFrom(entry.server)
            server.host_id = new
            self._publish(entry, server)

    def note_process(self, host_id: str, pid: int, restart_count: int) -> None:
        """Writes a running process's facts to its servers, whatever their state."""
        for entry in self._of_host(host_id):
            server = Server()
            server.CopyFrom(entry.server)
            server.pid, server.restart_count = pid, restart_count
            self._publish(entry, server)

    # Reading.

    def servers(self, name: str = "", kind: int = 0) -> list[Server]:
        """The servers, by name and then by age; an empty name or kind means all."""
        entries = [
            entry
            for entry in self._entries.values()
            if (not name or entry.server.name == name) and (not kind or entry.server.kind == kind)
        ]
        entries.sort(key=lambda entry: (entry.server.name, entry.order))
        return [self._shown(entry) for entry in entries]

    def names(self, kind: int) -> list[str]:
        """Names of all servers of a kind, sorted."""
        return sorted({entry.server.name for entry in self._entries.values() if entry.server.kind == kind})

    def default_agent(self) -> str:
        """The agent that tasks without one run on: the only one, else ""."""
        names = self.names(ServerKind.SERVER_KIND_AGENT)
        return names[0] if len(names) == 1 else ""

    def agents_of(self, environment: str) -> set[str]:
        """Names of the agents that work with a resources server.

        Raises:
            NotFound: none is known to.
        """
        agents = [e.server for e in self._entries.values() if e.server.kind == ServerKind.SERVER_KIND_AGENT]
        found = {server.name for server in agents if server.labels.get(ENVIRONMENT_LABEL) == environment}
        if not found:
            known = sorted({server.labels.get(ENVIRONMENT_LABEL, "") for server in agents} - {""})
            text = (
                f"no agent is known to work with a resources server {environment[:200]!r}; known are: "
                f"{', '.join(known[:50]) or 'none'}. An agent that registers itself says it with the label "
                f"{ENVIRONMENT_LABEL!r}; cancel by agent instead"
            )
            raise error("SERVER_NOT_FOUND", text, server=environment[:200])
        return found

    def refusal(self, agent: str) -> GymdError | None:
        """Why an agent cannot be given tasks: nobody knows it, or all its replicas drain or failed."""
        revision, known = self._refusals
        if revision != self.revision:
            self._refusals = (self.revision, known := {})
        if agent not in known:
            if len(known) > MAX_SERVERS:  # names that clients made up
                known.clear()
            known[agent] = self._refusal(agent)
        return known[agent]

    def _refusal(self, agent: str) -> GymdError | None:
        servers = self.servers(agent, ServerKind.SERVER_KIND_AGENT)
        if not servers:
            return self.unknown(agent, ServerKind.SERVER_KIND_AGENT)
        states = {server.state for server in servers}
        if states == {ServerState.SERVER_STATE_DRAINING}:
            return error("DRAINING", f"agent {agent!r} is draining and takes no new work", server=agent)
        if states <= {ServerState.SERVER_STATE_DRAINING, ServerState.SERVER_STATE_FAILED}:
            why = "; ".join(sorted({server.condition for server in servers if server.condition}))
            return error("SERVER_NOT_READY", f"agent {agent!r} failed: {why}", server=agent)
        return None

    def unknown(self, name: str, kind: int = 0) -> GymdError:
        """The error for a server that is not there, with the nearest name."""
        known = self.names(kind) if kind else sorted({e.server.name for e in self._entries.values()})
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known[:50]) or 'none'}"
        what = f"{kind_name(kind)} server" if kind else "server"
        return error("SERVER_NOT_FOUND", f"no {what} {name!r} is registered; {hint}", server=name)

    def subscribe(self, kind: int = 0, limit: int = WATCH_LIMIT) -> Subscription:
        """Starts a watch: a snapshot first, then every change. End it with `unsubscribe`."""
        watcher = Subscription(lambda: self.servers(kind=kind), lambda: self.revision, kind, limit)
        self._watchers.add(watcher)
        return watcher

    def unsubscribe(self, watcher: Subscription) -> None:
        """Ends a watch."""
        self._watchers.discard(watcher)

    def close(self) -> None:
        """Ends every watch."""
        for watcher in self._watchers:
            watcher.close()

    def listen(self, listener: Listener) -> None:
        """Calls `listener(changed servers, removed ids)` at once with everything, then at every change."""
        self._listeners.append(listener)
        listener(self.servers(), [])

    # Time.

    def tick(self) -> float | None:
        """Moves leases on; returns when to call it next (on the clock), or None if nobody holds a lease."""
        now = self._clock()
        due: float | None = None
        for entry in list(self._entries.values()):
            if not entry.registered:
                continue
            if now >= entry.expires + entry.ttl:
                self._expire(entry)
                continue
            if now >= entry.expires and not entry.expired:
                entry.expired = True
                self._publish(entry)
            when = entry.expires + (entry.ttl if entry.expired else 0.0)
            due = when if due is None else min(due, when)
        return due

    def allow(self, seconds: float) -> None:
        """Extends every lease by a time in which nobody could renew, because the daemon itself stood still.

        Without it all hosts would be taken for hung at once, and killed with their rollouts.
        """
        for entry in self._entries.values():
            entry.expires += seconds

    def _expire(self, entry: Entry) -> None:
        host_id = entry.server.host_id
        supervised = entry.placeholder and entry.server.placement != Placement.PLACEMENT_REMOTE
        self._leave(entry, "it stopped renewing its lease")
        if supervised:
            self.on_silent_host(host_id)

    # Inside.

    def _of_host(self, host_id: str) -> list[Entry]:
        """The supervised entries of a process."""
        return [
            e for e in self._entries.values() if e.placeholder and host_id and e.server.host_id == host_id
        ]

    def _add(self, server: Server, *, placeholder: bool) -> Entry:
        self._order += 1
        server.server_id = uuid4().hex[:16]
        entry = Entry(server, self._order, placeholder=placeholder)
        self._entries[server.server_id] = entry
        return entry

    def _leave(self, entry: Entry, why: str) -> None:
        if not entry.placeholder:
            self._remove(entry)
            return
        entry = self._reset(entry)
        entry.state, entry.condition = ServerState.SERVER_STATE_STARTING, why
        if entry.server.placement == Placement.PLACEMENT_REMOTE:
            entry.condition = f"{why}; waiting for it to register"
        self._publish(entry)

    def _reset(self, entry: Entry) -> Entry:
        """Replaces a registered entry by an empty placeholder under a new id.

        A new id, because connections and sticky choices that others hold are bound to the old one.
        """
        old = entry.server
        self._remove(entry)
        remote = old.placement == Placement.PLACEMENT_REMOTE
        server = Server(name=old.name, kind=old.kind, placement=old.placement, labels=old.labels)
        server.host_id = "" if remote else old.host_id
        server.restart_count = old.restart_count
        fresh = self._add(server, placeholder=True)
        fresh.order = entry.order
        fresh.drained = entry.drained
        return fresh

    def _remove(self, entry: Entry) -> None:
        del self._entries[entry.server.server_id]
        self._tell([], [entry.server.server_id])

    def _publish(self, entry: Entry, server: Server | None = None) -> None:
        """Makes the entry's present state its published message, and tells everybody if that is a change."""
        fresh = Server()
        fresh.CopyFrom(entry.server if server is None else server)
        state, fresh.condition = entry.effective()
        fresh.state = state  # type: ignore[assignment]
        if fresh != entry.server:
            entry.server = fresh
            self._tell([fresh], [])

    def _shown(self, entry: Entry) -> Server:
        """A copy with the lease's end, which changes with every renewal and is no change by itself."""
        shown = Server()
        shown.CopyFrom(entry.server)
        if entry.registered:
            left = entry.expires - self._clock()
            shown.lease_expire_time.FromNanoseconds(int((self._wall() + left) * 1e9))
        return shown

    def _tell(self, servers: list[Server], removed_ids: list[str]) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener(servers, removed_ids)
        for watcher in self._watchers:
            watcher.put(servers, removed_ids)

"""Which processes a configuration needs: the pool for shared servers, one for each replica of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gymapi.v1.registry_service_pb2 import Placement, ServerKind
from gymd.config import ServerSpec
from gymd.daemon.policy import IMPLEMENTATION as TRAINER_POLICY
from gymd.venvs import Requirements, requirements_met, requirements_of

__all__ = ["KINDS", "HostPlan", "Plan", "make_plan", "peer_labels"]

KINDS = {
    "model": ServerKind.SERVER_KIND_MODEL,
    "agent": ServerKind.SERVER_KIND_AGENT,
    "resources": ServerKind.SERVER_KIND_RESOURCES,
}
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class HostPlan:
    """One process to run."""

    name: str
    """What its host_id starts with."""
    placement: int
    servers: tuple[ServerSpec, ...]
    listen: tuple[str, ...]
    requirements: Requirements | None = None
    """What its virtual environment holds; None: it runs in the daemon's own."""

    def without(self, names: set[str]) -> HostPlan:
        """The same process without some of its servers."""
        return replace(self, servers=tuple(server for server in self.servers if server.name not in names))

    def blocks(self) -> list[dict[str, Any]]:
        """Its servers as the host process wants them."""
        return [
            {
                "name": server.name,
                "kind": server.kind,
                "implementation": server.implementation,
                "entrypoint": server.entrypoint or "",
                "config": server.config,
            }
            for server in self.servers
        ]


@dataclass(frozen=True)
class Plan:
    """All processes, and the servers that need none."""

    hosts: list[HostPlan] = field(default_factory=list)
    remote: list[ServerSpec] = field(default_factory=list)
    policies: list[ServerSpec] = field(default_factory=list)
    """The servers that are the daemon itself: they ask the trainers."""


def peer_labels(server: ServerSpec) -> dict[str, str]:
    """The peers of an agent, under the labels with which it will tell them itself once it has registered."""
    if server.kind != "agent":
        return {}
    peers = {key: server.config.get(key) for key in ("resources_server", "model_server")}
    return {
        key: peer["name"]
        for key, peer in peers.items()
        if isinstance(peer, dict) and isinstance(peer.get("name"), str)
    }


def make_plan(servers: Sequence[ServerSpec], host_count: int, sockets: Path | None = None) -> Plan:
    """Places servers on processes.

    Every process of the pool runs every `shared` server, so that a rollout never leaves its process; a server
    whose `replicas` the user set runs in so many of them only. `process` and `venv` servers get a process for
    each replica. A server whose placement nobody chose gets an environment of its own if it needs packages
    that the daemon's lacks. Processes listen on free loopback ports, or on sockets in the folder `sockets`.
    """
    plan = Plan()
    shared: list[ServerSpec] = []
    for server in servers:
        if server.kind == "model" and server.implementation == TRAINER_POLICY and not server.entrypoint:
            plan.policies.append(server)
            continue
        placement = _placement(server)
        if placement == "remote":
            plan.remote.append(server)
        elif placement == "shared":
            shared.append(server)
        else:
            plan.hosts.extend(_own_hosts(server, placement))
    plan.hosts[:0] = _pool(shared, host_count)
    if sockets is not None:
        plan.hosts[:] = [_on_socket(host, sockets, number) for number, host in enumerate(plan.hosts)]
    return plan


def _on_socket(host: HostPlan, folder: Path, number: int) -> HostPlan:
    """The same process on a socket of its own in place of a free port."""
    # Paths of sockets have some 100 characters. Names that begin alike are told apart by their number.
    address = f"unix:{folder}/{number}-{host.name[:30]}.sock"
    return replace(host, listen=tuple(address if one.endswith(":0") else one for one in host.listen))


def _placement(server: ServerSpec) -> str:
    if "placement" in server.model_fields_set or server.placement != "shared":
        return server.placement
    needs = requirements_of(server)
    return "venv" if needs is not None and not requirements_met(needs) else "shared"


def _pool(servers: list[ServerSpec], host_count: int) -> list[HostPlan]:
    if not servers:
        return []
    wanted = {server.name: _explicit_replicas(server) for server in servers}
    size = max([host_count, *(count for count in wanted.values() if count)])
    hosts = []
    for index in range(size):
        here = [server for server in servers if not (count := wanted[server.name]) or index < count]
        # A fixed port can be had once, so the first process takes it.
        fixed = [_listen(server) for server in here if server.port and index == 0]
        if here:
            listen = (f"{LOOPBACK}:0", *fixed)
            hosts.append(HostPlan(f"pool-{index}", Placement.PLACEMENT_SHARED, tuple(here), listen))
    return hosts


def _explicit_replicas(server: ServerSpec) -> int:
    return server.replicas if "replicas" in server.model_fields_set else 0


def _own_hosts(server: ServerSpec, placement: str) -> list[HostPlan]:
    kind = Placement.PLACEMENT_PROCESS
    requirements = None
    if placement == "venv":
        kind = Placement.PLACEMENT_VENV
        requirements = requirements_of(server) or Requirements("", "")
    return [
        HostPlan(
            f"{server.name}-{index}",
            kind,
            (server,),
            (_listen(server),) if index == 0 else (f"{server.host or LOOPBACK}:0",),
            requirements,
        )
        for index in range(server.replicas)
    ]


def _listen(server: ServerSpec) -> str:
    return f"{server.host or LOOPBACK}:{server.port or 0}"

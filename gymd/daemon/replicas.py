"""The agents' replicas as the scheduler sees them: how busy each is, and whether it can be trusted now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymapi.v1.registry_service_pb2 import Server, ServerState

if TYPE_CHECKING:
    from gymd.daemon.lanes import Lane

__all__ = ["Agent", "Replica"]

PENALTY_MIN_S = 0.5
PENALTY_MAX_S = 15.0
"""A replica that cannot be reached is left alone for a while, longer each time; then one rollout tries it."""


class Replica:
    """One replica of an agent."""

    __slots__ = ("failures", "outstanding", "resume", "server")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.outstanding = 0
        self.failures = 0
        self.resume = 0.0

    def free(self, now: float) -> bool:
        """Whether it can be given one more rollout."""
        server = self.server
        if server.state != ServerState.SERVER_STATE_READY:
            return False
        if self.failures:
            # On probation: one rollout at a time until one of them works.
            return now >= self.resume and not self.outstanding
        limit = server.capabilities.max_concurrency
        return not limit or self.outstanding < limit

    def penalise(self, now: float) -> None:
        """Notes that it could not be reached."""
        if now < self.resume:
            return  # the same outage, seen by another rollout
        self.failures += 1
        self.resume = now + min(PENALTY_MIN_S * 2 ** (self.failures - 1), PENALTY_MAX_S)


class Agent:
    """An agent by name: its replicas, and the lanes whose rollouts wait for one of them."""

    __slots__ = ("blocked", "gone_since", "name", "replicas")

    def __init__(self, name: str) -> None:
        self.name = name
        self.replicas: dict[str, Replica] = {}
        self.blocked: list[Lane] = []
        self.gone_since: float | None = None

    def pick(self, now: float, avoid: Replica | None) -> Replica | None:
        """The replica with the fewest rollouts that can take one more; `avoid` only if there is no other."""
        best = None
        for replica in self.replicas.values():
            if replica is not avoid and replica.free(now):
                if not replica.outstanding:
                    return replica
                if best is None or replica.outstanding < best.outstanding:
                    best = replica
        if best is None and avoid is not None and avoid.server.server_id in self.replicas and avoid.free(now):
            return avoid
        return best

    def resumes(self, now: float) -> float | None:
        """When the first replica on probation may be tried, or None."""
        times = [
            replica.resume for replica in self.replicas.values() if replica.failures and replica.resume > now
        ]
        return min(times, default=None)

    def hopeless(self) -> str:
        """Why waiting does not help: every replica was given up or drains. Empty while it may."""
        if not self.replicas:
            return ""
        states = {replica.server.state for replica in self.replicas.values()}
        if not states <= {ServerState.SERVER_STATE_FAILED, ServerState.SERVER_STATE_DRAINING}:
            return ""
        return self.conditions() or "no replica takes new work"

    def conditions(self) -> str:
        """What the replicas say of themselves."""
        texts = {replica.server.condition for replica in self.replicas.values() if replica.server.condition}
        return "; ".join(sorted(texts))

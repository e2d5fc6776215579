"""One entry of the registry: what a replica said, what the supervisor says, and what follows for others."""

from __future__ import annotations

from gymapi.v1.registry_service_pb2 import Server, ServerKind, ServerState

__all__ = ["NAME_CHARACTERS", "Entry", "kind_name"]

STARTING = ServerState.SERVER_STATE_STARTING
READY = ServerState.SERVER_STATE_READY
UNHEALTHY = ServerState.SERVER_STATE_UNHEALTHY
DRAINING = ServerState.SERVER_STATE_DRAINING
FAILED = ServerState.SERVER_STATE_FAILED

NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def kind_name(kind: int) -> str:
    """`model`, `agent` or `resources`; the number as text for anything else."""
    if kind not in ServerKind.values():
        return str(kind)
    return ServerKind.Name(kind).removeprefix("SERVER_KIND_").lower()


class Entry:
    """One replica: what it said, what the supervisor says, and when its lease runs out."""

    __slots__ = (
        "condition",
        "drained",
        "expired",
        "expires",
        "order",
        "placeholder",
        "ready",
        "registered",
        "server",
        "state",
        "ttl",
    )

    def __init__(self, server: Server, order: int, *, placeholder: bool) -> None:
        self.server = server
        self.order = order
        self.placeholder = placeholder
        # What the supervisor says while nothing is registered.
        self.state: int = STARTING
        # Why, in the words of the supervisor (not registered) or of the server itself (registered).
        self.condition = ""
        self.registered = False
        self.ready = True
        self.drained = False
        self.expired = False
        self.ttl = 0.0
        self.expires = 0.0

    def effective(self) -> tuple[int, str]:
        """The state and condition to show."""
        if not self.registered:
            return (DRAINING if self.drained and self.state == STARTING else self.state), self.condition
        if self.expired:
            return UNHEALTHY, f"it stopped renewing its lease of {self.ttl:g} s"
        if self.drained:
            return DRAINING, self.condition or "drained on request"
        if not self.ready:
            return UNHEALTHY, self.condition or "the server says that it is not ready"
        return READY, self.condition

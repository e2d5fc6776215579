"""One entry of the registry: what a replica said, what the supervisor says, and what follows for others."""

from __future__ import annotations

from gymapi.v1.registry_service_pb2 import RegisterServerRequest, Server, ServerKind, ServerState
from gymd.errors import error

__all__ = ["Entry", "check_registration", "check_renewal", "kind_name"]

STARTING = ServerState.SERVER_STATE_STARTING
READY = ServerState.SERVER_STATE_READY
UNHEALTHY = ServerState.SERVER_STATE_UNHEALTHY
DRAINING = ServerState.SERVER_STATE_DRAINING
FAILED = ServerState.SERVER_STATE_FAILED

MAX_NAME_LENGTH = 128
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def kind_name(kind: int) -> str:
    """`model`, `agent` or `resources`; the number as text for anything else."""
    if kind not in ServerKind.values():
        return str(kind)
    return ServerKind.Name(kind).removeprefix("SERVER_KIND_").lower()


def check_registration(request: RegisterServerRequest) -> None:
    """Checks what every first registration must hold; raises InvalidRequest."""
    name = request.name
    if not name or len(name) > MAX_NAME_LENGTH or not NAME_CHARACTERS.issuperset(name):
        text = f"name {name[:200]!r} must be 1 to {MAX_NAME_LENGTH} letters, digits, '_', '-' or '.'"
        raise error("INVALID_REQUEST", text, field="name", name=name[:200])
    if not ServerKind.SERVER_KIND_MODEL <= request.kind <= ServerKind.SERVER_KIND_RESOURCES:
        raise error("INVALID_REQUEST", f"kind of server {name!r} must be set", field="kind", server=name)
    if ":" not in request.address:  # gRPC would take a bare name, and dial port 443
        text = f"address of server {name!r} must be set: host:port or unix:/path"
        raise error("INVALID_REQUEST", text, field="address", server=name)


def check_renewal(request: RegisterServerRequest, server: Server) -> None:
    """Checks that a renewal is for the same server; raises InvalidRequest."""
    if request.name not in ("", server.name) or request.kind not in (0, server.kind):
        text = f"server {server.name!r} cannot change its name or kind in a renewal; register anew"
        raise error("INVALID_REQUEST", text, field="name", server=server.name)


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

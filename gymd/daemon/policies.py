"""The trainer_policy servers of a configuration: they live in the daemon, and its registry shows them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pydantic

from gymapi.v1.registry_service_pb2 import RegisterServerRequest, ServerKind
from gymd import __version__
from gymd.config import ServerSpec
from gymd.daemon.policy import FindDesk, TrainerPolicy
from gymd.daemon.registry import MAX_LEASE_TTL_S, Registry
from gymd.errors import NotFound, error
from gymd.prompts import PolicySettings

if TYPE_CHECKING:
    from gymd.mesh import LocalServers

__all__ = ["Policies"]


class Policies:
    """Serves and registers them.

    Args:
        specs: their blocks of the configuration.
        registry: where hosts find them.
        find: the desk of a rollout; see find_desk.

    Raises:
        InvalidRequest: a setting is wrong; the text names its key.
    """

    def __init__(self, specs: Iterable[ServerSpec], registry: Registry, find: FindDesk) -> None:
        self._servers = {spec.name: TrainerPolicy(spec.name, _settings(spec), find) for spec in specs}
        self._registry = registry
        self._requests: list[RegisterServerRequest] = []

    async def load(self) -> None:
        """Reads the tokenizers of those that have one.

        Raises:
            InvalidRequest: one cannot be used; the text says why.
        """
        for server in self._servers.values():
            await server.load()

    def add_to(self, local: LocalServers) -> None:
        """Makes them callable in this process, and so over its port."""
        for name, server in self._servers.items():
            local.add(name, "model", server)

    def register(self, address: str, host_id: str, message_bytes: int) -> None:
        """Shows them to the hosts, which call them at `address`."""
        for name in self._servers:
            request = RegisterServerRequest(
                name=name,
                kind=ServerKind.SERVER_KIND_MODEL,
                address=address,
                host_id=host_id,
                pid=os.getpid(),
            )
            request.capabilities.api_version = "v1"
            request.capabilities.link = True
            request.capabilities.max_message_bytes = message_bytes
            request.capabilities.implementation = f"gymd {__version__}"
            request.lease_ttl.FromNanoseconds(int(MAX_LEASE_TTL_S * 1e9))
            self._requests.append(request)
        self.renew()

    def renew(self) -> None:
        """Keeps the leases: they live as long as the daemon."""
        for request in self._requests:
            try:
                request.server_id = self._registry.register(request).server_id
            except NotFound:  # somebody deregistered it
                request.server_id = ""


def _settings(spec: ServerSpec) -> PolicySettings:
    try:
        return PolicySettings.model_validate(spec.config)
    except pydantic.ValidationError as failure:
        problems = failure.errors(include_url=False, include_input=False)
        details = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems)
        text = f"the configuration of {spec.config_key} is wrong: {details}"
        raise error("INVALID_REQUEST", text, server=spec.name) from None

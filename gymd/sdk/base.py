"""What all servers share: a name, a validated configuration, the mesh, a start and a stop."""

from __future__ import annotations

import difflib
import logging
from typing import Any, ClassVar, Literal

import pydantic

from gymd.mesh import Mesh

__all__ = ["COMMON_KEYS", "ModelRef", "ResourcesRef", "Server", "ServerConfig", "explain"]

COMMON_KEYS = frozenset(
    {
        # Read by gymd itself, not by the server.
        "entrypoint",
        "host",
        "port",
        "placement",
        "replicas",
        "num_workers",
        "datasets",
        # Facts about the environment, in the same block as in NeMo Gym; `gymctl env list` shows them.
        "domain",
        "verified",
        "verified_url",
        "provides",
        "description",
        "value",
        "reward",
    }
)
"""Keys that any server's block of the YAML may hold; not its own configuration, unless that declares them."""


class ServerConfig(pydantic.BaseModel):
    """Base of every server's configuration; an unknown key is an error (see `explain`)."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parse(cls, block: dict[str, Any]) -> ServerConfig:
        """Validates a server's block of the YAML; raises pydantic.ValidationError."""
        common = COMMON_KEYS - cls.model_fields.keys()
        return cls.model_validate({key: value for key, value in block.items() if key not in common})


def explain(config: type[ServerConfig], failure: pydantic.ValidationError) -> list[tuple[str, str]]:
    """What is wrong in a server's block: each wrong key (dotted), and why."""
    found = []
    for problem in failure.errors(include_url=False, include_context=False, include_input=False):
        key, message = ".".join(map(str, problem["loc"])), problem["msg"]
        if problem["type"] == "extra_forbidden":
            known = list(config.model_fields)
            near = difflib.get_close_matches(key, [*known, *sorted(COMMON_KEYS)], n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
            message = f"no such key; {hint}"
        found.append((key, message))
    return found


class ModelRef(pydantic.BaseModel):
    """Names a model server, as `{type: responses_api_models, name: policy_model}`."""

    type: Literal["responses_api_models"] = "responses_api_models"
    name: str


class ResourcesRef(pydantic.BaseModel):
    """Names a resources server, as `{type: resources_servers, name: mcqa}`."""

    type: Literal["resources_servers"] = "resources_servers"
    name: str


class Server:
    """Base of every server.

    Attributes:
        name: the instance name, under which peers call it.
        config: the validated configuration, of type `Config`.
        mesh: calls other servers.
    """

    kind: ClassVar[Literal["model", "agent", "resources"]]
    Config: ClassVar[type[ServerConfig]] = ServerConfig

    def __init__(self, name: str, config: Any, mesh: Mesh) -> None:
        self.name = name
        self.config = config
        self.mesh = mesh
        self.log = logging.getLogger(f"gymd.server.{name}")

    async def start(self) -> None:
        """Called once before the first call; what it raises is shown to the user as the reason."""

    async def stop(self) -> None:
        """Called once after the last call."""

    def labels(self) -> dict[str, str]:
        """Facts for people, shown by `gymctl servers describe`."""
        return {}

    def fixed_labels(self) -> dict[str, str]:
        """Facts that clients rely on; told beside `labels`, whatever an author puts there."""
        return {}

    def servicer(self) -> Any:
        """The wire shell: an object with the methods of the kind's service."""
        raise NotImplementedError

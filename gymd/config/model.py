"""What a loaded configuration looks like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gymd.config.builtin import modern_names
from gymd.config.datasets import DatasetConfig
from gymd.config.problems import Origins, dotted, suggest
from gymd.config.secrets import mask
from gymd.config.settings import MAX_PORT, DaemonSettings

__all__ = ["KIND_OF_TYPE", "TYPE_OF_KIND", "GymConfig", "Kind", "Placement", "ServerSpec", "find_name"]

Kind = Literal["model", "agent", "resources"]
Placement = Literal["shared", "process", "venv", "remote"]

KIND_OF_TYPE: Mapping[str, Kind] = {
    "responses_api_models": "model",
    "resources_servers": "resources",
    "responses_api_agents": "agent",
}
"""NeMo Gym's three server types, and what gymd calls them."""

TYPE_OF_KIND: Mapping[Kind, str] = {kind: type_ for type_, kind in KIND_OF_TYPE.items()}


class ServerSpec(BaseModel):
    """One server of the mesh, as configured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The instance name, unique in the mesh."""
    kind: Kind
    implementation: str
    """Folder name of the implementation, such as `openai_model`; today's name where an old one was given."""
    entrypoint: str | None = None
    """`package.module:Class` or `/path/file.py:Class` of a user's own server; None for a built-in one."""
    placement: Placement = "shared"
    """Where it runs. `"placement" in spec.model_fields_set` tells whether the user chose it."""
    replicas: int = Field(default=1, ge=1)
    host: str | None = None
    port: int | None = Field(default=None, ge=0, le=MAX_PORT)
    """None: any free port."""
    # May hold secrets, therefore never part of a repr.
    config: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Every other key of the block, resolved: the server's own configuration."""
    datasets: list[DatasetConfig] = Field(default_factory=list, repr=False)
    """The blocks under `datasets`, which name the tasks of an agent."""
    source_file: str = ""
    """The file that named the implementation."""

    @property
    def config_key(self) -> str:
        """The dotted key of the server's block in the configuration."""
        return dotted((self.name, TYPE_OF_KIND[self.kind], self.implementation))


@dataclass(frozen=True)
class GymConfig:
    """A configuration that passed every check."""

    servers: list[ServerSpec]
    daemon: DaemonSettings
    raw: dict[str, Any] = field(repr=False)
    """Everything merged and resolved, as plain Python values. Holds secrets: show `masked()` instead."""
    files: list[Path]
    """The files read, lowest precedence first, env.yaml last."""
    origins: Origins = field(repr=False, compare=False)
    """Which source set each key."""

    def server(self, name: str) -> ServerSpec:
        """The server of a name; names from before a rename find their successor.

        Raises:
            KeyError: if there is none, with the closest names.
        """
        servers = {server.name: server for server in self.servers}
        found = find_name(name, servers)
        if found is None:
            raise KeyError(f"no server is named {name!r}. {suggest(name, servers)}")
        return servers[found]

    def masked(self) -> dict[str, Any]:
        """The whole configuration with `***` for every secret, fit for a dump."""
        masked: dict[str, Any] = mask(self.raw)
        return masked


def find_name(name: str, defined: Mapping[str, Any]) -> str | None:
    """The defined instance that a name means: itself, or its successor under today's names."""
    return next((candidate for candidate in (name, *modern_names(name)) if candidate in defined), None)

"""An environment as a folder: where it is, and what its config.yaml says about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymctl.collect.plan import nearest
from gymctl.errors import CliError
from gymd.config import builtin_folder, builtin_names
from gymd.config.builtin import modern_type_name

__all__ = [
    "CONFIG_FILE",
    "EXAMPLES",
    "EXAMPLE_ANSWERS",
    "EXAMPLE_METRICS",
    "EXAMPLE_ROLLOUTS",
    "Environment",
    "builtin_folders",
    "find_environment",
    "read_environment",
]

CONFIG_FILE = "config.yaml"
EXAMPLES = "data/example.jsonl"
EXAMPLE_ANSWERS = "data/example_answers.yaml"
EXAMPLE_METRICS = "data/example_metrics.json"
EXAMPLE_ROLLOUTS = "data/example_rollouts.jsonl"

_RESOURCES, _AGENTS, _MODELS = "resources_servers", "responses_api_agents", "responses_api_models"


@dataclass(frozen=True)
class Environment:
    """A folder with a resources server, its agent and its data; or with an agent server alone."""

    folder: Path
    instance: str
    """Name of the resources server, or of the agent server."""
    implementation: str
    block: Mapping[str, Any] = field(repr=False)
    """The server's block of config.yaml as it stands there."""
    agent: str = ""
    """Name of the agent that plays in it; "" if config.yaml has none."""
    datasets: Sequence[Mapping[str, Any]] = ()
    """The agent's dataset blocks."""
    kind: str = "resources"
    """What kind of server it is: `resources` or `agent`."""

    @property
    def is_builtin(self) -> bool:
        """Whether it is found by its name alone."""
        return builtin_folder(self.kind, self.folder.name) == self.folder

    @property
    def name(self) -> str:
        """How people call it: the folder's name."""
        return self.folder.name

    @property
    def argument(self) -> str:
        """What names it on gymctl's command line."""
        if self.is_builtin:
            return self.name
        here = Path.cwd()
        return str(self.folder.relative_to(here)) if self.folder.is_relative_to(here) else str(self.folder)

    @property
    def config(self) -> Path:
        """Its configuration."""
        return self.folder / CONFIG_FILE

    @property
    def entrypoint(self) -> str:
        """`path/file.py:Class` or `package.module:Class`; "" for a built-in one."""
        file, colon, cls = str(self.block.get("entrypoint") or "").rpartition(":")
        if not colon:
            return ""
        return f"{self.folder / file}:{cls}" if file.endswith(".py") else f"{file}:{cls}"

    @property
    def judges(self) -> list[str]:
        """Names of the model servers that its verifier or its tools ask."""
        found = dict.fromkeys(name for type_, name in _references(self.block) if type_ == _MODELS)
        return list(found)

    def path(self, name: str) -> Path:
        """A file of it."""
        return self.folder / name


def builtin_folders(*, agents: bool = False) -> list[Path]:
    """Those of all environments that ship with gymd or with an installed distribution, by name.

    Args:
        agents: those of agent servers, too.
    """
    kinds = ("resources", "agent") if agents else ("resources",)
    found = [builtin_folder(kind, name) for kind in kinds for name in builtin_names(kind)]
    return [folder for folder in found if folder is not None]


def find_environment(text: str, *, agents: bool = False) -> Environment:
    """The environment that a name or a path means.

    Args:
        agents: an agent server will do as well.

    Raises:
        CliError: there is none; the text says what there is.
    """
    name = modern_type_name(text)
    folder = builtin_folder("resources", name) or _folder_of(Path(text).expanduser())
    if folder is None:
        folder = builtin_folder("agent", name)
    if folder is None:
        known = builtin_names("resources") + (builtin_names("agent") if agents else [])
        hint = f"{nearest(name, known)} For one of your own give its folder, the one with {CONFIG_FILE}."
        raise CliError(f"no environment {text!r}: neither a built-in one nor a folder", hint)
    return read_environment(folder, agents=agents)


def _folder_of(path: Path) -> Path | None:
    if path.name == CONFIG_FILE:
        path = path.parent
    return path.resolve() if path.is_dir() else None


def read_environment(folder: Path, *, agents: bool = False) -> Environment:
    """Reads the config.yaml of a folder.

    Args:
        agents: it may describe an agent server alone.

    Raises:
        CliError: there is none, or it describes no resources server.
    """
    import yaml

    path = folder / CONFIG_FILE
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f"Give the folder that holds {CONFIG_FILE}; `gymctl env init NAME` makes one."
        raise CliError(f"{folder} is no environment: it has no {CONFIG_FILE}", hint) from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise CliError(f"{path} is no YAML: {' '.join(str(problem).split())}", "Correct the file.") from None
    servers = list(_servers(tree, _RESOURCES))
    # The one that is called like the folder; other servers may stand beside it.
    servers.sort(key=lambda server: folder.name not in server[:2])
    if not servers and agents:
        for name, implementation, block in _servers(tree, _AGENTS):
            return Environment(folder, name, implementation, block, kind="agent")
    if not servers:
        hint = f"Write NAME: {{{_RESOURCES}: {{NAME: {{...}}}}}}; see the built-in environments."
        raise CliError(f"{path} describes no resources server", hint)
    instance, implementation, block = servers[0]
    players = [
        (name, agent)
        for name, _, agent in _servers(tree, _AGENTS)
        if (_RESOURCES, instance) in _references(agent)
    ]
    # Several agents may play in it: the one with the data comes first.
    players.sort(key=lambda agent: not agent[1].get("datasets"))
    agent, agent_block = players[0] if players else ("", {})
    datasets = [one for one in agent_block.get("datasets") or () if isinstance(one, dict)]
    return Environment(folder, instance, implementation, block, agent, datasets)


def _servers(tree: Any, type_: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, implementation and block of every server of a type."""
    for name, instance in tree.items() if isinstance(tree, dict) else ():
        blocks = instance.get(type_) if isinstance(instance, dict) else None
        for implementation, block in blocks.items() if isinstance(blocks, dict) else ():
            yield str(name), str(implementation), block if isinstance(block, dict) else {}


def _references(node: Any) -> list[tuple[str, str]]:
    """Type and name of every server that a block refers to, in their order."""
    if isinstance(node, list):
        return [found for part in node for found in _references(part)]
    if not isinstance(node, dict):
        return []
    if isinstance(node.get("type"), str) and isinstance(node.get("name"), str):
        return [(node["type"], node["name"])]
    return [found for part in node.values() for found in _references(part)]

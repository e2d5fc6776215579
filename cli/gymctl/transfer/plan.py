"""Which datasets of a configuration have to be fetched, where from and where to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gymctl.errors import CliError
from gymd.config import DatasetConfig, GitlabSource, GymConfig, HuggingfaceSource

__all__ = ["HUB", "REGISTRY", "STORAGES", "Wanted", "choose_wanted", "repo_name"]

HUB, REGISTRY = "huggingface", "mlflow"

STORAGES = {"huggingface": HUB, "hf": HUB, "mlflow": REGISTRY, "gitlab": REGISTRY}
"""What people call the stores, and which one that is."""

_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Wanted:
    """A dataset, and the place that it is to be fetched from."""

    agent: str
    name: str
    type: str
    path: Path
    """Where the file belongs."""
    is_there: bool
    source: GitlabSource | HuggingfaceSource | None
    """None: the configuration names none."""

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.agent}/{self.name}" if self.agent else self.name

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        if isinstance(self.source, HuggingfaceSource):
            return f"{self.source.repo_id}: {self.source.artifact_fpath or f'the {self.type} split'}"
        if isinstance(self.source, GitlabSource):
            return f"{self.source.dataset_name} {self.source.version}: {self.source.artifact_fpath}"
        return "no source"


def choose_wanted(
    config: GymConfig, types: Sequence[str], names: Sequence[str], storage: str | None
) -> list[Wanted]:
    """The datasets of a configuration, those without a source included, one for each file.

    Args:
        types: only of these types; empty: of all.
        names: only these (`name` or `agent/name`); empty: all.
        storage: the store to prefer where a dataset names two.

    Raises:
        CliError: there is none, a name is none of them, or two want to be the same file.
    """
    listed = [(server.name, dataset) for server in config.servers for dataset in server.datasets]
    labels = [f"{agent}/{dataset.name} ({dataset.type})" for agent, dataset in listed]
    known = {name for agent, dataset in listed for name in (dataset.name, f"{agent}/{dataset.name}")}
    if unknown := [name for name in names if name not in known]:
        raise CliError(f"the configuration has no dataset {', '.join(unknown)}", "It has these:", labels)
    found: dict[Path, Wanted] = {}
    for agent, dataset in listed:
        if (types and dataset.type not in types) or (
            names and dataset.name not in names and f"{agent}/{dataset.name}" not in names
        ):
            continue
        wanted = _wanted(agent, dataset, storage)
        other = found.setdefault(wanted.path, wanted)
        if other.source != wanted.source and other.source and wanted.source:
            text = f"{other.label} and {wanted.label} are the same file {wanted.path}, from different sources"
            raise CliError(text, "Correct jsonl_fpath or source of one of them.")
        if other.source is None and wanted.source:
            found[wanted.path] = wanted
    if not found:
        hint = "List datasets in the agent's block: datasets: [{name: ..., type: ..., jsonl_fpath: ...}]."
        raise CliError("the configuration has no such dataset", hint, labels)
    return list(found.values())


def _wanted(agent: str, dataset: DatasetConfig, storage: str | None) -> Wanted:
    there = dataset.find()
    sources = sorted(dataset.sources, key=lambda source: STORAGES[source.type] != storage if storage else 0)
    return Wanted(
        agent=agent,
        name=dataset.name,
        type=dataset.type,
        # Where `gymctl data prepare` and `rollouts collect` look for it.
        path=there or Path.cwd() / Path(dataset.jsonl_fpath).expanduser(),
        is_there=there is not None,
        source=sources[0] if sources else None,
    )


def repo_name(organization: str, prefix: str, domain: str, name: str) -> str:
    """NeMo Gym's name of a dataset's repository: `organisation/prefix-domain-name`.

    Raises:
        CliError: the organisation is not set.
    """
    if not organization:
        raise CliError(
            "nothing says whose the repository is", "Set hf_organization in env.yaml, or name it with --repo."
        )
    parts = [_PLAIN.sub("-", part).strip("-.") for part in (prefix, domain.lower(), name)]
    return f"{organization}/{'-'.join(part for part in parts if part)}"

"""What is to be done: which datasets of a configuration, from which files, in which shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gymctl.errors import CliError
from gymd.config import DatasetConfig, GymConfig

__all__ = ["MODES", "Dataset", "choose_datasets", "find_files", "match_weights", "parse_weights", "share_out"]

MODES: Mapping[str, tuple[str, ...]] = {
    "train_preparation": ("train", "validation", "benchmark"),
    "example_validation": ("example",),
}
"""The types of datasets that each mode prepares."""


@dataclass(frozen=True)
class Dataset:
    """One dataset of one agent, with its file."""

    agent: str
    config: DatasetConfig
    path: Path
    metrics_path: Path
    """Where its metrics belong: beside the file."""

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.agent}/{self.config.name}"


def choose_datasets(config: GymConfig, mode: str) -> list[tuple[str, DatasetConfig]]:
    """The datasets of a mode, each with its agent, in the order of the configuration.

    Raises:
        CliError: there is none; says which there are.
    """
    listed = [(server, dataset) for server in config.servers for dataset in server.datasets]
    found = [
        (server.name, dataset)
        for server, dataset in listed
        if server.kind == "agent" and dataset.type in MODES[mode]
    ]
    if not found:
        others = [f"{server.name}/{dataset.name} ({dataset.type})" for server, dataset in listed]
        hint = "List datasets in the agent's block: datasets: [{name: ..., type: ..., jsonl_fpath: ...}]."
        if any(server.kind == "agent" for server, _ in listed):
            other = next(name for name in MODES if name != mode)
            hint = f"For these, run it with --mode {other}."
        raise CliError(f"the configuration has no dataset of type {' or '.join(MODES[mode])}", hint, others)
    return found


def find_files(chosen: Sequence[tuple[str, DatasetConfig]]) -> list[Dataset]:
    """The datasets with their files.

    Raises:
        CliError: files are missing, with all of them.
    """
    paths = [dataset.find() for _, dataset in chosen]
    missing = [one for one, path in zip(chosen, paths, strict=True) if path is None]
    if missing:
        details = [_describe_missing(agent, dataset) for agent, dataset in missing]
        hint = "Check jsonl_fpath: it is relative to the working directory, or to the file that says it."
        if any(dataset.sources for _, dataset in missing):
            hint = "Fetch those that have a source: gymctl data download -c FILE"
        count = "1 dataset is" if len(missing) == 1 else f"{len(missing)} datasets are"
        raise CliError(f"{count} missing; nothing was read", hint, details)
    found = [(agent, dataset, path) for (agent, dataset), path in zip(chosen, paths, strict=True) if path]
    return [
        Dataset(agent, dataset, path, _metrics_path(agent, dataset, path, found))
        for agent, dataset, path in found
    ]


def _describe_missing(agent: str, dataset: DatasetConfig) -> str:
    sources = [
        f"gitlab {source.dataset_name} {source.version}"
        if source.type == "gitlab"
        else f"huggingface {source.repo_id}"
        for source in dataset.sources
    ]
    origin = f"; source: {', '.join(sources)}" if sources else "; it has no source"
    return f"{dataset.jsonl_fpath}: {dataset.type} dataset {agent}/{dataset.name}{origin}"


def _metrics_path(
    agent: str, dataset: DatasetConfig, path: Path, others: Sequence[tuple[str, DatasetConfig, Path]]
) -> Path:
    """`<file>_metrics.json`; with more in the name if other datasets use other rows of the same file."""
    rivals = [(a, d) for a, d, p in others if p.samefile(path) and _rows_of(d) != _rows_of(dataset)]
    name = path.stem
    if rivals:
        name += f"_{dataset.name}"
        if any(d.name == dataset.name for _, d in rivals):
            name += f"_{agent}"
    return path.with_name(f"{name}_metrics.json")


def _rows_of(dataset: DatasetConfig) -> tuple[int, int | None, int]:
    return dataset.start_idx, dataset.end_idx, dataset.num_repeats


# ---- blending


def parse_weights(settings: Sequence[str]) -> dict[str, Fraction]:
    """Weights by name, from `name=weight` texts.

    Raises:
        CliError: one is malformed, or none is above 0.
    """
    weights: dict[str, Fraction] = {}
    for setting in settings:
        name, sign, number = setting.rpartition("=")
        try:
            weight = Fraction(number)
        except (ValueError, ZeroDivisionError):
            weight = Fraction(-1)
        if not sign or not name or weight < 0:
            raise CliError(f"--blend {setting} is no name=weight", "Write --blend math=2 --blend code=0.5.")
        if name in weights:
            raise CliError(f"--blend gives {name} two weights", "Give each dataset one weight.")
        weights[name] = weight
    if weights and not any(weights.values()):
        raise CliError("--blend gives every dataset the weight 0", "Give at least one a weight above 0.")
    return weights


def match_weights(weights: Mapping[str, Fraction], datasets: Sequence[Dataset]) -> list[Fraction]:
    """The weight of each dataset, which may be named by its name, its agent or agent/name.

    Raises:
        CliError: a name fits none or several, or a dataset has no weight.
    """
    found: list[Fraction | None] = [None] * len(datasets)
    labels = ", ".join(dataset.label for dataset in datasets)
    for name, weight in weights.items():
        fits = [at for at, one in enumerate(datasets) if name in (one.config.name, one.agent, one.label)]
        if len(fits) != 1 or found[fits[0]] is not None:
            what = (
                "names none of the train datasets" if not fits else "names a train dataset that is not alone"
            )
            raise CliError(f"--blend {name} {what}", f"Name one of: {labels}.")
        found[fits[0]] = weight
    without = [one.label for one, weight in zip(datasets, found, strict=True) if weight is None]
    if without:
        hint = "Give each train dataset a weight; 0 leaves it out."
        raise CliError(f"--blend gives no weight for {', '.join(without)}", hint)
    return [weight for weight in found if weight is not None]


def share_out(weights: Sequence[Fraction], rows: Sequence[int]) -> list[int]:
    """How many rows of each dataset are in the largest blend that keeps the weights and uses no row twice.

    Exact: the shares differ from the weights by less than one row each.
    """
    whole = sum(weights, Fraction())
    total = min(int(have * whole / weight) for weight, have in zip(weights, rows, strict=True) if weight > 0)
    exact = [total * weight / whole for weight in weights]
    counts = [int(share) for share in exact]
    # What is left after rounding down goes to those that lost most by it.
    order = sorted(range(len(counts)), key=lambda at: (counts[at] - exact[at], at))
    for at in order[: total - sum(counts)]:
        counts[at] += 1
    return counts

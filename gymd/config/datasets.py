"""The dataset blocks of an agent: where its tasks are, what they are for, their licence and their source."""

import difflib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from gymd.config.builtin import builtin_path
from gymd.config.keys import POLICY_KEYS
from gymd.config.problems import Key, Report, suggest

__all__ = [
    "DATASETS_KEY",
    "LICENSES",
    "DatasetConfig",
    "DatasetType",
    "GitlabSource",
    "HuggingfaceSource",
    "concerns_datasets",
    "find_data",
    "load_datasets",
]

DatasetType = Literal["train", "validation", "example", "benchmark"]
License = Literal[
    "Apache 2.0",
    "MIT",
    "GNU General Public License v3.0",
    "Creative Commons Attribution 4.0 International",
    "Creative Commons Attribution-ShareAlike 4.0 International",
    "NVIDIA Internal Use Only, Do Not Distribute",
    "TBD",
]

LICENSES: tuple[str, ...] = get_args(License)
"""NeMo Gym's names of licences."""

# The same licences as others write them.
_ALIASES: Mapping[str, str] = {
    "apache": "Apache 2.0",
    "apache-2": "Apache 2.0",
    "apache-2.0": "Apache 2.0",
    "apache-license-2.0": "Apache 2.0",
    "mit-license": "MIT",
    "gpl-3.0": "GNU General Public License v3.0",
    "gpl-3.0-only": "GNU General Public License v3.0",
    "gpl-3.0-or-later": "GNU General Public License v3.0",
    "gplv3": "GNU General Public License v3.0",
    "cc-by-4.0": "Creative Commons Attribution 4.0 International",
    "cc-by-sa-4.0": "Creative Commons Attribution-ShareAlike 4.0 International",
}

# What to do about a wrong or missing value.
_HINTS: Mapping[str, str] = {
    "type": f"Types: {', '.join(get_args(DatasetType))}.",
    "jsonl_fpath": "It is the path of the tasks, relative to the working directory or to this file.",
    "version": "Write three numbers in quotes, such as '0.0.1'.",
    "repo_id": "Write organisation/name.",
    "start_idx": "Rows are counted from 0.",
    "end_idx": "It is the first row that is not used any more; rows are counted from 0.",
    "num_repeats": "It is a whole number from 1.",
}

# A key this close to a known one is taken for a misspelling; others belong to later releases of NeMo Gym.
_MISSPELLING = 0.7
DATASETS_KEY = "datasets"
"""The key of a server's block that lists its datasets."""

# Instance, server type, implementation.
_BLOCK_DEPTH = 3
_SOURCE_TREE = ("servers", "gymservers")
_VERSION = r"^\d+\.\d+\.\d+$"


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class GitlabSource(_Block):
    """A dataset in a GitLab model registry, which speaks MLflow's protocol."""

    type: Literal["gitlab"] = "gitlab"
    dataset_name: str = Field(min_length=1)
    """Name of the registered model that stands for the dataset."""
    version: str = Field(pattern=_VERSION)
    """Three numbers, such as 0.0.1."""
    artifact_fpath: str = Field(min_length=1)
    """Path of the file among the version's artifacts."""


class HuggingfaceSource(_Block):
    """A dataset repository of Hugging Face."""

    type: Literal["huggingface"] = "huggingface"
    repo_id: str = Field(min_length=1)
    """`organisation/name`."""
    artifact_fpath: str | None = None
    """Path of the file in the repository. Absent: the split named like the dataset's type."""


_SOURCES: Mapping[str, type[_Block]] = {"gitlab": GitlabSource, "huggingface": HuggingfaceSource}


class DatasetConfig(_Block):
    """One dataset of an agent, with NeMo Gym's keys."""

    name: str = Field(min_length=1)
    type: DatasetType
    jsonl_fpath: str = Field(min_length=1)
    """The file with the tasks, one JSON object a line, as the configuration spells it; see `find_data`."""
    license: License | None = None
    """Required for train and validation."""
    start_idx: int = Field(default=0, ge=0)
    """The first row used, counted from 0."""
    end_idx: int | None = Field(default=None, ge=1)
    """The first row that is not used any more. Absent: all rows to the end."""
    num_repeats: int = Field(default=1, ge=1)
    """How often each row is written to the prepared file, one copy right after the other."""
    source: GitlabSource | HuggingfaceSource | None = Field(default=None, discriminator="type")
    """Where the file can be fetched."""
    gitlab_identifier: GitlabSource | None = None
    """The same in its older form."""
    huggingface_identifier: HuggingfaceSource | None = None
    """The same in its older form."""
    _folder: Path | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Where the configuration file lies that names `jsonl_fpath`; None: no file does."""
        return self._folder

    def find(self) -> Path | None:
        """The file with the tasks, or None if there is none; see `find_data`."""
        return find_data(self.jsonl_fpath, folder=self.folder)

    @property
    def sources(self) -> list[GitlabSource | HuggingfaceSource]:
        """Every place that the file can be fetched from, the one under `source` first."""
        places = (self.source, self.huggingface_identifier, self.gitlab_identifier)
        return list(dict.fromkeys(place for place in places if place is not None))


def find_data(jsonl_fpath: str, cwd: Path | None = None, folder: Path | None = None) -> Path | None:
    """The file that a `jsonl_fpath` names, or None if there is none.

    Relative paths are looked for in this order: from `cwd`, the working directory by default, as in NeMo Gym;
    from `folder`, that of the configuration file; among the built-in servers, under NeMo Gym's spelling
    (`resources_servers/mcqa/data/example.jsonl`) and under ours.
    """
    place = Path(jsonl_fpath).expanduser()
    for start in (cwd or Path.cwd(), folder):
        if start is not None and (path := start / place).is_file():
            return path
    parts = PurePosixPath(jsonl_fpath).parts
    if parts[: len(_SOURCE_TREE)] == _SOURCE_TREE:
        parts = parts[len(_SOURCE_TREE) :]
    return builtin_path(str(PurePosixPath(*parts))) if parts else None


def concerns_datasets(key: Key) -> bool:
    """Whether somebody who only wants the datasets has to know of a mistake under a key.

    They need not hear of models that are not configured; a server that is none may have had datasets.
    """
    if len(key) == 1:
        return key[0] not in POLICY_KEYS
    return len(key) <= _BLOCK_DEPTH or key[_BLOCK_DEPTH] == DATASETS_KEY


def load_datasets(value: Any, key: Key, report: Report) -> list[DatasetConfig]:
    """The dataset blocks under `key`; every mistake in them goes to the report, and its block is left out."""
    if value is None:
        return []
    if not isinstance(value, list):
        report.add(key, "must be a list of datasets.", "Write datasets: [{name: ..., type: ..., ...}].")
        return []
    found = [_load(block, (*key, f"[{position}]"), report) for position, block in enumerate(value)]
    return [dataset for dataset in found if dataset is not None]


def _load(block: Any, key: Key, report: Report) -> DatasetConfig | None:
    if not isinstance(block, dict):
        report.add(key, "must be a mapping.", "Write {name: ..., type: train, jsonl_fpath: ...}.")
        return None
    told = _misspelt(block, DatasetConfig, key, report)
    for name, model in _parts(block):
        told |= _misspelt(block[name], model, (*key, name), report)
    given = {name: part for name, part in block.items() if part is not None}
    try:
        dataset = DatasetConfig.model_validate(given)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _report(detail, key, report, told)
        return None
    source = report.origins.of((*key, "jsonl_fpath"))
    if source and (path := report.cwd / source).is_file():
        dataset._folder = path.parent
    return dataset if _is_sound(dataset, key, report, told) else None


def _parts(block: dict[Any, Any]) -> list[tuple[str, type[_Block]]]:
    """The blocks inside a dataset block, and what each should be."""
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    wanted: list[tuple[str, type[_Block] | None]] = [
        ("source", _SOURCES.get(str(kind))),
        ("gitlab_identifier", GitlabSource),
        ("huggingface_identifier", HuggingfaceSource),
    ]
    return [(name, model) for name, model in wanted if model and isinstance(block.get(name), dict)]


def _misspelt(block: dict[Any, Any], model: type[_Block], key: Key, report: Report) -> set[Key]:
    """Reports keys that were meant as known ones; returns those."""
    meant: set[Key] = set()
    known = model.model_fields
    for name in block:
        close = difflib.get_close_matches(str(name), known, n=1, cutoff=_MISSPELLING)
        if name not in known and close and close[0] not in block:
            report.add((*key, str(name)), "is no key of this block.", f"Did you mean {close[0]!r}?")
            meant.add((*key, close[0]))
    return meant


def _report(detail: Any, key: Key, report: Report, told: set[Key]) -> None:
    """Tells one of pydantic's findings in our words."""
    # Below a union pydantic names the member that was chosen as well; it is no key.
    names = [str(part) for part in detail["loc"] if part not in _SOURCES]
    place = (*key, *names)
    field, given, kind = names[-1], detail.get("input"), detail["type"]
    if kind == "missing" and (place in told or report.touches(place)):
        return  # misspelt, or ???
    if kind == "missing":
        report.add(place, "is missing.", f"Set it. {_HINTS.get(field, '')}".strip())
    elif field == "license":
        advice = suggest(_ALIASES.get(_plain(given), str(given)), LICENSES, label="Licences")
        report.add(place, f"{given!r} is no licence that is known here.", advice)
    elif names == ["type"]:
        report.add(place, f"{given!r} is no type of dataset.", suggest(str(given), get_args(DatasetType)))
    elif kind.startswith("union_tag"):
        tag = given.get("type") if isinstance(given, dict) else given
        advice = suggest(str(tag), _SOURCES, label="Types")
        report.add((*place, "type"), f"{tag!r} is no type of source.", advice)
    else:
        message = f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, not {given!r}."
        report.add(place, message, _HINTS.get(field, "Correct the value."))


def _plain(text: Any) -> str:
    return str(text).strip().lower().replace(" ", "-").replace("_", "-")


def _is_sound(dataset: DatasetConfig, key: Key, report: Report, told: set[Key]) -> bool:
    """Checks what concerns more than one key."""
    sound = True
    if dataset.type in ("train", "validation") and dataset.license is None:
        if (*key, "license") not in told and not report.touches((*key, "license")):
            advice = f"Set license. Licences: {', '.join(LICENSES)}."
            report.add((*key, "license"), f"a dataset of type {dataset.type} needs a licence.", advice)
        sound = False
    if dataset.end_idx is not None and dataset.end_idx <= dataset.start_idx:
        text = f"leaves no row: it must be above start_idx ({dataset.start_idx}), not {dataset.end_idx}."
        report.add((*key, "end_idx"), text, _HINTS["end_idx"])
        sound = False
    return sound

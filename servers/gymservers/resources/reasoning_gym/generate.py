"""Makes rows with the library: `gymctl data generate reasoning_gym`.

Several data sets are mixed as the library's own `composite` does it: each row draws its data set by the
weights. So the rows are those that NeMo Gym's script makes from the same names, size and seed.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pydantic

from gymd.sdk.generate import GenerateError, GenerateOptions, unknown
from gymservers.resources.reasoning_gym.library import DATASETS, MIX, DatasetSpec, create_dataset
from gymservers.resources.reasoning_gym.library import names as all_names
from gymservers.resources.reasoning_gym.verdicts import CONFIG_KEY

__all__ = ["COUNT_BY", "Options", "choices", "generate"]

COUNT_BY = "metadata.source_dataset"
ALL = "all"
# They are set for all data sets alike.
_COMMON = ("size", "seed")


def _names(value: Any) -> Any:
    """A list, or names with commas between them."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], pydantic.BeforeValidator(_names)]
Weight = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


class Options(GenerateOptions):
    """Options of reasoning_gym."""

    task: Names = pydantic.Field(default_factory=list)
    """Data sets by name, with commas between them, or `all`."""
    category: Names = pydantic.Field(default_factory=list)
    """Whole categories by name: all of their data sets, besides those under `task`."""
    weights: dict[str, Weight] = pydantic.Field(default_factory=dict)
    """How often a data set is drawn, by name; 1.0 for those that are not named."""
    config: dict[str, dict[str, Any]] = pydantic.Field(default_factory=dict)
    """Configuration of data sets, by name: what the library's own classes take, such as `min_terms`."""
    system: str = ""
    """A system message before each question, such as one that asks for <answer> tags."""


def choices() -> dict[str, list[str]]:
    """The names of data sets and categories."""
    return {"task": [ALL, *all_names()], "category": sorted({_category(name) for name in all_names()})}


def generate(options: Options) -> Iterator[dict[str, Any]]:
    """The rows: the question as the user's message; question, answer and metadata as the library has them."""
    names = _chosen(options)
    dataset = _dataset(names, options)
    for index in range(options.size):
        # One data set (list_functions) draws from Python's global generator.
        random.seed(f"{options.seed}/{index}")
        try:
            entry = dataset[index]
        except Exception as failure:
            what = f"the library cannot make row {index + 1}: {type(failure).__name__}: {failure}"
            raise GenerateError(what, "Try another seed, or leave out the data set that fails.") from failure
        own = options.config.get(entry["metadata"]["source_dataset"])
        if own:
            entry["metadata"][CONFIG_KEY] = own
        messages = [{"role": "system", "content": options.system}] if options.system else []
        messages.append({"role": "user", "content": entry["question"]})
        yield {"responses_create_params": {"input": messages}, **entry}


def _category(name: str) -> str:
    """The library has a package for each."""
    module: str = DATASETS[name][0].__module__
    return module.split(".")[1]


def _chosen(options: Options) -> list[str]:
    """The names of the data sets, each once, in the order in which they were named."""
    known = all_names()
    chosen: dict[str, None] = {}
    for name in options.task:
        if name != ALL and name not in known:
            raise unknown("task", name, [ALL, *known])
        chosen |= dict.fromkeys(known if name == ALL else [name])
    for name in options.category:
        members = [task for task in known if _category(task) == name]
        if not members:
            raise unknown("category", name, choices()["category"])
        chosen |= dict.fromkeys(members)
    if not chosen:
        raise GenerateError("no task was named", "Name some: --set task=chain_sum,maze, or --set task=all.")
    for option, named in (("weights", options.weights), ("config", options.config)):
        for name in named:
            if name not in chosen:
                wrong = unknown("task", name, chosen)
                raise GenerateError(f"{option}: {wrong} among those that were asked for", wrong.hint)
    return list(chosen)


def _dataset(names: list[str], options: Options) -> Any:
    for name in names:
        _check_config(name, options.config.get(name, {}))
    common: dict[str, Any] = {"size": options.size, "seed": options.seed}
    if len(names) == 1:
        return _created(names[0], common | options.config.get(names[0], {}))
    specs = [
        DatasetSpec(name=name, weight=options.weights.get(name, 1.0), config=options.config.get(name, {}))
        for name in names
    ]
    return _created(MIX, common | {"datasets": specs})


def _check_config(name: str, config: Mapping[str, Any]) -> None:
    known = [field.name for field in dataclasses.fields(DATASETS[name][1]) if field.name not in _COMMON]
    for key in config:
        if key in _COMMON:
            raise GenerateError(f"config: {key} holds for all data sets", f"Write it as --{key}.")
        if key not in known:
            wrong = unknown("key", key, known)
            raise GenerateError(
                f"config: {name} has no key {key!r}", wrong.hint or f"There are: {', '.join(known)}."
            )


def _created(name: str, config: Mapping[str, Any]) -> Any:
    try:
        return create_dataset(name, **config)
    except Exception as failure:
        why = str(failure) or type(failure).__name__
        raise GenerateError(
            f"config: the library refuses it: {why}", "Correct it, or leave it out."
        ) from failure

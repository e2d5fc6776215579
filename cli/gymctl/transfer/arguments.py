"""What the two commands take on their command lines, before anything heavy is imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["STORAGE_NAMES", "registry_options"]

STORAGE_NAMES = ("huggingface", "hf", "mlflow", "gitlab")

_VERSION = re.compile(r"\d+\.\d+\.\d+")

Command = TypeVar("Command", bound=Callable[..., Any])


def registry_options(command: Command) -> Command:
    """Gives a command --dataset and --version, which name a place in a registry."""
    add_dataset = click.option("--dataset", metavar="NAME", help="MLflow, GitLab: the dataset.")
    add_version = click.option(
        "--version", metavar="X.Y.Z", callback=_three_numbers, help="MLflow, GitLab: its version."
    )
    return add_dataset(add_version(command))


def _three_numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _VERSION.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not three numbers, such as 0.0.1.", context, parameter)
    return value

"""The options of an environment's generator: a file, then --set, then --size and --seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gymctl.errors import CliError

__all__ = ["read_options"]


def read_options(file: Path | None, settings: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """All options, later ones over earlier ones; objects are merged.

    Args:
        file: YAML or JSON, or None.
        settings: what --set gave.
        flags: options with a flag of their own; None means not given.

    Raises:
        CliError: the file cannot be read.
    """
    options = _read(file) if file is not None else {}
    _merge(options, settings)
    _merge(options, {key: value for key, value in flags.items() if value is not None})
    return options


def _read(file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CliError(f"there is no file {file}", "Check the path given with --options.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as failure:
        lines = str(failure).splitlines()
        raise CliError(f"{file} is not YAML", "Correct it.", lines) from None
    if not isinstance(found, dict):
        raise CliError(f"{file} holds no options", "Write one `key: value` a line.")
    return found


def _merge(options: dict[str, Any], others: Mapping[str, Any]) -> None:
    for key, value in others.items():
        known = options.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            _merge(known, value)
        else:
            options[key] = value

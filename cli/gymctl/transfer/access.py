"""Where the stores are and who may use them: env.yaml, the command line, the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gymctl.errors import CliError
from gymd.config import GymConfig, load_config, scrub

__all__ = ["Access", "find_access", "load_values"]

_MOST_TEXT = 300


@dataclass(frozen=True)
class Access:
    """The settings of the stores. Anything not set is empty."""

    hf_token: str = field(default="", repr=False)
    hf_endpoint: str = ""
    hf_organization: str = ""
    hf_dataset_prefix: str = ""
    hf_collection_name: str = ""
    hf_collection_slug: str = ""
    mlflow_tracking_uri: str = ""
    mlflow_tracking_token: str = field(default="", repr=False)

    def plain(self, text: object) -> str:
        """A foreign text, fit to be shown: one short line, without secrets and control characters."""
        secrets = [secret for secret in (self.hf_token, self.mlflow_tracking_token) if secret]
        line = " ".join(scrub(str(text), secrets).split())
        line = "".join(character for character in line if character.isprintable())
        return line if len(line) <= _MOST_TEXT else f"{line[:_MOST_TEXT]}..."


# The variables that the stores' own tools read as well.
_VARIABLES = {
    "hf_token": "HF_TOKEN",
    "hf_endpoint": "HF_ENDPOINT",
    "mlflow_tracking_uri": "MLFLOW_TRACKING_URI",
    "mlflow_tracking_token": "MLFLOW_TRACKING_TOKEN",
}


def find_access(values: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Access:
    """The settings: a configuration's values (env.yaml, KEY=VALUE), else the environment's.

    Raises:
        CliError: one is no text, or an address is none.
    """
    environ = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for name in Access.__dataclass_fields__:
        value = values.get(name)
        if value is None:
            value = environ.get(_VARIABLES.get(name, ""), "")
        if not isinstance(value, str | int):
            raise CliError(f"{name} must be a text.", f"Correct {name} in env.yaml.")
        found[name] = str(value).strip()
    for name in ("hf_endpoint", "mlflow_tracking_uri"):
        if found[name] and not found[name].startswith(("http://", "https://")):
            raise CliError(f"{name} is no http or https address.", f"Correct {name} in env.yaml.")
        found[name] = found[name].rstrip("/")
    for name in ("hf_token", "mlflow_tracking_token"):
        # It goes into a header.
        if not found[name].isascii() or not found[name].isprintable() or " " in found[name]:
            raise CliError(f"{name} holds characters that no token has.", f"Correct {name} in env.yaml.")
    return Access(**found)


def load_values(configs: Sequence[str], overrides: Sequence[str]) -> GymConfig:
    """Loads the configuration; without files only env.yaml and the command line count.

    Raises:
        ConfigError: with every problem.
    """
    # Else the files that env.yaml lists for `gymctl up` would be read, and judged.
    return load_config(configs, overrides if configs else [*overrides, "config_paths=[]"], data_only=True)

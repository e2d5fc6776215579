"""The configuration of a mesh: NeMo Gym's YAML in, checked server descriptions and daemon settings out.

`load_config` reads the files, env.yaml, the environment and the command line, and either returns a
`GymConfig` or raises one `ConfigError` that names every mistake with its file, its key and what to do.

OmegaConf is imported inside `load_config` only: whoever merely needs the types starts without it.
"""

from gymd.config.builtin import builtin_folder, builtin_names, builtin_path
from gymd.config.datasets import (
    LICENSES,
    DatasetConfig,
    DatasetType,
    GitlabSource,
    HuggingfaceSource,
    find_data,
)
from gymd.config.load import load_config
from gymd.config.model import GymConfig, Kind, Placement, ServerSpec
from gymd.config.problems import ConfigError, Problem
from gymd.config.secrets import MASK, is_secret_key, mask, scrub
from gymd.config.settings import DaemonSettings, Deadlines, split_address

__all__ = [
    "LICENSES",
    "MASK",
    "ConfigError",
    "DaemonSettings",
    "DatasetConfig",
    "DatasetType",
    "Deadlines",
    "GitlabSource",
    "GymConfig",
    "HuggingfaceSource",
    "Kind",
    "Placement",
    "Problem",
    "ServerSpec",
    "builtin_folder",
    "builtin_names",
    "builtin_path",
    "find_data",
    "is_secret_key",
    "load_config",
    "mask",
    "scrub",
    "split_address",
]

"""Loads a configuration: read, merge, resolve, check; then one result or one error with every problem."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymd.config.datasets import concerns_datasets
from gymd.config.directives import apply_directives
from gymd.config.keys import KNOWN_KEYS, SETTINGS_KEY
from gymd.config.model import TYPE_OF_KIND, GymConfig, ServerSpec
from gymd.config.names import custom_implementations, modernise, modernise_override
from gymd.config.overrides import apply_override
from gymd.config.problems import Report
from gymd.config.resolve import fill_from_environment, references, resolve
from gymd.config.secrets import secret_values
from gymd.config.servers import check_top_level, connect, describe_servers
from gymd.config.settings import load_settings
from gymd.config.sources import Sources, read_sources

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["ServerCheck", "load_config"]

ServerCheck = Callable[[Sequence[ServerSpec]], Mapping[str, Sequence[tuple[str, str]]]]
"""Asked once about servers; answers with findings (dotted key, message) by server name."""


def load_config(
    files: Sequence[str | Path],
    overrides: Sequence[str] = (),
    *,
    cwd: Path | None = None,
    env_file: Path | None = None,
    check: ServerCheck | None = None,
    data_only: bool = False,
) -> GymConfig:
    """Loads the configuration of a mesh.

    Precedence, low to high: files in order (an included file below its includer), env.yaml, overrides.
    Files are looked for relative to `cwd`, to the including file, and among the built-in servers (`mcqa`,
    `resources_servers/mcqa/configs/mcqa.yaml`). What is referred to but not set comes from the environment
    (POLICY_API_KEY for ${policy_api_key}).

    Args:
        files: the configuration files; the overrides' `config_paths` follow them, env.yaml's are used if
            neither names any.
        overrides: `key=value`, `+key=value`, `++key=value`, `~key`.
        cwd: what relative paths and env.yaml are relative to; the working directory by default.
        env_file: the file to read in place of `env.yaml`, which must exist then.
        check: asks the servers' own code, whose findings join the report.
        data_only: judge nothing below a server but its datasets; models need not be configured then.

    Raises:
        ConfigError: with every problem of the configuration.
    """
    here = (cwd or Path.cwd()).resolve()
    report = Report(here, concerns_datasets) if data_only else Report(here)
    sources = read_sources(files, overrides, env_file, report, os.environ)
    tree = _merge(sources, report)
    tree = apply_directives(tree, report)
    fill_from_environment(tree, os.environ, report.origins)
    referred = references(tree)
    raw = resolve(tree, report)
    connect(raw, report)
    servers = describe_servers(raw, report)
    check_top_level(raw, referred, sources.env.source if sources.env else None, report)
    daemon = load_settings(raw.get(SETTINGS_KEY), report, os.environ)
    layers = [*sources.files, *([sources.env] if sources.env else [])]
    config = GymConfig(servers, daemon, raw, [layer.path for layer in layers], report.origins)
    if check is not None:
        _ask_servers(config, check, report)
    report.raise_if_any(secret_values([raw, tree, *(layer.tree for layer in layers)]))
    return config


def _merge(sources: Sources, report: Report) -> dict[str, Any]:
    from omegaconf import OmegaConf

    layers = [*sources.files, *([sources.env] if sources.env else [])]
    custom = custom_implementations(layer.tree for layer in layers)
    trees = [modernise(layer.tree, custom) for layer in layers]
    for layer, tree in zip(layers, trees, strict=True):
        report.origins.record(tree, layer.source)
    # All at once: merging one by one would copy everything so far for each of a hundred files.
    config: DictConfig = OmegaConf.unsafe_merge({}, *trees)  # type: ignore[assignment]
    plain: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
    known = KNOWN_KEYS | references(plain)
    for override in sources.overrides:
        apply_override(config, modernise_override(override, custom), report, known.__contains__)
    merged: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
    return {str(name): value for name, value in merged.items()}


def _ask_servers(config: GymConfig, check: ServerCheck, report: Report) -> None:
    keys = {one.name: (one.name, TYPE_OF_KIND[one.kind], one.implementation) for one in config.servers}
    # What is already known to be wrong would only be told a second time, in other words.
    sound = [server for server in config.servers if not report.touches(keys[server.name])]
    found = check(sound) if sound else {}
    for server in sound:
        for name, message in found.get(server.name, ()):
            key = keys[server.name]
            below = tuple(part for part in name.split(".") if part)
            report.add((*key, *below), message, _advice(server))


def _advice(server: ServerSpec) -> str:
    return f"See the options of the {server.kind} server {server.implementation!r}."

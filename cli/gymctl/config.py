"""`gymctl config`: what a configuration comes to, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gymctl.options import Group, Settings, common
from gymctl.output import Column, note, show, show_json

if TYPE_CHECKING:
    from gymd.config import GymConfig
    from gymd.config.load import ServerCheck

__all__ = ["config"]


@click.group(cls=Group)
def config() -> None:
    """Check a configuration, or print what it comes to.

    \b
    Example:
      gymctl config check --config servers.yaml
    """


@config.command(short_help="Print what a configuration comes to, as YAML.")
@click.option("-c", "--config", "configs", multiple=True, metavar="FILE", help="Configuration. Repeatable.")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@common
@click.pass_obj
def dump(settings: Settings, configs: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """Print the merged and resolved configuration as YAML, with secrets masked.

    \b
    Examples:
      gymctl config dump --config servers.yaml
      gymctl config dump --config servers.yaml policy_model_name=my-model -o json
    """
    masked = _load(configs, overrides).masked()
    if settings.output_format == "json":
        show_json(masked)
        return
    import yaml

    click.echo(yaml.safe_dump(masked, sort_keys=False, allow_unicode=True), nl=False)


@config.command(short_help="Name every mistake of a configuration at once.")
@click.option("-c", "--config", "configs", multiple=True, metavar="FILE", help="Configuration. Repeatable.")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@common
@click.pass_obj
def check(settings: Settings, configs: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """Check a configuration: every mistake at once, each with its file, its key and what to do.

    Prints the servers that it describes if all is well, and exits with 1 if not.

    \b
    Example:
      gymctl config check --config servers.yaml --config local.yaml
    """
    from gymctl.server_check import check_servers

    loaded = _load(configs, overrides, check_servers)
    document = [
        {
            "name": server.name,
            "kind": server.kind,
            "implementation": server.implementation,
            "placement": server.placement,
            "replicas": server.replicas,
            "source_file": server.source_file,
        }
        for server in loaded.servers
    ]
    columns: list[Column] = ["NAME", "KIND", "IMPLEMENTATION", "PLACEMENT", ("REPLICAS", "right"), "FILE"]
    show(settings.output_format, document, columns, [tuple(one.values()) for one in document])
    files = ", ".join(str(path) for path in loaded.files) or "no file"
    note(f"The configuration is in order ({files}).")


def _load(
    configs: tuple[str, ...], overrides: tuple[str, ...], check: ServerCheck | None = None
) -> GymConfig:
    for setting in overrides:
        if "=" not in setting and not setting.startswith("~"):
            raise click.UsageError(f"{setting!r} is not KEY=VALUE. For a file write --config {setting}")
    from gymd.config import load_config

    return load_config(configs, overrides, check=check)

"""What the commands share: options, settings, the group that knows near misses, the way to the daemon."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gymctl.errors import CliError

if TYPE_CHECKING:
    from gymd.client import RolloutClient

__all__ = [
    "ADDRESS_VARIABLE",
    "Group",
    "Settings",
    "address_option",
    "check_overrides",
    "common",
    "config_option",
    "daemon_address",
    "file_option",
    "overrides_argument",
    "spare_inputs",
    "with_client",
]

ADDRESS_VARIABLE = "GYMD_ADDRESS"

Command = TypeVar("Command", bound=Callable[..., Any])
Result = TypeVar("Result")


@dataclass
class Settings:
    """What was said on the command line for every command."""

    address: str | None = None
    output_format: str = "table"
    debug: bool = False


class Group(click.Group):
    """A group that suggests the nearest command for a misspelt one, and shows its commands in their order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if args and not name.startswith("-") and self.get_command(ctx, name) is None:
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


class FormatChoice(click.Choice[str]):
    """table or json; a file name after -o gets told about --output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and ("." in value or "/" in value):
            self.fail(f"-o is the format: table or json. For a file write --output {value}", param, ctx)
        return super().convert(value, param, ctx)


def _store(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        settings = ctx.ensure_object(Settings)
        if value not in (None, False):
            setattr(settings, name, value)

    return callback


def common(command: Command) -> Command:
    """Gives a command -o and --debug."""
    formats = FormatChoice(["table", "json"])
    add_format = click.option(
        "-o",
        "--format",
        type=formats,
        expose_value=False,
        callback=_store("output_format"),
        help="How to print the result on stdout.  [default: table]",
    )
    add_debug = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_store("debug"), help="Show tracebacks."
    )
    return add_debug(add_format(command))


def address_option(command: Command) -> Command:
    """Gives a command --address."""
    return click.option(
        "--address",
        metavar="HOST:PORT",
        expose_value=False,
        callback=_store("address"),
        help=(
            f"The daemon.  [default: ${ADDRESS_VARIABLE}, else the one of the state folder: $GYMD_STATE_DIR "
            "or the usual one, whatever a configuration file says]"
        ),
    )(command)


def config_option(help_text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Gives a command -c, which may come again and again, as `configs`."""
    return click.option(
        "-c", "--config", "configs", multiple=True, required=required, metavar="FILE", help=help_text
    )


def file_option(*names: str, help_text: str, required: bool = False) -> Callable[[Command], Command]:
    """Gives a command an option that takes a file, as a Path."""
    kind = click.Path(dir_okay=False, path_type=Path)
    return click.option(*names, metavar="FILE", type=kind, required=required, help=help_text)


def overrides_argument(command: Command) -> Command:
    """Gives a command settings at its end, as `overrides`; see `check_overrides`."""
    return click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")(command)


def check_overrides(overrides: Sequence[str]) -> None:
    """Makes sure that what is left on the command line are settings.

    Raises:
        click.UsageError: one is none, such as a file name.
    """
    for setting in overrides:
        if "=" not in setting and not setting.startswith("~"):
            raise click.UsageError(f"{setting!r} is not KEY=VALUE. For a file write --config {setting}")


def daemon_address(settings: Settings) -> str:
    """Where the daemon is.

    Raises:
        CliError: nobody said, and no daemon was started here.
    """
    import os

    from gymctl.state import read_daemon_file, state_dir

    if address := settings.address or os.environ.get(ADDRESS_VARIABLE):
        return address
    if found := read_daemon_file():
        return found.address
    raise CliError(
        f"no daemon runs here ({state_dir()} has no daemon.json)",
        "Start one with `gymctl up -c config.yaml`, or name one with --address.",
    )


def spare_inputs(targets: Iterable[Path], inputs: Iterable[Path], option: str) -> None:
    """Makes sure that no file to be written is one of those to be read.

    Args:
        option: by which the targets are named.

    Raises:
        CliError: one is.
    """
    read = {path.resolve() for path in inputs}
    for target in targets:
        if target.resolve() in read:
            raise CliError(f"{target} is one of the files to read", f"Give another {option} FILE.")


def with_client(settings: Settings, work: Callable[[RolloutClient], Coroutine[Any, Any, Result]]) -> Result:
    """Runs `work` with a connection to the daemon."""

    import asyncio

    async def connected() -> Result:
        from gymd.client import RolloutClient

        async with RolloutClient(address, client_name="gymctl") as client:
            return await work(client)

    address = daemon_address(settings)
    return asyncio.run(connected())

"""The root command, and what holds for every command: suggestions, exit codes, how errors are shown."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from gymctl import (
    ask,
    bench,
    completion,
    config,
    data,
    env,
    lifecycle,
    quickstart,
    rollouts,
    servers,
    version,
)
from gymctl.errors import CliError, explain
from gymctl.options import Group, Settings

__all__ = ["cli", "run"]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--address", metavar="HOST:PORT", help="Daemon to talk to, for the command that follows.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.version_option(None, "--version", package_name="gymd", message="gymctl %(version)s")
@click.pass_context
def cli(ctx: click.Context, address: str | None, debug: bool) -> None:
    """Collect verified rollouts of language models, over a mesh of gRPC servers.

    \b
    Start here, with nothing configured:
      gymctl quickstart
    With your own servers:
      gymctl up -c config.yaml --detach
      gymctl rollouts collect --input tasks.jsonl --output rollouts.jsonl
      gymctl down
    """
    settings = ctx.ensure_object(Settings)
    settings.address = address
    settings.debug = debug


for _command in (
    quickstart.quickstart,
    lifecycle.up,
    lifecycle.down,
    lifecycle.status,
    servers.servers,
    rollouts.rollouts,
    data.data,
    env.env,
    bench.bench,
    ask.ask,
    config.config,
    completion.completion,
    version.version,
):
    cli.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Runs gymctl with these arguments and returns its exit code."""
    # grpc's C core logs connection events to stderr, among the lines meant for people.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    settings = Settings()
    try:
        code = cli.main(list(arguments), prog_name="gymctl", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        return 1
    except BrokenPipeError:
        # Whoever read our output (head, less) has enough. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as failure:
        return _fail(failure, settings)
    return code if isinstance(code, int) else 0


def _fail(failure: Exception, settings: Settings) -> int:
    if settings.debug:
        traceback.print_exception(failure)
    shown = explain(failure)
    if shown is None:
        kind = type(failure).__name__
        shown = CliError(
            f"a bug in gymctl: {kind}: {failure}", "Run again with --debug and report what it shows."
        )
    shown.show()
    return shown.exit_code

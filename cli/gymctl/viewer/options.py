"""The options that the commands of the viewer share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["viewer_options"]

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7860

Command = TypeVar("Command", bound=Callable[..., Any])


def viewer_options(command: Command) -> Command:
    """Gives a command --host, --port, --allow-remote and --open."""
    for option in (
        click.option(
            "--open/--no-open",
            "open_browser",
            default=None,
            help="Open the page in a browser.  [default: only from a terminal at a desktop]",
        ),
        click.option(
            "--allow-remote",
            is_flag=True,
            help="Listen on an address that other machines reach; everybody there can read the files.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65_535),
            default=DEFAULT_PORT,
            show_default=True,
            help="Port; 0: any.",
        ),
        click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on."),
    ):
        command = option(command)
    return command

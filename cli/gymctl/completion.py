"""`gymctl completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gymctl.errors import CliError
from gymctl.options import Settings, common
from gymctl.output import show_json

__all__ = ["completion"]

_WHERE = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/gymctl.fish"}


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(sorted(_WHERE)))
@common
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes gymctl's commands in your shell.

    \b
    Examples:
      gymctl completion bash >> ~/.bashrc
      gymctl completion zsh >> ~/.zshrc
      gymctl completion fish > ~/.config/fish/completions/gymctl.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise CliError(f"there is no completion for {shell}")
    script = kind(ctx.find_root().command, {}, "gymctl", "_GYMCTL_COMPLETE").source()
    if ctx.ensure_object(Settings).output_format == "json":
        show_json({"shell": shell, "script": script})
    else:
        click.echo(script)

"""How failures look: one line that says what happened, one that says what to do next."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import click

__all__ = ["CliError", "explain"]

_HINTS: Mapping[str, str] = {
    "SERVER_NOT_FOUND": "See what is there: gymctl servers list",
    "SERVER_NOT_READY": "See why: gymctl servers list",
    "DRAINING": "Start the daemon again with `gymctl up`, then run this again.",
    "DEADLINE_EXCEEDED": "See whether the servers are healthy: gymctl status",
    "UPSTREAM_AUTH": "Check the API key in env.yaml or the environment.",
    "UPSTREAM_NOT_FOUND": "Check the base URL and the model name in the configuration.",
    "UPSTREAM_UNAVAILABLE": "Check that the model endpoint runs and that its base URL is right.",
    "JUDGE_FAILED": "Look at the judge and its prompt; then score again: gymctl rollouts reverify",
    "STORAGE_FULL": "Make room on the disk; what was written is kept.",
}


class CliError(click.ClickException):
    """A failure to show.

    Args:
        message: what happened, one line.
        hint: what to do next, one line.
        details: lines that belong to it, such as mistakes by file and line, or the last lines of a log.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "", details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.details = list(details)

    def show(self, file: IO[Any] | None = None) -> None:
        """Writes it to stderr."""
        out = file or sys.stderr
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {self.message}", file=out)
        for line in self.details:
            click.echo(f"  {line}", file=out)
        if self.hint:
            click.echo(f"{click.style('Next:', bold=True)} {self.hint}", file=out)


def explain(failure: BaseException) -> click.ClickException | None:
    """The exception to show for one of our own errors; None: it is a bug."""
    if isinstance(failure, click.ClickException):
        return failure
    if isinstance(failure, OSError):
        text = f"{failure.strerror or failure}" + (f": {failure.filename}" if failure.filename else "")
        return CliError(
            text[:1].upper() + text[1:], "Check the path, its permissions, and the space on the disk."
        )
    # Looked up by module: importing them here would cost the start of every command.
    if (errors := sys.modules.get("gymd.errors")) and isinstance(failure, errors.GymdError):
        what, marker, _ = failure.message.partition(": start one with `gymctl up`")
        if marker:
            return CliError(what, "Start one with `gymctl up`, or name another with --address.")
        return CliError(failure.message, _HINTS.get(failure.reason_name, ""))
    if (config := sys.modules.get("gymd.config.problems")) and isinstance(failure, config.ConfigError):
        count = len(failure.problems)
        head = "the configuration has a problem" if count == 1 else f"the configuration has {count} problems"
        lines = [line for problem in failure.problems for line in str(problem).splitlines()]
        return CliError(head, "Correct it and check again: gymctl config check -c FILE", lines)
    return None

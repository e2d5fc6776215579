"""`gymctl rollouts view`: look at rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from gymctl.options import Settings, common
from gymctl.viewer.options import viewer_options

__all__ = ["view"]


@click.command(short_help="Look at rollouts in the browser.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--failures/--no-failures",
    default=True,
    show_default=True,
    help="Show the _failures.jsonl beside a file together with it.",
)
@viewer_options
@common
@click.pass_obj
def view(
    settings: Settings,
    files: tuple[Path, ...],
    failures: bool,
    host: str,
    port: int,
    allow_remote: bool,
    open_browser: bool | None,
) -> None:
    """Serve a local web page of the rollouts that `gymctl rollouts collect` (or NeMo Gym) wrote.

    It shows the conversation with tool calls and reasoning, the reward and its parts, verdicts of judges,
    outcome, timing and usage; filters, sorting, full-text search; a histogram of rewards; pass@k by task. The
    page opens at once, whatever the size of the files, and follows files that are still being written. Ctrl-C
    stops it. With -o json, one line of JSON with the `url` is printed.

    \b
    Examples:
      gymctl rollouts view rollouts.jsonl
      gymctl rollouts view shard-*.jsonl --port 0 --no-open
    """
    # Here, so that --help needs no web server.
    from gymctl.viewer.command import view as serve

    serve(
        settings,
        _with_failures(files) if failures else files,
        kind="rollouts",
        host=host,
        port=port,
        allow_remote=allow_remote,
        open_browser=open_browser,
    )


def _with_failures(files: Sequence[Path]) -> list[Path]:
    """The files, each followed by its failures if there are any."""
    from gymctl.collect.files import Paths

    found: list[Path] = []
    for file in files:
        found += [path for path in (file, Paths(file).failures) if path not in found]
    return [path for path in found if path in files or path.exists()]

"""`gymctl data view`: look at the tasks of a dataset."""

from __future__ import annotations

from pathlib import Path

import click

from gymctl.options import Settings, common
from gymctl.viewer.options import viewer_options

__all__ = ["view"]


@click.command(short_help="Look at the tasks of a JSONL file in the browser.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@viewer_options
@common
@click.pass_obj
def view(
    settings: Settings,
    files: tuple[Path, ...],
    host: str,
    port: int,
    allow_remote: bool,
    open_browser: bool | None,
) -> None:
    """Serve a local web page of the tasks in JSONL files: what is asked, the tools, every other field.

    The page opens at once, whatever the size of the files: they are indexed meanwhile, and rows are read when
    they are looked at. Lines that are no rows are shown as such. Ctrl-C stops it. With -o json, one line of
    JSON with the `url` is printed.

    \b
    Examples:
      gymctl data view tasks.jsonl
      gymctl data view train.jsonl validation.jsonl --port 0 --no-open
    """
    # Here, so that --help needs no web server.
    from gymctl.viewer.command import view as serve

    serve(
        settings,
        files,
        kind="tasks",
        host=host,
        port=port,
        allow_remote=allow_remote,
        open_browser=open_browser,
    )

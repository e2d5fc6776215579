"""The only place that prints results: a table for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["Column", "console", "make_table", "note", "seconds", "show", "show_json"]

# Wide enough that rich never wraps or cuts what goes into a pipe.
_PIPE_WIDTH = 100_000

Column = str | tuple[str, str]
"""A heading, or a heading and `right`, `left` or `fold` (wraps instead of being cut)."""

_STATE_STYLES = {
    "ok": "green",
    "ready": "green",
    "starting": "yellow",
    "draining": "yellow",
    "unhealthy": "red",
    "failed": "bold red",
    "completed": "green",
}


def show_json(document: Any) -> None:
    """Writes one JSON document to stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def show(output_format: str, document: Any, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a result to stdout: the document as JSON, or the rows as a table."""
    if output_format == "json":
        show_json(document)
    else:
        console().print(make_table(columns, rows))


def console(*, stderr: bool = False) -> Console:
    """A console for tables and colours; plain and unwrapped where nobody looks at a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty() or os.environ.get("FORCE_COLOR"):
        return Console(stderr=stderr, highlight=False, soft_wrap=False)
    return Console(stderr=stderr, highlight=False, width=_PIPE_WIDTH, no_color=True)


def make_table(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Table:
    """A table without lines; states are coloured."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_edge=False)
    for column in columns:
        heading, kind = column if isinstance(column, tuple) else (column, "left")
        table.add_column(
            heading,
            justify="right" if kind == "right" else "left",
            overflow="fold",
            no_wrap=kind != "fold",
        )
    for row in rows:
        table.add_row(*(Text(str(cell), style=_STATE_STYLES.get(str(cell), "")) for cell in row))
    return table


def note(text: str) -> None:
    """Tells the person at the terminal something that is not the result: one line on stderr."""
    click.echo(text, err=True)


def seconds(value: float) -> str:
    """A span for people: 0.25 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if value < 10:
        return f"{value:.2f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

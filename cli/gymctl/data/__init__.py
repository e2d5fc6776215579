"""`gymctl data`: make datasets, check them, move them and look at them."""

from __future__ import annotations

import click

from gymctl.data.download import download
from gymctl.data.generate import generate
from gymctl.data.prepare import prepare
from gymctl.data.upload import upload
from gymctl.data.view import view
from gymctl.options import Group

__all__ = ["data"]


@click.group(cls=Group, short_help="Make datasets, check them, move them, look at them.")
def data() -> None:
    """Make datasets, check them, move them and look at them.

    \b
    Example:
      gymctl data view tasks.jsonl
    """


data.add_command(generate)
data.add_command(prepare)
data.add_command(download)
data.add_command(upload)
data.add_command(view)

"""`gymctl quickstart`."""

from __future__ import annotations

import click

from gymctl.options import Settings, common

__all__ = ["quickstart"]


@click.command()
@common
@click.pass_obj
def quickstart(settings: Settings) -> int:
    """Run."""
    return 0

"""Environments in a folder of a test, as `gymctl env init` makes them."""

from __future__ import annotations

from pathlib import Path

from gymctl.env.environment import Environment, read_environment
from gymctl.env.scaffold import create, plan

__all__ = ["make_environment"]


def make_environment(parent: Path, name: str = "shop_prices") -> Environment:
    """A new environment, without its example rollouts and metrics."""
    scaffold = plan(name, parent)
    create(scaffold)
    return read_environment(scaffold.folder)

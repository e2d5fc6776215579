"""Checks the configuration of servers without starting them: `python -m gymd.sdk.check`.

Reads a JSON list of server blocks (name, kind, implementation, entrypoint, config) from stdin and writes
{name: [[key, message], ...]} to stdout. A process of its own, because it imports the servers' code.
"""

from __future__ import annotations

import json
import sys

import pydantic

from gymd.errors import GymdError
from gymd.sdk.base import explain
from gymd.sdk.host import ServerBlock
from gymd.sdk.loading import load_server_class

__all__ = ["findings"]


def findings(block: ServerBlock) -> list[tuple[str, str]]:
    """What is wrong in a server's block: keys (dotted) and messages."""
    try:
        cls = load_server_class(block.kind, block.implementation, block.entrypoint)
    except GymdError as failure:
        if isinstance(failure.__cause__, ImportError) and not block.entrypoint:
            return []  # its requirements are not met here; it will live in an environment of its own
        return [("entrypoint", str(failure))]
    try:
        cls.Config.parse(block.config)
    except pydantic.ValidationError as failure:
        return explain(cls.Config, failure)
    return []


def main() -> None:
    """Reads blocks, writes findings."""
    blocks = [ServerBlock(**block) for block in json.load(sys.stdin)]
    # What a server's module prints when it is imported must not mix with the answer.
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump({block.name: findings(block) for block in blocks}, answer)


if __name__ == "__main__":
    main()

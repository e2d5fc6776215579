"""Tells what environments (and agents) offer, from their classes alone: `python -m gymd.sdk.describe`.

Reads a JSON list of server blocks (name, kind, implementation, entrypoint, config), each perhaps with
`fields`: the own fields of dataset rows, as JSON texts. Writes {name: description} to stdout, see `describe`.
Nothing is started. A process of its own, because it imports the servers' code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from gymapi.v1.responses_pb2 import Tool
from gymapi.v1.rollout_pb2 import Task
from gymd.convert import tool_to_json
from gymd.errors import GymdError
from gymd.sdk.check import findings
from gymd.sdk.hooks import Hook, TaskView
from gymd.sdk.host import ServerBlock
from gymd.sdk.loading import load_server_class
from gymd.sdk.resources import ResourcesServer
from gymd.sdk.tools import collect_tools

__all__ = ["describe"]


def describe(block: ServerBlock, fields: Sequence[str] = ()) -> dict[str, Any]:
    """What a server offers; those that are no resources servers have neither tools nor rows.

    Args:
        fields: own fields of dataset rows, as JSON objects.

    Returns: `error`, if its code cannot be loaded; else `tools` as OpenAI JSON, in the order of ListTools;
    `config_problems`, pairs of key and message; `row_problems`, pairs of index and message, for the rows that
    the server would refuse.
    """
    try:
        cls = load_server_class(block.kind, block.implementation, block.entrypoint)
    except GymdError as failure:
        return {"error": failure.message}
    except Exception as failure:  # whatever the module raises: the other servers are still described
        return {"error": f"{type(failure).__name__}: {failure}"}
    if block.kind != "resources":
        return {"tools": [], "config_problems": findings(block), "row_problems": []}
    # Made without its configuration: what is asked for here follows from the class.
    server: Any = cls.__new__(cls)
    try:
        tools = [tool_to_json(Tool(function=tool.definition)) for tool in collect_tools(server).values()]
        problems = _row_problems(server, fields)
    except TypeError as failure:  # a tool without type hints, or an unknown value that a hook asks for
        return {"error": str(failure)}
    return {"tools": tools, "config_problems": findings(block), "row_problems": problems}


def _row_problems(server: ResourcesServer, fields: Sequence[str]) -> list[tuple[int, str]]:
    if not hasattr(server, "verify"):
        raise TypeError(f"{type(server).__name__} has no verify method: return a number or a Reward")
    hook = Hook(server.verify, _no_threads)
    found = []
    for index, text in enumerate(fields):
        try:
            hook.check_task(TaskView(Task(fields_json=text)))
        except GymdError as failure:
            found.append((index, failure.message))
    return found


def _no_threads() -> Any:
    raise AssertionError("a description runs no hook")


def main() -> None:
    """Reads blocks, writes descriptions."""
    blocks = json.load(sys.stdin)
    # What a server's module prints when it is imported must not mix with the answer.
    answer, sys.stdout = sys.stdout, sys.stderr
    described = {}
    for block in blocks:
        fields = block.pop("fields", ())
        described[block["name"]] = describe(ServerBlock(**block), fields)
    json.dump(described, answer)


if __name__ == "__main__":
    main()

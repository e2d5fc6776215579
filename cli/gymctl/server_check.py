"""Asks the servers' own code what it thinks of its configuration, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gymctl.output import note

if TYPE_CHECKING:
    from gymd.config import ServerSpec

__all__ = ["check_servers"]

TIMEOUT_S = 60.0


def check_servers(servers: Sequence[ServerSpec]) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Findings by server name; a check that fails itself is told and finds nothing."""
    blocks = [
        {
            "name": server.name,
            "kind": server.kind,
            "implementation": server.implementation,
            "entrypoint": server.entrypoint or "",
            "config": server.config,
        }
        for server in servers
        if server.placement != "remote"
    ]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gymd.sdk.check"],
            input=json.dumps(blocks, default=str),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        found: dict[str, list[tuple[str, str]]] = json.loads(done.stdout)
    except (subprocess.SubprocessError, json.JSONDecodeError) as failure:
        last = (getattr(failure, "stderr", "") or str(failure)).strip().splitlines()[-1:]
        note(f"Warning: the servers' own keys were not checked: {''.join(last)}")
        return {}
    return found

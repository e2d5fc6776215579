"""The servers' own check of their configuration, as `gymctl config check` asks for it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gymd.sdk.check import findings
from gymd.sdk.host import ServerBlock

REFS = {"model_server": {"name": "m"}, "resources_server": {"name": "r"}}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (ServerBlock("a", "agent", "simple_agent", config=REFS), []),
        (
            ServerBlock("a", "agent", "simple_agent", config={**REFS, "max_stepz": 3}),
            [("max_stepz", "no such key; did you mean 'max_steps'?")],
        ),
        (
            ServerBlock("m", "resources", "mcqa", config={"placment": "process"}),
            [("placment", "no such key; did you mean 'placement'?")],
        ),
        (ServerBlock("a", "agent", "simple_agent", config={}), [("model_server", "Field required")]),
        (ServerBlock("m", "resources", "mcqa", config={"domain": "knowledge", "description": "x"}), []),
    ],
)
def test_findings(block: ServerBlock, expected: list[tuple[str, str]]) -> None:
    assert findings(block) == expected


def test_an_entrypoint_that_does_not_exist_is_found() -> None:
    ((key, message),) = findings(ServerBlock("x", "resources", "x", entrypoint="no_such_module:Server"))
    assert key == "entrypoint"
    assert "no_such_module" in message


def test_the_process_answers_for_all_servers_at_once() -> None:
    blocks = [
        {"name": "a", "kind": "agent", "implementation": "simple_agent", "config": {**REFS, "x": 1}},
        {"name": "m", "kind": "resources", "implementation": "mcqa", "config": {"grading_mod": "x"}},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "gymd.sdk.check"],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(done.stdout)
    assert [key for key, _ in found["a"]] == ["x"]
    assert found["m"] == [["grading_mod", "no such key; did you mean 'grading_mode'?"]]

"""What `gymd.sdk.describe` tells of an environment without starting it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gymd.sdk import ServerConfig
from gymd.sdk.describe import describe
from gymd.sdk.host import ServerBlock

COUNTER = ServerBlock("c", "resources", "example_session_state_mgmt")


def own(folder: Path, source: str) -> ServerBlock:
    (folder / "own.py").write_text("from gymd.sdk import ResourcesServer, tool\n" + source)
    return ServerBlock("own", "resources", "own", entrypoint=f"{folder}/own.py:Own")


def test_tools_come_as_rows_declare_them() -> None:
    described = describe(COUNTER)
    assert [tool["name"] for tool in described["tools"]] == ["increment_counter", "get_counter_value"]
    assert described["tools"][0] == {
        "type": "function",
        "name": "increment_counter",
        "description": "Add a number to the counter.",
        "parameters": {
            "type": "object",
            "properties": {"count": {"type": "integer"}},
            "required": ["count"],
            "additionalProperties": False,
        },
        "strict": True,
    }
    assert described["config_problems"] == described["row_problems"] == []


def test_rows_that_the_server_would_refuse() -> None:
    good = '{"initial_count": 1, "expected_count": 2}'
    ((index, message),) = describe(COUNTER, [good, '{"initial_count": 1}', good])["row_problems"]
    assert index == 1
    assert "expected_count: Field required" in message


def test_wrong_keys_of_the_configuration() -> None:
    block = ServerBlock("m", "resources", "mcqa", config={"domain": "x", "reward": "1.0", "grading_mod": 1})
    ((key, message),) = describe(block)["config_problems"]
    assert key == "grading_mod"
    assert "grading_mode" in message


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import surely_not_installed", "surely_not_installed"),
        ("1 / 0", "ZeroDivisionError"),
        ("class Other(ResourcesServer): pass", "no class Own"),
        ("class Own(ResourcesServer): pass", "has no verify method"),
        ("class Own(ResourcesServer):\n def verify(self, anser): return 1", "no value 'anser'"),
        (
            "class Own(ResourcesServer):\n @tool\n def t(self, x): pass\n def verify(self): return 1",
            "needs a type hint",
        ),
    ],
)
def test_code_that_cannot_serve(tmp_path: Path, source: str, problem: str) -> None:
    assert problem in describe(own(tmp_path, source))["error"]


def test_a_server_that_needs_its_configuration_is_described_without_it(tmp_path: Path) -> None:
    source = (
        "class Own(ResourcesServer):\n"
        "    def __init__(self, *args):\n"
        "        raise RuntimeError('not for a description')\n"
        "    @tool\n"
        "    def look(self) -> str:\n"
        "        'Look.'\n"
        "        return self.config.answer\n"
        "    def verify(self):\n"
        "        return 1\n"
    )
    assert [tool["name"] for tool in describe(own(tmp_path, source))["tools"]] == ["look"]


def test_the_process_describes_all_servers_at_once(tmp_path: Path) -> None:
    broken = own(tmp_path, "print('noise')\nraise ValueError('no')")
    blocks = [
        {"name": "c", "kind": "resources", "implementation": "example_session_state_mgmt", "fields": ["{}"]},
        {"name": "own", "kind": "resources", "implementation": "own", "entrypoint": broken.entrypoint},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "gymd.sdk.describe"],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(done.stdout)
    assert len(found["c"]["tools"]) == 2
    assert found["c"]["row_problems"][0][0] == 0
    assert found["own"] == {"error": "ValueError: no"}


def test_facts_about_the_environment_are_its_configuration_only_if_it_says_so() -> None:
    class Plain(ServerConfig):
        limit: int = 1

    class Own(ServerConfig):
        reward: float

    facts = {"domain": "other", "description": "x", "value": "y", "reward": "1.0 if right"}
    assert Plain.parse({**facts, "limit": 2}) == Plain(limit=2)
    assert Own.parse({**facts, "reward": 0.5}) == Own(reward=0.5)

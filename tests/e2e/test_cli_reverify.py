"""`gymctl rollouts reverify` with a real daemon: rewards follow the verifier, and nothing else changes."""

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.gymctl import Outcome, gymctl

CONFIG = """
config_paths: [mcqa, example_session_state_mgmt]
policy_model:
  responses_api_models:
    scripted_model:
      rules: [{text: "\\\\boxed{B}"}]
gymd: {listen: "127.0.0.1:0", pool_hosts: 1, grace_s: 0.2}
"""


def row(right: str, agent: str = "mcqa_simple_agent", **more: Any) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": f"Is it {right}?"},
        "options": [{"A": "one"}, {"B": "other"}],
        "expected_answer": right,
        "note": 12345678901234567890,
        "agent_ref": {"name": agent},
        **more,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


@dataclass
class Collected:
    """A running daemon, and a file of rollouts that it made."""

    address: str
    rollouts: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def collected(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Collected]:
    """Made once, since each daemon takes seconds to start."""
    place = tmp_path_factory.mktemp("collected")
    (place / "mesh.yaml").write_text(CONFIG)
    write(place / "in.jsonl", [row("A"), row("B")])
    started = await gymctl("up", "-c", "mesh.yaml", "--detach", "-o", "json", cwd=place)
    assert started.code == 0, started.err
    try:
        given = ("--input", "in.jsonl", "--output", "out.jsonl", "--repeats", 2)
        done = await gymctl("rollouts", "collect", *given, cwd=place)
        assert done.code == 0, done.err
        yield Collected(started.json["address"], place / "out.jsonl")
    finally:
        await gymctl("down", "--now", cwd=place)


@pytest.fixture
def folder(tmp_path: Path, collected: Collected) -> Path:
    """The rollouts in a folder of the test's own."""
    shutil.copy(collected.rollouts, tmp_path)
    return tmp_path


async def reverify(collected: Collected, folder: Path, *arguments: object) -> Outcome:
    return await gymctl("rollouts", "reverify", *arguments, address=collected.address, cwd=folder)


async def test_the_same_verifier_says_the_same(folder: Path) -> None:
    """By a daemon of its own."""
    (folder / "mesh.yaml").write_text(CONFIG)
    given = ("out.jsonl", "--output", "again.jsonl", "-c", "mesh.yaml", "-o", "json")
    done = await gymctl("rollouts", "reverify", *given, cwd=folder)
    assert done.code == 0, done.err
    assert {
        name: done.json[name] for name in ("verified", "changed", "failed", "mean_before", "mean_after")
    } == {
        "verified": 4,
        "changed": 0,
        "failed": 0,
        "mean_before": 0.5,
        "mean_after": 0.5,
    }
    before = {(one["_ng_task_index"], one["_ng_rollout_index"]): one for one in read(folder / "out.jsonl")}
    for one in read(folder / "again.jsonl"):
        old = before[one["_ng_task_index"], one["_ng_rollout_index"]]
        assert one["rollout"].pop("reverified") is True
        assert one["rollout"].pop("previous_reward") == old["reward"]
        assert one == old


async def test_changed_tasks_change_rewards(collected: Collected, folder: Path) -> None:
    """Somebody mends the rows: every A becomes a B."""
    write(folder / "mended.jsonl", [row("B"), row("B")])
    given = ("out.jsonl", "--output", "again.jsonl", "--input", "mended.jsonl")
    done = await reverify(collected, folder, *given)
    assert done.code == 0, done.err
    assert "4 rollouts verified again, 2 rewards changed; mean 0.500 before, 1.000 now" in done.err
    assert {one["reward"] for one in read(folder / "again.jsonl")} == {1.0}
    done = await reverify(collected, folder, *given)
    assert (done.code, "--overwrite" in done.err) == (1, True)


async def test_failures_of_the_verifier_are_made_good(collected: Collected, folder: Path) -> None:
    lines = read(folder / "out.jsonl")
    failed = lines[0]
    del failed["reward"]
    failed["rollout"]["outcome"] = "verify_failed"
    failed["failure"] = {"stage": "verify", "reason": "JUDGE_FAILED"}
    broken = {**lines[1], "options": "nonsense"}
    write(folder / "mixed.jsonl", [failed, broken, {**lines[2], "response": None}])
    given = ("mixed.jsonl", "--output", "again.jsonl", "-o", "json")
    done = await reverify(collected, folder, *given)
    assert done.code == 1
    assert {name: done.json[name] for name in ("verified", "changed", "failed", "skipped")} == {
        "verified": 1,
        "changed": 1,
        "failed": 1,
        "skipped": 1,
    }
    [good] = read(folder / "again.jsonl")
    assert good["rollout"]["outcome"] == "completed"
    assert "failure" not in good
    assert good["reward"] in (0.0, 1.0)
    [bad] = read(folder / "again_failures.jsonl")
    assert bad["failure"]["reason"] == "INVALID_REQUEST"
    assert "reward" not in bad


async def test_a_verifier_that_needs_its_session_is_refused(collected: Collected, folder: Path) -> None:
    lines = read(folder / "out.jsonl")[:1]
    lines[0]["rollout"]["agent"] = "example_session_state_mgmt_simple_agent"
    lines[0] |= {"initial_count": 1, "expected_count": 2}
    write(folder / "counter.jsonl", lines)
    done = await reverify(collected, folder, "counter.jsonl", "--output", "x.jsonl")
    assert done.code == 1
    assert "example_session_state_mgmt verifies inside a session only" in done.err


async def test_a_line_that_is_no_rollout_is_named(collected: Collected, folder: Path) -> None:
    lines = read(folder / "out.jsonl")
    del lines[1]["responses_create_params"]
    write(folder / "out.jsonl", lines)
    done = await reverify(collected, folder, "out.jsonl", "--output", "again.jsonl")
    assert done.code == 1
    assert "out.jsonl:2: responses_create_params is missing" in done.err


async def test_an_agent_that_is_not_there(collected: Collected, folder: Path) -> None:
    lines = read(folder / "out.jsonl")[:1]
    lines[0]["rollout"]["agent"] = "nobody"
    write(folder / "foreign.jsonl", lines)
    done = await reverify(collected, folder, "foreign.jsonl", "--output", "x.jsonl")
    assert done.code == 1
    assert "no agent is called 'nobody'" in done.err

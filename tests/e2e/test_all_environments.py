"""All environments at once behind one daemon: rows mixed by agent_ref, and every one of them scored."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from gymd.config import builtin_folder, builtin_names
from tests.fakes.gymctl import gymctl


def environments() -> dict[str, Path]:
    return {
        name: folder for name in builtin_names("resources") if (folder := builtin_folder("resources", name))
    }


def mesh(found: dict[str, Path]) -> dict[str, Any]:
    """Every environment with the scripted policy of its own example answers, under a name of its own."""
    config: dict[str, Any] = {
        "config_paths": list(found),
        "gymd": {"listen": "127.0.0.1:0", "pool_hosts": 1, "grace_s": 0.2},
    }
    for name, folder in found.items():
        answers = yaml.safe_load((folder / "data" / "example_answers.yaml").read_text())
        config[f"policy_of_{name}"] = answers.pop("policy_model")
        config |= answers
    config["policy_model"] = {"responses_api_models": {"scripted_model": {}}}
    return config


def agents(folder: Path) -> dict[str, str]:
    """The agents of an environment's configuration, with their implementation."""
    blocks = yaml.safe_load((folder / "config.yaml").read_text())
    return {
        instance: next(iter(block["responses_api_agents"]))
        for instance, block in blocks.items()
        if "responses_api_agents" in block
    }


@pytest.mark.timeout(300)
async def test_every_row_of_every_environment_is_scored(tmp_path: Path) -> None:
    found = environments()
    assert len(found) >= 14
    config, rows = mesh(found), []
    for name, folder in found.items():
        [(agent, implementation)] = agents(folder).items()
        model = {"model_server": {"type": "responses_api_models", "name": f"policy_of_{name}"}}
        config.setdefault(agent, {"responses_api_agents": {implementation: {}}})
        config[agent]["responses_api_agents"][implementation] |= model
        for line in (folder / "data" / "example.jsonl").read_text().splitlines():
            rows.append(json.loads(line) | {"agent_ref": {"type": "responses_api_agents", "name": agent}})
    random.Random(7).shuffle(rows)
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("--input", "rows.jsonl", "--output", "out.jsonl", "--config", "mesh.yaml", "-o", "json")
    done = await gymctl("rollouts", "collect", *given, cwd=tmp_path, timeout=240)
    assert done.code == 0, done.err
    assert (done.json["done"], done.json["failed"]) == (len(rows), 0)
    scored = {name: agent["scored_rollouts"] for name, agent in done.json["metrics"]["agents"].items()}
    assert scored == {agent: 5 for folder in found.values() for agent in agents(folder)}
    rewards = {name: agent["reward"]["mean"] for name, agent in done.json["metrics"]["agents"].items()}
    assert set(rewards.values()) == {1.0}, rewards

"""The recipes for TRL, run for real: its trainers, a daemon, tools, and a tiny model on the CPU.

Skipped without trl and torch: they are too large for the tests' own dependencies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "examples" / "trl"
# Importing TRL takes half a minute on a busy machine, and the trainers do so in processes of their own.
LIMIT_S = 240

CONFIG = """
config_paths: [example_session_state_mgmt, vllm_model/vllm_model_for_training]
policy_base_url: http://127.0.0.1:{port}/v1
policy_api_key: none
policy_model_name: tiny
gymd: {{listen: "127.0.0.1:0", pool_hosts: 1, grace_s: 0.5}}
"""
TOOL = {
    "type": "function",
    "name": "increment_counter",
    "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
    "strict": False,
}


@pytest.fixture(autouse=True)
def need_trl() -> None:
    # Looked up, not imported: that takes long, and their warnings are errors here.
    if not all(importlib.util.find_spec(name) for name in ("trl", "torch")):
        pytest.skip("trl and torch are not installed")


@dataclasses.dataclass
class Scene:
    """What a trainer needs."""

    folder: Path
    address: str
    port: int

    def run(self, *command: object) -> str:
        """Runs a Python program to its end; returns what it printed."""
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=ROOT,
            env=environment(self.folder),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout


def environment(folder: Path) -> dict[str, str]:
    quiet = {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {**os.environ, **quiet, "GYMD_STATE_DIR": str(folder / "state"), "HF_HOME": str(folder / "hf")}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A daemon whose policy will be at a port, a tiny model, and tasks that are solved by doing nothing."""
    row = {
        "agent_ref": {"name": "example_session_state_mgmt_simple_agent"},
        "initial_count": 0,
        "expected_count": 0,
    }
    rows = [
        row | {"responses_create_params": {"input": f"add 0 to {number}", "tools": [TOOL]}}
        for number in range(4)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    make = "import pathlib, sys; from tests.fakes.tiny_model import save_tiny_model as save; "
    port = free_port()
    (tmp_path / "mesh.yaml").write_text(CONFIG.format(port=port))
    with daemon(tmp_path) as address:
        found = Scene(tmp_path, address, port)
        found.run("-c", make + "save(pathlib.Path(sys.argv[1]))", tmp_path / "model")
        yield found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def daemon(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "gymd", "-c", "mesh.yaml", "--wait-ready", "--log-file", "gymd.log"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.timeout(2 * LIMIT_S)
def test_grpo_trains(scene: Scene) -> None:
    """The recipe as it stands: rollouts with tool calls, rewards of the environment, real steps."""
    out = scene.folder / "out"
    scene.run(
        *(RECIPES / "grpo.py", "--data", scene.folder / "rows.jsonl", "--model", scene.folder / "model"),
        *("--output", out, "--address", scene.address, "--serve", scene.port, "--steps", 2),
        *("--generations", 4, "--batch", 8, "--max-tokens", 64, "--learning-rate", 1e-3),
    )
    state = json.loads((out / "checkpoint-2" / "trainer_state.json").read_text())
    logs = [line for line in state["log_history"] if "loss" in line]
    assert [line["step"] for line in logs] == [1, 2]
    assert any(line["grad_norm"] > 0 for line in logs)
    assert all(0 <= line["rewards/env_reward/mean"] <= 1 for line in logs)
    assert any(line["reward_std"] > 0 for line in logs)


@pytest.mark.timeout(2 * LIMIT_S)
def test_tokens_and_logprobs_are_those_of_the_policy(scene: Scene) -> None:
    """Over several turns, with the results of tools between them."""
    found = training("exact", scene)
    assert found["worst"] < 1e-4
    assert found["sampled"] > 16
    assert found["context"] > 0
    assert {0.0, 1.0} == set(found["rewards"])


@pytest.mark.timeout(2 * LIMIT_S)
def test_asynchronous_grpo_trains(scene: Scene) -> None:
    found = training("async", scene)
    assert (found["steps"], found["version"]) == (3, 4)
    assert found["moved"]
    assert found["same"], "the served policy has other weights than the trainer"
    assert max(line["sample/staleness_max"] for line in found["logs"]) <= 2
    assert found["logs"][0]["ratio"] == pytest.approx(1.0, abs=1e-4)


def training(what: str, scene: Scene) -> dict[str, Any]:
    places = (scene.folder / "model", scene.folder / "rows.jsonl", scene.address, scene.port)
    printed = scene.run("-m", "tests.fakes.trl_training", what, *places)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])  # the trainer prints its logs before
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(LIMIT_S)
def test_the_recipes_fit_the_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the protocols and the sample of the TRL that is installed."""
    monkeypatch.syspath_prepend(str(RECIPES))
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from gymd_worker import HoldingTransfer, RolloutWorker, Sample
    from local_policy import LocalPolicy
    from trl.experimental.async_grpo import async_grpo_trainer as theirs
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

    assert parameters(Sample) == parameters(RolloutSample)
    for protocol, ours in (
        (theirs.RolloutWorkerProtocol, (RolloutWorker,)),
        (theirs.WeightTransferProtocol, (HoldingTransfer, LocalPolicy)),
    ):
        names = [
            name for name in vars(protocol) if not name.startswith("_") and callable(getattr(protocol, name))
        ]
        assert names
        for name in names:
            for one in ours:
                assert parameters(getattr(one, name)) == parameters(getattr(protocol, name)), name


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)

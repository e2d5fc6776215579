"""`gymctl bench` with a daemon and a simulated model of its own."""

import os
from pathlib import Path

from tests.fakes.gymctl import gymctl

SHORT = (
    *("--steps", 3, "--groups-per-step", 2, "--group-size", 4, "--turns", 3, "--seed", 5),
    *("--step-time", 0.05, "--pause", 0.02, "--latency", "uniform:0.01:0.05", "--tokens", "uniform:10:30"),
    "gymd.pool_hosts=1",
)


async def test_asynchronous_training_with_a_simulated_model(tmp_path: Path) -> None:
    done = await gymctl("bench", "--mode", "async", *SHORT, "-o", "json", cwd=tmp_path)
    assert done.code == 0, done.err
    found = done.json
    assert found["rollouts"] == {"planned": 24, "returned": 24, "usable": 24, "lost": 0}
    assert found["outcomes"] == {"completed": 24}
    assert found["failures"] == {}
    # Three calls a rollout, 10 to 30 tokens each.
    assert 24 * 30 <= found["generated_tokens"] <= 24 * 90
    assert found["latency_seconds"]["p50"] >= 0.03
    times = found["trainer_seconds"]
    assert times["training"] >= 0.15
    assert times["updating"] >= 0.06
    assert 0 < found["idle_ratio"] < 1
    assert sum(found["staleness"]["histogram"].values()) == 24
    assert found["staleness"]["mean"] > 0  # the second batch was handed in before the first update
    memory = found["peak_memory_bytes"]
    assert memory["processes"] == 2
    assert min(memory["daemon"], memory["hosts"]) > 10 << 20
    assert os.listdir(tmp_path) == []  # nothing is left behind


async def test_a_model_that_fails_makes_the_run_fail(tmp_path: Path) -> None:
    broken = "policy_model.responses_api_models.scripted_model.rules=[{error: UPSTREAM_REJECTED}]"
    done = await gymctl("bench", *SHORT, broken, cwd=tmp_path)
    assert done.code == 1
    assert "0 of 24, 24 lost" in done.out
    assert "model_failed: 24" in done.out

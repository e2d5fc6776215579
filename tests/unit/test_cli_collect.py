"""`gymctl rollouts collect` as a process, against a scripted daemon."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from gymd.errors import error
from tests.fakes.daemon import FakeDaemon, rollout, server
from tests.fakes.gymctl import Outcome, gymctl, start_gymctl


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon([server("simple_agent"), server("other_agent"), server("m", "model")]) as one:
        yield one


def rows(count: int, **fields: Any) -> list[dict[str, Any]]:
    params = {"input": [{"role": "user", "content": "weather?"}]}
    agent = {"type": "responses_api_agents", "name": "simple_agent"}
    return [
        {"id": number, "responses_create_params": params, "agent_ref": agent, **fields}
        for number in range(count)
    ]


def write(path: Path, lines: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def collect(daemon: FakeDaemon, folder: Path, *arguments: object, **more: Any) -> Outcome:
    given = ("--input", folder / "in.jsonl", "--output", folder / "out.jsonl", *arguments)
    return await gymctl("rollouts", "collect", *given, address=daemon.address, cwd=folder, **more)


async def test_rollouts_end_up_in_the_output(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(30))
    daemon.answer = lambda one, index: rollout(one, index, reward=index % 2, extras={"grade": "B"})
    done = await collect(
        daemon, tmp_path, "--repeats", 2, "--param", "temperature=0.5", "--return-tokens", "-o", "json"
    )
    assert done.code == 0, done.err
    lines = read(tmp_path / "out.jsonl")
    assert {(line["id"], line["_ng_task_index"], line["_ng_rollout_index"]) for line in lines} == {
        (number, number, index) for number in range(30) for index in range(2)
    }
    assert lines[0]["responses_create_params"]["temperature"] == 0.5
    assert lines[0]["grade"] == "B"
    assert done.json["complete"]
    assert done.json["done"] == 60
    agent = done.json["metrics"]["agents"]["simple_agent"]
    assert agent["reward"]["mean"] == 0.5
    assert agent["pass@1"] == 0.5
    assert agent["pass@2"] == 1.0
    assert json.loads((tmp_path / "out_aggregate_metrics.json").read_text()) == done.json["metrics"]
    assert not (tmp_path / "out_failures.jsonl").exists()
    assert daemon.sessions[0].opening.return_tokens


async def test_the_table_for_people(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(5))
    done = await collect(daemon, tmp_path)
    assert done.code == 0
    assert done.out.splitlines()[0].split() == [
        "AGENT",
        "ROLLOUTS",
        "MEAN",
        "REWARD",
        "STD",
        "PASS@K",
        "OUTCOMES",
    ]
    assert done.out.splitlines()[1].split()[:3] == ["simple_agent", "5", "1.000"]
    assert "5 of 5 rollouts" in done.err


async def test_mistakes_are_told_before_anything_runs(daemon: FakeDaemon, tmp_path: Path) -> None:
    good = rows(1)[0]
    bad = [{**good, "agent_ref": {"name": "simpel_agent"}}, {"responses_create_params": {"input": "x"}}]
    write(tmp_path / "in.jsonl", [good, *bad])
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write("{oops\n")
    done = await collect(daemon, tmp_path)
    assert done.code == 1
    assert "3 mistakes; nothing was run" in done.err
    assert "in.jsonl:2: no agent is called 'simpel_agent'. Did you mean simple_agent?" in done.err
    assert "in.jsonl:3: no agent_ref" in done.err
    assert "in.jsonl:4: the line is no valid JSON" in done.err
    assert done.out == ""
    assert not daemon.sessions
    assert not (tmp_path / "out.jsonl").exists()


async def test_agent_limit_and_stdin(daemon: FakeDaemon, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"responses_create_params": {"input": "x"}}) + "\n" for _ in range(9))
    given = ("--input", "-", "--output", tmp_path / "out.jsonl", "--agent", "other_agent", "--limit", 4)
    done = await gymctl("rollouts", "collect", *given, address=daemon.address, stdin=lines, cwd=tmp_path)
    assert done.code == 0, done.err
    assert [line["agent_ref"]["name"] for line in read(tmp_path / "out.jsonl")] == ["other_agent"] * 4


async def test_half_a_surrogate_pair_is_kept(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(2, note="\ud83d"))
    done = await collect(daemon, tmp_path)
    assert done.code == 0, done.err
    assert [line["note"] for line in read(tmp_path / "out.jsonl")] == ["\ud83d"] * 2
    done = await collect(daemon, tmp_path, "--resume")
    assert done.code == 0, done.err
    assert len(read(tmp_path / "out.jsonl")) == 2


@pytest.mark.parametrize("name", ["out.jsonl", "out_failures.jsonl"])
async def test_the_input_is_not_written(daemon: FakeDaemon, tmp_path: Path, name: str) -> None:
    before = write(tmp_path / name, rows(2)).read_bytes()
    given = ("--input", name, "--output", "out.jsonl", "--overwrite")
    done = await gymctl("rollouts", "collect", *given, address=daemon.address, cwd=tmp_path)
    assert done.code == 1
    assert f"{name} is one of the files to read" in done.err
    assert (tmp_path / name).read_bytes() == before


async def test_an_existing_output_is_safe(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(2))
    assert (await collect(daemon, tmp_path)).code == 0
    before = (tmp_path / "out.jsonl").read_bytes()
    done = await collect(daemon, tmp_path)
    assert done.code == 1
    assert "exists already" in done.err
    assert "--resume" in done.err
    assert (tmp_path / "out.jsonl").read_bytes() == before
    assert (await collect(daemon, tmp_path, "--resume", "--overwrite")).code == 2
    assert (await collect(daemon, tmp_path, "--overwrite", "--limit", 1)).code == 0
    assert len(read(tmp_path / "out.jsonl")) == 1


async def test_resume_runs_only_what_is_missing(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(10))
    failing = True
    problem = error("UPSTREAM_UNAVAILABLE", "the endpoint is down")

    def answer(one: Any, index: int) -> Any:
        if failing and one.task_id in ("3-1", "7-0"):
            return rollout(one, index, outcome="MODEL_FAILED", failure=problem)
        return rollout(one, index)

    daemon.answer = answer
    done = await collect(daemon, tmp_path, "--repeats", 2)
    assert done.code == 1
    assert "2 of 20 rollouts failed" in done.err
    assert "2 x UPSTREAM_UNAVAILABLE: the endpoint is down" in done.err
    failures = read(tmp_path / "out_failures.jsonl")
    assert {(one["_ng_task_index"], one["_ng_rollout_index"]) for one in failures} == {(3, 1), (7, 0)}
    assert failures[0]["failure"]["reason"] == "UPSTREAM_UNAVAILABLE"
    with (tmp_path / "out.jsonl").open("ab") as file:
        file.write(b'{"id": 3, "torn')
    failing = False
    done = await collect(daemon, tmp_path, "--repeats", 2, "--resume", "-o", "json")
    assert done.code == 0, done.err
    assert "torn last line" in done.err
    assert daemon.sessions[1].submitted == 2
    assert not (tmp_path / "out_failures.jsonl").exists()
    assert len(read(tmp_path / "out.jsonl")) == 20
    assert done.json["metrics"]["agents"]["simple_agent"]["rollouts"] == 20
    # More repeats continue the same output; nothing is run twice.
    done = await collect(daemon, tmp_path, "--repeats", 3, "--resume")
    assert done.code == 0
    assert daemon.sessions[2].submitted == 10


async def test_resume_refuses_another_input_or_other_params(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(3))
    assert (await collect(daemon, tmp_path)).code == 0
    done = await collect(daemon, tmp_path, "--resume", "--param", "temperature=1")
    assert done.code == 1
    assert "with other params" in done.err
    write(tmp_path / "in.jsonl", rows(3, other=1))
    done = await collect(daemon, tmp_path, "--resume")
    assert done.code == 1
    assert "from another input" in done.err
    assert len(daemon.sessions) == 1


async def test_a_daemon_that_dies_costs_only_what_was_in_flight(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(300))
    daemon.die_after = 128
    done = await collect(daemon, tmp_path, "--concurrency", 32)
    assert done.code == 1
    assert "broke" in done.err
    assert "--resume" in done.err
    assert len(read(tmp_path / "out.jsonl")) == daemon.sessions[0].delivered
    daemon.die_after = None
    assert (await collect(daemon, tmp_path, "--resume")).code == 0
    assert len(read(tmp_path / "out.jsonl")) == 300


async def test_a_draining_daemon_is_told(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(300))
    daemon.drain_after = 64
    done = await collect(daemon, tmp_path, "--concurrency", 32)
    assert done.code == 1
    assert "shutting down" in done.err
    assert not (tmp_path / "out_failures.jsonl").exists()
    assert 64 <= len(read(tmp_path / "out.jsonl")) < 300


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_keeps_what_is_done(daemon: FakeDaemon, tmp_path: Path, number: signal.Signals) -> None:
    write(tmp_path / "in.jsonl", rows(100))
    daemon.answer = lambda one, index: (
        rollout(one, index) if int(one.group_id or one.task_id[:-2]) < 20 else None
    )
    given = ("--input", "in.jsonl", "--output", "out.jsonl", "--concurrency", 8)
    process = await start_gymctl("rollouts", "collect", *given, address=daemon.address, cwd=tmp_path)
    await daemon.until(lambda: bool(daemon.sessions) and daemon.sessions[0].acked == 20)
    process.send_signal(number)
    async with asyncio.timeout(20):
        _, err = await process.communicate()
    assert process.returncode == 1
    assert "stopped; 80 of 100 rollouts were not run" in err.decode()
    assert "--resume" in err.decode()
    assert len(read(tmp_path / "out.jsonl")) == 20
    assert not (tmp_path / "out_failures.jsonl").exists()
    assert [one.WhichOneof("scope") for one in daemon.sessions[0].cancels] == ["all"]


async def test_a_kill_loses_nothing_that_was_written(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(50))
    daemon.answer = lambda one, index: rollout(one, index) if int(one.task_id[:-2]) < 20 else None
    given = ("--input", "in.jsonl", "--output", "out.jsonl", "--concurrency", 8)
    process = await start_gymctl("rollouts", "collect", *given, address=daemon.address, cwd=tmp_path)
    await daemon.until(lambda: bool(daemon.sessions) and daemon.sessions[0].acked == 20)
    process.kill()
    await process.communicate()
    assert len(read(tmp_path / "out.jsonl")) == 20
    daemon.answer = rollout
    assert (await collect(daemon, tmp_path, "--resume")).code == 0
    assert daemon.sessions[1].submitted == 30


async def test_nothing_but_failures_stops_early(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(2000))
    problem = error("UPSTREAM_AUTH", "the endpoint refused the key")
    daemon.answer = lambda one, index: rollout(one, index, outcome="MODEL_FAILED", failure=problem)
    done = await collect(daemon, tmp_path, "--concurrency", 16)
    assert done.code == 1
    assert "rollouts all failed" in done.err
    assert "UPSTREAM_AUTH: the endpoint refused the key" in done.err
    assert daemon.sessions[0].submitted < 400
    done = await collect(daemon, tmp_path, "--overwrite", "--keep-going")
    assert done.code == 1
    assert len(read(tmp_path / "out_failures.jsonl")) == 2000


async def test_rejected_tasks_are_failures(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(4))
    refusal = error("MESSAGE_TOO_LARGE", "too large", size_bytes=9)
    daemon.reject = lambda one: refusal if one.task_id == "2-0" else None
    done = await collect(daemon, tmp_path)
    assert done.code == 1
    assert read(tmp_path / "out_failures.jsonl")[0]["failure"]["class"] == "rejected"
    assert len(read(tmp_path / "out.jsonl")) == 3


async def test_unverified_rollouts_have_no_reward(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(2))
    daemon.answer = lambda one, index: rollout(one, index, reward=None)
    done = await collect(daemon, tmp_path, "-o", "json")
    assert done.code == 0
    assert all("reward" not in line for line in read(tmp_path / "out.jsonl"))
    assert done.json["metrics"]["agents"]["simple_agent"]["reward"] is None


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
async def test_a_full_disk_is_a_clear_error(daemon: FakeDaemon, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", rows(2))
    (tmp_path / "out.jsonl").symlink_to("/dev/full")
    done = await collect(daemon, tmp_path)
    assert done.code == 1
    assert "No space left on device" in done.err
    assert "Traceback" not in done.err


async def test_unusable_files_are_told(daemon: FakeDaemon, tmp_path: Path) -> None:
    done = await collect(daemon, tmp_path)
    assert done.code == 1
    assert "there is no file" in done.err
    (tmp_path / "in.jsonl").write_text("\n\n")
    done = await collect(daemon, tmp_path)
    assert done.code == 1
    assert "has no rows" in done.err
    write(tmp_path / "in.jsonl", rows(1))
    given = ("--input", tmp_path / "in.jsonl", "--output", tmp_path / "no" / "out.jsonl")
    done = await gymctl("rollouts", "collect", *given, address=daemon.address)
    assert done.code == 1
    assert "cannot write" in done.err

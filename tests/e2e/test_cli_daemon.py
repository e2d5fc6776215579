"""gymctl with the real daemon and real servers, as processes."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from gymctl.state import is_alive
from tests.fakes.gymctl import Outcome, gymctl, start_gymctl

CONFIG = """
weather:
  resources_servers:
    example_single_tool_call: {{domain: agent}}
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {{type: resources_servers, name: weather}}
      model_server: {{type: responses_api_models, name: policy_model}}
policy_model:
  responses_api_models:
    scripted_model: {{latency: {latency}}}
gymd: {{listen: "127.0.0.1:0", pool_hosts: 1, grace_s: 0.2}}
"""

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def prepare(folder: Path, rows: int = 20, latency: float = 0) -> None:
    """A configuration and an input in `folder`."""
    (folder / "mesh.yaml").write_text(CONFIG.format(latency=latency))
    row = {"responses_create_params": {"input": [{"role": "user", "content": "weather?"}], "tools": [TOOL]}}
    (folder / "in.jsonl").write_text("".join(json.dumps({"id": n, **row}) + "\n" for n in range(rows)))


def wait_for_content(path: Path) -> None:
    """Polls a file: what it holds is all that tells from outside how far a collection is."""
    deadline = time.monotonic() + 20
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def collect(folder: Path, *arguments: object) -> Outcome:
    given = ("--input", "in.jsonl", "--output", "out.jsonl", *arguments)
    return await gymctl("rollouts", "collect", *given, cwd=folder)


@dataclass
class Daemon:
    """A daemon left running by `gymctl up --detach`: where, and what that printed as JSON."""

    folder: Path
    said: dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Daemon]:
    """One for all tests that leave it running."""
    folder = tmp_path_factory.mktemp("daemon")
    prepare(folder)
    started = await gymctl("up", "-c", "mesh.yaml", "--detach", "-o", "json", cwd=folder)
    assert started.code == 0, started.err
    yield Daemon(folder, started.json)
    stopped = await gymctl("down", "--now", cwd=folder)
    assert stopped.code == 0, stopped.err
    assert not is_alive(started.json["pid"])


async def test_a_day_with_a_detached_daemon(daemon: Daemon) -> None:
    folder = daemon.folder
    assert daemon.said["log_file"] == str(folder / "state" / "gymd.log")
    status = await gymctl("status", "-o", "json", cwd=folder)
    assert status.code == 0, status.out
    assert status.json["daemon"]["pid"] == daemon.said["pid"]
    assert status.json["daemon"]["default_agent"] == "agent"
    assert {one["name"]: one["state"] for one in status.json["servers"]} == {
        "agent": "ready",
        "policy_model": "ready",
        "weather": "ready",
    }

    done = await collect(folder, "--repeats", 2, "-o", "json")
    assert done.code == 0, done.err
    lines = read(folder / "out.jsonl")
    assert len(lines) == 40
    assert {line["reward"] for line in lines} == {1.0}
    assert [item["type"] for item in lines[0]["response"]["output"]] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    assert lines[0]["rollout"]["model_calls"] == 2
    assert done.json["metrics"]["agents"]["agent"]["pass@2"] == 1.0

    asked = await gymctl("ask", "agent", "weather in Bonn?", cwd=folder)
    assert asked.code == 0, asked.err
    assert "get_weather(city=" in asked.out
    assert "assistant" in asked.out
    asked = await gymctl("ask", "agent", "weather?", "--no-tools", "-o", "json", cwd=folder)
    assert [item["type"] for item in asked.json["output"]] == ["message"]

    assert (await gymctl("servers", "logs", "weather", cwd=folder)).code == 0


async def test_a_second_daemon_is_refused_by_name(daemon: Daemon) -> None:
    again = await gymctl("up", "-c", "mesh.yaml", "--detach", cwd=daemon.folder)
    assert again.code == 1
    assert str(daemon.said["pid"]) in again.err
    assert "gymctl down" in again.err
    assert is_alive(daemon.said["pid"])


async def test_tokens_come_with_the_output(daemon: Daemon) -> None:
    done = await collect(daemon.folder, "--return-tokens", "--limit", 1, "--output", "tokens.jsonl")
    assert done.code == 0, done.err
    items = read(daemon.folder / "tokens.jsonl")[0]["response"]["output"]
    first, last = items[0], items[-1]
    assert len(first["generation_token_ids"]) == len(first["generation_log_probs"]) > 0
    so_far = first["prompt_token_ids"] + first["generation_token_ids"]
    assert last["prompt_token_ids"][: len(so_far)] == so_far


async def test_a_server_is_restarted(daemon: Daemon) -> None:
    restarted = await gymctl("servers", "restart", "weather", "-o", "json", cwd=daemon.folder)
    assert "weather" in restarted.json["restarted"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_up_in_the_foreground_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    prepare(tmp_path)
    process = await start_gymctl("up", "-c", "mesh.yaml", "-o", "json", cwd=tmp_path)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        text = ""
        while not text.rstrip().endswith("}"):
            text += (await process.stdout.readline()).decode()
        pid = json.loads(text)["pid"]
        assert is_alive(pid)
        process.send_signal(number)
        _, err = await process.communicate()
    assert process.returncode == 0, err
    assert "Stopped." in err.decode()
    assert not is_alive(pid)
    assert not (tmp_path / "state" / "daemon.json").exists()


async def test_a_killed_gymctl_leaves_no_daemon_behind(tmp_path: Path) -> None:
    prepare(tmp_path)
    process = await start_gymctl("up", "-c", "mesh.yaml", "-o", "json", cwd=tmp_path)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        text = (await process.stdout.readuntil(b"}")).decode()
    daemon = psutil.Process(json.loads(text)["pid"])
    hosts = daemon.children(recursive=True)
    assert hosts
    process.kill()
    _, alive = await asyncio.to_thread(psutil.wait_procs, [daemon, *hosts], timeout=30)
    await process.communicate()
    assert not alive
    assert not (tmp_path / "state" / "daemon.json").exists()  # it stopped in order


@pytest.mark.parametrize("detach", [True, False])
async def test_a_server_that_cannot_start_is_told(tmp_path: Path, detach: bool) -> None:
    prepare(tmp_path)
    wrong = "++agent.responses_api_agents.simple_agent.max_steps=-4"
    done = await gymctl("up", "-c", "mesh.yaml", wrong, *(["--detach"] if detach else []), cwd=tmp_path)
    assert done.code == 1
    assert "cannot start agent" in done.err
    assert "max_steps" in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "state" / "daemon.json").exists()


@pytest.mark.parametrize("detach", [True, False])
async def test_a_bad_configuration_is_told(tmp_path: Path, detach: bool) -> None:
    done = await gymctl("up", "-c", "nope.yaml", *(["--detach"] if detach else []), cwd=tmp_path)
    assert done.code == 1
    # Not always the first line: a slow start tells of its progress before.
    assert "Error: " in [line[:7] for line in done.err.splitlines()], done.err
    assert "nope.yaml" in done.err
    assert "gymctl config check" in done.err


async def test_collect_brings_its_own_daemon(tmp_path: Path) -> None:
    prepare(tmp_path)
    done = await collect(tmp_path, "-c", "mesh.yaml", "gymd.state_dir=elsewhere")
    assert done.code == 0, done.err
    assert len(read(tmp_path / "out.jsonl")) == 20
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "elsewhere" / "daemon.json").exists()
    assert (tmp_path / "elsewhere").is_dir()
    lost = await collect(tmp_path, "--overwrite", "gymd.pool_hosts=2")
    assert lost.code == 2
    assert "name it with --config" in lost.err


async def test_a_killed_daemon_costs_only_what_was_in_flight(tmp_path: Path) -> None:
    prepare(tmp_path, rows=40, latency=0.2)
    started = await gymctl("up", "-c", "mesh.yaml", "--detach", "-o", "json", cwd=tmp_path)
    assert started.code == 0, started.err
    given = ("--input", "in.jsonl", "--output", "out.jsonl", "--concurrency", 4)
    process = await start_gymctl("rollouts", "collect", *given, cwd=tmp_path)
    async with asyncio.timeout(60):
        await asyncio.to_thread(wait_for_content, tmp_path / "out.jsonl")
        os.kill(started.json["pid"], signal.SIGKILL)
        _, err = await process.communicate()
    assert process.returncode == 1
    assert "broke" in err.decode()
    assert "--resume" in err.decode()
    before = len(read(tmp_path / "out.jsonl"))
    assert 0 < before < 40
    assert (await gymctl("down", cwd=tmp_path)).code == 0
    done = await collect(tmp_path, "--resume", "-c", "mesh.yaml")
    assert done.code == 0, done.err
    assert sorted(line["id"] for line in read(tmp_path / "out.jsonl")) == list(range(40))


async def test_quickstart_with_the_scripted_model(tmp_path: Path) -> None:
    done = await gymctl("quickstart", "--model", "scripted", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "get_weather" in done.out
    assert "gymctl rollouts collect" in done.err
    assert sorted(os.listdir(tmp_path)) == ["weather_rollouts.jsonl"]
    assert {line["reward"] for line in read(tmp_path / "weather_rollouts.jsonl")} == {1.0}
    again = await gymctl("quickstart", "--model", "scripted", "-o", "json", cwd=tmp_path)
    assert len(again.json["rollouts"]) == 5
    (tmp_path / "weather_rollouts.jsonl").write_text("mine\n")
    refused = await gymctl("quickstart", "--model", "scripted", cwd=tmp_path)
    assert refused.code == 1
    assert (tmp_path / "weather_rollouts.jsonl").read_text() == "mine\n"

"""Whole rollouts: the `gymd` command, its hosts, the agent loop, an environment with traps, the client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gymapi.v1.rollout_pb2 import Outcome, Rollout, Stage, Task
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.client import RolloutClient, deadlines
from gymd.convert import params_from_json

TRAPS = f"{Path(__file__).with_name('traps.py')}:Traps"
LIMIT_S = 80.0

CONFIG = """
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {{type: resources_servers, name: traps}}
      model_server: {{type: responses_api_models, name: model}}
traps:
  resources_servers:
    traps:
      entrypoint: {entrypoint}
      placement: {placement}
      journal: {journal}
model:
  responses_api_models:
    scripted_model: {model}
gymd:
  listen: 127.0.0.1:0
  pool_hosts: 1
  grace_s: 3
  restart_backoff_min_s: 0.05
"""


class Mesh:
    """A running `gymd` process."""

    def __init__(self, process: subprocess.Popen[str], address: str, journal: Path) -> None:
        self.process = process
        self.address = address
        self._journal = journal
        self._old = 0

    def forget(self) -> None:
        """Begins anew: what was noted so far is no longer told."""
        self._old += len(self._lines())

    def _lines(self) -> list[str]:
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        return lines[self._old :]

    def notes(self, what: str) -> list[str]:
        """Sessions for which the environment noted something."""
        lines = self._lines()
        return [line.split(" ", 1)[1] for line in lines if line.startswith(what + " ")]

    async def until_noted(self, what: str, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.notes(what)) < count:  # noqa: ASYNC110 - a file of another process has no event
                await asyncio.sleep(0.02)


@contextlib.contextmanager
def gymd(folder: Path, placement: str = "shared", model: str = "{}") -> Iterator[Mesh]:
    """Runs `gymd`; afterwards no process of it may be left."""
    journal = folder / "journal"
    text = CONFIG.format(entrypoint=TRAPS, placement=placement, journal=journal, model=model)
    (folder / "mesh.yaml").write_text(text)
    command = [sys.executable, "-m", "gymd", "-c", "mesh.yaml", "--wait-ready", "--log-file", "gymd.log"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "GYMD_STATE_DIR": str(folder / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        pytest.fail(process.communicate()[1])
    family = psutil.Process(process.pid).children(recursive=True)
    try:
        yield Mesh(process, json.loads(line)["address"], journal)
    finally:
        if process.poll() is None:
            family += psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    _, left = psutil.wait_procs(set(family), timeout=10)
    assert not left, f"gymd left children: {left}"


@pytest.fixture(scope="module")
def one_gymd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with gymd(tmp_path_factory.mktemp("gymd")) as mesh:
        yield mesh


@pytest.fixture
async def mesh(one_gymd: Mesh) -> AsyncIterator[Mesh]:
    """A `gymd` that several tests use, one after the other; afterwards every session is closed."""
    one_gymd.forget()
    yield one_gymd
    await one_gymd.until_noted("close", len(one_gymd.notes("seed")))


def submission(number: int, trap: str = "", **fields: Any) -> TaskSubmission:
    """A task that calls the tool `act` once."""
    tool = {
        "type": "function",
        "name": "act",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": False,
        },
        "strict": True,
    }
    params = params_from_json({"input": f"act {number}", "tools": [tool]})
    task = Task(agent="agent", create_params=params, fields_json=json.dumps({"trap": trap}))
    return TaskSubmission(task_id=f"t{number}", task=task, **fields)


async def rollouts(mesh: Mesh, submissions: Any, **options: Any) -> list[Rollout]:
    """Runs tasks and checks the ledger: numbered from 1 without gaps, each rollout once."""
    found = []
    async with asyncio.timeout(LIMIT_S), RolloutClient(mesh.address) as client:
        async with client.session(**options) as session:
            async for result in session.run(submissions):
                found.append(result)
        assert session.summary is not None
        assert session.summary.result_count == len(found)
    assert [result.sequence for result in found] == list(range(1, len(found) + 1))
    assert len({result.rollout.rollout_id for result in found}) == len(found)
    return [result.rollout for result in found]


async def test_a_rollout_calls_the_tool_and_is_scored(mesh: Mesh) -> None:
    (rollout,) = await rollouts(mesh, [submission(1)])
    assert rollout.outcome == Outcome.OUTCOME_COMPLETED
    assert rollout.reward.value == 1.0
    assert rollout.model_call_count == 2
    kinds = [item.WhichOneof("kind") for item in rollout.response.output]
    assert kinds == ["function_call", "function_call_output", "message"]
    assert mesh.notes("seed") == mesh.notes("close")


@pytest.mark.parametrize("placement", ["shared", "process"])
async def test_traps_end_in_named_outcomes_and_nothing_is_made_up(tmp_path: Path, placement: str) -> None:
    limits = deadlines(tool=0.5, verify=0.5, rollout=20)
    with gymd(tmp_path, placement) as mesh:
        traps = ["", "raise", "hang", "hang_verify", "raise_verify"]
        tasks = [submission(number, trap) for number, trap in enumerate(traps)]
        found = {one.task_id: one for one in await rollouts(mesh, tasks, deadlines=limits)}
        assert found["t0"].reward.value == 1.0
        # A tool that raises is the model's to read, so the rollout goes on and is scored.
        assert found["t1"].outcome == Outcome.OUTCOME_COMPLETED
        assert found["t1"].tool_error_count == 1
        assert "the tool is broken" in found["t1"].response.output[1].function_call_output.output_text
        assert found["t2"].outcome == Outcome.OUTCOME_TIMED_OUT
        assert found["t2"].failure.stage == Stage.STAGE_TOOL
        assert found["t3"].outcome == Outcome.OUTCOME_TIMED_OUT
        assert found["t3"].failure.stage == Stage.STAGE_VERIFY
        assert found["t4"].outcome == Outcome.OUTCOME_VERIFY_FAILED
        assert "the verifier is broken" in found["t4"].failure.status.message
        for name in ("t2", "t3", "t4"):
            assert not found[name].HasField("reward")
        await mesh.until_noted("close", 5)
        assert sorted(mesh.notes("close")) == sorted(mesh.notes("seed"))


async def test_all_200_end_once_when_the_host_is_killed(tmp_path: Path) -> None:
    with gymd(tmp_path, model="{latency: 0.4}") as mesh:
        (host,) = psutil.Process(mesh.process.pid).children()
        running = asyncio.create_task(rollouts(mesh, (submission(n) for n in range(200)), credits=200))
        await mesh.until_noted("seed", 200)
        host.send_signal(signal.SIGKILL)
        found = await running
        assert len(found) == 200
        assert Counter(Outcome.Name(one.outcome) for one in found) == {"OUTCOME_COMPLETED": 200}
        assert {one.attempt for one in found} == {2}
        assert all(one.reward.value == 1.0 for one in found)


async def test_an_environment_that_dies_is_restarted_and_fails_only_its_rollouts(tmp_path: Path) -> None:
    with gymd(tmp_path, "process") as mesh:
        (fatal,) = await rollouts(mesh, [submission(1, "exit")], infra_retry_limit=1)
        assert fatal.outcome == Outcome.OUTCOME_ENV_FAILED
        assert (fatal.attempt, len(fatal.failure.attempts)) == (2, 1)
        assert not fatal.HasField("reward")
        (sound,) = await rollouts(mesh, [submission(2)])
        assert sound.outcome == Outcome.OUTCOME_COMPLETED


async def test_cancel_in_the_middle_of_a_tool_call_closes_the_session(mesh: Mesh) -> None:
    async with RolloutClient(mesh.address) as client, client.session() as session:

        async def run() -> list[Any]:
            return [result async for result in session.run([submission(1, "hang", group_id="g")])]

        running = asyncio.create_task(run())
        await mesh.until_noted("act", 1)
        assert await session.cancel(group_id="g", reason="test") == 1
        (result,) = await running
    assert result.rollout.outcome == Outcome.OUTCOME_CANCELLED
    await mesh.until_noted("close", 1)


async def test_a_client_that_goes_away_stops_its_work(mesh: Mesh) -> None:
    async with RolloutClient(mesh.address) as client:
        session = client.session()
        await session.__aenter__()
        results = session.run([submission(n, "hang") for n in range(5)])
        waiting = asyncio.ensure_future(anext(aiter(results)))
        await mesh.until_noted("act", 5)
        waiting.cancel()
        await asyncio.wait([waiting])
        await session.__aexit__(None, None, None)
    await mesh.until_noted("close", 5)


async def test_a_slow_consumer_stops_the_flow(mesh: Mesh) -> None:
    async with RolloutClient(mesh.address) as client, client.session(credits=8) as session:
        taken = 0
        async for _ in session.run(submission(n) for n in range(60)):
            taken += 1
            if taken == 10:
                # While nothing is taken, no more than the credits can be begun.
                await mesh.until_noted("seed", 16)
                await asyncio.sleep(0.3)
                assert len(mesh.notes("seed")) <= 10 + 2 * 8
        assert taken == 60


async def test_thousands_of_tasks_through_sixteen_credits(mesh: Mesh) -> None:
    found = await rollouts(mesh, (submission(n) for n in range(2_000)), credits=16)
    assert len(found) == 2_000
    assert all(one.reward.value == 1.0 for one in found)


async def test_sigterm_under_load_ends_every_rollout_and_leaves_no_child(tmp_path: Path) -> None:
    with gymd(tmp_path) as mesh:

        async def run() -> list[Any]:
            async with RolloutClient(mesh.address) as client, client.session(resume_window=0) as session:
                return [result async for result in session.run([submission(n, "hang") for n in range(20)])]

        running = asyncio.create_task(run())
        await mesh.until_noted("act", 20)
        mesh.process.send_signal(signal.SIGTERM)
        found = await running
        assert {Outcome.Name(one.rollout.outcome) for one in found} == {"OUTCOME_CANCELLED"}
        assert len(found) == 20
        assert await asyncio.to_thread(mesh.process.wait, 15) == 0


@pytest.fixture(autouse=True)
async def _clean() -> AsyncIterator[None]:
    """No task of a test outlives it."""
    before = asyncio.all_tasks()
    yield
    assert not [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]

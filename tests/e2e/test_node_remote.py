"""A resources server written in JavaScript, from the protos alone, takes part as `remote`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gymapi.v1.registry_service_pb2 import (
    PLACEMENT_REMOTE,
    SERVER_STATE_READY,
    SERVER_STATE_UNHEALTHY,
    Server,
)
from gymapi.v1.rollout_pb2 import (
    OUTCOME_COMPLETED,
    OUTCOME_ENV_FAILED,
    OUTCOME_VERIFY_FAILED,
    STAGE_SEED,
    STAGE_TOOL,
    STAGE_VERIFY,
    Rollout,
    Task,
)
from gymapi.v1.rollout_service_pb2 import RolloutResult, TaskSubmission
from gymd.client import RolloutClient
from gymd.convert import params_from_json
from gymd.errors import from_status_message

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).parent / "node"
NAME = "node_counter"
AGENT = "counting_agent"
WAIT_S = 30.0
NPM_S = 50.0

# What npm says when the lock file itself is wrong; anything else is the registry or the network.
OUR_FAULT = ("EUSAGE", "EINTEGRITY", "EJSONPARSE")

# Turn 1 adds the number of the user's message; turn 2 reads the counter; turn 3 ends.
RULES = [
    {
        "when": {"tool_outputs": 0, "match": r"add (\d+)"},
        "calls": [
            {"name": "increment_counter", "arguments": '{"count": {1}}'},
            # A tool named like an RPC is just an unknown tool; malformed arguments are the model's to read.
            {"name": "verify", "arguments": "{}"},
            {"name": "increment_counter", "arguments": '{"count": "two"}'},
        ],
    },
    {"when": {"tool_outputs": 3}, "call": {"name": "get_counter_value", "arguments": "{}"}},
    {"text": "done"},
]

CONFIG = {
    NAME: {"resources_servers": {NAME: {"placement": "remote"}}},
    "policy_model": {"responses_api_models": {"scripted_model": {"rules": RULES}}},
    AGENT: {
        "responses_api_agents": {
            "simple_agent": {
                "resources_server": {"type": "resources_servers", "name": NAME},
                "model_server": {"type": "responses_api_models", "name": "policy_model"},
                # A dead server must fail its rollouts soon, not after the patience of a real run.
                "peer_wait_s": 0.2,
            }
        }
    },
    "gymd": {"listen": "127.0.0.1:0", "pool_hosts": 1, "grace_s": 5},
}


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server with its packages, installed from the lock file."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json", "server.js"):
        shutil.copy(SOURCE / name, folder)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=NPM_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm ci did not end within {NPM_S:g} s: the registry is slow or unreachable")
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "warn" not in line]
        if any(code in done.stderr for code in OUR_FAULT):
            pytest.fail("npm ci: " + "\n".join(errors))
        pytest.skip(f"npm ci failed, the registry may be unreachable: {errors[-1] if errors else ''}")
    return folder


class Program:
    """A child process that says on stdout, in lines of JSON, what it has come to."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def said(self, event: str) -> dict[str, Any]:
        """The next line, which must be of that event."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            line = await self.process.stdout.readline()
        facts: dict[str, Any] = json.loads(line) if line else {"event": f"ended with {await self.ended()}"}
        assert facts["event"] == event, facts
        return facts

    async def ended(self) -> int:
        async with asyncio.timeout(WAIT_S):
            return await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM, as an operator would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        return await self.ended()

    async def kill(self) -> None:
        """No good-bye."""
        self.process.kill()
        await self.ended()


@contextlib.asynccontextmanager
async def running(*command: str, **options: Any) -> AsyncIterator[Program]:
    """A child process; killed at the end if it is still there."""
    program = Program(await asyncio.create_subprocess_exec(*command, stdout=PIPE, **options))
    try:
        yield program
    finally:
        if program.process.returncode is None:
            await program.kill()


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[str]:
    """A real daemon with an agent and a policy; the address."""
    config = tmp_path / "mesh.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    environment = {**os.environ, "GYMD_STATE_DIR": str(tmp_path / "state")}
    command = [sys.executable, "-m", "gymd", "-c", str(config)]
    async with running(*command, env=environment, cwd=tmp_path) as program:
        yield (await program.said("ready"))["address"]
        assert await program.stop() == 0


@pytest.fixture
async def client(daemon: str) -> AsyncIterator[RolloutClient]:
    async with RolloutClient(daemon, client_name="test") as client:
        yield client


def node_server(
    folder: Path, address: str, *, name: str = NAME, lease: float = 15
) -> contextlib.AbstractAsyncContextManager[Program]:
    """The JavaScript server as a child process."""
    options = ["--daemon", address, "--protos", str(ROOT / "protos"), "--name", name]
    return running("node", str(folder / "server.js"), *options, "--lease-seconds", str(lease))


async def until(client: RolloutClient, wanted: Any) -> list[Server]:
    """Watches the registry until `wanted(servers)` holds; returns the servers by then."""
    known: dict[str, Server] = {}
    stream = client.watch_servers()
    async with asyncio.timeout(WAIT_S), contextlib.aclosing(stream) as changes:  # type: ignore[type-var]
        async for change in changes:
            known.update({server.server_id: server for server in change.servers})
            for server_id in change.removed_server_ids:
                known.pop(server_id, None)
            if wanted(list(known.values())):
                return list(known.values())
    raise AssertionError("the watch ended")


def ready(*names: str) -> Any:
    """Whether servers of these names are ready."""
    return lambda servers: (
        {server.name for server in servers if server.state == SERVER_STATE_READY} >= set(names)
    )


def submission(number: int, count: int = 2, expected: int = 5) -> TaskSubmission:
    """Start at 3, add `count`, be at `expected`."""
    tools = [
        {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}
        for name in ("increment_counter", "get_counter_value")
    ]
    params = params_from_json({"input": [{"role": "user", "content": f"add {count}"}], "tools": tools})
    fields = json.dumps({"initial_count": 3, "expected_count": expected})
    return TaskSubmission(
        task_id=f"task-{number}", task=Task(agent=AGENT, create_params=params, fields_json=fields)
    )


async def run(client: RolloutClient, *submissions: TaskSubmission, retries: int = 0) -> list[Rollout]:
    async with client.session(credits=16, infra_retry_limit=retries) as session:
        results = [result async for result in session.run(submissions)]
    assert all(isinstance(result, RolloutResult) for result in results), results
    return [result.rollout for result in results if isinstance(result, RolloutResult)]


async def test_rollouts_run_on_a_server_in_another_language(
    daemon: str, client: RolloutClient, node_folder: Path
) -> None:
    async with node_server(node_folder, daemon) as node:
        address = (await node.said("registered"))["address"]
        servers = await until(client, ready(NAME, AGENT, "policy_model"))
        (server,) = [server for server in servers if server.name == NAME]
        assert server.placement == PLACEMENT_REMOTE
        assert (server.address, server.pid, server.capabilities.link) == (address, node.pid, False)

        rollouts = await run(client, submission(1), submission(2, count=4), *map(submission, range(3, 40)))

        by_task = {rollout.task_id: rollout for rollout in rollouts}
        assert len(by_task) == len(rollouts) == 39
        good, wrong = by_task["task-1"], by_task["task-2"]
        assert good.outcome == wrong.outcome == OUTCOME_COMPLETED
        assert (good.reward.value, wrong.reward.value) == (1.0, 0.0)
        assert json.loads(wrong.reward.extras_json) == {"count": 7, "expected_count": 5}
        assert (good.model_call_count, good.tool_call_count, good.tool_error_count) == (3, 4, 2)
        assert json.loads(good.response.output[-2].function_call_output.output_text) == {"count": 5}
        assert {rollout.reward.value for task, rollout in by_task.items() if task != "task-2"} == {1.0}

        assert await node.stop() == 0
        # Every session was closed by the agent, not by the end of the server.
        assert (await node.said("stopped"))["open_sessions"] == 0


async def test_a_task_that_does_not_fit_is_refused_by_reason(
    daemon: str, client: RolloutClient, node_folder: Path
) -> None:
    async with node_server(node_folder, daemon) as node:
        await node.said("registered")
        await until(client, ready(NAME, AGENT, "policy_model"))
        bad = submission(1)
        bad.task.fields_json = '{"initial_count": "three"}'
        (rollout,) = await run(client, bad)
        failure = from_status_message(rollout.failure.status)
        assert rollout.failure.stage == STAGE_SEED
        assert (failure.reason_name, failure.metadata["field"]) == (
            "INVALID_REQUEST",
            "task.fields_json.initial_count",
        )
        assert not rollout.HasField("reward")
        assert await node.stop() == 0


async def test_a_dead_server_turns_unhealthy_and_leaves(
    daemon: str, client: RolloutClient, node_folder: Path
) -> None:
    stranger = "node_stranger"  # in no configuration, so nothing keeps a place for it
    async with (
        node_server(node_folder, daemon, lease=1) as node,
        node_server(node_folder, daemon, name=stranger, lease=1) as other,
    ):
        await node.said("registered")
        await other.said("registered")
        await until(client, ready(NAME, stranger, AGENT, "policy_model"))

        def states(servers: list[Server]) -> dict[str, int]:
            return {server.name: server.state for server in servers}

        os.kill(other.pid, signal.SIGKILL)
        await until(client, lambda servers: states(servers).get(stranger) == SERVER_STATE_UNHEALTHY)
        left = await until(client, lambda servers: stranger not in states(servers))
        assert states(left)[NAME] == SERVER_STATE_READY  # it renewed all the while


async def test_rollouts_end_exactly_once_when_the_server_dies(
    daemon: str, client: RolloutClient, node_folder: Path
) -> None:
    async with node_server(node_folder, daemon, lease=1) as node:
        await node.said("registered")
        await until(client, ready(NAME, AGENT, "policy_model"))
        rollouts: list[Rollout] = []
        async with client.session(credits=16, infra_retry_limit=0) as session:
            async for result in session.run(map(submission, range(100))):
                assert isinstance(result, RolloutResult)
                rollouts.append(result.rollout)
                if len(rollouts) == 20:
                    await node.kill()

        assert sorted(rollout.task_id for rollout in rollouts) == sorted(f"task-{n}" for n in range(100))
        completed = [rollout for rollout in rollouts if rollout.outcome == OUTCOME_COMPLETED]
        failed = [rollout for rollout in rollouts if rollout.outcome != OUTCOME_COMPLETED]
        assert len(completed) >= 20
        assert failed
        for rollout in failed:
            assert rollout.outcome in (OUTCOME_ENV_FAILED, OUTCOME_VERIFY_FAILED)
            assert rollout.failure.stage in (STAGE_SEED, STAGE_TOOL, STAGE_VERIFY)
            assert not rollout.HasField("reward")

    # A server that comes back under the same name is given work again.
    async with node_server(node_folder, daemon) as again:
        await again.said("registered")

        def only_the_new_one(servers: list[Server]) -> bool:
            alive = {s.pid for s in servers if s.name == NAME and s.state == SERVER_STATE_READY}
            return alive == {again.pid}

        await until(client, only_the_new_one)  # the dead one's lease may have to run out first
        # The host hears of it on a watch of its own, maybe later: one more attempt covers that.
        (rollout,) = await run(client, submission(1), retries=2)
        assert rollout.reward.value == 1.0
        assert await again.stop() == 0

"""The TypeScript environment, written from the contract and docs/protocol.md, takes part as `remote`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
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
from gymd.client.rows import make_task, parse_row
from gymd.convert import params_from_json
from gymd.errors import from_status_message
from gymd.sdk.testing import (
    Attempt,
    check_running_resources_server,
    expect_error,
    no_tasks_left,
    reach_server,
)
from tests.e2e.typescript import ROOT, WAIT_S, Program, built, run_daemon, running

# The first use of the fixture installs and compiles.
pytestmark = pytest.mark.timeout(600)

EXAMPLE = ROOT / "examples/environments/typescript"
NAME = "warehouse"
AGENT = "warehouse_agent"
ROWS = [json.loads(line) for line in (EXAMPLE / "data/example.jsonl").read_text().splitlines()]

# Turn 1 sets the record that the user's message names; turn 2 counts; turn 3 ends.
RULES = [
    {
        "when": {"tool_outputs": 0, "match": r"set (\w+) to (\d+)"},
        "calls": [
            {"name": "set_record", "arguments": '{"item": "{1}", "count": {2}}'},
            # A tool named like an RPC is just an unknown tool; malformed arguments are the model's to read.
            {"name": "verify", "arguments": "{}"},
            {"name": "set_record", "arguments": '{"item": "{1}", "count": "two"}'},
        ],
    },
    {"when": {"tool_outputs": 3}, "call": {"name": "count_shelf", "arguments": '{"shelf": "B"}'}},
    {"text": "done"},
]


def truth(row: Mapping[str, Any]) -> dict[str, int]:
    """What lies on the shelves, by item."""
    counts = dict.fromkeys(row["records"], 0)
    for items in row["shelves"].values():
        for item, count in items.items():
            counts[item] += count
    return counts


def solving() -> list[dict[str, Any]]:
    """The rules of a policy that solves the example's rows."""
    rules = []
    for row in ROWS:
        look: list[dict[str, Any]] = [
            {"name": "count_shelf", "arguments": {"shelf": s}} for s in row["shelves"]
        ]
        wrong = {item: count for item, count in truth(row).items() if count != row["records"][item]}
        correct = [{"name": "set_record", "arguments": {"item": i, "count": n}} for i, n in wrong.items()]
        turns = [
            {"call": {"name": "read_records"}},
            {"calls": look},
            *([{"calls": correct}] if correct else []),
        ]
        question = row["responses_create_params"]["input"][0]["content"]
        rules.append({"when": {"contains": question}, "turns": [*turns, {"text": "All is counted."}]})
    return rules


def config() -> dict[str, Any]:
    """The example's own configuration, with a policy by rules."""
    mesh: dict[str, Any] = yaml.safe_load((EXAMPLE / "warehouse.yaml").read_text())
    mesh["policy_model"] = {"responses_api_models": {"scripted_model": {"rules": solving() + RULES}}}
    # A dead server must fail its rollouts soon, not after the patience of a real run.
    mesh[AGENT]["responses_api_agents"]["simple_agent"]["peer_wait_s"] = 0.2
    mesh["gymd"] = {"listen": "127.0.0.1:0", "pool_hosts": 1, "grace_s": 5}
    return mesh


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment, built."""
    return built("environments/typescript", tmp_path_factory.mktemp("warehouse"))


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[str]:
    """A real daemon with an agent and a policy; the address."""
    async with run_daemon(tmp_path, config()) as program:
        yield (await program.said("ready"))["address"]
        assert await program.stop() == 0


@pytest.fixture
async def client(daemon: str) -> AsyncIterator[RolloutClient]:
    async with RolloutClient(daemon, client_name="test") as client:
        yield client


def warehouse(
    folder: Path, address: str, *, name: str = NAME, lease: float = 15
) -> contextlib.AbstractAsyncContextManager[Program]:
    """The environment as a child process."""
    options = ["--daemon", address, "--name", name, "--lease-seconds", str(lease)]
    return running("node", str(folder / "dist/main.js"), *options)


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


def submission(number: int, count: int = 7) -> TaskSubmission:
    """4 bolts and 3 bolts are there, 5 are recorded, and the policy sets `count`."""
    tools = ROWS[0]["responses_create_params"]["tools"]
    params = params_from_json(
        {"input": [{"role": "user", "content": f"set bolts to {count}"}], "tools": tools}
    )
    fields = json.dumps({"shelves": {"A": {"bolts": 4}, "B": {"bolts": 3}}, "records": {"bolts": 5}})
    return TaskSubmission(
        task_id=f"task-{number}", task=Task(agent=AGENT, create_params=params, fields_json=fields)
    )


async def run(client: RolloutClient, *submissions: TaskSubmission, retries: int = 0) -> list[Rollout]:
    async with client.session(credits=16, infra_retry_limit=retries) as session:
        results = [result async for result in session.run(submissions)]
    assert all(isinstance(result, RolloutResult) for result in results), results
    return [result.rollout for result in results if isinstance(result, RolloutResult)]


async def test_rollouts_run_on_it_and_are_scored(daemon: str, client: RolloutClient, folder: Path) -> None:
    async with warehouse(folder, daemon) as program:
        address = (await program.said("registered"))["address"]
        servers = await until(client, ready(NAME, AGENT, "policy_model"))
        (server,) = [server for server in servers if server.name == NAME]
        assert server.placement == PLACEMENT_REMOTE
        assert (server.address, server.pid, server.capabilities.link) == (address, program.pid, False)

        rollouts = await run(client, submission(1), submission(2, count=9), *map(submission, range(3, 40)))

        by_task = {rollout.task_id: rollout for rollout in rollouts}
        assert len(by_task) == len(rollouts) == 39
        good, wrong = by_task["task-1"], by_task["task-2"]
        assert good.outcome == wrong.outcome == OUTCOME_COMPLETED
        assert (good.reward.value, wrong.reward.value) == (1.0, 0.0)
        assert json.loads(wrong.reward.extras_json) == {"wrong": {"bolts": {"recorded": 9, "counted": 7}}}
        assert (good.reward.components["right_records"], wrong.reward.components["right_records"]) == (
            1.0,
            0.0,
        )
        assert (good.model_call_count, good.tool_call_count, good.tool_error_count) == (3, 4, 2)
        assert json.loads(good.response.output[-2].function_call_output.output_text) == {"bolts": 3}
        assert {rollout.reward.value for task, rollout in by_task.items() if task != "task-2"} == {1.0}

        assert await program.stop() == 0
        # Every session was closed by the agent, not by the end of the server.
        assert (await program.said("stopped"))["open_sessions"] == 0


async def test_a_task_that_does_not_fit_is_refused_by_reason(
    daemon: str, client: RolloutClient, folder: Path
) -> None:
    async with warehouse(folder, daemon) as program:
        await program.said("registered")
        await until(client, ready(NAME, AGENT, "policy_model"))
        bad = submission(1)
        bad.task.fields_json = '{"shelves": {"A": {"bolts": "four"}}, "records": {"bolts": 5}}'
        (rollout,) = await run(client, bad)
        failure = from_status_message(rollout.failure.status)
        assert rollout.failure.stage == STAGE_SEED
        assert (failure.reason_name, failure.metadata["field"]) == (
            "INVALID_REQUEST",
            "task.fields_json.shelves.A.bolts",
        )
        assert not rollout.HasField("reward")
        assert await program.stop() == 0


async def test_a_dead_server_turns_unhealthy_and_leaves(
    daemon: str, client: RolloutClient, folder: Path
) -> None:
    stranger = "stranger"  # in no configuration, so nothing keeps a place for it
    async with (
        warehouse(folder, daemon, lease=1) as program,
        warehouse(folder, daemon, name=stranger, lease=1) as other,
    ):
        await program.said("registered")
        await other.said("registered")
        await until(client, ready(NAME, stranger, AGENT, "policy_model"))

        def states(servers: list[Server]) -> dict[str, int]:
            return {server.name: server.state for server in servers}

        os.kill(other.pid, signal.SIGKILL)
        await until(client, lambda servers: states(servers).get(stranger) == SERVER_STATE_UNHEALTHY)
        left = await until(client, lambda servers: stranger not in states(servers))
        assert states(left)[NAME] == SERVER_STATE_READY  # it renewed all the while


async def test_rollouts_end_exactly_once_when_the_server_dies(
    daemon: str, client: RolloutClient, folder: Path
) -> None:
    async with warehouse(folder, daemon, lease=1) as program:
        await program.said("registered")
        await until(client, ready(NAME, AGENT, "policy_model"))
        rollouts: list[Rollout] = []
        async with client.session(credits=16, infra_retry_limit=0) as session:
            async for result in session.run(map(submission, range(100))):
                assert isinstance(result, RolloutResult)
                rollouts.append(result.rollout)
                if len(rollouts) == 20:
                    await program.kill()

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
    async with warehouse(folder, daemon) as again:
        await again.said("registered")

        def only_the_new_one(servers: list[Server]) -> bool:
            alive = {s.pid for s in servers if s.name == NAME and s.state == SERVER_STATE_READY}
            return alive == {again.pid}

        await until(client, only_the_new_one)  # the dead one's lease may have to run out first
        # The host hears of it on a watch of its own, maybe later: one more attempt covers that.
        (rollout,) = await run(client, submission(1), retries=2)
        assert rollout.reward.value == 1.0
        assert await again.stop() == 0


async def test_it_passes_the_conformance_suite_and_solves_its_rows(
    daemon: str, client: RolloutClient, folder: Path
) -> None:
    def solved(row: Mapping[str, Any]) -> Attempt:
        return Attempt([("set_record", {"item": item, "count": count}) for item, count in truth(row).items()])

    def failed(row: Mapping[str, Any]) -> Attempt:
        item, count = next(iter(truth(row).items()))
        return Attempt([("set_record", {"item": item, "count": count + 1})])

    async with warehouse(folder, daemon) as program:
        address = (await program.said("registered"))["address"]
        async with no_tasks_left(), reach_server(address, "resources") as server:
            await check_running_resources_server(server, rows=ROWS, good=solved, bad=failed)
            await expect_error("INVALID_REQUEST", server.verify(ROWS[0]), "verify without a session")
            offered = {tool.name: json.loads(tool.parameters_json) for tool in await server.list_tools()}
        for row in ROWS:
            tools = row["responses_create_params"]["tools"]
            assert {tool["name"]: tool["parameters"] for tool in tools} == offered

        await until(client, ready(NAME, AGENT, "policy_model"))
        tasks = [make_task(parse_row(json.dumps(row))) for row in ROWS]
        found = await run(
            client, *(TaskSubmission(task_id=str(n), task=task) for n, task in enumerate(tasks))
        )
        assert [rollout.reward.value for rollout in found] == [1.0] * len(ROWS)
        assert [rollout.tool_error_count for rollout in found] == [0] * len(ROWS)
        assert await program.stop() == 0


async def test_it_joins_again_when_the_daemon_comes_back(folder: Path, tmp_path: Path) -> None:
    async with run_daemon(tmp_path, config()) as first:
        address = (await first.said("ready"))["address"]
        async with warehouse(folder, address, lease=1) as program:
            before = await program.said("registered")
            await first.kill()
            async with run_daemon(tmp_path, config(), f"gymd.listen={address}") as again:
                await again.said("ready")
                await program.said("lease_lost")
                assert (await program.said("registered"))["server_id"] != before["server_id"]
                async with RolloutClient(address, client_name="test") as client:
                    await until(client, ready(NAME, AGENT, "policy_model"))
                    (rollout,) = await run(client, submission(1), retries=2)
                assert rollout.reward.value == 1.0
                assert await program.stop() == 0
                assert await again.stop() == 0


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--lease-seconds", "soon", "--lease-seconds must be a whole number from 0 to 300, not 'soon'\n"),
        ("--host", "192.0.2.1", "cannot listen on 192.0.2.1:0: "),
    ],
)
def test_a_start_that_fails_says_why(folder: Path, option: str, value: str, why: str) -> None:
    command = ["node", folder / "dist/main.js", "--daemon", "127.0.0.1:1", option, value]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(why)
    assert done.stderr.count("\n") == 1

"""The counter: state from call to call, and a session for each rollout."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gymd.sdk.testing import (
    Attempt,
    RunningServer,
    Transport,
    check_resources_server,
    expect_error,
    make_task,
    start_server,
)
from gymservers.resources.example_session_state_mgmt.server import Counter

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "example_session_state_mgmt" / "example.jsonl"


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with start_server(Counter) as running:
        yield running


def row(initial: int, expected: int) -> dict[str, Any]:
    return {"initial_count": initial, "expected_count": expected}


def counts_right(task: Any) -> Attempt:
    step = task["expected_count"] - task["initial_count"]
    return Attempt([("increment_counter", {"count": step}), ("get_counter_value", {})], "Done.")


def counts_wrong(task: Any) -> Attempt:
    step = task["expected_count"] - task["initial_count"] + 1
    return Attempt([("increment_counter", {"count": step})], f"It is {task['expected_count']}.")


@pytest.mark.parametrize(
    ("initial", "steps", "expected", "reward"),
    [
        (0, [], 0, 1.0),
        (0, [], 1, 0.0),
        (1, [], 0, 0.0),
        (0, [0], 0, 1.0),
        (0, [-1], 0, 0.0),
        (-1, [1], 0, 1.0),
        (2**63 - 1, [1], 2**63, 1.0),
        (-(2**63), [-1], -(2**63), 0.0),
        (0, [10**400, 1 - 10**400], 1, 1.0),
        (1, [1] * 20, 21, 1.0),
        (3, [1, 2], 6, 1.0),
        (3, [2, 1], 6, 1.0),
        (3, [3], 6, 1.0),
        (3, [1], 6, 0.0),
        (3, [1, 2, 0], 6, 1.0),
        (0, [5, -5], 0, 1.0),
        (-2, [-3], -5, 1.0),
        (0, [2**70], 2**70, 1.0),
    ],
)
async def test_reward_table(
    server: RunningServer, initial: int, steps: list[int], expected: int, reward: float
) -> None:
    async with await server.seed(row(initial, expected)) as session:
        for step in steps:
            assert (await session.call("increment_counter", count=step)).json() == {"success": True}
        answer = await session.call("get_counter_value")
        assert json.loads(answer.output) == {"count": initial + sum(steps)}
        assert (await session.verify("whatever it says")).value == reward


@pytest.mark.parametrize("arguments", ['{"count": 1.5}', '{"count": "one"}', "{}", "[1]", '{"count": null}'])
async def test_a_wrong_step_is_answered_and_not_counted(server: RunningServer, arguments: str) -> None:
    async with await server.seed(row(4, 4)) as session:
        answer = await session.call_json("increment_counter", arguments)
        assert answer.is_error
        assert "count" in answer.output or "object" in answer.output
        assert (await session.call("get_counter_value")).json() == {"count": 4}


@pytest.mark.parametrize(
    "fields", [{"initial_count": 1}, {"expected_count": 1}, row(1, 1) | {"initial_count": "x"}]
)
async def test_a_row_without_its_fields_is_refused_before_it_runs(
    server: RunningServer, fields: dict[str, Any]
) -> None:
    failure = await expect_error("INVALID_REQUEST", server.seed(fields), "an incomplete row")
    assert "_count" in str(failure)
    assert server.open_sessions == []


async def test_a_conversation_without_a_task_counts_from_zero(server: RunningServer) -> None:
    async with await server.seed({}) as session:
        await session.call("increment_counter", count=2)
        assert (await session.call("get_counter_value")).json() == {"count": 2}
        await expect_error("INVALID_REQUEST", session.verify(), "verify without a task")


async def test_verify_needs_the_session(server: RunningServer) -> None:
    await expect_error("INVALID_REQUEST", server.verify(row(0, 0), "0"), "verify without a session")


@pytest.mark.parametrize("transport", ["link", "plain", "in-process"])
async def test_conformance(transport: Transport) -> None:
    await check_resources_server(
        Counter, rows=EXAMPLES, good=counts_right, bad=counts_wrong, transport=transport
    )


async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    await check_resources_server(Counter, rows=rows, good=counts_right, bad=counts_wrong)


async def test_the_rows_declare_the_tools_as_they_are(server: RunningServer) -> None:
    tools = {tool.name: json.loads(tool.parameters_json) for tool in await server.list_tools()}
    for example in EXAMPLES:
        declared = [tool.function for tool in make_task(example).create_params.tools]
        assert {tool.name: json.loads(tool.parameters_json) for tool in declared} == tools

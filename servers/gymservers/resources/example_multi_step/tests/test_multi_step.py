"""Many needles: what counts is the last list that was handed in."""

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
    function_call,
    make_response,
    make_task,
    start_server,
)
from gymservers.resources.example_multi_step.server import MultiNeedle

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "example_multi_step" / "example.jsonl"
ROW = {
    "id": 1,
    "expected_synonyms": ["Blazing", "Warm"],
    "expected_synonym_values": [711, 407],
    "minefield_label": "Hot",
    "minefield_label_value": 299,
}


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with start_server(MultiNeedle) as running:
        yield running


def hands_in_right(task: Any) -> Attempt:
    looks = [("get_synonym_value", {"synonym": synonym}) for synonym in task["expected_synonyms"]]
    return Attempt([*looks, ("extract_synonym_values", {"synonym_values": task["expected_synonym_values"]})])


def hands_in_the_term(task: Any) -> Attempt:
    return Attempt([("extract_synonym_values", {"synonym_values": [task["minefield_label_value"]]})])


def extract(values: Any) -> str:
    return json.dumps({"synonym_values": values})


# Arguments of the extract calls in order, reward, and the outputs that differ from "found nothing".
NOTHING = {
    "parsed_synonym_values": [],
    "accuracy": False,
    "set_overlap": 0.0,
    "original_term_minefield_hit": False,
    "order_instruction_following_failure": False,
}
CASES: list[tuple[list[str], float, dict[str, Any]]] = [
    ([], 0.0, {}),
    ([""], 0.0, {}),
    (["{not json"], 0.0, {}),
    (["[" * 100_000], 0.0, {}),
    (["[711, 407]"], 0.0, {}),
    (["{}"], 0.0, {}),
    (['{"synonym_values": null}'], 0.0, {}),
    ([extract("711, 407")], 0.0, {}),
    ([extract([])], 0.0, {}),
    ([extract([711, 407]), "{not json"], 0.0, {}),  # the last one counts, even a broken one
    ([extract([[711], {"x": 407}])], 0.0, {"parsed_synonym_values": [[711], {"x": 407}]}),
    (
        [extract([711, 407])],
        1.0,
        {"parsed_synonym_values": [711, 407], "accuracy": True, "set_overlap": 1.0},
    ),
    (
        [extract([1]), extract([711, 407])],
        1.0,
        {"parsed_synonym_values": [711, 407], "accuracy": True, "set_overlap": 1.0},
    ),
    (
        [extract([407, 711])],
        0.0,
        {
            "parsed_synonym_values": [407, 711],
            "set_overlap": 1.0,
            "order_instruction_following_failure": True,
        },
    ),
    ([extract([711])], 0.0, {"parsed_synonym_values": [711], "set_overlap": 0.5}),
    (
        [extract([711, 407, 299])],
        0.0,
        {
            "parsed_synonym_values": [711, 407, 299],
            "set_overlap": 1.0,
            "original_term_minefield_hit": True,
            "order_instruction_following_failure": True,
        },
    ),
    ([extract(["Hot"])], 0.0, {"parsed_synonym_values": ["Hot"], "original_term_minefield_hit": True}),
    ([extract([711, 711])], 0.0, {"parsed_synonym_values": [711, 711], "set_overlap": 0.5}),
]


@pytest.mark.parametrize(("calls", "reward", "outputs"), CASES)
async def test_reward_table(
    server: RunningServer, calls: list[str], reward: float, outputs: dict[str, Any]
) -> None:
    response = make_response(
        *(function_call("extract_synonym_values", arguments) for arguments in calls),
        function_call("get_synonym_value", {"synonym": "Warm"}),
        "711 and 407",
    )
    verdict = await server.verify(ROW, response=response)
    assert (verdict.value, verdict.extras) == (reward, NOTHING | outputs)


async def test_expected_values_that_repeat_count_in_the_length(server: RunningServer) -> None:
    response = make_response(function_call("extract_synonym_values", extract([5])))
    verdict = await server.verify(ROW | {"expected_synonym_values": [5, 5]}, response=response)
    assert verdict.extras["set_overlap"] == 0.5


@pytest.mark.parametrize(("synonym", "value"), [("Blazing", 711), ("", 0), ("ß𝔸", 0xDF + 0x1D538)])
async def test_values_are_sums_of_code_points(server: RunningServer, synonym: str, value: int) -> None:
    async with await server.seed(ROW) as session:
        assert (await session.call("get_synonym_value", synonym=synonym)).json() == {"synonym_value": value}
        answer = await session.call("extract_synonym_values", synonym_values=[value])
        assert answer.json() == {"success": True}


@pytest.mark.parametrize("key", [key for key in ROW if key != "id"])
async def test_a_row_without_its_fields_is_refused_before_it_runs(server: RunningServer, key: str) -> None:
    row = {name: value for name, value in ROW.items() if name != key}
    assert key in str(await expect_error("INVALID_REQUEST", server.seed(row), f"a row without {key}"))


async def test_a_row_that_expects_nothing_is_refused(server: RunningServer) -> None:
    call = server.seed(ROW | {"expected_synonym_values": []})
    await expect_error("INVALID_REQUEST", call, "a row that expects nothing")


@pytest.mark.parametrize("transport", ["link", "plain", "in-process"])
async def test_conformance(transport: Transport) -> None:
    await check_resources_server(
        MultiNeedle, rows=EXAMPLES, good=hands_in_right, bad=hands_in_the_term, transport=transport
    )


async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    await check_resources_server(MultiNeedle, rows=rows, good=hands_in_right, bad=hands_in_the_term)


async def test_the_rows_are_solvable_and_declare_the_tools_as_they_are(server: RunningServer) -> None:
    tools = {tool.name: json.loads(tool.parameters_json) for tool in await server.list_tools()}
    for example in EXAMPLES:
        assert [sum(map(ord, word)) for word in example["expected_synonyms"]] == example[
            "expected_synonym_values"
        ]
        task = make_task(example)
        assert {
            t.function.name: json.loads(t.function.parameters_json) for t in task.create_params.tools
        } == tools
        assert task.create_params.parallel_tool_calls is False

"""The weather: the tool, the reward that is always 1.0, and the size of the class."""

import inspect
import json
from pathlib import Path

import pytest

from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED, OUTCOME_TRUNCATED_TURNS
from gymd.sdk.testing import (
    Attempt,
    Transport,
    check_resources_server,
    function_call,
    make_response,
    make_task,
    message,
    reasoning,
    start_server,
)
from gymservers.resources.example_single_tool_call import server as module
from gymservers.resources.example_single_tool_call.server import Weather

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "example_single_tool_call" / "example.jsonl"
ASKS = Attempt([("get_weather", {"city": "Oslo"})], "It is cold in Oslo.")


async def test_tool_and_reward() -> None:
    async with start_server(Weather) as server, await server.seed({}) as session:
        answer = await session.call("get_weather", city="São Paulo")
        assert answer.json() == {
            "city": "São Paulo",
            "weather_description": "The weather in São Paulo is cold.",
        }
        assert (await session.call("get_weather", town="x")).is_error
        assert (await session.verify("anything")).value == 1.0
        assert (await server.verify({}, "")).value == 1.0


RESPONSES = [
    Response(),
    make_response(""),
    make_response(" \n "),
    make_response("It is warm."),
    make_response("It is cold in Oslo."),
    make_response("x" * 100_000),
    make_response("\x00\ud7ff\U0010ffff"),
    make_response("<think>"),
    make_response(reasoning("Hm.")),
    make_response(message("One."), message("Two.")),
    make_response(function_call("get_weather", {"city": "Oslo"})),
    make_response(function_call("get_weather", "{not json")),
    make_response(function_call("no_such_tool", {})),
    make_response(reasoning("Hm."), function_call("get_weather", {}), message("Cold.")),
    make_response(*(function_call("get_weather", {"city": "Oslo"}) for _ in range(200))),
]


async def test_every_answer_is_worth_the_same() -> None:
    async with start_server(Weather) as server:
        for response in RESPONSES:
            assert (await server.verify({}, response=response)).value == 1.0
        for outcome in (OUTCOME_COMPLETED, OUTCOME_TRUNCATED_TURNS):
            assert (await server.verify({"any": [None]}, "?", outcome=outcome)).value == 1.0


@pytest.mark.parametrize("transport", ["link", "plain", "in-process"])
async def test_conformance(transport: Transport) -> None:
    await check_resources_server(Weather, rows=EXAMPLES, good=ASKS, transport=transport)


async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    await check_resources_server(Weather, rows=rows, good=ASKS)


async def test_the_rows_declare_the_tool_as_it_is() -> None:
    async with start_server(Weather) as server:
        (tool,) = await server.list_tools()
    for row in EXAMPLES:
        (declared,) = make_task(row).create_params.tools
        assert declared.function.name == tool.name
        assert json.loads(declared.function.parameters_json) == json.loads(tool.parameters_json)


def test_it_is_twenty_lines_or_less() -> None:
    assert len(inspect.getsource(module).splitlines()) <= 20

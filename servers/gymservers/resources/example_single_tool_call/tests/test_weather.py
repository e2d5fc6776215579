"""The weather: the tool, the reward that is always 1.0, and the size of the class."""

import inspect
import json
from pathlib import Path

import pytest

from gymd.sdk.testing import Attempt, Transport, check_resources_server, make_task, start_server
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

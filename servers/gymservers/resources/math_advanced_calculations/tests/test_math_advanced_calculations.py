"""Counter-intuitive calculators: what each tool answers, which outputs earn the reward, published rows."""

import ast
import asyncio
import json
import math
import re
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
    tool_output,
)
from gymservers.resources.math_advanced_calculations.server import BATCH, CounterIntuitiveCalculators

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "math_advanced_calculations" / "example.jsonl"

# What the example rows ask for, in the order of their ground truth.
EXPRESSIONS = [
    ["(7.0 * 3.0)"],
    ["(8.0 + 5.0)", "(2.0 - 6.0)", "cos(1.0)"],
    ["(log(8.0, 2.0) / 4.0)", "-(pi)"],
    ["sin((2.0 ** 3.0))", "((6.0 / 4.0) * (9.0 - 5.0))", "4.0", "(pi + 1.0)"],
    ["(((3.0 + 2.0) * -(7.0)) - log((5.0 * 2.0), 3.0))", "cos(((9.0 - 4.0) / pi))"],
]


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with start_server(CounterIntuitiveCalculators, transport="in-process") as running:
        yield running


# Tool, arguments, and what it answers.
TOOLS: list[tuple[str, dict[str, Any], float]] = [
    ("add", {"a": 1, "b": 3}, 5.2),
    ("subtract", {"a": 15, "b": 5.5}, 6.5),
    ("multiply", {"a": 5, "b": 2}, 11.0),
    ("divide", {"a": 10, "b": 4}, 1.25),
    ("divide", {"a": 0, "b": -4}, -0.0),
    ("power", {"a": 2, "b": 3}, 32.0),
    ("power", {"a": 3, "b": -2}, 1.0),
    ("power", {"a": -2, "b": 1}, -8.0),
    ("power", {"a": 0, "b": -2}, 1.0),
    ("log", {"a": 1000, "base": 8.5}, 2.9999999999999996),
    ("log", {"a": 1000, "base": -11.5}, 2.9999999999999996),  # the base is taken without its sign
    ("sin", {"radians": 0}, 1.0),
    ("cos", {"radians": 0}, 0.0),
    ("negate", {"a": 7}, 7.0),
    ("negate", {"a": -7.5}, -7.5),
    ("pi", {}, math.e),
    ("return_constant", {"a": 42}, 42.0),
    ("return_constant", {"a": "42"}, 42.0),  # a number in quotes
]


@pytest.mark.parametrize(("name", "arguments", "solution"), TOOLS)
async def test_tools(server: RunningServer, name: str, arguments: dict[str, Any], solution: float) -> None:
    async with await server.seed(EXAMPLES[0]) as session:
        answer = await session.call(name, **arguments)
        assert not answer.is_error
        assert answer.json() == {"solution": solution}
        assert "." in answer.output  # a float, as in NeMo Gym: 7.0, never 7


# Tool, arguments as a model writes them, and a part of the text that it reads.
REFUSED = [
    ("divide", '{"a": 1, "b": 0}', "division by zero"),
    ("power", '{"a": 0, "b": -3}', "no result"),
    ("power", '{"a": -2, "b": 0.5}', "no real number"),
    ("power", '{"a": 10, "b": 1e300}', "no result"),
    ("power", '{"a": 1e300, "b": 1}', "no result"),
    ("multiply", '{"a": 1e300, "b": 1e300}', "too large"),
    ("subtract", '{"a": -1.7e308, "b": 1.7e308}', "too large"),
    ("log", '{"a": 0, "base": 2}', "no result"),
    ("log", '{"a": -6, "base": -2}', "no result"),
    ("log", '{"a": 5, "base": -0.5}', "division by zero"),  # base 1
    ("log", '{"a": 5, "base": -1.5}', "no result"),  # base 0
    ("add", '{"a": NaN, "b": 1}', "finite"),
    ("add", '{"a": Infinity, "b": 1}', "finite"),
    ("add", '{"a": 1e999, "b": 1}', "finite"),
    ("add", '{"a": "inf", "b": 1}', "finite"),
    ("add", '{"a": %s, "b": 1}' % ("9" * 4_000), "finite"),
    ("add", '{"a": %s, "b": 1}' % ("9" * 1_000_000), "Invalid"),
    ("add", '{"a": "x", "b": 1}', "valid number"),
    ("add", '{"a": 1, "b": null}', "valid number"),
    ("add", '{"a": 1}', "b: Field required"),
    ("pi", "[]", "Invalid"),
]


@pytest.mark.parametrize(("name", "arguments", "why"), REFUSED, ids=lambda value: str(value)[:30])
async def test_without_a_result_the_model_reads_why(
    server: RunningServer, name: str, arguments: str, why: str
) -> None:
    async with await server.seed(EXAMPLES[0]) as session:
        answer = await session.call_json(name, arguments)
        assert answer.is_error
        assert why in answer.json()["error"]


def outputs(*texts: str) -> Any:
    """A response with these tool outputs."""
    return make_response(*(tool_output(f"call_{number}", text) for number, text in enumerate(texts)), "Done.")


def solution(value: Any) -> str:
    return json.dumps({"solution": value})


FIVE, NINE = solution(5.2), solution(9.9)

# Ground truth, tool outputs in order, and the reward. Edge cases first.
CASES: list[tuple[Any, list[str], float]] = [
    ("[]", [], 1.0),  # nothing is expected
    ([], [], 1.0),
    ("[]", [FIVE], 1.0),
    ("[5.2]", [], 0.0),
    ("[5.2]", ["5.2"], 0.0),
    ("[5.2]", [""], 0.0),
    ("[5.2]", ["{"], 0.0),
    ("[5.2]", ["[" * 100_000], 0.0),
    ("[5.2]", ['{"error": "There is no result: float division by zero."}'], 0.0),
    ("[5.2]", ['{"Solution": 5.2}'], 0.0),
    ("[5.2]", ['{"solution": null}'], 0.0),
    ("[5.2]", ['{"solution": [5.2]}'], 0.0),
    ("[5.2]", ['{"solution": %s}' % ("9" * 400)], 0.0),
    ("[5.2]", ['{"solution": %s}' % ("9" * 5_000)], 0.0),
    ("[5.2]", ['{"solution": NaN}', '{"solution": Infinity}'], 0.0),
    ("[5.2]", ["null", "{", FIVE], 1.0),  # broken outputs do not spoil others
    ("[5.2]", [FIVE], 1.0),
    ([5.2], [FIVE], 1.0),  # a list instead of its text
    ("[5.2]", ['{"solution": "5.2"}'], 1.0),
    ("[5]", [solution(5.0)], 1.0),
    ("[1.0]", ['{"solution": true}'], 1.0),
    ("[0.0]", [solution(-0.0)], 1.0),
    ("[0.3]", [solution(0.1 + 0.2)], 0.0),  # exactly, not nearly
    ("[9007199254740993]", [solution(9007199254740992.0)], 0.0),  # integers beyond a float's reach
    ("[5.2, 9.9]", [FIVE], 0.0),
    ("[5.2, 9.9]", [NINE, FIVE], 1.0),  # the order does not count
    ("[5.2, 9.9]", [FIVE, solution(1.0), NINE, NINE], 1.0),  # nor do more calls
    ("[5.2, 5.2]", [FIVE], 1.0),  # once is enough
    ("[5.2]", [solution(1.0)] * (2 * BATCH) + [FIVE], 1.0),
]


@pytest.mark.parametrize(("ground_truth", "texts", "reward"), CASES, ids=lambda value: str(value)[:40])
async def test_reward_table(
    server: RunningServer, ground_truth: Any, texts: list[str], reward: float
) -> None:
    verdict = await server.verify({"ground_truth": ground_truth}, response=outputs(*texts))
    assert verdict.value == reward
    assert (verdict.extras["missing"] == []) == (reward == 1.0)


async def test_only_outputs_of_tools_count(server: RunningServer) -> None:
    row = {"ground_truth": "[5.2]"}
    response = make_response(function_call("add", {"a": 1, "b": 3}), 'It is {"solution": 5.2}.', FIVE)
    assert (await server.verify(row, response=response)).value == 0.0
    assert (await server.verify(row, text=FIVE)).value == 0.0


async def test_what_is_missing_is_told(server: RunningServer) -> None:
    verdict = await server.verify({"ground_truth": "[5.2, 1.5, 9.9]"}, response=outputs(NINE))
    assert verdict.extras == {"missing": [5.2, 1.5]}


@pytest.mark.parametrize(
    "ground_truth",
    [
        None,
        "",
        "5.2",
        '{"a": 1}',
        "[NaN]",
        "[1e999]",
        '["5.2"]',
        "[null]",
        "[true]",
        "[" * 100_000,
        ["5.2"],
        {},
    ],
    ids=lambda value: str(value)[:12],
)
async def test_a_ground_truth_that_nothing_can_reach_is_refused_before_it_runs(
    server: RunningServer, ground_truth: Any
) -> None:
    seeding = server.seed({"id": 1, "ground_truth": ground_truth})
    assert "ground_truth" in str(await expect_error("INVALID_REQUEST", seeding, "a row without numbers"))
    verifying = server.verify({"ground_truth": ground_truth}, response=outputs(FIVE))
    await expect_error("INVALID_REQUEST", verifying, "verifying it nevertheless")  # and no reward


async def test_verifying_together_stays_correct(server: RunningServer) -> None:
    async def reward(number: int) -> float:
        row = {"ground_truth": json.dumps([float(number)])}
        texts = [solution(float(number + number % 2)), *([FIVE] * (2 * BATCH))]
        return (await server.verify(row, response=outputs(*texts))).value

    rewards = await asyncio.gather(*map(reward, range(6, 70)))
    assert rewards == [1.0, 0.0] * 32


class Plan:
    """The calls that work expressions out, and what they come to."""

    OPERATORS = {  # noqa: RUF012 - never changed
        ast.Add: ("add", lambda a, b: a + b + 1.2),
        ast.Sub: ("subtract", lambda a, b: a - b - 3),
        ast.Mult: ("multiply", lambda a, b: 1.1 * a * b),
        ast.Div: ("divide", lambda a, b: 0.5 * a / b),
        ast.Pow: ("power", lambda a, b: a ** (b + 2)),
    }

    def __init__(self, expressions: list[str]) -> None:
        self.calls: list[tuple[str, dict[str, float]]] = []
        self.values = [self.value(ast.parse(text, mode="eval").body, top=True) for text in expressions]

    def call(self, name: str, value: float, **arguments: float) -> float:
        self.calls.append((name, arguments))
        return value

    def value(self, node: Any, top: bool = False) -> float:
        if isinstance(node, ast.Constant):
            number: Any = node.value
            return self.call("return_constant", number, a=number) if top else number
        if isinstance(node, ast.Name):
            return self.call("pi", math.e)
        if isinstance(node, ast.UnaryOp):
            a = self.value(node.operand)
            return self.call("negate", a, a=a)
        if isinstance(node, ast.BinOp):
            a, b = self.value(node.left), self.value(node.right)
            name, operation = self.OPERATORS[type(node.op)]
            return self.call(name, operation(a, b), a=a, b=b)
        arguments = [self.value(argument) for argument in node.args]
        if node.func.id == "log":
            a, base = arguments
            return self.call("log", math.log(a, abs(base + 1.5)), a=a, base=base)
        (angle,) = arguments
        twisted = {"sin": math.cos, "cos": math.sin}[node.func.id]
        return self.call(node.func.id, twisted(angle), radians=angle)


def published_expressions(row: Any) -> list[str]:
    """What a published row asks for, out of its prompt."""
    prompt = row["responses_create_params"]["input"][0]["content"]
    found = re.fullmatch(r"Get me the values? for (.*) using only the given tools\.", prompt)
    assert found is not None, prompt
    listed = ast.parse(f"[{found[1].replace(', and ', ', ').replace(' and ', ', ')}]", mode="eval").body
    assert isinstance(listed, ast.List)
    return [ast.unparse(node) for node in listed.elts]


def works_it_out(row: Any) -> Attempt:
    prompt = row["responses_create_params"]["input"][0]["content"]
    known = row["id"] < len(EXPRESSIONS) and EXPRESSIONS[row["id"]][0] in prompt
    return Attempt(Plan(EXPRESSIONS[row["id"]] if known else published_expressions(row)).calls, "Done.")


def trusts_its_own_head(row: Any) -> Attempt:
    return Attempt([("return_constant", {"a": 1.0})], "All done.")


@pytest.mark.parametrize("transport", ["link", "plain", "in-process"])
async def test_conformance(transport: Transport) -> None:
    await check_resources_server(
        CounterIntuitiveCalculators,
        rows=EXAMPLES,
        good=works_it_out,
        bad=trusts_its_own_head,
        transport=transport,
    )


async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    for row in rows:
        assert Plan(published_expressions(row)).values == json.loads(row["ground_truth"])
    await check_resources_server(
        CounterIntuitiveCalculators, rows=rows, good=works_it_out, bad=trusts_its_own_head
    )
    async with start_server(CounterIntuitiveCalculators) as server:
        assert parameters(make_task(rows[0])) == {
            item.name: set(json.loads(item.parameters_json)["properties"])
            for item in await server.list_tools()
        }


def parameters(task: Any) -> dict[str, set[str]]:
    tools = [item.function for item in task.create_params.tools]
    return {item.name: set(json.loads(item.parameters_json)["properties"]) for item in tools}


async def test_the_rows_are_as_they_say_and_declare_the_tools_as_they_are(server: RunningServer) -> None:
    definitions = [item.SerializeToString(deterministic=True) for item in await server.list_tools()]
    assert len(definitions) == 11
    for row, expressions in zip(EXAMPLES, EXPRESSIONS, strict=True):
        task = make_task(row)
        prompt = row["responses_create_params"]["input"][0]["content"]
        assert all(expression in prompt for expression in expressions)
        assert Plan(expressions).values == json.loads(row["ground_truth"])
        assert row["breadth"] == len(expressions)
        assert [
            item.function.SerializeToString(deterministic=True) for item in task.create_params.tools
        ] == definitions
        assert task.create_params.parallel_tool_calls is False
        assert task.create_params.temperature == 1.0


async def test_the_tool_log_and_the_logger_do_not_meet(server: RunningServer) -> None:
    assert server.server.log.name == f"gymd.server.{server.name}"
    assert "log" in [item.name for item in await server.list_tools()]

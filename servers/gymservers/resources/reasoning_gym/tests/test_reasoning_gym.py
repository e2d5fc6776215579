"""reasoning_gym: what is taken for the answer, the rewards, rows that cannot be scored, and the wire."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pydantic
import pytest
import pytest_asyncio

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymd.sdk import shared_pool
from gymd.sdk.testing import (
    RunningServer,
    check_resources_server,
    expect_error,
    make_response,
    message,
    reasoning,
    start_server,
)
from gymservers.resources.reasoning_gym.extraction import extract_answer
from gymservers.resources.reasoning_gym.scoring import score
from gymservers.resources.reasoning_gym.server import SCORE, Puzzle, ReasoningGym
from gymservers.resources.reasoning_gym.verdicts import BadTask, Scored

pytestmark = [
    # A package that the library needs leaves a file open.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(180),  # a busy machine loads the library for long
]
shared = pytest.mark.asyncio(loop_scope="module")
"""For tests that use the one server; it lives on the module's event loop."""

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "reasoning_gym" / "example.jsonl"

# What the model says, what is taken for its answer. Edge cases first.
EXTRACTIONS: list[tuple[str, str]] = [
    ("", ""),
    (" \n ", ""),
    ("  5 ", "5"),
    ("The sum is 5.", "The sum is 5."),
    ("<answer>", "<answer>"),
    ("<answer>5", "<answer>5"),
    ("</answer>5<answer>", "</answer>5<answer>"),
    ("<answer></answer>", ""),
    ("<answer> \n </answer>", ""),
    ("<answer>\n 5\n 6 </answer>", "5\n 6"),
    ("<answer>4</answer> no: <answer>5</answer>", "5"),  # the last one
    ("<answer>5</answer> and <answer>6", "5"),  # that is closed
    ("<answer>4<answer>5</answer>", "4<answer>5"),
    ("<Answer>5</Answer>", "<Answer>5</Answer>"),
    ("<answer >5</answer >", "<answer >5</answer >"),
    (r"<answer>5</answer> or \boxed{6}", "5"),
    (r"\boxed{6} or <answer></answer>", ""),
    (r"So \boxed{5}.", "5"),
    (r"\boxed{4}, no: \boxed{5}", "4"),  # the first one
    (r"\boxed{} \boxed{ 5 }", "5"),
    (r"\boxed{}", r"\boxed{}"),
    (r"\boxed{5", r"\boxed{5"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{{5}", "{5"),
    (r"\boxed {5}", r"\boxed {5}"),
    (r"\boxed{a\}b}", "a\\"),
    ("\\boxed{\n5\n}", "5"),
]


@pytest.mark.parametrize(("text", "answer"), EXTRACTIONS)
def test_extraction(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize("piece", ["<answer>", "\\boxed{", "<answer>\\boxed{", "\\boxed{}"])
def test_extraction_takes_linear_time(piece: str) -> None:
    extract_answer(piece * 50_000)  # as a pattern, hours


def row(dataset: str, answer: str | None, **metadata: Any) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": "Go."},
        "question": "?",
        "answer": answer,
        "metadata": {"source_dataset": dataset} | metadata,
    }


SUM = row("chain_sum", "12")
FACTORS = row("prime_factorization", "2 × 3", factors=[2, 3])
POLYNOMIAL = row("polynomial_multiplication", "x**2 - 1")
INTEGRAL = row("simple_integration", "x**2 + C", integrand="2*x", variable="x")
COUNTDOWN = row("countdown", "2*3+1", numbers=[1, 2, 3], target=7)
GAME_24 = row("puzzle24", "1*2*3*4", numbers=[1, 2, 3, 4])
QUEENS = row("n_queens", "Q _\n_ Q", valid_answers=["Q _\n_ Q"])
SPIRAL = row("spiral_matrix", "1 2 3")
BITS = row("bitwise_arithmetic", "0x30", problem="((0x1 + 0x2) << 0x4)")
GRID = row("arc_agi", "1 2\n3 4", output=[[1, 2], [3, 4]])
GRAPH = {"vertices": [0, 1], "edges": [[0, 1]], "num_colors": 2, "color_options": [1, 2]}
COLOURS = row("graph_color", None, puzzle=GRAPH)
COIN = row("coin_flip", "0.234375")
LIFE = row("game_of_life_halting", "False")
COMPLEX = row("complex_arithmetic", "8.0 + 3.0i", result=[8.0, 3.0])
SORTED = row("number_sorting", "['-1.0', '2.5']", direction="ascending")
CUBE = row("rubiks_cube", None, cube_size=3, scramble_moves="R")

# Its scorer raises a ValueError.
RAISING = ("<answer>two times three</answer>",)

# The row, what the model says, the reward.
CASES: list[tuple[dict[str, Any], str, float]] = [
    (SUM, "", 0.0),
    (SUM, "<answer></answer>", 0.0),
    (SUM, "<answer>13</answer>", 0.0),
    (SUM, "<answer>12</answer>", 1.0),
    (SUM, r"\boxed{12}", 1.0),
    (SUM, "12", 1.0),
    (SUM, "It is 12.", 2 / 9),  # partial credit of the library: how much of the text is the answer
    (SUM, "<answer>13</answer> 12", 0.0),
    (FACTORS, "<answer>2 × 3</answer>", 1.0),
    (FACTORS, "<answer>two times three</answer>", 0.0),
    (POLYNOMIAL, "<answer>x**2 - 1</answer>", 1.0),
    (POLYNOMIAL, "<answer>x**2 - 2</answer>", 0.0),
    (POLYNOMIAL, "<answer>__import__('os').getpid()</answer>", 0.0),
    (POLYNOMIAL, "<answer>9**9**9**9</answer>", 0.0),
    (INTEGRAL, "<answer>x**2 + C</answer>", 1.0),
    (INTEGRAL, "<answer>x*x + 7 # by parts</answer>", 1.0),
    (INTEGRAL, "<answer>exp(log(x**2))</answer>", 1.0),
    (INTEGRAL, "<answer>2*x</answer>", 0.0),
    (INTEGRAL, "<answer>exec('x')</answer>", 0.0),
    (COUNTDOWN, "<answer>2*3+1</answer>", 1.0),
    (COUNTDOWN, "<answer>2*3-1</answer>", 0.05),
    (COUNTDOWN, "<answer>8-1</answer>", 0.05),
    (COUNTDOWN, "<answer>open('x')</answer>", 0.01),
    (GAME_24, "<answer>4*3*2*1</answer>", 1.0),
    (GAME_24, "<answer>4*3*2</answer>", 0.01),
    (GAME_24, "<answer>input(1, 2, 3, 4)</answer>", 0.01),
    (QUEENS, "<answer>Q _\n_ Q</answer>", 1.0),
    (QUEENS, "<answer>[['Q', '_'], ['_', 'Q']]</answer>", 0.5),
    (QUEENS, "<answer>[list('Q_'), list('_Q')]</answer>", 0.0),  # a program is no answer
    (SPIRAL, "<answer>[1, 2, 3]</answer>", 0.1),
    (SPIRAL, "<answer>range(1, 4)</answer>", 0.0),
    (BITS, "<answer>0x30</answer>", 1.0),
    (BITS, "<answer>48</answer>", 1.0),
    (BITS, "<answer>0x31</answer>", 0.0),
    (BITS, "<answer>__import__('os')</answer>", 0.0),
    (GRID, "<answer>1 2\n3 4</answer>", 1.0),  # 0.05 where JSON's lists are compared with tuples
    (GRID, "<answer>1 2\n3 5</answer>", 0.05),
    (COLOURS, '<answer>{"0": 1, "1": 2}</answer>', 1.0),
    (COLOURS, '<answer>{"0": 1, "1": 1}</answer>', 0.01),
    (COIN, "<answer>15/64</answer>", 1.0),
    (COIN, "<answer>0.2344</answer>", 1.0),
    (COIN, "<answer>0.23</answer>", 4 / 8),  # the digits that agree; the library gives 1.0 for these
    (COIN, "<answer>0</answer>", 1 / 8),
    (COIN, "<answer>half</answer>", 0.0),
    (LIFE, "<answer>false</answer>", 1.0),
    (LIFE, "<answer>True</answer>", 0.0),  # the library gives 1.0 for any text
    (LIFE, "<answer>no idea</answer>", 0.0),
    (COMPLEX, "<answer>8 + 3i</answer>", 1.0),
    (COMPLEX, "<answer>nan</answer>", 0.0),  # the library gives 1.0 for these
    (COMPLEX, "<answer>( n an + 3i)</answer>", 0.0),
    (COMPLEX, "<answer>inf</answer>", 0.0),
    (COMPLEX, "<answer>eight</answer>", 0.0),
    (SORTED, "<answer>['-1.0', '2.5']</answer>", 1.0),
    (SORTED, "<answer>[-1, 2.5]</answer>", 1.0),
    (SORTED, "<answer>['nan', 'nan']</answer>", 0.0),  # the library gives 1.0 for these
    (SORTED, '<answer>["\\u006ean", NaN]</answer>', 0.0),
    (SORTED, "<answer>nan</answer>", 0.0),
    (GAME_24, "<answer>8*3*(2-1)</answer>", 1.0),
    (row("puzzle24", "...", dataset_config={"max_value": 5}), "<answer>8*3*(2-1)</answer>", 0.01),
    (CUBE, "<answer>R'</answer>", 1.0),
    (CUBE, "<answer>nonsense</answer>", 0.01),
]


def scored_here(task: dict[str, Any], text: str) -> Scored | BadTask:
    """What a worker process would say, without one: importing the library there takes seconds."""
    return score(task["question"], task["answer"], task["metadata"], extract_answer(text))


def test_reward_table() -> None:
    for task, text, value in CASES:
        verdict = scored_here(task, text)
        where = (task["metadata"]["source_dataset"], text)
        assert isinstance(verdict, Scored), where
        assert verdict.value == pytest.approx(value), where
        assert bool(verdict.error) == (text in RAISING), where


# Rows that cannot be scored, a word of the error.
BAD: list[tuple[dict[str, Any], str]] = [
    (row("chain_sun", "12"), "did you mean 'chain_sum'"),
    (row("zzzzzzzz", "12"), "no data set"),
    (row("composite", "12"), "a mix"),
    (row("chain_sum", None), "no answer"),
    (row("simple_integration", "x**2", variable="x"), "'integrand'"),  # its scorer hides the mistake
    (row("graph_color", None), "'puzzle'"),
    (row("prime_factorization", "six"), "even the row's own answer"),
    (row("chain_sum", "12", dataset_config={"min_terms": -1}), "dataset_config"),
    (row("chain_sum", "12", dataset_config={"made_up": 1}), "dataset_config"),
]


def test_rows_that_cannot_be_scored_are_no_wrong_answers() -> None:
    for task, word in BAD:
        verdict = scored_here(task, "{}" if task["metadata"]["source_dataset"] == "graph_color" else "2*y")
        assert isinstance(verdict, BadTask), task
        assert word in verdict.reason


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {}},
        {"metadata": {"source_dataset": ""}},
        {"metadata": {"source_dataset": 5}},
        {"metadata": None},
        {"answer": 12},
        {"question": None},
    ],
)
def test_rows_are_checked_before_a_model_is_asked(fields: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        Puzzle.model_validate(SUM | fields)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningServer]:
    """One server for several tests, with two workers that have loaded the library."""
    async with start_server(ReasoningGym, {"verify_timeout_s": 30.0}) as running:
        calls = (shared_pool().run(SCORE, ("?", "1", SUM["metadata"], "1"), timeout=60) for _ in range(2))
        await asyncio.gather(*calls)
        yield running


@shared
async def test_the_server(server: RunningServer) -> None:
    response = make_response(message("<answer>1"), reasoning("<answer>5</answer>"), message("2</answer>"))
    reward = await server.verify(SUM, response=response)
    assert reward.value == 1.0
    assert reward.extras == {"task_name": "chain_sum", "score": 1.0, "extracted_answer": "12"}
    reward = await server.verify(FACTORS, "<answer>two</answer>")
    assert reward.value == 0.0
    assert "ValueError" in reward.extras["scorer_error"]
    failure = await expect_error(
        "INVALID_REQUEST", server.verify(row("mase", "1"), "1"), "an unknown data set"
    )
    assert "did you mean 'maze'" in str(failure)
    await expect_error("INVALID_REQUEST", server.seed(row("", "12")), "seeding without a data set")
    texts = ["12" if number % 3 else "13" for number in range(64)]
    rewards = await asyncio.gather(*(server.verify(SUM, text) for text in texts))
    assert [reward.value for reward in rewards] == [float(text == "12") for text in texts]


def test_the_server_does_not_load_the_library() -> None:
    code = (
        "import sys, gymservers.resources.reasoning_gym.server as s\n"
        "assert not {'reasoning_gym', 'sympy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def scored(task: str, value: float | None) -> ScoredRollout:
    rollout = ScoredRollout(task_id="x")
    if value is not None:
        rollout.reward.value = value
        rollout.reward.extras_json = orjson.dumps({"task_name": task}).decode()
    return rollout


def test_metrics_by_data_set() -> None:
    server = ReasoningGym("reasoning_gym", ReasoningGym.Config(), mesh=None)  # type: ignore[arg-type]
    rollouts = [scored("maze", 1.0), scored("maze", 0.5), scored("ab", 0.0), scored("ab", None)]
    assert server.aggregate_metrics(rollouts) == {
        "count": 3,
        "mean_reward": 0.5,
        "std_reward": pytest.approx(0.408, abs=1e-3),
        "mean_reward/ab": 0.0,
        "mean_reward/maze": 0.75,
    }


def right(task: Any) -> str:
    return f"I think so: <answer>{task['answer']}</answer>"


@shared
@pytest.mark.usefixtures("server")  # for its workers
async def test_conformance_with_own_and_published_rows() -> None:
    rows = list(EXAMPLES)
    if SHARED.exists():
        rows += [json.loads(line) for line in SHARED.read_text().splitlines()]
    await check_resources_server(ReasoningGym, rows=rows, good=right, bad="No idea.")


@shared  # last, since it costs a worker
async def test_scoring_that_never_ends_is_killed_and_nothing_else_waits(server: RunningServer) -> None:
    endless = server.verify(GAME_24, "<answer>factorial(99999999)</answer>")
    hanging = asyncio.ensure_future(expect_error("DEADLINE_EXCEEDED", endless, "an endless answer"))
    assert (await server.verify(SUM, "12")).value == 1.0
    assert not hanging.done()
    await hanging

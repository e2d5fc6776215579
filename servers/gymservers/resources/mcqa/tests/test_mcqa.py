"""Multiple-choice grading: the table of rewards first, then templates, metrics and the wire."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymd.errors import GymdError
from gymd.sdk.testing import (
    RunningServer,
    check_resources_server,
    expect_error,
    make_response,
    message,
    reasoning,
    start_server,
)
from gymservers.resources.mcqa.server import MultipleChoice

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "mcqa" / "example.jsonl"

OPTIONS = [{"A": "Circle"}, {"B": "Square"}, {"C": "Right triangle"}, {"D": "Triangle"}]
STRICT, BOXED, COLON, MARKDOWN = (
    "strict_single_letter_boxed",
    "lenient_boxed",
    "lenient_answer_colon",
    "lenient_answer_colon_md",
)

# mode, what the model says, the letter to be read (None: none). Edge cases first.
CASES: list[tuple[str, str, str | None]] = [
    (STRICT, "", None),
    (STRICT, "   \n ", None),
    (STRICT, r"\boxed{", None),
    (STRICT, r"\boxed{B} and then \boxed{", None),  # the last box counts, even a broken one
    (STRICT, r"\boxed{}", None),
    (STRICT, r"\boxed{E}", None),  # no such option
    (STRICT, r"\boxed{b}", None),  # lower case
    (STRICT, r"\boxed{AB}", None),
    (STRICT, r"\boxed{A, B}", None),
    (STRICT, r"\boxed{Square}", None),  # the text of an option is lenient_boxed's business
    (STRICT, r"\boxed{A square}", None),
    (STRICT, r"\boxed{\frac{A}{B}}", None),
    (STRICT, "B", None),
    (STRICT, r"\boxed{C} ... no, \boxed{B}", "B"),
    (STRICT, r"\boxed{\text{B}}", "B"),
    (STRICT, r"\boxed{\text{ \text{ B } }}", "B"),
    (STRICT, r"\boxed{\text{B: Square}}", "B"),
    (STRICT, r"\boxed{ [B] }", "B"),
    (STRICT, r"\boxed{{B}}", "B"),
    (STRICT, r"\boxed{B: because A is wrong}", "B"),
    (STRICT, r"\boxed{B) Square}", "B"),
    (STRICT, r"\boxed{B. Square}", "B"),
    (STRICT, r"\boxed{B - Square}", "B"),
    (STRICT, "\\boxed{\nB\n}", "B"),
    (BOXED, r"\boxed{C or D}", None),
    (BOXED, r"\boxed{triangle}", "D"),
    (BOXED, r"\boxed{Right triangle}", None),  # holds the text of two options
    (BOXED, r"\boxed{the   SQUARE one}", "B"),
    (BOXED, r"\boxed{\text{Square}}", "B"),
    (BOXED, r"\boxed{B}", "B"),
    (BOXED, "Square", None),
    (COLON, "**Answer: B**", None),
    (COLON, "Answer: B because", None),
    (COLON, "answer : b", "B"),
    (COLON, "Answer: A\nAnswer: B", "A"),  # the first one counts
    (COLON, r"Answer: \text{B}", "B"),
    (COLON, "Answer:\n  square", "B"),
    (COLON, "Answer: E", None),
    (MARKDOWN, "I think it might be B", None),
    (MARKDOWN, "Answer: A/B", None),
    (MARKDOWN, "Answer: A or B", None),
    (MARKDOWN, "Answer: B\n\n**Answer: A and C**", "B"),  # a list of choices is passed over
    (MARKDOWN, "**Answer: B**", "B"),
    (MARKDOWN, "__Answer__: B", "B"),
    (MARKDOWN, "Answer: A\n...\nAnswer: *B*.", "B"),  # the last one counts
    (MARKDOWN, "Answer: B because a circle is round", "B"),
    (MARKDOWN, "Answer: (B) Square", "B"),
    (MARKDOWN, "Answer: The right one is B", "B"),
    (MARKDOWN, "Answer：Ｂ", "B"),  # full-width
    (MARKDOWN, "Answer: ب", "B"),
    (MARKDOWN, "Answer: ব", "B"),
    (MARKDOWN, "Answer: none of them", None),
]


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with start_server(MultipleChoice, transport="in-process") as running:
        yield running


def row(**fields: Any) -> dict[str, Any]:
    question = {"responses_create_params": {"input": "Which shape has four equal sides?"}}
    return question | {"options": OPTIONS, "expected_answer": "B"} | fields


async def graded(server: RunningServer, text: str, **fields: Any) -> tuple[float, str | None]:
    reward = await server.verify(row(**fields), text)
    return reward.value, reward.extras["extracted_answer"]


@pytest.mark.parametrize(("mode", "text", "letter"), CASES)
async def test_reward_table(mode: str, text: str, letter: str | None) -> None:
    async with start_server(MultipleChoice, {"grading_mode": mode}, transport="in-process") as server:
        assert await graded(server, text) == (float(letter == "B"), letter)


async def test_the_row_chooses_the_mode_and_the_configuration_overrides_it(server: RunningServer) -> None:
    text = r"Answer: A, \boxed{square}"
    assert await graded(server, text) == (0.0, None)
    assert await graded(server, text, grading_mode=BOXED) == (1.0, "B")
    async with start_server(MultipleChoice, {"grading_mode": BOXED}) as other:
        assert await graded(other, text, grading_mode=STRICT) == (1.0, "B")


async def test_markdown_mode_is_for_the_configuration_only(server: RunningServer) -> None:
    call = server.verify(row(grading_mode=MARKDOWN), "Answer: B")
    assert "grading_mode" in str(await expect_error("INVALID_REQUEST", call, "a row in Markdown mode"))


@pytest.mark.parametrize("gold", [None, "", "  "])
async def test_without_an_expected_answer_nothing_is_right(server: RunningServer, gold: str | None) -> None:
    assert await graded(server, r"\boxed{B}", expected_answer=gold) == (0.0, "B")


async def test_expected_answer_is_trimmed_and_made_upper_case(server: RunningServer) -> None:
    reward = await server.verify(row(expected_answer=" b "), r"\boxed{B}")
    assert (reward.value, reward.extras["expected_answer"]) == (1.0, "B")


async def test_options_without_text_cannot_be_chosen(server: RunningServer) -> None:
    options = [{"A": "Circle", "B": None}, {"C": "Square"}]
    assert await graded(server, r"\boxed{B}", options=options) == (0.0, None)
    assert await graded(server, r"\boxed{B}", options=None) == (0.0, None)


async def test_all_messages_count_and_reasoning_does_not(server: RunningServer) -> None:
    response = make_response(message(r"First \boxed{A}. "), reasoning(r"\boxed{C}"), message(r"\boxed{B}"))
    assert (await server.verify(row(), response=response)).value == 1.0
    response = make_response(message(r"\boxed{B}"), reasoning(r"\boxed{A}"))
    assert (await server.verify(row(), response=response)).value == 1.0


# output_regex, what the model says, the letter to be read.
TEMPLATES: list[tuple[str | list[str], str, str | None]] = [
    ("([", r"\boxed{B}", "B"),  # no regular expression: as the mode says
    ("Choice: (.)", r"\boxed{B}", "B"),  # does not match: as the mode says
    ("", r"\boxed{B}", "B"),
    ([], r"\boxed{B}", "B"),
    (r"Choice:\s*([A-Za-z])", "CHOICE: b", "B"),
    (r"Choice:\s*([A-Za-z])", "Choice: A? no. Choice: B", "B"),  # the last match
    (r"Choice:\s*([A-Za-z])", "Choice: Z", "Z"),  # trusted, though no option
    (r"Choice: (.+)", "Choice: square", "B"),
    (r"Choice: (.+)", "Choice: squares", None),
    (r"(?<=Choice: )\w", "Choice: B", "B"),  # no group: the whole match
    (r"Choice: (A|C)?(B)?", "Choice: B", "B"),  # the first group that is not empty
    (["Antwort: (.)", "Choice: (.)"], "Choice: B", "B"),
    ([r"Choice: (\d+)", "Choice: (.)"], "Choice: 12", None),
    (r"الإجابة:\s*([أ-د])", "الإجابة: ب", "B"),
    (r"উত্তর:\s*(.)", "উত্তর: ব", "B"),
    (r"(Choice|Pick): \*{0,2}(B)", "Pick: **B", None),  # the first group names no option
]


@pytest.mark.parametrize(("pattern", "text", "letter"), TEMPLATES)
async def test_template(
    server: RunningServer, pattern: str | list[str], text: str, letter: str | None
) -> None:
    found = await graded(server, text, template_metadata={"output_regex": pattern, "template_id": "x"})
    assert found == (float(letter == "B"), letter)


async def test_answer_prefix_adds_a_word_for_answer() -> None:
    async with start_server(MultipleChoice, {"grading_mode": MARKDOWN}) as server:
        template = {"template_metadata": {"answer_prefix": "Antwort:"}}
        assert await graded(server, "Answer: A\nAntwort: B", **template) == (1.0, "B")
        assert await graded(server, r"\boxed{B}", **template) == (1.0, "B")
        assert await graded(server, r"\boxed{B}") == (0.0, None)


async def test_a_pattern_that_runs_for_ever_is_killed_and_nothing_else_waits() -> None:
    async with start_server(MultipleChoice, {"pattern_timeout_s": 0.3}) as server:
        call = graded(server, "a" * 60, template_metadata={"output_regex": "(a+)+b"})
        failure = await expect_error("DEADLINE_EXCEEDED", call, "a catastrophic pattern")
        assert "within 0.3 s; its process was killed" in str(failure)
        assert await graded(server, r"\boxed{B}") == (1.0, "B")


def scored(task: str, index: int, value: float | None, letter: str | None = None) -> ScoredRollout:
    rollout = ScoredRollout(task_id=task, index=index)
    if value is not None:
        rollout.reward.value = value
        rollout.reward.extras_json = orjson.dumps({"extracted_answer": letter}).decode()
    return rollout


async def test_metrics(server: RunningServer) -> None:
    metrics, key_metrics = await server.aggregate(
        [
            scored("x", 1, 0.0, "C"),  # out of order
            scored("x", 0, 1.0, "B"),
            scored("x", 2, 1.0, "B"),
            scored("y", 0, 0.0),
            scored("y", 1, 0.0, "A"),
            scored("y", 2, 1.0, "D"),
            scored("y", 3, None),  # failed: not scored
        ]
    )
    assert metrics["mean_reward"] == pytest.approx(0.5)
    expected = {
        "pass@1/accuracy": 50.0,
        "pass@2/accuracy": (1 + 2 / 3) / 2 * 100,
        "pass@3/accuracy": 100.0,
        "pass@1[avg-of-1]/accuracy": 50.0,
        "pass@1[avg-of-2]/accuracy": 25.0,
        "pass@1[avg-of-3]/accuracy": 50.0,
        "majority@1/accuracy": 50.0,
        "majority@3/accuracy": 75.0,  # B twice; A and D tie
        "pass@1/no_answer": (0 + 1 / 3) / 2 * 100,
        "pass@3/no_answer": 50.0,
        "majority@3/no_answer": 0.0,
        "pass@1[avg-of-2]/accuracy/std_dev_across_runs": 35.35533905932738,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert key_metrics == [
        "mean_reward",
        "pass@1/accuracy",
        "pass@1[avg-of-3]/accuracy",
        "majority@3/accuracy",
        "pass@3/accuracy",
        "pass@1[avg-of-3]/no_answer",
        "pass@3/no_answer",
    ]


async def test_metrics_without_rollouts(server: RunningServer) -> None:
    assert await server.aggregate([]) == ({"count": 0}, [])
    assert await server.aggregate([scored("x", 0, None)]) == ({"count": 0}, [])


def right(task: Any) -> str:
    """What earns 1.0 in each of the example rows."""
    letter = task["expected_answer"]
    if "template_metadata" in task:
        return f"My choice is {letter}"
    return f"Answer: {letter}" if task["grading_mode"] == COLON else rf"So it is \boxed{{{letter}}}"


async def test_conformance() -> None:
    await check_resources_server(MultipleChoice, rows=EXAMPLES, good=right, bad="No idea.")


async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    await check_resources_server(MultipleChoice, rows=rows, good=right, bad="No idea.")


async def test_a_wrong_grading_mode_in_the_configuration_is_named() -> None:
    with pytest.raises(GymdError, match="grading_mode") as caught:
        async with start_server(MultipleChoice, {"grading_mode": "boxed", "gradng": 1}):
            pass
    assert "gradng" in str(caught.value)

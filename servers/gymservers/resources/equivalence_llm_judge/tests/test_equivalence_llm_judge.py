"""Answers that a judge compares: the table of rewards first, then what the judge reads, then its failures."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Response
from gymd.errors import GymdError, error
from gymd.mesh import Mesh
from gymd.sdk import Reward
from gymd.sdk.testing import (
    FakeModel,
    RunningServer,
    Transport,
    check_resources_server,
    expect_error,
    make_response,
    message,
    reasoning,
    start_server,
    start_servers,
)
from gymservers.resources.equivalence_llm_judge.server import EquivalenceLLMJudge

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "equivalence_llm_judge" / "example.jsonl"
JUDGE = {"judge_model_server": {"name": "judge"}, "judge_backoff_s": 0.001}
TRANSPORTS: list[Transport] = ["in-process", "link", "plain"]

YES, NO = "[[A=B]]", "[[A!=B]]"
OWN = {"template_metadata": {"output_regex": r"Answer:\s*([^\n]+)"}}
LONG = "The expected answer is a whole sentence, which no pattern captures. " * 3
SWAP: dict[str, Any] = {"check_twice_swap": True}
MINUS: dict[str, Any] = {"check_twice_swap": True, "reward_if_swap_fails": -1.0}
OWN_LONG = {**OWN, "expected_answer": LONG}
FULL: dict[str, Any] = {"reward_if_full_generation_succeeds": 1.0}
ANSWER, REGEX, EXPECTED = "response_extract_regex", "output_regex", "expected_answer"
SAID = "Hm.\nAnswer: Paris\nDone."

# What the judge reads: expected answer and candidate.
PARIS, SWAPPED, WHOLE = ("Paris.", "Paris"), ("Paris", "Paris."), ("Paris.", SAID)

# Configuration, the row's further fields, what the model says, what the judge says in turn, the reward, what
# the judge reads each time. Edge cases first.
Case = tuple[dict[str, Any], dict[str, Any], str, list[str], float, list[tuple[str, str]]]
CASES: list[Case] = [
    ({}, {}, "", [], 0.0, []),  # no answer: the judge is not asked
    ({}, {}, " \n ", [], 0.0, []),
    (SWAP, OWN, "", [], 0.0, []),
    ({}, {}, "Paris", [YES], 1.0, [PARIS]),
    ({}, {}, "  Paris\n", [YES], 1.0, [PARIS]),
    ({}, {}, "Rome", [NO], 0.0, [("Paris.", "Rome")]),
    ({}, {}, "Paris", [f"{NO} - no, {YES}"], 0.0, [PARIS]),  # the first label counts
    ({}, {}, "Paris", [f"{YES}{NO}"], 1.0, [PARIS]),
    ({}, {}, "{expected_answer} {}", [NO], 0.0, [("Paris.", "{expected_answer} {}")]),
    # Swapped.
    (SWAP, {}, "Paris", [YES, YES], 1.0, [PARIS, SWAPPED]),
    (SWAP, {}, "Paris", [YES, NO], 0.0, [PARIS, SWAPPED]),
    (MINUS, {}, "Paris", [YES, NO], -1.0, [PARIS, SWAPPED]),
    (MINUS, {}, "Paris", [NO], 0.0, [PARIS]),
    # The configuration's pattern.
    ({ANSWER: r"<a>(.*?)</a>"}, {}, "<a>x</a> <a> Paris </a>", [YES], 1.0, [PARIS]),
    ({ANSWER: r"A: (\w+)|B: (\w+)"}, {}, "B: Paris", [YES], 1.0, [PARIS]),
    ({ANSWER: r"\w+$"}, {}, "one\ntwo", [NO], 0.0, [("Paris.", "two")]),  # `$` ends a line
    ({ANSWER: r"one.two"}, {}, "one\ntwo", [NO], 0.0, [("Paris.", "one\ntwo")]),
    ({ANSWER: r"Q: (.*)"}, {}, "Paris", [YES], 1.0, [PARIS]),  # no match: all
    ({ANSWER: r"P( *)aris"}, {}, "So Paris", [YES], 1.0, [PARIS]),  # blank group
    ({ANSWER: r"!\s*$"}, {}, "x!", [NO], 0.0, [("Paris.", "!")]),
    ({ANSWER: r"$"}, {}, "Paris", [], 0.0, []),  # captures nothing
    # The row's own pattern, and the second look at all of the text.
    ({}, OWN, SAID, [YES], 1.0, [PARIS]),
    ({}, OWN, SAID, [NO, YES], 0.5, [PARIS, WHOLE]),
    ({}, OWN, SAID, [NO, NO], 0.0, [PARIS, WHOLE]),
    ({}, OWN, "Paris it is", [NO, YES], 0.5, [("Paris.", "Paris it is")] * 2),  # does not match
    (FULL, OWN, SAID, [NO, YES], 1.0, [PARIS, WHOLE]),
    ({"check_full_generation_on_fail": False}, OWN, SAID, [NO], 0.0, [PARIS]),
    (SWAP, OWN, SAID, [YES, YES], 1.0, [PARIS, SWAPPED]),
    (SWAP, OWN, SAID, [NO, YES], 0.5, [PARIS, WHOLE]),
    ({"use_per_record_regex": False}, OWN, SAID, [NO], 0.0, [WHOLE]),
    ({ANSWER: "Hm"}, OWN, SAID, [YES], 1.0, [PARIS]),  # the row's goes first
    ({ANSWER: "Hm"}, {}, SAID, [YES], 1.0, [("Paris.", "Hm")]),
    ({}, {"template_metadata": {REGEX: "(["}}, "Paris", [YES], 1.0, [PARIS]),
    ({}, {"template_metadata": {REGEX: ["x(.)", "P(.)"]}}, "Paris", [YES], 1.0, [("Paris.", "a")]),
    ({}, {"template_metadata": {REGEX: ""}}, "Rome", [NO], 0.0, [("Paris.", "Rome")]),
    ({}, {"template_metadata": {REGEX: "$"}}, "Paris", [YES], 0.5, [PARIS]),
    # Long expected answers: all of the text, once.
    ({}, OWN_LONG, SAID, [YES], 1.0, [(LONG, SAID)]),
    ({}, OWN_LONG, SAID, [NO], 0.0, [(LONG, SAID)]),
    (SWAP, OWN_LONG, SAID, [YES], 1.0, [(LONG, SAID)]),
    (SWAP, {EXPECTED: LONG}, SAID, [YES, NO], 0.0, [(LONG, SAID), (SAID, LONG)]),  # no own pattern
    ({"extraction_length_threshold": None}, OWN_LONG, SAID, [YES], 1.0, [(LONG, "Paris")]),
    ({"extraction_length_threshold": 6}, OWN, SAID, [YES], 1.0, [PARIS]),  # as long as the limit
    ({"extraction_length_threshold": 5}, OWN, SAID, [YES], 1.0, [WHOLE]),
    # Where the expected answer stands.
    ({}, {EXPECTED: None, "metadata": {EXPECTED: "P"}}, "Paris", [YES], 1.0, [("P", "Paris")]),
    ({}, {EXPECTED: "", "metadata": {EXPECTED: 7}}, "Paris", [NO], 0.0, [("7", "Paris")]),
    ({}, {EXPECTED: 7, "metadata": {EXPECTED: "8"}}, "Paris", [NO], 0.0, [("7", "Paris")]),
]  # fmt: skip


def row(**fields: Any) -> dict[str, Any]:
    params = {"responses_create_params": {"input": [{"role": "user", "content": "Capital of France?"}]}}
    return {**params, "expected_answer": "Paris.", **fields}


@asynccontextmanager
async def judged(
    script: Any, transport: Transport = "in-process", **keys: Any
) -> AsyncIterator[tuple[RunningServer, FakeModel]]:
    servers = {"judge": (FakeModel, {"script": script}), "answers": (EquivalenceLLMJudge, {**JUDGE, **keys})}
    async with start_servers(servers, transport=transport) as mesh:
        yield mesh["answers"], cast(FakeModel, mesh["judge"].server)


def prompts(model: FakeModel) -> list[str]:
    return [request.params.input_items.items[-1].message.content_text for request in model.requests]


def between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


def answers(text: str) -> tuple[str, str]:
    return between(text, "reference_answer"), between(text, "candidate_answer")


@pytest.mark.parametrize("case", CASES)
async def test_reward_table(case: Case) -> None:
    keys, fields, text, script, value, read = case
    async with judged(script, **keys) as (server, model):
        reward = await server.verify(row(**fields), text)
        assert [answers(prompt) for prompt in prompts(model)] == read
    assert reward.value == value
    verdicts = reward.extras["judge_evaluations"]
    # What was judged is the policy's answer, on whichever side the judge read it.
    assert all(one["answer"] in pair for one, pair in zip(verdicts, read, strict=True))
    assert [one["verdict_label"] for one in verdicts] == [
        YES if said.startswith(YES) else NO for said in script
    ]


async def test_extras() -> None:
    async with judged([NO, YES]) as (server, _):
        extras = (await server.verify(row(**OWN), SAID)).extras
    assert (extras["expected_answer"], extras["extracted_answer"]) == ("Paris.", "Paris")
    first, second = extras["judge_evaluations"]
    assert (first["answer"], second["answer"]) == ("Paris", SAID)
    assert first["prompt_file"] == "prompt_templates/equivalence_llm_judge.txt"
    assert first["responses_create_params"]["input"][0]["role"] == "user"
    assert first["response"]["output"][0]["content"][0]["text"] == NO


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


PARTS = [{"type": "input_text", "text": "Wh"}, {"type": "input_text", "text": "ere?"}]
# The conversation, the configuration's pattern, the question.
QUESTIONS: list[tuple[Any, str | None, str]] = [
    ("Where?", None, "Where?"),
    ([user(" Where? ")], None, "Where?"),
    ([user(PARTS)], None, "Wh\nere?"),
    ([user("One?"), {"role": "assistant", "content": "1"}, user("Two?")], None, "Two?"),
    ([{"role": "system", "content": "Be brief."}], None, ""),
    ([user("Hints.\nQUESTION: Where?\nSo?")], r"^QUESTION:\s*(.*?)$", "Where?"),
    ([user("Where?")], r"QUESTION: (.*)", "Where?"),
]


@pytest.mark.parametrize(("asked", "pattern", "question"), QUESTIONS)
async def test_the_question_that_the_judge_reads(asked: Any, pattern: str | None, question: str) -> None:
    async with judged([YES], question_extract_regex=pattern) as (server, model):
        await server.verify(row(responses_create_params={"input": asked}), "Here.")
        assert between(prompts(model)[0], "question") == question


ANSWERS: list[tuple[Response, str | None]] = [
    (make_response("Rome?", "Paris"), "Paris"),  # the last message
    (make_response(message("Paris"), reasoning("Rome?")), "Paris"),
    (make_response(reasoning("Paris")), None),
    (make_response(), None),
]


@pytest.mark.parametrize(("response", "answer"), ANSWERS)
async def test_the_answer_that_is_judged(response: Response, answer: str | None) -> None:
    async with judged([YES] if answer else []) as (server, _):
        reward = await server.verify(row(), response=response)
    assert (reward.value, reward.extras["extracted_answer"]) == (float(answer is not None), answer)


async def test_parts_of_an_answer_stand_on_lines_of_their_own() -> None:
    response = make_response("Answer:")
    response.output[0].message.content_parts.parts.add().output_text.text = "Paris"
    async with judged([YES]) as (server, _):
        assert (await server.verify(row(), response=response)).extras["extracted_answer"] == "Answer:\nParis"


async def test_own_prompt_labels_and_system_message(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("{question} {expected_answer} = {generated_answer}? {{CORRECT}}\n")
    keys: dict[str, Any] = {
        "judge_prompt_template_fpath": str(tmp_path / "own.txt"),
        "judge_equal_label": "CORRECT",
        "judge_not_equal_label": "INCORRECT",
        "judge_system_message": "Be strict.",
    }
    async with judged(["INCORRECT", "It is CORRECT."], **keys) as (server, model):
        assert (await server.verify(row(), "Rome")).value == 0.0
        assert (await server.verify(row(), "Paris")).value == 1.0
        assert prompts(model)[1] == "Capital of France? Paris. = Paris? {CORRECT}"
        system = model.requests[0].params.input_items.items[0].message
        assert (system.role, system.content_text) == ("system", "Be strict.")


@pytest.mark.parametrize("fields", [{}, {"expected_answer": " "}, {"metadata": {"expected_answer": None}}])
async def test_a_row_without_an_expected_answer_is_a_bad_task(fields: dict[str, Any]) -> None:
    async with judged([]) as (server, _):
        bad = {"expected_answer": None, **fields}
        for call in (server.verify(row(**bad), "Paris"), server.seed(row(**bad))):
            failure = await expect_error("INVALID_REQUEST", call, "a row without an answer")
            assert "expected_answer is missing" in str(failure)


async def test_a_pattern_that_does_not_end_is_killed() -> None:
    bad = "(a+)+b"

    async def one(fields: dict[str, Any], **keys: Any) -> None:
        asked = {"responses_create_params": {"input": "a" * 60}}
        async with judged([], pattern_timeout_s=0.3, **keys) as (server, _):
            call = server.verify(row(**asked, **fields), "a" * 60)
            failure = await expect_error("DEADLINE_EXCEEDED", call, f"a catastrophic pattern {fields} {keys}")
            assert "within 0.3 s; its process was killed" in str(failure)

    async with asyncio.TaskGroup() as group:
        group.create_task(one({"template_metadata": {REGEX: bad}}))
        group.create_task(one({}, response_extract_regex=bad))
        group.create_task(one({}, question_extract_regex=bad))


# A judge that fails.


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (error("UPSTREAM_RATE_LIMITED", "HTTP 429", retry_delay=0.001), "UPSTREAM_RATE_LIMITED"),
        (error("UPSTREAM_UNAVAILABLE", "HTTP 503"), "UPSTREAM_UNAVAILABLE"),
        ("I cannot say.", "OFF_FORMAT"),
    ],
)
async def test_a_judge_that_fails_leaves_no_reward(failure: Any, cause: str, transport: Transport) -> None:
    async with judged([YES, failure, failure, failure], transport, check_twice_swap=True) as (server, _):
        caught = await expect_error("JUDGE_FAILED", server.verify(row(), "Paris"), "no judge")
    assert (caught.metadata["cause"], caught.metadata["judge"]) == (cause, "judge")
    [before] = json.loads(caught.metadata["verdicts"])
    assert (before["answer"], before["verdict_label"]) == ("Paris", YES)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_judge_that_recovers(transport: Transport) -> None:
    script = [error("UPSTREAM_RATE_LIMITED", "HTTP 429", retry_delay=0.001), "Hm.", YES]
    async with judged(script, transport) as (server, _):
        reward = await server.verify(row(), "Paris")
    assert reward.value == 1.0
    (verdict,) = reward.extras["judge_evaluations"]
    assert verdict["attempts"] == 3
    assert [text.partition(":")[0] for text in verdict["failures"]] == ["UPSTREAM_RATE_LIMITED", "OFF_FORMAT"]


async def test_a_slow_judge_leaves_no_reward() -> None:
    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        return YES

    async with judged(never, "link", judge_timeout_s=0.05, judge_attempts=2) as (server, _):
        caught = await expect_error("JUDGE_FAILED", server.verify(row(), "Paris"), "a slow judge")
    assert caught.metadata["cause"] == "DEADLINE_EXCEEDED"


# Many at once, metrics, configuration.


def agreeing(params: Any, _: Any) -> Response:
    """A judge that compares letter by letter, and says the same each time."""
    one, other = answers(params.input_items.items[-1].message.content_text)
    response = make_response(YES if one.strip(".") == other.strip(".") else NO)
    response.id, response.created_at = "verdict", 0.0
    response.output[0].message.id = "message"
    return response


async def check(rows: list[dict[str, Any]]) -> None:
    """The conformance suite, with a judge in another mesh."""
    async with start_servers({"judge": (FakeModel, {"script": agreeing})}) as judges:
        await judges["judge"].respond(
            {"input": [user("Hello.")]}
        )  # connected before the suite looks for leaks

        class Judged(EquivalenceLLMJudge):
            def __init__(self, name: str, config: Any, mesh: Mesh) -> None:
                super().__init__(name, config, judges.mesh)

        good = lambda task: f"I say\nFinal answer: {task['expected_answer']}"  # noqa: E731
        config = {
            **JUDGE,
            "response_extract_regex": r"Final answer: (.*)",
            "extraction_length_threshold": None,
        }
        await check_resources_server(Judged, config, rows=rows, good=good, bad="Final answer: nobody knows")


async def test_conformance() -> None:
    await check(EXAMPLES)


async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    await check([json.loads(line) for line in SHARED.read_text().splitlines()])


async def test_64_at_once_do_not_mix() -> None:
    async def one(server: RunningServer, number: int) -> Reward:
        task = row(expected_answer=str(number))
        async with await server.seed(task, session_id=f"task/{number}#1") as session:
            return await session.verify(str(number if number % 2 else number + 1))

    async with judged(agreeing, "link", judge_endpoint_max_concurrency=8) as (server, model):
        rewards = await asyncio.gather(*(one(server, number) for number in range(64)))
        asked = {
            request.rollout_id: answers(text)[0]
            for request, text in zip(model.requests, prompts(model), strict=True)
        }
    assert [reward.value for reward in rewards] == [float(number % 2) for number in range(64)]
    assert asked == {f"task/{number}": str(number) for number in range(64)}


async def test_metrics() -> None:
    def scored(task: str, index: int, value: float, answer: str | None) -> ScoredRollout:
        rollout = ScoredRollout(task_id=task, index=index)
        rollout.reward.value = value
        rollout.reward.extras_json = orjson.dumps({"extracted_answer": answer}).decode()
        return rollout

    values = [1.0, 0.0, 0.0, 0.0]
    tasks = zip(itertools.product("xy", range(2)), values, ["Paris", "Rome", None, "Rome"], strict=True)
    async with judged([]) as (server, _):
        assert await server.aggregate([]) == ({"count": 0}, [])
        metrics, keys = await server.aggregate([scored(*one, value, answer) for one, value, answer in tasks])
    expected = {
        "mean_reward": 0.25,
        "pass@1/accuracy": 25.0,
        "pass@2/accuracy": 50.0,
        "majority@2/accuracy": 25.0,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert metrics["pass@1[avg-of-2]/no_answer"] == 25.0
    assert keys[0] == "mean_reward"
    assert set(expected) < set(keys)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"response_extract_regex": "(["}, "response_extract_regex"),
        ({"question_extract_regex": "*"}, "no regular expression"),
        ({"extraction_length_threshold": -1}, "extraction_length_threshold"),
        ({"reward_if_swap_fails": float("nan")}, "reward_if_swap_fails"),
        ({"judge_model_server": None}, "judge_model_server"),
        ({"check_twice": True}, "check_twice_swap"),
        ({"judge_prompt_template_fpath": "no.txt"}, "cannot read the judge's prompt no.txt"),
    ],
)
async def test_wrong_configuration_is_named(keys: Mapping[str, Any], text: str) -> None:
    with pytest.raises(GymdError) as caught:
        async with start_server(EquivalenceLLMJudge, {**JUDGE, **keys}):
            pass
    assert text in str(caught.value)

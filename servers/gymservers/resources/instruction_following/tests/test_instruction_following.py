"""The reward rule over the wire: a table first, then responses, bad tasks, limits and metrics."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
import yaml

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Item, Response
from gymd.errors import GymdError
from gymd.sdk import shared_pool
from gymd.sdk.testing import (
    RunningServer,
    check_resources_server,
    expect_error,
    function_call,
    make_response,
    message,
    reasoning,
    start_server,
)
from gymservers.resources.instruction_following.checks import follow
from gymservers.resources.instruction_following.server import InstructionFollowing

pytestmark = pytest.mark.asyncio(loop_scope="module")
"""All tests here run on one event loop, since most of them use the one server."""

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
ANSWERS = yaml.safe_load((HERE.parent / "data" / "example_answers.yaml").read_text())
SHARED = HERE.parents[4].parent / "shared" / "data" / "instruction_following" / "example.jsonl"

WORDS, COMMA, TITLE, DOT = (
    "length_constraints:number_words",
    "punctuation:no_comma",
    "detectable_format:title",
    "punctuation:punctuation_dot",
)
LETTER, LANGUAGE = "keywords:letter_frequency", "language:response_language"
TWO_WORDS = {"num_words": 2, "relation": "at least"}

TWO = (WORDS, TWO_WORDS)
BINARY, FRACTION = {"grading_mode": "binary"}, {"grading_mode": "fraction"}


def asks(*instructions: tuple[str, Any]) -> dict[str, Any]:
    """The fields that ask for instructions, by id and arguments."""
    return {
        "instruction_id_list": [one[0] for one in instructions],
        "kwargs": [one[1] for one in instructions],
    }


# The row's fields, the answer, which instructions it follows, the reward. Edge cases first.
CASES: list[tuple[dict[str, Any], str, list[bool], float]] = [
    (asks(), "", [], 1.0),
    (asks(), "anything", [], 1.0),
    (asks() | FRACTION, "anything", [], 0.0),
    ({"instruction_id_list": [COMMA], "kwargs": []}, "a, b", [], 1.0),  # the shorter list ends the other one
    ({"instruction_id_list": [], "kwargs": [{}, {"x": 1}]}, "a, b", [], 1.0),
    ({"instruction_id_list": [COMMA, "no:such_id"], "kwargs": [{}]}, "a b", [True], 1.0),
    (asks((COMMA, None)), "", [True], 1.0),
    (asks((TITLE, None)), "", [False], 0.0),
    (asks((COMMA, {"num_words": None})), "a b", [True], 1.0),
    (asks((COMMA, {})), "a, b", [False], 0.0),
    (asks((COMMA, {}), (COMMA, {})), "a b", [True, True], 1.0),
    (asks(TWO), "a b", [True], 1.0),
    (asks((WORDS, TWO_WORDS | {"keywords": None})), "a", [False], 0.0),
    (asks((WORDS, TWO_WORDS | {"num_words": 2.0})), "a b", [True], 1.0),
    (asks(TWO, (COMMA, {})), "a b", [True, True], 1.0),
    (asks(TWO, (COMMA, {})), "a, b", [True, False], 0.0),
    (asks(TWO, (COMMA, {})) | BINARY, "a", [False, True], 0.0),
    (asks(TWO, (COMMA, {})) | FRACTION, "a", [False, True], 0.5),
    (asks(TWO, (COMMA, {})) | FRACTION, "a b", [True, True], 1.0),
    (asks(TWO, (TITLE, {})) | FRACTION, "", [False, False], 0.0),
    (asks(TWO, (COMMA, {}), (TITLE, {})) | FRACTION, "a b", [True, True, False], 2 / 3),
    ({"verifier_metadata": asks((COMMA, {}))}, "a b", [True], 1.0),
    ({"verifier_metadata": asks((COMMA, {}), (TITLE, {})) | FRACTION}, "a", [True, False], 0.5),
    (asks((TITLE, {})) | {"verifier_metadata": {"instruction_id_list": [COMMA]}}, "a b", [True], 1.0),
    (asks((COMMA, {})) | {"verifier_metadata": None}, "a b", [True], 1.0),
    (asks(("detectable_format:json_format", {})), "[" * 100_000, [False], 0.0),
    (asks(("custom:csv_city", {})), "ID\rCountry", [False], 0.0),
    (asks(("last_word:last_word_answer", {"last_word": "so"})), " ", [False], 0.0),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningServer]:
    """One server for many tests, with all its workers started."""
    async with start_server(InstructionFollowing, transport="in-process") as running:
        pool = shared_pool()
        await asyncio.gather(*(pool.run(follow, ("", []), timeout=30) for _ in range(pool.size)))
        yield running


def row(*instructions: str, **fields: Any) -> dict[str, Any]:
    own = {"instruction_id_list": list(instructions), "kwargs": [{} for _ in instructions], "prompt": "Go."}
    return {"responses_create_params": {"input": "Go."}} | own | fields


async def test_reward_table(server: RunningServer) -> None:
    for fields, text, followed, value in CASES:
        task = {"responses_create_params": {"input": "Go."}, "id": 7, "prompt": "Go."} | fields
        reward = await server.verify(task, text)
        extras = {"follow_all_instructions": all(followed), "follow_instruction_list": followed}
        assert (reward.value, reward.extras) == (pytest.approx(value), extras), (fields, text[:80])


def parts(*texts: str) -> Item:
    item = message(texts[0])
    for text in texts[1:]:
        item.message.content_parts.parts.add().output_text.text = text
    return item


def plain(text: str) -> Item:
    item = Item()
    item.message.role = "assistant"
    item.message.content_text = text
    return item


def empty_message() -> Item:
    item = Item()
    item.message.role = "assistant"
    item.message.content_parts.SetInParent()
    return item


def refusal(text: str) -> Item:
    item = message("")
    item.message.content_parts.parts[0].refusal.refusal = text
    return item


# What the model put out, whether that has a title, whether it has no comma.
RESPONSES: list[tuple[Response, bool, bool]] = [
    (make_response(), False, True),
    (make_response(message("<<So>>")), True, True),
    (make_response(message("<<So>>, yes"), message("no title")), False, True),  # the last item only
    (make_response(message("no, title"), message("<<So>>")), True, True),
    (make_response(reasoning("a, b"), message("<<So>>")), True, True),
    (make_response(message("<<So>>, yes"), reasoning("a, b")), False, True),  # no text in the last one
    (make_response(message("<<So>>, yes"), function_call("tool")), False, True),
    (make_response(parts("<<So>>", ", and")), True, True),  # its first part only
    (make_response(parts("none", "<<So>>, and")), False, True),
    (make_response(plain("<<So>>")), True, True),
    (make_response(empty_message()), False, True),
    (make_response(refusal("I will not.")), False, False),  # nothing is followed by refusing
]


async def test_what_is_read_of_the_response(server: RunningServer) -> None:
    for response, title, no_comma in RESPONSES:
        reward = await server.verify(row(TITLE, COMMA), response=response)
        assert reward.extras["follow_instruction_list"] == [title, no_comma], response


FIRST_OF_PARAGRAPH = {"num_paragraphs": 1, "nth_paragraph": 2, "first_word": "a"}

# Fields of a bad task, and what the failure names.
BAD: list[tuple[dict[str, Any], str]] = [
    (asks(("no:such_id", {})), "'no:such_id'"),
    (asks((WORDS, {})), "num_words"),
    (asks((WORDS, None)), "relation"),
    (asks((WORDS, TWO_WORDS | {"num_words": -1})), "num_words"),
    (asks((WORDS, TWO_WORDS | {"num_words": "2"})), "num_words"),
    (asks((WORDS, TWO_WORDS | {"num_words": 2.5})), "num_words"),
    (asks((WORDS, TWO_WORDS | {"num_words": True})), "num_words"),
    (asks((WORDS, TWO_WORDS | {"relation": "about"})), "relation"),
    (asks((COMMA, {"num_words": 2})), "num_words"),  # not one of its own
    (asks(("keywords:existence", {"keywords": []})), "keywords"),
    (asks(("keywords:existence", {"keywords": "oak"})), "keywords"),
    (asks(("keywords:word_once", {"keyword": " "})), "keyword"),
    (asks((LETTER, {"letter": "ab", "let_frequency": 1, "let_relation": "at least"})), "letter"),
    (asks((LANGUAGE, {"language": "xx"})), "language"),
    (asks(("count:words_japanese", {"N": 0})), "N"),
    (asks(("count:word_count_range", {"min_words": 3, "max_words": 2})), "max_words 2"),
    (asks(("length_constraints:nth_paragraph_first_word", FIRST_OF_PARAGRAPH)), "paragraph 2"),
    (asks(("new:copy_span_idx", {"prompt_to_repeat": "abc", "n_start": 2, "n_end": 2})), "between 2 and 2"),
    (asks(("copy:copy", {"prompt_to_repeat": ""})), "prompt_to_repeat"),
    (asks(("ratio:stop_words", {"percentage": "9"})), "percentage"),
    (asks((COMMA, [])), "kwargs"),
    ({"instruction_id_list": COMMA, "kwargs": [{}]}, "instruction_id_list"),
    ({"instruction_id_list": [COMMA]}, "kwargs"),
    ({"kwargs": [{}]}, "instruction_id_list"),
    (asks((COMMA, {})) | {"grading_mode": "strict"}, "grading_mode"),
    (asks((COMMA, {})) | {"verifier_metadata": asks(("no:such_id", {}))}, "'no:such_id'"),
]


@pytest.mark.parametrize(("fields", "named"), BAD)
async def test_a_bad_task_is_refused_before_and_after_the_rollout(
    server: RunningServer, fields: dict[str, Any], named: str
) -> None:
    for call in (server.seed(fields), server.verify(fields, "a b")):
        assert named in str(await expect_error("INVALID_REQUEST", call, "a bad task"))


async def test_all_problems_of_a_task_are_told_at_once(server: RunningServer) -> None:
    failure = await expect_error("INVALID_REQUEST", server.seed(row("no:such_id", WORDS)), "two problems")
    assert "no:such_id" in str(failure)
    assert "num_words" in str(failure)


async def test_fields_that_the_reference_demands_and_nobody_reads_may_be_absent(
    server: RunningServer,
) -> None:
    task = {"instruction_id_list": [COMMA], "kwargs": [{}]}
    assert (await server.verify(task, "a b")).value == 1.0


@pytest.mark.asyncio(loop_scope="function")  # its workers are its own
async def test_a_check_that_takes_too_long_is_killed_and_gives_no_reward() -> None:
    slow = {
        "instruction_id_list": ["language:response_language"] * 2_000,
        "kwargs": [{"language": "en"}] * 2_000,
    }
    text = "The quick brown fox jumps over the lazy dog. " * 300
    async with start_server(InstructionFollowing, {"verify_timeout_s": 0.5}) as server:
        failure = await expect_error("DEADLINE_EXCEEDED", server.verify(slow, text), "a slow check")
        assert "killed" in str(failure)
        assert (await server.verify(row(COMMA), "a b")).value == 1.0


@pytest.mark.asyncio(loop_scope="function")  # its workers are its own
async def test_a_check_that_raises_is_a_failure_and_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of a check, here one that the worker finds: the registry there has no such id."""
    from gymservers.resources.instruction_following.checks import CHECKS

    monkeypatch.setitem(CHECKS, "test:only_here", CHECKS[COMMA])
    async with start_server(InstructionFollowing) as server:
        await expect_error("SERVER_CODE_FAILED", server.verify(row("test:only_here"), "a b"), "a bug")


@pytest.mark.parametrize("limit", [0, -1, "soon"])
async def test_a_wrong_limit_in_the_configuration_is_named(limit: Any) -> None:
    with pytest.raises(GymdError, match="verify_timeout_s"):
        async with start_server(InstructionFollowing, {"verify_timeout_s": limit}):
            pass


async def test_64_verifies_at_once_do_not_mix(server: RunningServer) -> None:
    texts = ["a b", "a, b", "<<t>>", "<<t>>, x"] * 16
    task = row(COMMA, TITLE, grading_mode="fraction")
    rewards = await asyncio.gather(*(server.verify(task, text) for text in texts))
    followed = [reward.extras["follow_instruction_list"] for reward in rewards]
    assert followed == [["," not in text, "<<" in text] for text in texts]


async def test_metrics() -> None:
    async with start_server(InstructionFollowing) as server:  # its own, which ends the threads that it starts
        rollouts = [
            scored(1.0, [True, True]),
            scored(0.0, [True, False]),
            scored(0.0, []),
            scored(None, [True]),
        ]
        metrics, names = await server.aggregate(rollouts)
        assert metrics["count"] == 3
        assert metrics["mean_reward"] == pytest.approx(1 / 3)
        assert metrics["instruction_accuracy"] == pytest.approx(3 / 4)
        assert names == ["mean_reward", "instruction_accuracy"]
        assert "instruction_accuracy" not in (await server.aggregate([scored(1.0, [])]))[0]


def scored(value: float | None, followed: list[bool]) -> ScoredRollout:
    rollout = ScoredRollout(task_id="x")
    if value is not None:
        rollout.reward.value = value
        rollout.reward.extras_json = orjson.dumps({"follow_instruction_list": followed}).decode()
    return rollout


def answer(task: Any) -> str:
    """What example_answers.yaml says to a row."""
    rules = ANSWERS["policy_model"]["responses_api_models"]["scripted_model"]["rules"]
    prompt = task["responses_create_params"]["input"][0]["content"]
    return str(next(rule["text"] for rule in rules if rule["when"]["contains"] in prompt))


async def test_example_rows(server: RunningServer) -> None:
    assert [(await server.verify(task, answer(task))).value for task in EXAMPLES] == [1.0] * 5


@pytest.mark.usefixtures("server")  # for its workers
async def test_conformance() -> None:
    bad = "Nothing, nothing at all, 1 2 3 times\n\nor so"
    await check_resources_server(InstructionFollowing, rows=EXAMPLES, good=answer, bad=bad)


# Answers to the published rows, in their order.
PUBLISHED = [
    "One.\n\nTwo.\n\nCrash went it all.\n\nFour ends in a contest.",
    "SQL: \n* A\n* B\n* C\n* D\n***\n* E\n",
    "Relationship counts. Relationship pays.",
    "[a] [b] [c] [d] " + "One more line. " * 17,
    "<<Installing JayHorn>>\nFetch it.\n***\nRun it.",
]


@pytest.mark.usefixtures("server")  # for its workers
async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    good = {published["id"]: text for published, text in zip(rows, PUBLISHED, strict=True)}
    bad = "It is inevitable, it is a part of it"
    await check_resources_server(InstructionFollowing, rows=rows, good=lambda task: good[task["id"]], bad=bad)

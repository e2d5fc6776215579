"""Mathematical answers that the judge decides. Most tests say what math-verify found: nothing is loaded."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from gymd.errors import error
from gymd.sdk import Reward, shared_pool
from gymd.sdk.testing import FakeModel, RunningServer, Transport, expect_error, start_servers
from gymservers.resources.math_with_judge import server as module
from gymservers.resources.math_with_judge.server import GRADE, MathWithJudge

JUDGE = {
    "judge_model_server": {"name": "judge"},
    "judge_backoff_s": 0.001,
    "library_verifier_timeout_seconds": 25.0,
}
EQUAL, DIFFERENT = "[[A=B]]", "[[A!=B]]"


def row(expected: str, **fields: Any) -> dict[str, Any]:
    params = {"responses_create_params": {"input": "What is it?"}}
    return {**params, "question": "What is it?", "expected_answer": expected, **fields}


@asynccontextmanager
async def judged(
    script: Any, transport: Transport = "in-process", **keys: Any
) -> AsyncIterator[tuple[RunningServer, FakeModel]]:
    servers = {"judge": (FakeModel, {"script": script}), "math": (MathWithJudge, {**JUDGE, **keys})}
    async with start_servers(servers, transport=transport) as mesh:
        yield mesh["math"], cast(FakeModel, mesh["judge"].server)


def shown(model: FakeModel) -> list[tuple[str, str]]:
    """Answers A and B of each prompt that the judge read."""
    texts = [request.params.input_items.items[0].message.content_text for request in model.requests]
    return [(between(text, "answer_A"), between(text, "answer_B")) for text in texts]


def between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


# What the judge says in turn, the reward.
JUDGED: list[tuple[list[str], float]] = [
    ([DIFFERENT], 0.0),
    ([EQUAL, EQUAL], 1.0),
    ([EQUAL, DIFFERENT], 0.0),
    ([f"Hm. {DIFFERENT} ... {EQUAL}"], 0.0),
    ([f"{EQUAL} rather than {DIFFERENT}", f"{EQUAL}{DIFFERENT}"], 1.0),
    (["No label.", EQUAL, EQUAL], 1.0),  # asked again
    (["No label.", DIFFERENT], 0.0),
]


class Library:
    """Stands for the workers: what math-verify says is known, so nothing has to be loaded.

    Attributes:
        answers: verdict and answer by text, or the error to raise; another text holds a wrong 6.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    async def run(self, function: Any, args: tuple[str, str], *, timeout: float) -> Any:
        answer = self.answers.get(args[1], (False, "6"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Without math-verify."""
    stand_in = Library()
    monkeypatch.setattr(module, "shared_pool", lambda: stand_in)
    return stand_in


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("transport", ["in-process", "link", "plain"])
@pytest.mark.parametrize(("script", "value"), JUDGED)
async def test_the_judge_decides_what_math_verify_does_not_find_equal(
    script: list[str], value: float, transport: Transport
) -> None:
    async with judged(script, transport) as (server, _):
        reward = await server.verify(row("5"), r"\boxed{6}")
    assert reward.value == value
    assert (reward.extras["library_reward"], reward.extras["extracted_answer"]) == (0.0, "6")
    verdicts = reward.extras["judge_evaluations"]
    assert [one["prompt_file"] for one in verdicts] == ["prompt_templates/math_with_judge.txt"] * len(
        verdicts
    )
    assert verdicts[-1]["verdict_label"] == (EQUAL if value else DIFFERENT)
    assert verdicts[0]["attempts"] == (2 if script[0] == "No label." else 1)
    assert len(verdicts) == len(script) - (script[0] == "No label.")


async def test_what_the_judge_reads(library: Library) -> None:
    library.answers = {"It is 2/3": (False, "2/3"), "A {spiral}.": (False, None), "Five": (True, "5")}
    async with judged([EQUAL] * 4) as (server, model):
        # The expected answer first, then last.
        await server.verify(row(r"\frac{1}{2}", question="{one} half?"), "It is 2/3")
        assert shown(model) == [(r"\frac{1}{2}", "2/3"), ("2/3", r"\frac{1}{2}")]
        assert "{one} half?" in model.requests[0].params.input_items.items[0].message.content_text
        # All of the text where no answer can be read out of it.
        reward = await server.verify(row("spiral"), "A {spiral}.")
        assert shown(model)[2:] == [("spiral", "A {spiral}."), ("A {spiral}.", "spiral")]
        assert (reward.value, reward.extras["extracted_answer"]) == (1.0, None)
        # Nothing where there is nothing to ask.
        for text in ("", " \n", "Five"):
            reward = await server.verify(row("5"), text)
            assert (reward.value, reward.extras["judge_evaluations"]) == (float(text == "Five"), None)
        assert len(model.requests) == 4


@pytest.mark.usefixtures("library")
async def test_other_labels_and_another_prompt(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("{question} {first_answer} / {second_answer}: SAME or OTHER?")
    keys: dict[str, Any] = {
        "judge_prompt_template_fpath": str(tmp_path / "own.txt"),
        "judge_equal_label": "SAME",
        "judge_not_equal_label": "OTHER",
    }
    async with judged(["SAME", "SAME"], **keys) as (server, model):
        assert (await server.verify(row("5"), r"\boxed{6}")).value == 1.0
        text = model.requests[0].params.input_items.items[0].message.content_text
        assert text == "What is it? 5 / 6: SAME or OTHER?"


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("transport", ["in-process", "link", "plain"])
@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (error("UPSTREAM_RATE_LIMITED", "HTTP 429", retry_delay=0.001), "UPSTREAM_RATE_LIMITED"),
        (error("UPSTREAM_UNAVAILABLE", "HTTP 503"), "UPSTREAM_UNAVAILABLE"),
        ("I would say so.", "OFF_FORMAT"),
    ],
)
async def test_a_judge_that_fails_leaves_no_reward(failure: Any, cause: str, transport: Transport) -> None:
    async with judged([EQUAL, failure, failure, failure], transport) as (server, _):
        caught = await expect_error("JUDGE_FAILED", server.verify(row("5"), r"\boxed{6}"), "no judge")
    assert caught.metadata["cause"] == cause
    [before] = json.loads(caught.metadata["verdicts"])
    assert (before["answer"], before["verdict_label"]) == ("6", EQUAL)
    assert before["prompt_file"].endswith(".txt")


@pytest.mark.parametrize(
    "failure",
    [
        error("DEADLINE_EXCEEDED", "killed"),
        error("SERVER_CODE_FAILED", "MemoryError"),
        (None, "6"),  # the expected answer cannot be read
    ],
)
async def test_the_judge_may_decide_what_math_verify_could_not(failure: Any, library: Library) -> None:
    library.answers = {"Six.": failure}
    async with judged([DIFFERENT, EQUAL, EQUAL]) as (server, model):
        for value in (0.0, 1.0):
            reward = await server.verify(row("5"), "Six.")
            assert (reward.value, reward.extras["library_reward"]) == (value, None)
        assert shown(model)[0] == ("5", "6" if isinstance(failure, tuple) else "Six.")


@pytest.mark.timeout(180)  # a busy machine loads sympy for long
async def test_64_at_once_do_not_mix() -> None:
    def judge(params: Any, _: Any) -> str:
        text = params.input_items.items[0].message.content_text
        same = int(between(text, "answer_A")) % 10 == int(between(text, "answer_B")) % 10
        return EQUAL if same else DIFFERENT

    async def one(math: RunningServer, number: int) -> Reward:
        async with await math.seed(row(str(number))) as session:
            return await session.verify(rf"\boxed{{{number + (number % 3) * 5}}}")

    async with judged(judge, "link") as (math, _):
        await shared_pool().run(GRADE, ("5", "5"), timeout=60)  # loads sympy
        rewards = await asyncio.gather(*(one(math, number) for number in range(64)))
    kinds = [(1.0, 1.0, 0), (0.0, 0.0, 1), (1.0, 0.0, 2)]  # equal; judged different; judged equal twice
    for number, reward in enumerate(rewards):
        verdicts = reward.extras["judge_evaluations"] or []
        assert (reward.value, reward.extras["library_reward"], len(verdicts)) == kinds[number % 3]


async def test_labels_tell_the_library_and_the_judge() -> None:
    async with judged([]) as (server, _):
        assert server.server.labels() == {"math-verify": "0.8.0", "judge": "judge"}
    async with judged([], should_use_judge=False) as (server, _):
        assert server.server.labels()["judge"] == "none"

"""Mathematical answers: the table of rewards first, then what math-verify cannot end, then the judge."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymd.errors import GymdError
from gymd.sdk import Reward, shared_pool
from gymd.sdk.testing import (
    RunningServer,
    check_resources_server,
    expect_error,
    make_response,
    message,
    reasoning,
    start_server,
)
from gymservers.resources.math_with_judge import server as module
from gymservers.resources.math_with_judge.server import GRADE, MathWithJudge

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "math_with_judge" / "example.jsonl"
JUDGE = {"judge_model_server": {"name": "judge"}, "judge_backoff_s": 0.001}
ALONE = {**JUDGE, "should_use_judge": False, "library_verifier_timeout_seconds": 25.0}
"""Without the judge; patient, because a test machine may be busy."""
EQUAL, DIFFERENT = "[[A=B]]", "[[A!=B]]"
HUGE = "10^{10^{10}}"

pytestmark = pytest.mark.timeout(180)  # a busy machine loads sympy for long
shared = pytest.mark.asyncio(loop_scope="module")
"""For tests that use the one server; it lives on the module's event loop."""

# The expected answer, what the model says, whether that is right. Edge cases first.
CASES: list[tuple[str, str, bool]] = [
    ("5", "", False),
    ("5", "  \n ", False),
    ("5", r"\boxed{}", False),
    ("5", r"\boxed{5", False),  # never closed
    ("5", r"\boxed5", False),
    ("5", "x5", False),
    ("5", "five", False),
    ("5", r"\boxed{5}}", True),
    ("5", "\\boxed{\n5\n}", True),
    (" 5\n", r"\boxed{5}", True),
    ("$5$", r"\boxed{5}", True),
    (r"\(5\)", r"\boxed{5}", True),
    (r"\( $5$ \)", r"\boxed{5}", True),
    (r"\boxed{5}", r"\boxed{5}", True),
    ("007", r"\boxed{7}", True),
    ("-0", r"\boxed{0}", True),
    # Where the answer stands.
    ("32", "32", True),
    ("32", "The answer is 32.", True),
    ("32", "The final answer is 32. I hope it is correct.", True),
    ("32", "It is not 32, it is 33", False),  # the last number counts
    ("32", "32 or 33", False),
    ("5", "answer: 5, not 6", True),  # but one that is announced goes first
    ("5", "I get 5 = 2+3", True),
    (r"\(-3\)", "x = -3", True),
    ("3", "$3$, or rather $4$", False),
    ("5", r"<think>\boxed{5}</think> 6", True),  # a box goes before a bare number
    ("5", r"First \boxed{4}. Then the final answer is $\boxed{5}$. I hope it is correct.", True),
    # Several boxes are one answer with several parts.
    ("5", r"\boxed{4} or rather \boxed{5}", False),
    ("1, 2", r"\boxed{1} and \boxed{2}", True),
    ("5", r"\boxed{5} and \boxed{5}", True),
    # Fractions, decimals, percent.
    (r"\frac{3}{4}", "3/4", True),
    (r"\frac{3}{4}", r"\boxed{\frac34}", True),
    (r"\frac{3}{4}", r"\boxed{\dfrac{6}{8}}", True),
    (r"\frac{3}{4}", "0.75", True),
    (r"\frac{3}{4}", "75%", True),
    (r"1\frac{1}{2}", r"\boxed{\frac{3}{2}}", True),
    (r"\frac{1}{3}", r"\boxed{0.333333}", True),  # six places count
    (r"\frac{1}{3}", r"\boxed{0.3333}", False),
    ("10\\%", r"\boxed{0.1}", True),
    ("10\\%", r"\boxed{10}", False),
    ("3.0", r"\boxed{3}", True),
    ("5", "5.00001", False),
    (r"3\sqrt{2}", r"\boxed{4.242641}", True),
    (r"3\sqrt{2}", r"\boxed{\sqrt{18}}", True),
    # Separators, units, currency.
    ("1,000,000", "1000000", True),
    ("1{,}000", r"\boxed{1000}", True),
    ("1000", r"\boxed{1,000}", True),
    ("1000", r"\boxed{1.000}", False),
    ("1000", r"\boxed{1 000}", False),
    (r"5\text{ cm}", r"\boxed{5}", True),
    ("100", r"\boxed{100\,\text{km/h}}", True),
    (r"45^\circ", r"\boxed{45}", True),
    (r"\$100", "$100", True),
    # Sets, intervals, pairs, relations.
    (r"\{1, 2\}", r"\boxed{\{2, 1\}}", True),
    (r"\{1, 2\}", r"\boxed{1, 2}", True),
    (r"\{1, 2\}", r"\boxed{1, 3}", False),
    (r"\pm 2", r"\boxed{2, -2}", True),
    (r"\pm 2", r"\boxed{2}", False),
    ("3 or 5", r"\boxed{5, 3}", True),
    ("(1,2)", r"\boxed{(2,1)}", False),
    ("[0,1]", r"\boxed{[0,1)}", False),
    (r"(-\infty, 2) \cup (3, \infty)", r"\boxed{(3,\infty)\cup(-\infty,2)}", True),
    ("1<x<2", r"\boxed{(1,2)}", True),
    ("(1,2)", r"\boxed{1<x<2}", False),  # a set is asked for
    ("x>3", r"\boxed{3<x}", True),
    (r"x \geq 3", r"\boxed{x>3}", False),
    ("x=3", r"\boxed{3}", True),
    ("3", r"\boxed{x=3}", True),
    ("x=3", r"\boxed{y=3}", False),
    ("2x+1", r"\boxed{f(x)=2x+1}", True),
    # Expressions.
    ("(x+1)^2", r"\boxed{x^2+2x+1}", True),
    ("x^2-1", r"\boxed{(x-1)(x+1)}", True),
    (r"\sin^2 x+\cos^2 x", r"\boxed{1}", True),
    (r"\log_2 8", r"\boxed{3}", True),
    ("5!", r"\boxed{120}", True),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\boxed{\begin{bmatrix}1&2\\3&4\end{bmatrix}}", True),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\boxed{\begin{pmatrix}1&2\\3&5\end{pmatrix}}", False),
    (r"\infty", r"\boxed{-\infty}", False),
    (HUGE, rf"\boxed{{{HUGE}}}", True),  # to the letter: never evaluated
    # Words and other scripts.
    (r"\text{Monday}", r"\boxed{Monday}", True),
    (r"\text{Monday}", r"\boxed{\text{Tuesday}}", False),
    ("Monday", "Monday", False),  # a word counts in a box only
    ("yes", r"\boxed{Yes}", True),
    ("B", r"\boxed{\textbf{(B)}}", True),
    ("2π", r"\boxed{2\pi}", True),
    ("−3", r"\boxed{-3}", True),  # a minus sign that is no hyphen
    ("5", "答案是 5", True),
    ("½", r"\boxed{½}", True),
    ("½", r"\boxed{\frac12}", False),
    ("2", r"\boxed{２}", False),
]  # fmt: skip


def row(expected: str, **fields: Any) -> dict[str, Any]:
    params = {"responses_create_params": {"input": "What is it?"}}
    return {**params, "question": "What is it?", "expected_answer": expected, **fields}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningServer]:
    """One server for many tests, with all its workers started: each of them loads sympy."""
    async with start_server(MathWithJudge, ALONE, transport="in-process") as running:
        calls = (shared_pool().run(GRADE, ("5", "5"), timeout=60) for _ in range(shared_pool().size))
        await asyncio.gather(*calls)  # no call of the server has the time on a busy machine
        yield running


async def graded(server: RunningServer, pairs: Iterable[tuple[str, str]]) -> list[Reward]:
    """The rewards of many answers; some at a time, because each call has a deadline."""
    places = asyncio.Semaphore(8)

    async def one(expected: str, text: str) -> Reward:
        async with places:
            return await server.verify(row(expected), text)

    return await asyncio.gather(*(one(*pair) for pair in pairs))


async def plain(pairs: list[tuple[str, str]]) -> list[tuple[float, str | None]]:
    """What math-verify says of them when it is called as NeMo Gym calls it."""
    command = [sys.executable, str(HERE / "plain_math_verify.py")]
    oracle = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, _ = await oracle.communicate(json.dumps(pairs).encode())
    return [tuple(found) for found in json.loads(output)]


@shared
async def test_reward_table(server: RunningServer) -> None:
    """As the table says, and as math-verify says when it is called as NeMo Gym calls it."""
    expected = {case[:2]: float(case[2]) for case in CASES}
    others = [(case[0], other[1]) for case, other in itertools.pairwise(CASES)][::3]  # mostly wrong
    others = [pair for pair in others if (HUGE in pair[0]) == (HUGE in pair[1])]  # else it takes 5 s
    pairs = [*expected, *others]
    wanted, rewards = await asyncio.gather(plain(pairs), graded(server, pairs))
    values = [reward.value for reward in rewards[: len(expected)]]
    assert dict(zip(expected, values, strict=True)) == expected
    found = [(reward.value, reward.extras["extracted_answer"]) for reward in rewards]
    assert dict(zip(pairs, found, strict=True)) == dict(zip(pairs, wanted, strict=True))
    for reward in rewards:
        assert reward.extras["library_reward"] == reward.value
        assert reward.extras["judge_evaluations"] is None


@shared
async def test_what_is_read_out_of_a_response(server: RunningServer) -> None:
    response = make_response(message(r"So \boxed{"), reasoning(r"\boxed{4}"), message("5}."))
    assert (await server.verify(row("5"), response=response)).value == 1.0
    assert (await server.verify(row("4"), response=make_response(reasoning(r"\boxed{4}")))).value == 0.0
    for expected, text, answer in (
        ("5", "no number", None),
        (r"\frac{1}{2}", r"\boxed{0.5}", "1/2"),  # the form that both have
        ("3", r"\boxed{x=4}", "Eq(x, 4)"),
    ):
        assert (await server.verify(row(expected), text)).extras["extracted_answer"] == answer


@shared
async def test_rows(server: RunningServer) -> None:
    assert (await server.verify(row("5", expected_answer=5), r"\boxed{5}")).value == 1.0
    for fields in ({}, {"question": "?"}, {"question": "?", "expected_answer": None}):
        call = server.verify(fields, r"\boxed{5}")
        failure = await expect_error("INVALID_REQUEST", call, "a row that lacks a field")
        assert "expected_answer" in str(failure)
    for expected in ("", " ", "$$", r"\(\)", "$"):  # nothing could ever be right
        call = server.verify(row(expected), r"\boxed{5}")
        failure = await expect_error("INVALID_REQUEST", call, "a row that cannot be read")
        assert failure.metadata["field"] == "expected_answer"


# What does not end, or breaks.

BOMBS = [
    rf"\boxed{{{HUGE}}}",
    "9**9**9**9",
    "the answer is 99^99^99^99",
    r"\boxed{1000000!}",
    r"\boxed{(2^{10^9})!}",
    r"\boxed{\sum_{n=1}^{10000000} n^{n}}",
    r"\boxed{" + r"\frac{1}{" * 20_000 + "1" + "}" * 20_000 + "}",
    r"\boxed{" + "(" * 20_000 + "1" + ")" * 20_000 + "}",
    r"\boxed{" + "x^" * 5_000 + "}",
    "1+" * 30_000,
]


# An alarm in a callback of the garbage collector (hypothesis has one) is lost there; the next one ends it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("text", BOMBS, ids=range(len(BOMBS)))
def test_an_answer_that_is_not_found_equal_in_time_is_not_equal(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gymservers.resources.math_with_judge import library

    assert library.grade("3", "$3$") == (True, "3")
    monkeypatch.setattr(library, "READ_S", 0.2)
    monkeypatch.setattr(library, "COMPARE_S", 0.2)
    begin = time.process_time()
    assert library.grade("3", text)[0] is False
    assert time.process_time() - begin < 3
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def crash(*_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def starve(*_: str) -> None:
    raise MemoryError


async def test_a_library_that_crashes_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_server(MathWithJudge, ALONE, transport="in-process") as server:
        for broken in (crash, starve):
            monkeypatch.setattr(module, "GRADE", broken)
            call = server.verify(row("3"), r"\boxed{3}")
            await expect_error("SERVER_CODE_FAILED", call, broken.__name__)


def test_only_a_lack_of_memory_gets_out_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from gymservers.resources.math_with_judge import library

    def parse(*_: Any, **__: Any) -> list[Any]:
        raise kinds.pop()

    monkeypatch.setattr(library, "parse", parse)
    kinds: list[type[Exception]] = [RecursionError, ValueError]
    assert library.grade("3", "3") == (None, None)
    kinds = [MemoryError]
    with pytest.raises(MemoryError):
        library.grade("3", "3")


async def test_the_server_itself_does_not_load_sympy() -> None:
    code = "import sys, gymservers.resources.math_with_judge.server; sys.exit('sympy' in sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0


# Many at once, metrics, configuration.


def right(task: Mapping[str, Any]) -> str:
    """What earns 1.0."""
    answer = task["expected_answer"].strip("$").removeprefix("\\(").removesuffix("\\)")
    return rf"I find \boxed{{{answer}}}."


@shared
@pytest.mark.usefixtures("server")  # for its workers
async def test_conformance() -> None:
    await check_resources_server(MathWithJudge, ALONE, rows=EXAMPLES, good=right, bad="I give up.")


@shared
@pytest.mark.usefixtures("server")
async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    await check_resources_server(MathWithJudge, ALONE, rows=rows, good=right, bad="I give up.")


def scored(task: str, index: int, value: float, library: float | None, answer: str | None) -> ScoredRollout:
    rollout = ScoredRollout(task_id=task, index=index)
    rollout.reward.value = value
    extras = {"extracted_answer": answer, "library_reward": library}
    rollout.reward.extras_json = orjson.dumps(extras).decode()
    return rollout


async def test_metrics() -> None:
    async with start_server(MathWithJudge, ALONE) as server:
        assert await server.aggregate([]) == ({"count": 0}, [])
        metrics, key_metrics = await server.aggregate(
            [
                scored("x", 0, 1.0, 1.0, "5"),
                scored("x", 1, 1.0, 0.0, "five"),  # the judge's
                scored("y", 0, 0.0, 0.0, None),
                scored("y", 1, 1.0, None, "7"),  # math-verify failed, the judge did not
            ]
        )
    expected = {
        "mean_reward": 0.75,
        "pass@1/accuracy": 75.0,
        "pass@2/accuracy": 100.0,
        "pass@1/symbolic_accuracy": 25.0,
        "pass@1[avg-of-2]/no_answer": 25.0,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert key_metrics[:3] == ["mean_reward", "pass@1/accuracy", "pass@1/symbolic_accuracy"]
    assert set(key_metrics) <= set(metrics)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"library_verifier_timeout_seconds": 0}, "library_verifier_timeout_seconds"),
        ({"library_verifier_max_concurrency": 0}, "library_verifier_max_concurrency"),
        ({"judge_model_server": None}, "judge_model_server"),
        ({"judge_prompt_template_fpath": "no.txt"}, "cannot read the judge's prompt no.txt"),
    ],
)
async def test_wrong_configuration_is_named(keys: Mapping[str, Any], text: str) -> None:
    with pytest.raises(GymdError) as caught:
        async with start_server(MathWithJudge, {**ALONE, **keys}):
            pass
    assert text in str(caught.value)


@shared
@pytest.mark.usefixtures("server")  # last, since it costs a worker
async def test_a_process_that_does_not_come_back_is_killed_and_earns_nothing_not_even_zero() -> None:
    config = {**ALONE, "library_verifier_timeout_seconds": 0.5}
    async with start_server(MathWithJudge, config, transport="in-process") as server:
        failure = await expect_error("DEADLINE_EXCEEDED", server.verify(row("3"), BOMBS[0]), "a bomb")
        assert "did not end within 0.5 s; its process was killed" in str(failure)

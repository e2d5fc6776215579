"""Judges: what they are sent, what counts of their answer, and how they fail."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pydantic
import pytest

from gymapi.v1.responses_pb2 import Response
from gymd.errors import GymdError, error
from gymd.sdk import ResourcesServer, Reward, ServerConfig, Session
from gymd.sdk.judge import EquivalenceJudgeConfig, Judge, JudgeConfig, Prompt, Verdict, rollout_id
from gymd.sdk.testing import (
    FakeModel,
    RunningMesh,
    Transport,
    eventually,
    expect_error,
    make_response,
    message,
    reasoning,
    start_server,
    start_servers,
)

EQUAL, DIFFERENT = "[[A=B]]", "[[A!=B]]"
PROMPT = Prompt("same.txt", "Is {one} the same as {other}?")
TRANSPORTS: list[Transport] = ["in-process", "link", "plain"]


def config(**keys: Any) -> EquivalenceJudgeConfig:
    values = {"judge_model_server": {"name": "judge"}, "judge_backoff_s": 0.001}
    return EquivalenceJudgeConfig.model_validate(values | keys)


class Case:
    """A judge that a test scripts, and somebody who asks it."""

    def __init__(self, mesh: RunningMesh, settings: JudgeConfig) -> None:
        self.mesh = mesh
        self.model = cast(FakeModel, mesh["judge"].server)
        self.judge = Judge(settings, mesh.mesh)

    async def ask(self, answer: str = "2", rollout: str = "task/3") -> Verdict:
        values = {"one": "4/2", "other": answer}
        return await self.judge.ask(
            PROMPT, values, answer=answer, labels=(EQUAL, DIFFERENT), rollout_id=rollout
        )


@asynccontextmanager
async def judging(script: Any, transport: Transport = "in-process", **keys: Any) -> AsyncIterator[Case]:
    async with start_servers({"judge": (FakeModel, {"script": script})}, transport=transport) as mesh:
        yield Case(mesh, config(**keys))


# What the judge is sent, and what is kept.


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_verdict_holds_everything(transport: Transport) -> None:
    answer = make_response(reasoning("Hm."), f"They agree: {EQUAL}", usage=(30, 7))
    params = {"temperature": 0.0, "max_output_tokens": 64, "input": []}
    keys = {"judge_responses_create_params": params, "judge_system_message": "Be strict."}
    async with judging([answer], transport, **keys) as case:
        verdict = await case.ask()
        (request,) = case.model.requests
    assert (request.rollout_id, request.return_tokens) == ("task/3", False)
    assert request.time_left is not None
    assert 100 < request.time_left <= 121  # gRPC sends whole seconds, rounded up
    sent = {
        "temperature": 0.0,
        "max_output_tokens": 64,
        "input": [
            {"role": "system", "content": "Be strict."},
            {"role": "user", "content": "Is 4/2 the same as 2?"},
        ],
    }
    assert verdict.responses_create_params == sent
    assert [item.message.content_text for item in request.params.input_items.items] == [
        "Be strict.",
        "Is 4/2 the same as 2?",
    ]
    assert (request.params.temperature, request.params.max_output_tokens) == (0.0, 64)
    assert (verdict.prompt_file, verdict.answer, verdict.verdict_label) == ("same.txt", "2", EQUAL)
    assert (verdict.attempts, verdict.failures) == (1, [])
    assert verdict.response["model"] == "fake"
    assert verdict.response["usage"]["output_tokens"] == 7
    assert verdict.response["output"][1]["content"][0]["text"] == f"They agree: {EQUAL}"


@pytest.mark.parametrize("system", [None, ""])
async def test_without_a_system_message_there_is_none(system: str | None) -> None:
    async with judging([EQUAL], judge_system_message=system) as case:
        verdict = await case.ask()
    assert [item["role"] for item in verdict.responses_create_params["input"]] == ["user"]


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        (DIFFERENT, DIFFERENT),
        (f"{DIFFERENT} or {EQUAL}", DIFFERENT),  # the first one counts
        (f"{EQUAL} or {DIFFERENT}", EQUAL),
        (f"<think>{EQUAL}?</think>{DIFFERENT}", DIFFERENT),
        (make_response(f"{EQUAL}", f"{DIFFERENT}"), DIFFERENT),  # the closing message
        (make_response(message(EQUAL), reasoning(DIFFERENT)), EQUAL),
        (make_response(EQUAL, incomplete="max_output_tokens"), EQUAL),
    ],
)
async def test_which_label_counts(answer: Any, label: str) -> None:
    async with judging([answer]) as case:
        assert (await case.ask()).verdict_label == label


async def test_a_label_within_another_is_told_apart() -> None:
    async with judging(["INCORRECT", "CORRECT"]) as case:
        for wanted in ("INCORRECT", "CORRECT"):
            verdict = await case.judge.ask(PROMPT, {}, answer="", labels=("CORRECT", "INCORRECT"))
            assert verdict.verdict_label == wanted


# How it fails.

OFF_FORMAT: list[Any] = ["", "They agree.", make_response(reasoning(EQUAL)), make_response(), "[[A = B]]"]


@pytest.mark.parametrize("off_format", OFF_FORMAT)
async def test_an_answer_without_a_label_is_asked_for_again_at_once(off_format: Any) -> None:
    async with judging([off_format, EQUAL], judge_backoff_s=1000) as case:
        verdict = await case.ask()
    assert (verdict.verdict_label, verdict.attempts) == (EQUAL, 2)
    assert verdict.failures[0].startswith("OFF_FORMAT: its answer holds neither '[[A=B]]' nor '[[A!=B]]'")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_judge_that_never_says_a_label(transport: Transport) -> None:
    async with judging(["yes", "no", "x" * 2_000], transport) as case:
        failure = await expect_error("JUDGE_FAILED", case.ask(), "a judge without a label")
    assert failure.code == 14
    assert failure.metadata == {
        "judge": "judge",
        "attempts": "3",
        "cause": "OFF_FORMAT",
        "answer": "x" * 500,
    }
    assert "gave no verdict in 3 tries" in str(failure)


async def test_an_answer_that_was_cut_off_says_what_to_do() -> None:
    answer = make_response("Let me think", incomplete="max_output_tokens")
    async with judging([answer], judge_attempts=1) as case:
        failure = await expect_error("JUDGE_FAILED", case.ask(), "a judge that was cut off")
    assert "1 try" in str(failure)
    assert "raise max_output_tokens in judge_responses_create_params" in str(failure)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("reason", ["UPSTREAM_RATE_LIMITED", "UPSTREAM_UNAVAILABLE", "UPSTREAM_MALFORMED"])
async def test_an_endpoint_that_comes_back(transport: Transport, reason: str) -> None:
    refusal = error(reason, "not now", retry_delay=0.01, upstream_status=429)
    async with judging([refusal, refusal, DIFFERENT], transport) as case:
        verdict = await case.ask()
    assert (verdict.verdict_label, verdict.attempts) == (DIFFERENT, 3)
    assert verdict.failures == [f"{reason}: not now"] * 2


async def test_an_endpoint_that_stays_away() -> None:
    refusal = error("UPSTREAM_UNAVAILABLE", "HTTP 503", upstream_status=503, upstream_body="busy", url="x")
    async with judging([refusal] * 4, judge_attempts=4) as case:
        failure = await expect_error("JUDGE_FAILED", case.ask(), "a judge that is down")
    assert failure.metadata == {
        "judge": "judge",
        "attempts": "4",
        "cause": "UPSTREAM_UNAVAILABLE",
        "upstream_status": "503",
        "upstream_body": "busy",
    }
    assert "HTTP 503" in str(failure)


async def test_failures_of_both_kinds_share_the_budget() -> None:
    script = ["?", error("UPSTREAM_UNAVAILABLE", "HTTP 503"), "?", EQUAL]
    async with judging(script[:3]) as case:
        await expect_error("JUDGE_FAILED", case.ask(), "three failures")
    async with judging(script, judge_attempts=4) as case:
        assert (await case.ask()).attempts == 4


@pytest.mark.parametrize("reason", ["UPSTREAM_AUTH", "UPSTREAM_REJECTED", "UPSTREAM_NOT_FOUND", "INTERNAL"])
async def test_what_another_try_cannot_mend_is_not_tried_again(reason: str) -> None:
    async with judging([error(reason, "no")]) as case:
        failure = await expect_error("JUDGE_FAILED", case.ask(), "a judge that refuses")
    assert (failure.metadata["cause"], failure.metadata["attempts"]) == (reason, "1")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_slow_judge_is_cancelled_at_its_deadline(transport: Transport) -> None:
    ends: list[str] = []

    async def never(*_: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")
        return EQUAL

    async with judging(never, transport, judge_attempts=2, judge_timeout_s=0.1) as case:
        failure = await expect_error("JUDGE_FAILED", case.ask(), "a judge that never answers")
        await eventually(lambda: len(ends) == 2, "cancelling the judge")
    assert (failure.metadata["cause"], failure.metadata["attempts"]) == ("DEADLINE_EXCEEDED", "2")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_cancelling_reaches_the_judge(transport: Transport) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never(*_: Any) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return EQUAL

    async with judging(never, transport) as case:
        asking = asyncio.ensure_future(case.ask())
        await begun.wait()
        asking.cancel()
        async with asyncio.timeout(20):
            await ended.wait()
        await asyncio.wait([asking])
        assert asking.cancelled()


async def test_a_judge_that_nobody_serves() -> None:
    async with judging([]) as case:
        settings = config(judge_model_server={"name": "jugde"}, judge_peer_wait_s=0.01)
        call = Judge(settings, case.mesh.mesh).ask(PROMPT, {}, answer="", labels=(EQUAL,))
        failure = await expect_error("JUDGE_FAILED", call, "a judge of another name")
    assert failure.metadata["cause"] == "SERVER_NOT_FOUND"
    assert "did you mean 'judge'" in str(failure)


@pytest.mark.parametrize(("limit", "most"), [(3, 3), (None, 16)])
async def test_at_most_so_many_calls_at_a_time(limit: int | None, most: int) -> None:
    running = seen = 0

    async def count(*_: Any) -> str:
        nonlocal running, seen
        running += 1
        seen = max(seen, running)
        await asyncio.sleep(0.005)
        running -= 1
        return EQUAL

    async with judging(count, judge_endpoint_max_concurrency=limit) as case:
        await asyncio.gather(*(case.ask() for _ in range(16)))
    assert seen == most


# Prompts.


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{one} and {other}", "{other} and \\boxed{{2}}"),  # values are not looked into
        ("{{one}}", "{one}"),
        ("{{{one}}}", "{{other}}"),
        ('{"a": {one}}}', '{"a": {other}}'),
        ("{} {three} {", "{} {three} {"),
        ("\\frac{1}{2} {0} {one!r}", "\\frac{1}{2} {0} {one!r}"),
        ("", ""),
    ],
)
def test_filling(template: str, filled: str) -> None:
    values = {"one": "{other}", "other": "\\boxed{{2}}"}
    assert Prompt("x", template).fill(values) == filled


def test_what_str_format_fills_is_filled_alike() -> None:
    values = {"one": "1", "other": "2"}
    for template in ("{one}{other}", "{{}}{one}", "{{{{{one}}}}}", "a{{b}}{other}{{c"):
        assert Prompt("x", template).fill(values) == template.format(**values)


def test_prompt_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "a.txt").write_text("\n {one} ä \n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("{one}")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "server"
    assert Prompt.load("a.txt", folder, ["one"]) == Prompt("a.txt", "{one} ä")
    assert Prompt.load("b.txt", folder, ["one"]).text == "{one}"
    assert Prompt.load(str(tmp_path / "b.txt"), folder, ["one"]).text == "{one}"
    with pytest.raises(GymdError, match=r"lacks \{two\}, \{three\}"):
        Prompt.load("a.txt", folder, ["one", "two", "three"])
    with pytest.raises(GymdError, match=r"cannot read the judge's prompt c\.txt in .*server or in "):
        Prompt.load("c.txt", folder, [])
    (tmp_path / "d.txt").write_bytes(b"\xff{one}")
    with pytest.raises(GymdError, match=r"cannot read the judge's prompt d\.txt"):
        Prompt.load("d.txt", folder, ["one"])


# Configuration.


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"judge_equal_label": "YES", "judge_not_equal_label": "YES, BUT"}, "begin alike"),
        ({"judge_equal_label": DIFFERENT}, "begin alike"),
        ({"judge_equal_label": ""}, "judge_equal_label"),
        ({"judge_responses_create_params": {"input": "Hi."}}, "leave `input` empty"),
        ({"judge_responses_create_params": {"temprature": 0}}, "temprature"),
        ({"judge_responses_create_params": {"temperature": 3}}, "temperature: must be 0 to 2"),
        ({"judge_attempts": 0}, "judge_attempts"),
        ({"judge_timeout_s": 0}, "judge_timeout_s"),
        ({"judge_endpoint_max_concurrency": 0}, "judge_endpoint_max_concurrency"),
        ({"judge_model_server": {"type": "resources_servers", "name": "x"}}, "judge_model_server"),
    ],
)
def test_wrong_keys_are_named(keys: Mapping[str, Any], text: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        config(**keys)
    assert text in str(caught.value)


# The rollout.


class Rollouts(ResourcesServer):
    """Says which rollout is verified."""

    Config = ServerConfig

    async def verify(self, response: Response, session: Session | None = None) -> Reward:
        return Reward(1.0, extras={"rollout": rollout_id(session, response)})


async def test_calls_are_made_for_the_rollout_that_is_verified() -> None:
    async with start_server(Rollouts) as server:
        for name, rollout in (("task/0#2", "task/0"), ("a#b#1", "a#b"), ("alone", "alone")):
            async with await server.seed({}, session_id=name) as session:
                assert (await session.verify()).extras == {"rollout": rollout}
        response = make_response("Stored.")
        assert (await server.verify({}, response=response)).extras == {"rollout": response.id}

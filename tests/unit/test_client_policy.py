"""The trainer's side of its policy: calls in, functions of every kind run, answers out."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gymapi.v1.responses_pb2 import Response, SamplingParams
from gymapi.v1.rollout_service_pb2 import GenerateRequest, GenerateRequests, GenerateResult
from gymd.client import GenerateCall, Generated, ToolCall
from gymd.client.policy import PolicyRunner
from gymd.convert import output_text, params_from_json
from gymd.errors import error, from_status_message


def request(call_id: str = "c", *, seconds: float = 10.0, **params: Any) -> GenerateRequest:
    one = GenerateRequest(call_id=call_id, rollout_id="t/0", server="policy_model")
    one.params.CopyFrom(params_from_json({"input": "Hello", **params}))
    one.time_left.FromNanoseconds(int(seconds * 1e9))
    return one


class Side:
    """A runner and what it has to say."""

    def __init__(self, runner: PolicyRunner) -> None:
        self.runner = runner
        self.ready = asyncio.Event()
        runner.bind(self.ready.set)

    def ask(self, *requests: GenerateRequest, cancel: tuple[str, ...] = ()) -> None:
        self.runner.take(GenerateRequests(requests=requests, cancelled_call_ids=cancel))

    async def results(self, count: int = 1) -> list[GenerateResult]:
        found: list[GenerateResult] = []
        async with asyncio.timeout(10):
            while len(found) < count:
                await self.ready.wait()
                self.ready.clear()
                while (frame := self.runner.next_frame()) is not None:
                    found += frame.generate_results.results
        return found

    async def result(self) -> GenerateResult:
        [one] = await self.results()
        return one


@asynccontextmanager
async def serving(policy: Any = None, **options: Any) -> AsyncIterator[Side]:
    runner = PolicyRunner(policy, options.pop("batch", None), **options)
    try:
        yield Side(runner)
    finally:
        await runner.stop()


async def answered(policy: Any, **params: Any) -> GenerateResult:
    async with serving(policy) as side:
        side.ask(request(**params))
        return await side.result()


async def _later(call: GenerateCall) -> str:
    return "yes"


def _lazily(call: GenerateCall) -> Any:
    return _later(call)


@pytest.mark.parametrize("policy", [lambda call: "yes", _later, _lazily, lambda call: Generated("yes")])
async def test_every_kind_of_function(policy: Callable[..., Any]) -> None:
    result = await answered(policy)
    assert output_text(result.response) == "yes"
    assert (result.call_id, result.response.status, result.response.model) == (
        "c",
        "completed",
        "policy_model",
    )
    assert not result.HasField("token_trace")
    assert not result.response.HasField("usage")


async def test_what_a_call_tells() -> None:
    seen: list[GenerateCall] = []
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
    content = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": " two"}]
    turns = [
        {"role": "user", "content": content},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "three"},
    ]
    await answered(lambda call: seen.append(call) or "", input=turns, tools=[tool])
    [call] = seen
    assert [message["role"] for message in call.messages] == ["user", "assistant", "tool"]
    assert [call.messages[0]["content"], call.messages[2]["content"]] == ["one two", "three"]
    assert call.tools[0]["function"]["name"] == "f"
    assert (call.rollout_id, call.server, call.min_version, call.return_tokens) == (
        "t/0",
        "policy_model",
        None,
        None,
    )
    assert 0 < call.time_left() <= 10


async def test_everything_that_was_generated() -> None:
    made = Generated(
        "Let me see.",
        tool_calls=[ToolCall("f", {"x": 1}), ToolCall("g", "not json", call_id="mine")],
        prompt_token_ids=[1, 2],
        token_ids=[3],
        logprobs=[-0.5],
        finish_reason="length",
        policy_version=9,
    )
    result = await answered(lambda call: made, temperature=0.3)
    response = result.response
    message, first, second = response.output
    assert message.message.role == "assistant"
    assert (first.function_call.name, first.function_call.arguments_json) == ("f", '{"x":1}')
    assert first.function_call.call_id == "call_c_0"
    assert (second.function_call.arguments_json, second.function_call.call_id) == ("not json", "mine")
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (response.temperature, response.usage.total_tokens) == (0.3, 3)
    assert list(result.token_trace.generation_token_ids) == [3]
    assert result.policy_version == 9


async def test_how_it_was_sampled() -> None:
    told = {"temperature": 1, "top_k": 20, "min_p": 0.25, "seed": None}
    made = Generated("yes", token_ids=[3], logprobs=[-0.5], prompt_token_ids=[1, 2], sampling=told)
    result = await answered(lambda call: made, temperature=0.5, top_p=0.75, seed=4)
    assert (result.response.temperature, result.response.top_p) == (1.0, 0.75)
    assert result.token_trace.sampling == SamplingParams(top_k=20, min_p=0.25)
    result = await answered(lambda call: replace(made, sampling={}), top_k=4)
    assert not result.token_trace.HasField("sampling"), "nobody said that the policy looked at it"
    result = await answered(lambda call: Generated("yes", sampling=told))
    assert result.response.temperature == 1.0
    assert not result.HasField("token_trace"), "there are no ids to note it with"


async def test_how_ids_were_sampled() -> None:
    """Where the daemon writes the prompt, all that comes back is ids."""
    one = request(temperature=0.5)
    one.prompt_token_ids.extend([1, 2])
    told = {"top_p": 0.5, "top_k": 20}
    async with serving(lambda call: Generated(token_ids=[3], logprobs=[-0.5], sampling=told)) as side:
        side.ask(one)
        result = await side.result()
    assert result.token_trace.sampling == SamplingParams(top_k=20)
    assert result.response == Response(top_p=0.5)


async def test_a_response_goes_as_it_is() -> None:
    assert (await answered(lambda call: Response(id="r"))).response == Response(id="r")


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        Generated(token_ids=[1]),
        Generated(token_ids=[1], logprobs=[], prompt_token_ids=[1]),
        Generated(sampling={"topk": 1}),
        Generated(sampling={"top_k": 0.5}),
    ],
)
async def test_answers_that_are_none(bad: Any) -> None:
    async with serving(lambda call: bad) as side:
        side.ask(request())
        failure = from_status_message((await side.result()).error)
        assert failure.reason_name == "SERVER_CODE_FAILED"
        assert isinstance(side.runner.bug, (TypeError, ValueError))


def _exhausted(call: Any) -> str:
    return next(iter(()))


def _exits(call: Any) -> str:
    sys.exit(3)


async def _given_up(call: Any) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("policy", [_exhausted, _exits, _given_up])
@pytest.mark.parametrize("kind", ["policy", "batch"])
async def test_an_end_that_python_takes_for_another_is_told_like_any(policy: Any, kind: str) -> None:
    async with serving(**{kind: policy}) as side:
        side.ask(request(), request("d"))
        results = await side.results(2)
        assert isinstance(side.runner.bug, RuntimeError)
    assert {from_status_message(one.error).reason_name for one in results} == {"SERVER_CODE_FAILED"}


async def test_an_error_of_its_own_is_no_bug() -> None:
    def limited(call: GenerateCall) -> str:
        raise error("UPSTREAM_RATE_LIMITED", "full", retry_delay=3)

    async with serving(limited) as side:
        side.ask(request())
        failure = from_status_message((await side.result()).error)
        assert (failure.reason_name, failure.message, failure.retry_delay) == (
            "UPSTREAM_RATE_LIMITED",
            "full",
            3,
        )
        assert side.runner.bug is None


async def test_the_version_is_that_of_the_begin() -> None:
    version, go = 1, asyncio.Event()

    async def slow(call: GenerateCall) -> str:
        await go.wait()
        return "yes"

    async with serving(slow, version=lambda: version) as side:
        side.ask(request())
        await asyncio.sleep(0)
        version = 2
        go.set()
        assert (await side.result()).policy_version == 1


async def test_a_plain_function_begins_when_a_thread_has_time() -> None:
    version, go, begun = 1, threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(call: GenerateCall) -> str:
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(10)
        return "yes"

    async with serving(slow, version=lambda: version) as side:
        side.ask(request("a"), request("b"))
        await begun.wait()
        await asyncio.sleep(0)  # b waits for the thread
        version = 2
        go.set()
        results = await side.results(2)
    assert {one.call_id: one.policy_version for one in results} == {"a": 1, "b": 2}


async def test_a_batch_is_what_came_meanwhile() -> None:
    go, begun = threading.Event(), asyncio.Event()
    sizes: list[int] = []
    loop = asyncio.get_running_loop()

    def batch(calls: list[GenerateCall]) -> list[str]:
        sizes.append(len(calls))
        loop.call_soon_threadsafe(begun.set)
        go.wait(10)
        return [call.call_id for call in calls]

    async with serving(batch=batch, max_batch=3) as side:
        side.ask(request("0"))
        await begun.wait()
        side.ask(*(request(str(number)) for number in range(1, 6)), cancel=())
        side.ask(cancel=("2",))
        go.set()
        found = {one.call_id: output_text(one.response) for one in await side.results(5)}
        assert found == {name: name for name in ("0", "1", "3", "4", "5")}
        assert sizes == [1, 3, 1]


async def test_a_batch_of_another_length_fails_all_of_it() -> None:
    async with serving(batch=lambda calls: ["one"]) as side:
        side.ask(request("a"), request("b"))
        assert all(one.HasField("error") for one in await side.results(2))
        assert "got 2 calls and returned 1" in str(side.runner.bug)


async def test_cancelling_stops_a_call_and_its_answer() -> None:
    stopped = asyncio.Event()
    seen: list[GenerateCall] = []

    async def endless(call: GenerateCall) -> str:
        seen.append(call)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with serving(endless) as side:
        side.ask(request())
        await asyncio.sleep(0)
        side.ask(cancel=("c", "unknown"))
        await asyncio.wait_for(stopped.wait(), 10)
        assert seen[0].cancelled
        assert side.runner.next_frame() is None


async def test_a_batch_that_nobody_waits_for_holds_up_no_other() -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def batch(calls: list[GenerateCall]) -> list[str]:
        if calls[0].call_id != "later":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        return [call.call_id for call in calls]

    async with serving(batch=batch) as side:
        side.ask(request("a"), request("b"))
        await asyncio.wait_for(begun.wait(), 10)
        side.ask(request("later"), cancel=("a",))
        assert not stopped.is_set()
        side.ask(cancel=("b",))
        assert output_text((await side.result()).response) == "later"
        assert stopped.is_set()
        assert side.runner.bug is None


async def test_the_deadline_ends_a_call() -> None:
    async def endless(call: GenerateCall) -> str:
        await asyncio.Event().wait()
        return ""

    async with serving(endless) as side:
        side.ask(request(seconds=0.01))
        assert from_status_message((await side.result()).error).reason_name == "DEADLINE_EXCEEDED"
        assert side.runner.bug is None


async def test_a_call_that_comes_again_runs_once() -> None:
    calls = 0
    go = asyncio.Event()

    async def counted(call: GenerateCall) -> str:
        nonlocal calls
        calls += 1
        await go.wait()
        return "yes"

    async with serving(counted) as side:
        side.ask(request())
        await asyncio.sleep(0)
        side.ask(request())  # under way
        go.set()
        await asyncio.wait_for(side.ready.wait(), 10)
        side.ask(request())  # answered, and the answer not sent yet
        assert len(await side.results()) == 1
        assert calls == 1
        side.ask(request())  # the answer was lost
        assert len(await side.results()) == 1
        assert calls == 2


async def test_frames_of_answers_are_bounded() -> None:
    async with serving(_later) as side:
        side.ask(*(request(str(number)) for number in range(70)))
        await asyncio.gather(*(running.task for running in side.runner._running.values()))
        sizes = []
        while (frame := side.runner.next_frame()) is not None:
            sizes.append(len(frame.generate_results.results))
        assert sizes == [64, 6]


@pytest.mark.parametrize("given", [{}, {"policy": _later, "policy_batch": _later}])
def test_one_policy_is_wanted(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either"):
        PolicyRunner(given.get("policy"), given.get("policy_batch"))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        PolicyRunner(None, _later, max_batch=0)  # type: ignore[arg-type]


def by_ids(*prompt: int, call_id: str = "c", **fields: Any) -> GenerateRequest:
    """A request whose prompt comes as ids."""
    one = GenerateRequest(call_id=call_id, server="policy_model", prompt_token_ids=prompt, **fields)
    one.params.temperature = 0.3
    one.time_left.FromNanoseconds(10**10)
    return one


async def sampled(made: Any) -> GenerateResult:
    """What is sent for an answer to the prompt 1, 2."""
    async with serving(lambda call: made) as side:
        side.ask(by_ids(1, 2))
        return await side.result()


async def test_a_prompt_of_ids_needs_only_what_was_sampled() -> None:
    seen: list[GenerateCall] = []

    def policy(call: GenerateCall) -> Generated:
        seen.append(call)
        assert call.prompt_token_ids == [1, 2]
        return Generated(token_ids=[3, 4], logprobs=[-0.5, -0.25], policy_version=7)

    async with serving(policy) as side:
        side.ask(by_ids(1, 2))
        result = await side.result()
    assert (list(result.token_trace.generation_token_ids), result.policy_version) == ([3, 4], 7)
    assert list(result.token_trace.generation_logprobs) == [-0.5, -0.25]
    assert not result.token_trace.prompt_token_ids
    assert not result.HasField("response")
    assert seen[0].params.temperature == 0.3
    for name in ("messages", "tools"):
        with pytest.raises(ValueError, match="prompt_token_ids, because 'policy_model' has a tokenizer"):
            getattr(seen[0], name)


async def test_what_else_may_be_said_of_sampled_ids() -> None:
    cut = await sampled(Generated(token_ids=[3], logprobs=[-1], finish_reason="length"))
    assert cut.response.incomplete_details.reason == "max_output_tokens"
    same = await sampled(Generated(token_ids=[3], logprobs=[-1], prompt_token_ids=(1, 2)))
    assert not same.HasField("error")
    own = await sampled(Generated(token_ids=[3], logprobs=[-1], tool_calls=[ToolCall("f")]))
    assert own.response.output[0].function_call.name == "f"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("yes", "answer with token_ids and logprobs"),
        (Generated("yes"), "answer with token_ids and logprobs"),
        (Generated(token_ids=[3]), "answer with token_ids and logprobs"),
        (Generated(token_ids=[3], logprobs=[]), "lengths must be equal"),
        (Generated(token_ids=[3], logprobs=[-1], prompt_token_ids=[1, 9]), "are not the 2 of the call"),
    ],
)
async def test_answers_to_ids_that_are_none(bad: Any, why: str) -> None:
    failure = from_status_message((await sampled(bad)).error)
    assert failure.reason_name == "SERVER_CODE_FAILED"
    assert why in failure.message


async def test_a_deadline_is_no_mistake_of_the_policy_when_the_clock_was_set_back() -> None:
    async def slow(call: GenerateCall) -> str:
        call.deadline += 3600
        await asyncio.Event().wait()
        return ""

    async with serving(slow) as side:
        side.ask(request(seconds=0.05))
        late = from_status_message((await side.result()).error)
        assert late.reason_name == "DEADLINE_EXCEEDED"
        assert side.runner.bug is None


async def test_a_call_that_waited_too_long_for_a_batch_is_forgotten() -> None:
    """Nobody may say that it was given up: that goes with a stream that breaks."""
    go = asyncio.Event()

    async def batch(calls: list[GenerateCall]) -> list[str]:
        await go.wait()
        return ["yes"] * len(calls)

    async with serving(batch=batch) as side:
        side.ask(request("first"))
        await asyncio.sleep(0)
        side.ask(request("late", seconds=0))
        go.set()
        first, late = await side.results(2)
        assert (first.call_id, late.call_id) == ("first", "late")
        assert from_status_message(late.error).reason_name == "DEADLINE_EXCEEDED"
        assert not side.runner._running

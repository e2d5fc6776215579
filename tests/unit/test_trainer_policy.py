"""Model calls on the rollout stream: the desk of a session, by plan, and the server that agents see."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from gymapi.v1.model_service_pb2 import CreateResponseRequest, StreamResponseRequest
from gymapi.v1.responses_pb2 import Response, SamplingParams, TokenTrace
from gymapi.v1.rollout_service_pb2 import (
    GenerateRequest,
    GenerateResult,
    GenerateResults,
    OpenSession,
)
from gymd.convert import params_from_json
from gymd.daemon.policy import TrainerPolicy, find_desk
from gymd.daemon.policy_desk import PolicyCall
from gymd.daemon.replies import response_of
from gymd.errors import GymdError, error, to_status_message
from gymd.mesh import CallContext
from gymd.prompts import PolicySettings
from tests.fakes.plan import Plan, task


def answer(call_id: str, text: str = "yes") -> GenerateResult:
    result = GenerateResult(call_id=call_id)
    message = result.response.output.add().message
    message.role, message.content_text = "assistant", text
    return result


class Calls:
    """Model calls of a session, and what came of them."""

    def __init__(self, **opening: Any) -> None:
        self.plan = Plan().open(serves_policy=True, **opening)
        self.plan.submit(task("a", count=4))
        self.found: dict[str, GenerateResult | GymdError] = {}

    def ask(self, call_id: str, limit: int = 10, size: int = 0, server: str = "policy") -> PolicyCall:
        request = GenerateRequest(call_id=call_id, rollout_id="a/0", server=server)
        request.params.input_text = "x" * size
        call = PolicyCall(request, 60.0, limit, lambda result: self.found.update({call_id: result}))
        self.plan.session.policy.ask(call)
        return call

    def sent(self) -> list[str]:
        """The call ids of the next frame."""
        return [one.call_id for one in self.plan.take("generate_requests").generate_requests.requests]

    def cancelled(self) -> list[str]:
        return list(self.plan.take("generate_requests").generate_requests.cancelled_call_ids)

    def reply(self, *call_ids: str) -> None:
        self.plan.send(generate_results=GenerateResults(results=[answer(call_id) for call_id in call_ids]))

    def resume(self, *, serves: bool = True) -> None:
        opening = OpenSession(session_id="s1", serves_policy=serves)
        self.plan.session.resume(opening, self.plan.wake)
        self.plan.take("opened")

    def failure(self, call_id: str) -> str:
        found = self.found[call_id]
        assert isinstance(found, GymdError)
        return found.reason_name


class TestDesk:
    def test_calls_go_out_together_and_answers_come_back(self) -> None:
        calls = Calls()
        calls.ask("1")
        calls.ask("2")
        assert calls.sent() == ["1", "2"]
        calls.plan.nothing()
        calls.reply("2", "1")
        assert [found.call_id for found in calls.found.values()] == ["2", "1"]  # type: ignore[union-attr]
        assert calls.plan.session.policy.open_count == 0

    def test_the_trainer_has_no_more_than_the_limit(self) -> None:
        calls = Calls()
        for number in range(5):
            calls.ask(str(number), limit=2)
        assert calls.sent() == ["0", "1"]
        calls.plan.nothing()
        wakes = calls.plan.wakes
        calls.reply("1")
        assert calls.plan.wakes > wakes
        assert calls.sent() == ["2"]

    def test_a_server_with_no_room_holds_up_no_other(self) -> None:
        calls = Calls()
        for number in range(3):
            calls.ask(f"small-{number}", limit=1, server="small")
            calls.ask(f"large-{number}", limit=2, server="large")
        assert calls.sent() == ["small-0", "large-0", "large-1"]
        calls.plan.nothing()
        calls.reply("large-0")
        assert calls.sent() == ["large-2"]
        calls.reply("small-0", "large-1")
        assert calls.sent() == ["small-1"]
        calls.reply("large-2", "small-1")
        assert calls.sent() == ["small-2"]

    def test_the_oldest_call_goes_first_whatever_its_server(self) -> None:
        calls = Calls(resume_window={"seconds": 60})
        for number in range(4):
            calls.ask(str(number), server="even" if number % 2 == 0 else "odd")
        assert calls.sent() == ["0", "1", "2", "3"]
        calls.plan.session.detach(calls.plan.wake)
        calls.resume()
        assert calls.sent() == ["0", "1", "2", "3"]

    def test_it_counts_right_whatever_happens(self) -> None:
        calls = Calls(resume_window={"seconds": 60})
        desk, rng = calls.plan.session.policy, random.Random(0)
        known = [calls.ask("first", limit=3, server="x")]
        for number in range(600):
            step = rng.random()
            if step < 0.5:
                known.append(calls.ask(str(number), limit=3, server=rng.choice("xyz")))
            elif step < 0.65:
                desk.drop(rng.choice(known))
            elif step < 0.8:
                calls.reply(rng.choice(known).call_id)
            elif step < 0.97:
                desk.next_frame()
            else:
                desk.detach()
            queues = desk._queues.values()
            assert desk._waiting == sum(len(queue.waiting) for queue in queues)
            assert all(queue.busy <= 3 for queue in queues)
            assert desk.open_count == desk._waiting + sum(queue.busy for queue in queues)

    def test_frames_are_bounded_in_count_and_bytes(self) -> None:
        calls = Calls()
        for number in range(70):
            calls.ask(str(number), limit=1000)
        assert len(calls.sent()) == 64
        assert len(calls.sent()) == 6
        for number in range(70, 74):
            calls.ask(str(number), limit=1000, size=600_000)
        assert [len(calls.sent()) for _ in range(4)] == [1, 1, 1, 1]

    def test_no_frame_is_larger_than_the_trainer_accepts(self) -> None:
        calls = Calls(max_message_bytes=20_000)
        desk = calls.plan.session.policy
        given_up = [calls.ask(f"{'x' * 24}{number}", limit=10_000) for number in range(1500)]
        while calls.plan.session.next_frame() is not None:
            pass
        for call in given_up:
            desk.drop(call)
        for number in range(300):
            calls.ask(f"{'y' * 24}{number}", limit=10_000, size=250 if number % 100 else 19_000)
        asked = cancelled = 0
        while (frame := desk.next_frame()) is not None:
            assert frame.ByteSize() <= 20_000
            asked += len(frame.generate_requests.requests)
            cancelled += len(frame.generate_requests.cancelled_call_ids)
        assert (asked, cancelled) == (300, 1500)

    def test_a_call_that_the_trainer_does_not_accept(self) -> None:
        calls = Calls(max_message_bytes=5000)
        with pytest.raises(GymdError) as caught:
            calls.ask("1", size=5000)
        assert caught.value.reason_name == "MESSAGE_TOO_LARGE"
        calls.plan.nothing()

    def test_unknown_and_late_answers_are_ignored(self) -> None:
        calls = Calls()
        calls.ask("1")
        calls.sent()
        calls.reply("nobody", "1", "1")
        assert list(calls.found) == ["1"]
        calls.plan.nothing()

    def test_dropping_tells_the_trainer_only_what_it_has(self) -> None:
        calls = Calls()
        sent, waiting, answered = calls.ask("1", limit=2), calls.ask("2", limit=2), calls.ask("3", limit=2)
        assert calls.sent() == ["1", "2"]
        calls.reply("2")
        assert calls.sent() == ["3"]
        calls.reply("3")
        queued = calls.ask("4", limit=1)
        for call in (sent, waiting, answered, queued):
            calls.plan.session.policy.drop(call)
        assert calls.cancelled() == ["1"]
        calls.plan.nothing()
        calls.reply("1")
        assert "1" not in calls.found

    def test_a_session_that_serves_no_policy_is_not_asked(self) -> None:
        calls = Calls()
        calls.plan = Plan().open()
        with pytest.raises(GymdError, match="serves_policy") as caught:
            calls.ask("1")
        assert caught.value.reason_name == "INVALID_REQUEST"


class TestBrokenStream:
    def test_what_is_not_answered_is_sent_again_in_order(self) -> None:
        calls = Calls(resume_window={"seconds": 60})
        calls.ask("1", limit=2)
        calls.ask("2", limit=2)
        calls.ask("3", limit=2)
        assert calls.sent() == ["1", "2"]
        calls.plan.session.detach(calls.plan.wake)
        calls.ask("4", limit=2)
        calls.resume()
        calls.reply("2")  # it was on its way when the stream broke
        assert list(calls.found) == ["2"]
        assert calls.sent() == ["1", "3"]
        calls.reply("1", "3")
        assert calls.sent() == ["4"]

    def test_what_nobody_waits_for_meanwhile_is_given_up_afterwards(self) -> None:
        calls = Calls(resume_window={"seconds": 60})
        call = calls.ask("1")
        calls.sent()
        calls.plan.session.detach(calls.plan.wake)
        calls.plan.session.policy.drop(call)
        calls.resume()
        assert calls.cancelled() == ["1"]

    def test_the_session_ends(self) -> None:
        calls = Calls()
        calls.ask("1")
        calls.sent()
        calls.ask("2")
        calls.plan.session.abandon()
        assert [calls.failure(one) for one in "12"] == ["UPSTREAM_UNAVAILABLE"] * 2

    def test_half_close_ends_the_policy_but_not_the_rollouts(self) -> None:
        calls = Calls()
        calls.ask("1")
        calls.sent()
        calls.plan.session.half_close()
        calls.plan.nothing()
        assert not calls.found, "it may be a stream that breaks"
        calls.plan.now += 10
        calls.plan.take("progress")
        assert calls.failure("1") == "UPSTREAM_UNAVAILABLE"
        with pytest.raises(GymdError):
            calls.ask("2")
        calls.plan.executor.finish(4)
        assert len(calls.plan.results()) == 4
        assert calls.plan.take("summary").summary.result_count == 4

    def test_another_client_that_serves_none(self) -> None:
        calls = Calls(resume_window={"seconds": 60})
        calls.ask("1")
        calls.plan.session.detach(calls.plan.wake)
        calls.resume(serves=False)
        assert calls.failure("1") == "UPSTREAM_UNAVAILABLE"


def refused(result: GenerateResult, **asked: Any) -> GymdError:
    with pytest.raises(GymdError) as caught:
        response_of(result, GenerateRequest(call_id="c", **asked))
    return caught.value


class TestAnswers:
    def test_tokens_and_version_are_put_on_the_last_item(self) -> None:
        result = answer("c")
        result.policy_version = 7
        result.token_trace.prompt_token_ids.extend([1, 2])
        result.token_trace.generation_token_ids.extend([3])
        result.token_trace.generation_logprobs.extend([-0.5])
        result.response.top_p = 0.25
        asked = GenerateRequest(call_id="c", server="policy", min_version=7)
        asked.params.temperature, asked.params.top_p = 0.5, 1.0
        response = response_of(result, asked)
        trace = response.output[-1].token_trace
        assert (list(trace.generation_token_ids), trace.policy_version) == ([3], 7)
        assert (response.id, response.model, response.status) == ("resp_c", "policy", "completed")
        # As it was asked to sample, unless the trainer says otherwise.
        assert (response.temperature, response.top_p) == (0.5, 0.25)
        assert not trace.HasField("sampling")

    def test_how_it_was_sampled_is_what_the_trainer_says(self) -> None:
        result = answer("c")
        result.token_trace.prompt_token_ids.append(1)
        result.token_trace.sampling.top_k = 20
        asked = GenerateRequest(call_id="c")
        asked.params.CopyFrom(params_from_json({"input": "hi", "top_k": 5, "seed": 3}))
        response = response_of(result, asked)
        assert response.output[-1].token_trace.sampling == SamplingParams(top_k=20)

    @pytest.mark.parametrize(
        ("trace", "why"),
        [
            (
                TokenTrace(prompt_token_ids=[1], generation_token_ids=[1, 2], generation_logprobs=[-1]),
                "2 gen",
            ),
            (TokenTrace(generation_token_ids=[1], generation_logprobs=[-1]), "no prompt_token_ids"),
        ],
    )
    def test_tokens_that_do_not_fit(self, trace: TokenTrace, why: str) -> None:
        result = answer("c")
        result.token_trace.CopyFrom(trace)
        failure = refused(result)
        assert failure.reason_name == "UPSTREAM_MALFORMED"
        assert why in failure.message

    @pytest.mark.parametrize(
        "response",
        [
            None,
            Response(output=[{}]),
            Response(output=[{"function_call": {"name": "f"}}]),
            Response(output=[{"function_call": {"call_id": "1"}}]),
            Response(output=[{"function_call": {"name": "f", "call_id": "1"}}] * 2),
        ],
    )
    def test_no_answer_at_all_or_calls_that_cannot_be_answered(self, response: Response | None) -> None:
        result = GenerateResult(call_id="c", response=response)
        assert refused(result).reason_name == "UPSTREAM_MALFORMED"

    def test_tokens_without_an_item(self) -> None:
        result = GenerateResult(call_id="c", response=Response(), token_trace=TokenTrace())
        assert "no output item" in refused(result).message

    def test_an_older_policy_than_asked_for(self) -> None:
        result = answer("c")
        assert "version is unknown" in refused(result, min_version=3).message
        result.policy_version = 2
        assert "version is 2" in refused(result, min_version=3).message

    def test_the_trainers_error_is_the_models(self) -> None:
        status = to_status_message(
            error("UPSTREAM_RATE_LIMITED", "slow down", retry_delay=2, upstream_status=429)
        )
        status.code = 13  # what the trainer says about the code does not count
        failure = refused(GenerateResult(error=status))
        assert (failure.reason_name, failure.code, failure.retry_delay) == ("UPSTREAM_RATE_LIMITED", 8, 2)
        assert failure.metadata["upstream_status"] == "429"

    @pytest.mark.parametrize("name", ["PEER_UNREACHABLE", "SESSION_LOST"])
    def test_errors_that_are_none_of_a_model(self, name: str) -> None:
        failure = refused(GenerateResult(error=to_status_message(error(name, "again, please"))))
        assert failure.reason_name == "UPSTREAM_MALFORMED"
        assert "again, please" in failure.message

    def test_a_reason_of_a_newer_trainer(self) -> None:
        result = GenerateResult()
        result.error.reason = 9999  # type: ignore[assignment]
        assert refused(result).reason_name == "UPSTREAM_MALFORMED"


class TestServer:
    """What agents call."""

    def server(self, calls: Calls, **settings: Any) -> TrainerPolicy:
        running_as = calls.plan.executor.running_as
        find = lambda name: find_desk(running_as(name), name)  # noqa: E731
        return TrainerPolicy("policy", PolicySettings(**settings), find)

    def context(self, seconds: float | None = None) -> CallContext:
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        return CallContext("policy", deadline, {})

    async def test_an_answer(self) -> None:
        calls = Calls()
        request = CreateResponseRequest(rollout_id="a/3", return_tokens=True)
        request.params.input_text = "hello"
        running = asyncio.ensure_future(self.server(calls).CreateResponse(request, self.context(100)))
        await asyncio.sleep(0)
        [asked] = calls.plan.take("generate_requests").generate_requests.requests
        assert (asked.rollout_id, asked.params.input_text, asked.server) == ("a/3", "hello", "policy")
        assert asked.return_tokens
        assert 80 <= asked.time_left.seconds < 100
        calls.reply(asked.call_id)
        assert (await running).response.output[0].message.content_text == "yes"

    async def test_the_lowest_version_that_the_task_allows(self) -> None:
        calls = Calls(policy_version=6)
        one = task("b")
        one.policy_constraint.min_version = 6
        calls.plan.submit(one)
        request = CreateResponseRequest(rollout_id="b/0")
        running = asyncio.ensure_future(self.server(calls).CreateResponse(request, self.context()))
        await asyncio.sleep(0)
        [asked] = calls.plan.take("generate_requests").generate_requests.requests
        assert asked.min_version == 6
        calls.reply(asked.call_id)
        with pytest.raises(GymdError, match="at least 6"):
            await running

    async def test_as_a_stream(self) -> None:
        calls = Calls()
        events = self.server(calls).StreamResponse(StreamResponseRequest(rollout_id="a/0"), self.context())
        running = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        calls.reply(*calls.sent())
        assert (await running).completed.response.output[0].message.content_text == "yes"
        await events.aclose()

    @pytest.mark.parametrize("rollout_id", ["", "a", "a/4", "a/x", "b/0", "ask-1"])
    async def test_rollouts_that_nobody_runs(self, rollout_id: str) -> None:
        with pytest.raises(GymdError, match="no session runs") as caught:
            self.server(Calls()).CreateResponse(
                CreateResponseRequest(rollout_id=rollout_id), self.context()
            ).send(None)
        assert caught.value.reason_name == "INVALID_REQUEST"

    def test_two_trainers_with_the_same_ids(self) -> None:
        jobs = [job for _ in range(2) for job in Calls().plan.executor.running_as("a/0")]
        with pytest.raises(GymdError, match=r"2 sessions run .* different task ids"):
            find_desk(jobs, "a/0")

    async def test_the_deadline_names_who_was_late(self) -> None:
        calls = Calls(resume_window={"seconds": 60})
        server = self.server(calls, timeout=0.02)
        request = CreateResponseRequest(rollout_id="a/0")
        with pytest.raises(GymdError, match=r"did not answer within 0\.02 s") as caught:
            await server.CreateResponse(request, self.context(10))
        assert caught.value.reason_name == "DEADLINE_EXCEEDED"
        calls.plan.session.detach(calls.plan.wake)
        with pytest.raises(GymdError, match="did not come back") as caught:
            await server.CreateResponse(request, self.context())
        assert caught.value.reason_name == "UPSTREAM_UNAVAILABLE"
        assert calls.plan.session.policy.open_count == 0

    async def test_a_cancelled_call_reaches_the_trainer(self) -> None:
        calls = Calls()
        request = CreateResponseRequest(rollout_id="a/0")
        running = asyncio.ensure_future(self.server(calls).CreateResponse(request, self.context()))
        await asyncio.sleep(0)
        sent = calls.sent()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert calls.cancelled() == sent

"""Resources servers: hooks, rewards, sessions and their end, and code that blocks."""

import asyncio
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pydantic
import pytest

from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import OUTCOME_EMPTY
from gymd.errors import GymdError, error, to_status_message
from gymd.mesh import CallContext
from gymd.sdk import ResourcesServer, Reward, Session, TaskView, tool
from gymd.sdk.resources import ResourcesServicer
from gymd.sdk.testing import eventually, expect_error, make_response, start_server
from tests.fakes.made_resources import server_class, started

CONTEXT = CallContext("", None, {})


class Row(pydantic.BaseModel):
    limit: int


# Hooks.


async def test_hooks_get_the_values_they_name_in_any_order() -> None:
    seen: dict[str, Any] = {}

    async def seed_session(self: Any, task: TaskView, session: Session) -> None:
        seen["seed"] = (task.fields, task.create_params.input_text, session.id)
        session.state = "seeded"

    async def verify(
        self: Any, outcome: int, text: str, session: Session, response: Response, task: Row
    ) -> int:
        seen["verify"] = (outcome, text, session.state, response.model, task.limit)
        return 1

    async def close_session(self: Any, session: Session) -> None:
        seen["close"] = session.state

    async with started(seed_session=seed_session, verify=verify, close_session=close_session) as server:
        row = {"responses_create_params": {"input": "Hi."}, "limit": 3, "big": 2**70}
        async with await server.seed(row, session_id="s") as session:
            reward = await session.verify("Done.", outcome=OUTCOME_EMPTY)
    assert reward.value == 1.0
    assert seen["seed"] == ({"limit": 3, "big": 2**70}, "Hi.", "s")
    assert seen["verify"] == (OUTCOME_EMPTY, "Done.", "seeded", "fake", 3)
    assert seen["close"] == "seeded"


async def test_a_hook_that_names_something_else_says_what_there_is() -> None:
    async def verify(self: Any, answer: str) -> float:
        return 0.0

    with pytest.raises(TypeError, match=r"no value 'answer'.*session, task, response, text, outcome"):
        async with started(verify=verify):
            pass


async def test_verify_is_required() -> None:
    class Nothing(ResourcesServer):
        pass

    with pytest.raises(TypeError, match="Nothing has no verify method"):
        async with start_server(Nothing):
            pass


async def test_fields_are_checked_before_the_session_exists() -> None:
    async def verify(self: Any, task: Row) -> float:
        return float(task.limit)

    async with started(verify=verify) as server:
        failure = await expect_error("INVALID_REQUEST", server.seed({"limit": "many"}), "a wrong field")
        assert "limit" in str(failure)
        assert "Row" in str(failure)
        assert server.open_sessions == []
        async with await server.seed({}) as session:  # a conversation, which nobody verifies
            await expect_error("INVALID_REQUEST", session.verify(), "verify without fields")


async def test_fields_that_are_no_object() -> None:
    async def seed_session(self: Any, task: TaskView) -> None:
        assert task.fields is task.fields

    async with started(seed_session=seed_session) as server:
        for text in ("[1]", "{", "[" * 100_000):
            request = pb.SeedSessionRequest(session_id="s")
            request.task.fields_json = text
            await expect_error("INVALID_REQUEST", server.call("SeedSession", request), f"fields {text[:5]}")


# Rewards.


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (0.25, 0.25), (True, 1.0), (False, 0.0), (-3, -3.0), (Fraction(1, 4), 0.25)],
)
async def test_a_reward_is_any_finite_number(value: Any, number: float) -> None:
    async def verify(self: Any) -> Any:
        return value

    async with started(verify=verify) as server:
        assert (await server.verify({})).value == number


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "1.0", [1.0], Reward(float("nan"))])
async def test_anything_else_is_refused(value: Any) -> None:
    async def verify(self: Any) -> Any:
        return value

    async with started(verify=verify) as server:
        failure = await expect_error("SERVER_CODE_FAILED", server.verify({}), "no reward")
        assert "no finite number" in str(failure)


async def test_components_and_extras() -> None:
    async def verify(self: Any) -> Reward:
        extras = {"row": Row(limit=2**70), "set": {1}, "none": None, "other": Fraction(1, 2)}
        return Reward(0.5, {"format": 1, "answer": 0.25}, extras)

    async with started(verify=verify) as server:
        reward = await server.verify({})
    assert reward.components == {"format": 1.0, "answer": 0.25}
    assert reward.extras["none"] is None
    assert (reward.extras["set"], reward.extras["other"]) == ([1], "1/2")


async def test_a_verifier_may_say_what_a_rollout_is_good_for() -> None:
    async def verify(self: Any) -> Reward:
        return Reward(0.0, use_for_loss=False, use_for_baseline=True)

    async def plain(self: Any) -> float:
        return 0.0

    async with started(verify=verify) as server:
        reward = await server.verify({})
    assert (reward.use_for_loss, reward.use_for_baseline) == (False, True)
    async with started(verify=plain) as server:
        reward = await server.verify({})
    assert (reward.use_for_loss, reward.use_for_baseline) == (None, None)


async def test_a_component_that_is_no_number_is_named() -> None:
    async def verify(self: Any) -> Reward:
        return Reward(0.5, {"format": float("nan")})

    async with started(verify=verify) as server:
        failure = await expect_error("SERVER_CODE_FAILED", server.verify({}), "a nan component")
        assert "'format'" in str(failure)


# Repeated calls.


def counting_tool(behaviour: Callable[[int], Any]) -> Any:
    calls: list[int] = []

    @tool
    async def count(self: Any) -> Any:
        """Count."""
        calls.append(1)
        result = behaviour(len(calls))
        return await result if asyncio.iscoroutine(result) else result

    return calls, count


async def test_a_call_that_comes_while_the_first_runs_gets_its_answer() -> None:
    go = asyncio.Event()

    async def slow() -> str:
        await go.wait()
        return "once"

    calls, count = counting_tool(lambda _: slow())
    async with started(count=count) as server, await server.seed({}) as session:
        running = [asyncio.ensure_future(session.call_json("count", "{}", "c")) for _ in range(3)]
        await eventually(lambda: calls, "the call")
        go.set()
        assert {answer.output for answer in await asyncio.gather(*running)} == {"once"}
        assert len(calls) == 1
        assert (await session.call_json("count", "{}", "other")).output == "once"
        assert len(calls) == 2


def raises(failure: Exception) -> Any:
    raise failure


async def test_a_tool_that_raised_is_answered_once() -> None:
    calls, count = counting_tool(lambda number: raises(ValueError(f"no {number}")))
    async with started(count=count) as server, await server.seed({}) as session:
        first = await session.call_json("count", "{}", "c")
        assert first.is_error
        assert "ValueError: no 1" in first.output
        assert await session.call_json("count", "{}", "c") == first
        assert len(calls) == 1


class Panic(BaseException):
    """What a Rust extension raises when it panics."""


STRAY = [StopIteration(), SystemExit(2), Panic("index out of bounds"), asyncio.CancelledError()]


@pytest.mark.parametrize("failure", STRAY, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("transport", ["link", "in-process"])
async def test_whatever_an_author_s_code_raises_ends_its_call_alone(
    failure: BaseException, transport: Any
) -> None:
    class Odd(ResourcesServer):
        @tool
        def in_thread(self) -> str:
            raise failure

        @tool
        async def on_loop(self) -> str:
            raise failure

        def verify(self) -> float:
            raise failure

    async with start_server(Odd, transport=transport) as server, await server.seed({}) as session:
        async with asyncio.timeout(20):
            for name in ("in_thread", "on_loop"):
                answer = await session.call_json(name, "{}")
                assert answer.is_error
                assert type(failure).__name__ in answer.output
                assert str(failure) in answer.output
            with pytest.raises(GymdError, match=rf"odd\.Verify raised .*{type(failure).__name__}"):
                await session.verify("Done.")


async def test_a_text_that_cannot_be_sent_is_told_as_well_as_it_can_be() -> None:
    def verify(self: Any) -> float:
        raise ValueError("no city called \udcff" + "x" * 100_000)

    calls, count = counting_tool(lambda _: raises(ValueError("no file \udcff")))
    async with started(count=count, verify=verify) as server, await server.seed({}) as session:
        assert "no file" in (await session.call_json("count", "{}", "c")).output
        with pytest.raises(GymdError, match=r"no city called \\udcffx+") as caught:
            await session.verify("Done.")
    assert len(caught.value.message) < 3000
    assert to_status_message(caught.value).message == caught.value.message
    assert len(calls) == 1


async def test_a_failure_of_the_environment_is_kept_for_repeats() -> None:
    calls, count = counting_tool(lambda _: raises(error("PEER_UNREACHABLE", "the judge is gone")))
    async with started(count=count) as server, await server.seed({}) as session:
        for _ in range(2):
            await expect_error("PEER_UNREACHABLE", session.call_json("count", "{}", "c"), "the call")
        assert len(calls) == 1


async def test_an_interrupted_call_is_not_applied_twice() -> None:
    calls, count = counting_tool(lambda _: asyncio.Event().wait())
    async with started(count=count) as server, await server.seed({}) as session:
        running = asyncio.ensure_future(session.call_json("count", "{}", "c"))
        waiting = asyncio.ensure_future(session.call_json("count", "{}", "c"))
        await eventually(lambda: calls, "the call")
        await asyncio.sleep(0)
        running.cancel()
        await expect_error("SESSION_LOST", waiting, "a repeat that waited")
        await expect_error("SESSION_LOST", session.call_json("count", "{}", "c"), "a later repeat")
        assert len(calls) == 1


async def test_a_call_without_an_id_is_refused() -> None:
    _, count = counting_tool(lambda _: "")
    async with started(count=count) as server, await server.seed({}) as session:
        request = pb.CallToolRequest(session_id=session.id, name="count")
        await expect_error("INVALID_REQUEST", server.call("CallTool", request), "a call without an id")


# Code that blocks.


async def test_sync_tools_and_hooks_run_in_threads_together() -> None:
    barrier = threading.Barrier(8, timeout=10)
    threads = set()

    @tool
    def meet(self: Any, session: Session) -> str:
        """Wait for the others."""
        threads.add(threading.current_thread().name)
        barrier.wait()
        return "met"

    def verify(self: Any, text: str) -> float:
        threads.add(threading.current_thread().name)
        return 1.0

    async with started(meet=meet, verify=verify) as server:
        sessions = await asyncio.gather(*(server.seed({}) for _ in range(8)))
        answers = await asyncio.gather(*(session.call("meet") for session in sessions))
        assert {answer.output for answer in answers} == {"met"}
        assert (await sessions[0].verify()).value == 1.0
        await asyncio.gather(*(session.close() for session in sessions))
    assert len(threads) >= 8
    assert threading.main_thread().name not in threads


async def test_a_blocking_tool_does_not_stop_the_others_and_its_deadline_holds() -> None:
    stop = threading.Event()

    @tool
    def block(self: Any) -> str:
        """Block."""
        stop.wait(10)
        return ""

    async with started(block=block) as server, await server.seed({}) as session:
        request = pb.CallToolRequest(session_id=session.id, call_id="c", name="block")
        begin = time.monotonic()
        await expect_error("DEADLINE_EXCEEDED", server.call("CallTool", request, 0.1), "a blocking tool")
        assert (await session.verify()).value == 1.0
        assert time.monotonic() - begin < 9
        stop.set()


async def test_aggregate_metrics_run_beside_the_loop_and_may_choose_their_keys() -> None:
    main = threading.current_thread()

    def aggregate_metrics(self: Any, rollouts: Any) -> dict[str, Any]:
        assert threading.current_thread() is not main
        return {"count": len(rollouts), "big": 2**70}

    methods: dict[str, Any] = {
        "aggregate_metrics": aggregate_metrics,
        "key_metrics": lambda self, metrics: [name for name in metrics if name != "big"],
    }
    async with started(**methods) as server:
        metrics, keys = await server.aggregate([pb.ScoredRollout()])
    assert (metrics["count"], keys) == (1, ["count"])


async def test_default_metrics() -> None:
    rollouts = [pb.ScoredRollout(task_id="t", index=index) for index in range(3)]
    rollouts[0].reward.value, rollouts[1].reward.value = 0.0, 1.0
    async with started() as server:
        assert await server.aggregate(rollouts) == (
            {"count": 2, "mean_reward": 0.5, "std_reward": 0.5},
            ["mean_reward"],
        )


async def test_text_is_all_assistant_text() -> None:
    texts = []

    async def verify(self: Any, text: str) -> float:
        texts.append(text)
        return 0.0

    servicer = ResourcesServicer(server_class(verify=verify)("x", None, None))  # type: ignore[arg-type]
    for response in (make_response("a", "b"), Response()):
        await servicer.Verify(pb.VerifyRequest(response=response), CONTEXT)
    assert texts == ["ab", ""]


async def test_errors_of_verify_name_the_server() -> None:
    async def verify(self: Any) -> float:
        raise KeyError("answer")

    async with started(verify=verify) as server:
        with pytest.raises(GymdError, match=r"made\.Verify raised KeyError"):
            await server.verify({})

"""The standard loop, rule by rule."""

import asyncio
import itertools
from typing import Any

import pytest

from gymapi.v1 import rollout_pb2
from gymapi.v1.agent_service_pb2 import Deadlines
from gymapi.v1.responses_pb2 import Response
from gymapi.v1.rollout_pb2 import Drift, Outcome, Rollout
from gymd.convert import params_from_json
from gymd.errors import GymdError
from gymd.sdk import ResourcesServer, Session, tool
from gymd.sdk.testing import (
    FakeModel,
    RunningMesh,
    Transport,
    check_agent_server,
    eventually,
    function_call,
    make_response,
    reasoning,
    start_server,
    start_servers,
)
from gymservers.agents.simple_agent.server import SimpleAgent

ROW = {"responses_create_params": {"input": [{"role": "user", "content": "Hi."}]}}


class Steps(ResourcesServer):
    """Remembers when its tool began and ended."""

    async def start(self) -> None:
        self.log_of_steps: list[str] = []
        self.together = 0
        self.most_together = 0

    @tool
    async def step(self, name: str) -> str:
        """Do one step."""
        self.log_of_steps.append(name)
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        await asyncio.sleep(0.01)
        self.together -= 1
        return f"did {name}"

    @tool
    async def parts(self) -> dict[str, Any]:
        """Answer with an object."""
        return {"a": 1, "ä": None}

    async def verify(self, session: Session, outcome: int) -> float:
        return float(outcome)


def servers(script: Any, **config: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    agent = {"model_server": {"name": "model"}, "resources_server": {"name": "steps"}} | config
    return {"model": (FakeModel, {"script": script}), "steps": (Steps, {}), "agent": (SimpleAgent, agent)}


async def run(
    script: Any, *, row: Any = ROW, options: Any = None, **config: Any
) -> tuple[Rollout, RunningMesh]:
    async with start_servers(servers(script, **config), transport="in-process") as mesh:
        rollout = await mesh.run_rollout("agent", row, **options or {})
        assert not mesh["steps"].open_sessions
        return rollout, mesh


def ended(rollout: Rollout) -> tuple[str, str]:
    return Outcome.Name(rollout.outcome).removeprefix("OUTCOME_"), rollout.termination_reason


def steps(*names: str) -> list[Any]:
    return [function_call("step", {"name": name}, f"call_{name}") for name in names]


@pytest.mark.parametrize(
    ("response", "end"),
    [
        (make_response("Hello."), ("COMPLETED", "final_message")),
        (make_response(reasoning("hm"), "Hello."), ("COMPLETED", "final_message")),
        (make_response(""), ("COMPLETED", "final_message")),
        (make_response(reasoning("hm")), ("EMPTY", "reasoning_only")),
        (make_response(), ("EMPTY", "empty_output")),
        (make_response("Hel", incomplete="max_output_tokens"), ("TRUNCATED_TOKENS", "max_output_tokens")),
        (make_response("No", incomplete="content_filter"), ("TRUNCATED_TOKENS", "content_filter")),
        (make_response(incomplete="max_output_tokens"), ("TRUNCATED_TOKENS", "max_output_tokens")),
    ],
)
async def test_ends(response: Response, end: tuple[str, str]) -> None:
    rollout, _mesh = await run([response])
    assert ended(rollout) == end
    assert rollout.reward.value == rollout.outcome  # each is verified, and the verifier knows how it ended
    assert not rollout.HasField("failure")
    assert rollout.model_call_count == 1
    assert rollout.response.id == response.id


async def test_pending_calls_of_an_incomplete_response_are_not_run() -> None:
    rollout, mesh = await run([make_response(*steps("a"), incomplete="max_output_tokens")])
    assert ended(rollout) == ("TRUNCATED_TOKENS", "max_output_tokens")
    server: Any = mesh["steps"].server
    assert server.log_of_steps == []
    assert [item.WhichOneof("kind") for item in rollout.response.output] == ["function_call"]


async def test_message_beside_a_call_goes_on() -> None:
    rollout, _ = await run([make_response("Let me see.", *steps("a")), "Done."])
    kinds = [item.WhichOneof("kind") for item in rollout.response.output]
    assert kinds == ["message", "function_call", "function_call_output", "message"]


async def test_max_steps_runs_the_tools_of_the_last_step() -> None:
    rollout, mesh = await run([make_response(*steps("a")), make_response(*steps("b"))], max_steps=2)
    assert ended(rollout) == ("TRUNCATED_TURNS", "max_steps")
    server: Any = mesh["steps"].server
    assert server.log_of_steps == ["a", "b"]
    assert rollout.response.output[-1].function_call_output.output_text == "did b"
    assert rollout.reward.HasField("value")


async def test_calls_may_be_the_answer_itself() -> None:
    rollout, _ = await run([make_response(*steps("a"))], execute_tool_calls=False)
    assert ended(rollout) == ("COMPLETED", "tool_calls")
    assert (rollout.model_call_count, rollout.tool_call_count) == (1, 0)
    assert rollout.reward.HasField("value")


@pytest.mark.parametrize("config", [{}, {"max_steps": None}])
async def test_the_loop_is_bounded_by_default(config: dict[str, Any]) -> None:
    numbers = itertools.count()
    rollout, _ = await run(lambda *_: make_response(*steps(str(next(numbers)))), **config)
    assert ended(rollout) == ("TRUNCATED_TURNS", "max_steps")
    assert rollout.model_call_count == rollout.tool_call_count == 100


@pytest.mark.parametrize(("parallel", "most"), [(None, 3), (True, 3), (False, 1)])
async def test_parallel_calls(parallel: bool | None, most: int) -> None:
    params = {"input": "Hi."} | ({} if parallel is None else {"parallel_tool_calls": parallel})
    script = [make_response(*steps("a", "b", "c")), "Done."]
    rollout, mesh = await run(script, row={"responses_create_params": params})
    outputs = [item.function_call_output for item in rollout.response.output[3:6]]
    assert [output.call_id for output in outputs] == ["call_a", "call_b", "call_c"]
    assert [output.output_text for output in outputs] == ["did a", "did b", "did c"]
    server: Any = mesh["steps"].server
    assert server.most_together == most


async def test_a_repeated_call_id_in_a_later_turn_is_a_new_call() -> None:
    _rollout, mesh = await run([make_response(*steps("a")), make_response(*steps("a")), "Done."])
    server: Any = mesh["steps"].server
    assert server.log_of_steps == ["a", "a"]


async def test_objects_are_answered_as_json() -> None:
    rollout, _ = await run([make_response(function_call("parts")), "Done."])
    assert rollout.response.output[1].function_call_output.output_text == '{"a":1,"ä":null}'


async def test_without_a_resources_server_every_tool_is_unknown() -> None:
    async with start_servers(
        {
            "model": (FakeModel, {"script": [make_response(*steps("a")), "Then not."]}),
            "agent": (SimpleAgent, {"model_server": {"name": "model"}}),
        }
    ) as mesh:
        rollout = await mesh.run_rollout("agent", ROW)
    assert ended(rollout) == ("COMPLETED", "final_message")
    assert (rollout.tool_call_count, rollout.tool_error_count) == (1, 1)
    assert not rollout.HasField("reward")


async def test_usage_is_summed() -> None:
    rollout, _ = await run([make_response(*steps("a"), usage=(10, 2)), make_response("b", usage=(20, 3))])
    usage = rollout.response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (30, 5, 35)


@pytest.mark.parametrize("unknown", [0, 1, 2])
async def test_unknown_usage_stays_unknown(unknown: int) -> None:
    usages: list[Any] = [(10, 2), (20, 3), (30, 4)]
    usages[unknown] = None
    script = [
        make_response(*steps("a"), usage=usages[0]),
        make_response(*steps("b"), usage=usages[1]),
        make_response("c", usage=usages[2]),
    ]
    rollout, _ = await run(script)
    assert not rollout.response.HasField("usage")


async def test_usage_with_one_unknown_count() -> None:
    known, part = make_response(*steps("a")), make_response("b")
    part.usage.ClearField("output_tokens")
    rollout, _ = await run([known, part])
    assert rollout.response.usage.input_tokens == 20
    assert not rollout.response.usage.HasField("output_tokens")


async def test_the_model_sees_the_conversation_and_the_parameters() -> None:
    params = {"input": "Hi.", "instructions": "Be brief.", "temperature": 0.5, "tools": []}
    _, mesh = await run([make_response(*steps("a")), "Done."], row={"responses_create_params": params})
    model: Any = mesh["model"].server
    first, second = (request.params for request in model.requests)
    assert first == params_from_json(params)
    assert (second.instructions, second.temperature) == ("Be brief.", 0.5)
    kinds = [item.WhichOneof("kind") for item in second.input_items.items]
    assert kinds == ["message", "function_call", "function_call_output"]
    assert second.input_items.items[0].message.role == "user"


@pytest.mark.parametrize(
    ("configured", "asked", "seen"), [(None, None, None), (True, None, True), (True, False, False)]
)
async def test_asking_for_tokens(configured: bool | None, asked: bool | None, seen: bool | None) -> None:
    _, mesh = await run(["Hi."], options={"return_tokens": asked}, return_tokens=configured)
    model: Any = mesh["model"].server
    assert model.requests[0].return_tokens is seen


async def test_token_trajectory_holds_what_each_call_added() -> None:
    script = [
        make_response(*steps("a"), tokens=([1, 2, 3], [4, 5])),
        make_response("Done.", tokens=([1, 2, 3, 4, 5, 6, 7], [8])),
    ]
    rollout, mesh = await run(script)
    first, second = rollout.trajectory.segments
    assert list(first.token_ids) == [1, 2, 3, 4, 5]
    assert list(second.token_ids) == [6, 7, 8]
    assert not first.HasField("parent")
    assert second.parent == 0
    assert [segment.drift for segment in (first, second)] == [Drift.DRIFT_CLEAN, Drift.DRIFT_CLEAN]
    spans = [[(span.start, span.length) for span in segment.sampled_spans] for segment in (first, second)]
    assert spans == [[(3, 2)], [(2, 1)]]
    assert [len(segment.logprobs) for segment in (first, second)] == [2, 1]
    assert [list(segment.item_indices) for segment in (first, second)] == [[0], [2]]
    # Ids are in the trajectory and nowhere else, neither in the result nor in what the model is sent again.
    model: Any = mesh["model"].server
    again = model.requests[1].params.input_items.items
    assert not any(item.HasField("token_trace") for item in (*rollout.response.output, *again))


async def test_a_prompt_that_does_not_continue_is_a_new_root() -> None:
    script = [
        make_response(*steps("a"), tokens=([1, 2, 3], [4, 5])),
        make_response(*steps("b"), tokens=([1, 2, 9, 9, 6], [7])),
        make_response("Done.", tokens=([1, 2, 9, 9, 6, 7, 8], [10])),
    ]
    rollout, _ = await run(script)
    _first, second, third = rollout.trajectory.segments
    assert (second.drift, second.HasField("parent"), list(second.token_ids)) == (
        Drift.DRIFT_FORKED,
        False,
        [1, 2, 9, 9, 6, 7],
    )
    assert (third.drift, third.parent, list(third.token_ids)) == (Drift.DRIFT_CLEAN, 1, [8, 10])
    assert [one.shared_token_count for one in rollout.trajectory.segments] == [0, 2, 0]


async def test_without_token_ids_there_is_no_trajectory() -> None:
    rollout, _ = await run(["Hi."])
    assert not rollout.HasField("trajectory")


async def test_timing_adds_up_the_parts() -> None:
    rollout, _ = await run([make_response(*steps("a", "b", "c")), "Done."])
    timing = rollout.timing
    assert timing.tool_duration.ToNanoseconds() >= 3 * 9_000_000  # parallel calls count once each
    assert timing.end_time.ToNanoseconds() > timing.start_time.ToNanoseconds()
    assert timing.seed_duration.ToNanoseconds() > 0
    assert timing.verify_duration.ToNanoseconds() > 0


async def test_skip_verification() -> None:
    rollout, _ = await run(["Hi."], skip_verification=True)
    assert ended(rollout) == ("COMPLETED", "final_message")
    assert not rollout.HasField("reward")


async def test_a_reward_that_nobody_verified_is_not_given(caplog: pytest.LogCaptureFixture) -> None:
    rollout, _ = await run(["Hi."], skip_verification=True, skip_verification_reward=0.5)
    assert not rollout.HasField("reward")
    assert "skip_verification_reward_ignored" in caplog.text


@pytest.mark.parametrize("part", ["rollout", "model"])
async def test_deadline_in_the_model_call(part: str) -> None:
    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    deadlines = Deadlines()
    getattr(deadlines, part).FromMilliseconds(100)
    rollout, _ = await run(never, options={"deadlines": deadlines})
    assert ended(rollout) == ("TIMED_OUT", "deadline")
    assert rollout.failure.stage == rollout_pb2.STAGE_MODEL
    assert rollout.failure.status.metadata["deadline_seconds"] == "0.1"


async def test_the_callers_deadline_bounds_the_rollout_and_the_result_still_arrives() -> None:
    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async with start_servers(servers(never)) as mesh:
        rollout = await mesh.run_rollout("agent", ROW, timeout=0.6)
        assert ended(rollout) == ("TIMED_OUT", "deadline")


async def test_a_missing_model_server_is_named() -> None:
    config = {"model_server": {"name": "modle"}, "peer_wait_s": 0.05}
    async with start_servers({"agent": (SimpleAgent, config), "model": (FakeModel, {})}) as mesh:
        rollout = await mesh.run_rollout("agent", ROW)
    assert ended(rollout) == ("MODEL_FAILED", "error")
    assert "did you mean 'model'?" in rollout.failure.status.message


async def test_cancelling_many_closes_every_session() -> None:
    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async with start_servers(servers(never)) as mesh:
        running = [asyncio.ensure_future(mesh.run_rollout("agent", ROW)) for _ in range(50)]
        await eventually(lambda: len(mesh["steps"].open_sessions) == 50, "seeding")
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        await eventually(lambda: not mesh["steps"].open_sessions, "closing the sessions")


@pytest.mark.parametrize("transport", ["link", "plain", "in-process"])
async def test_conformance(transport: Transport) -> None:
    await check_agent_server(SimpleAgent, transport=transport)


async def test_wrong_configuration_names_every_key() -> None:
    with pytest.raises(GymdError) as caught:
        async with start_server(SimpleAgent, {"max_steps": 0, "modelserver": {}}):
            pass
    assert all(key in str(caught.value) for key in ("max_steps", "modelserver", "model_server"))

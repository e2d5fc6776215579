"""What every agent server that loops between a model and tools owes its callers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pydantic

from gymapi.v1 import rollout_pb2
from gymapi.v1.agent_service_pb2 import Deadlines
from gymapi.v1.responses_pb2 import Item
from gymapi.v1.rollout_pb2 import Outcome, Rollout, Stage
from gymd.errors import error
from gymd.sdk.agent import AgentServer
from gymd.sdk.hooks import Session
from gymd.sdk.resources import ResourcesServer
from gymd.sdk.testing.expect import eventually
from gymd.sdk.testing.fake_model import Answer, FakeModel, Script
from gymd.sdk.testing.items import function_call, make_response
from gymd.sdk.testing.mesh import RunningMesh, Transport, no_tasks_left, start_servers
from gymd.sdk.tools import ToolError, tool

__all__ = ["check_agent_server"]

MODEL, TOOLS, AGENT = "model", "tools", "agent"


class BenchTask(pydantic.BaseModel):
    """A row of the suite."""

    expected: int = 0
    verify: str = ""
    """raise, hang: what the verifier does instead of answering."""


class Bench(ResourcesServer):
    """A running total, and tools that misbehave on request."""

    started: asyncio.Event
    stopped: asyncio.Event

    async def start(self) -> None:
        """Makes the events of the loop it runs on."""
        self.started, self.stopped = asyncio.Event(), asyncio.Event()

    async def seed_session(self, session: Session) -> None:
        """Starts from 0."""
        session.state = 0

    @tool
    async def add(self, session: Session, number: int) -> int:
        """Add a number; answers the total."""
        session.state += number
        return session.state

    @tool
    async def refuse(self) -> str:
        """Refuse."""
        raise ToolError("not today")

    @tool
    async def hang(self) -> str:
        """Never answer."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        return ""

    async def verify(self, session: Session, task: BenchTask) -> float:
        """Compares the total."""
        if task.verify == "raise":
            raise RuntimeError("the verifier is broken")
        if task.verify == "hang":
            await asyncio.Event().wait()
        return float(session.state == task.expected)


async def check_agent_server(
    cls: type[AgentServer], config: Mapping[str, Any] | None = None, *, transport: Transport = "link"
) -> None:
    """Runs the conformance suite of agent servers.

    Args:
        cls: the server class; its model_server and resources_server are the suite's.
        config: the rest of its configuration.
        transport: how all servers call each other.

    Raises:
        AssertionError: the server breaks the contract; the text says where.
    """
    for check in _CHECKS:
        try:
            await check(_Setting(cls, dict(config or {}), transport))
        except AssertionError as failure:
            name = check.__name__.removeprefix("_check_").replace("_", " ")
            raise AssertionError(f"{cls.__name__}, {name}: {failure}") from failure


class _Setting:
    """Starts the agent with a scripted model and the bench."""

    def __init__(self, cls: type[AgentServer], config: dict[str, Any], transport: Transport) -> None:
        self._cls, self._transport = cls, transport
        self._config = config | {"model_server": {"name": MODEL}, "resources_server": {"name": TOOLS}}

    @contextlib.asynccontextmanager
    async def mesh(self, script: Script) -> AsyncIterator[RunningMesh]:
        servers = {
            MODEL: (FakeModel, {"script": script}),
            TOOLS: (Bench, {}),
            AGENT: (self._cls, self._config),
        }
        async with no_tasks_left(), start_servers(servers, transport=self._transport) as mesh:
            yield mesh
            await eventually(lambda: not mesh[TOOLS].open_sessions, "closing the session")

    async def rollout(self, script: Script, **options: Any) -> tuple[Rollout, list[Any]]:
        """The rollout, and what the model was asked."""
        fields = options.pop("fields", {})
        async with self.mesh(script) as mesh:
            rollout = await mesh.run_rollout(AGENT, row(**fields), rollout_id="r", **options)
            model: Any = mesh[MODEL].server
            return rollout, model.requests


def row(**fields: Any) -> dict[str, Any]:
    """A row of the suite."""
    return {"responses_create_params": {"input": "Count."}, **fields}


def _outputs(rollout: Rollout) -> list[str]:
    return [
        item.function_call_output.output_text
        for item in rollout.response.output
        if item.HasField("function_call_output")
    ]


def _kinds(items: Any) -> list[str]:
    return [item.WhichOneof("kind") for item in items]


def _is(rollout: Rollout, outcome: int, reward: float | None) -> None:
    found = Outcome.Name(rollout.outcome)
    assert rollout.outcome == outcome, f"outcome {found}, expected {Outcome.Name(outcome)}: {rollout.failure}"
    value = rollout.reward.value if rollout.reward.HasField("value") else None
    assert value == reward, f"reward {value}, expected {reward}"
    failed = rollout.HasField("failure")
    assert failed == (outcome in _FAILURES), f"the failure is {rollout.failure}"


_FAILURES = (
    rollout_pb2.OUTCOME_TIMED_OUT,
    rollout_pb2.OUTCOME_ENV_FAILED,
    rollout_pb2.OUTCOME_MODEL_FAILED,
    rollout_pb2.OUTCOME_VERIFY_FAILED,
    rollout_pb2.OUTCOME_INVALID_TASK,
)


async def _check_final_message(setting: _Setting) -> None:
    rollout, requests = await setting.rollout(["Nothing to do."])
    _is(rollout, rollout_pb2.OUTCOME_COMPLETED, 1.0)
    assert _kinds(rollout.response.output) == ["message"]
    assert rollout.rollout_id == "r"
    assert (rollout.model_call_count, rollout.tool_call_count) == (1, 0)
    assert rollout.response.usage.total_tokens == 15
    assert requests[0].rollout_id == "r"
    assert requests[0].time_left is not None, "the model is called without a deadline"


async def _check_tool_call(setting: _Setting) -> None:
    script: list[Answer] = [make_response(function_call("add", {"number": 3}, "c1")), "It is 3."]
    rollout, requests = await setting.rollout(script, fields={"expected": 3})
    _is(rollout, rollout_pb2.OUTCOME_COMPLETED, 1.0)
    assert _kinds(rollout.response.output) == ["function_call", "function_call_output", "message"]
    assert rollout.response.output[1].function_call_output.call_id == "c1"
    assert _outputs(rollout) == ["3"]
    asked = requests[1].params.input_items.items
    assert _kinds(asked) == ["message", "function_call", "function_call_output"], "the model was not told"
    assert rollout.response.usage.total_tokens == 30, "usage is summed over the calls"


async def _check_unknown_tool(setting: _Setting) -> None:
    script: list[Answer] = [make_response(function_call("no_such_tool")), "I see."]
    rollout, requests = await setting.rollout(script)
    _is(rollout, rollout_pb2.OUTCOME_COMPLETED, 1.0)
    assert (rollout.tool_call_count, rollout.tool_error_count) == (1, 1)
    assert "no_such_tool" in _outputs(rollout)[0]
    assert requests[1].params.input_items.items[-1].function_call_output.output_text == _outputs(rollout)[0]


async def _check_bad_arguments(setting: _Setting) -> None:
    calls = [function_call("add", text) for text in ("{not json", "[]", '{"number": "x"}', "{}")]
    rollout, _ = await setting.rollout([make_response(*calls), "I see."])
    _is(rollout, rollout_pb2.OUTCOME_COMPLETED, 1.0)  # nothing was added
    assert rollout.tool_error_count == 4
    assert all("error" in output for output in _outputs(rollout))


async def _check_refusing_tool(setting: _Setting) -> None:
    rollout, _ = await setting.rollout([make_response(function_call("refuse")), "I see."])
    _is(rollout, rollout_pb2.OUTCOME_COMPLETED, 1.0)
    assert _outputs(rollout) == ["not today"]
    assert rollout.tool_error_count == 1


async def _check_parallel_calls(setting: _Setting) -> None:
    calls: list[Item] = [function_call("add", {"number": 1}, f"c{index}") for index in range(5)]
    rollout, _ = await setting.rollout([make_response(*calls), "5"], fields={"expected": 5})
    _is(rollout, rollout_pb2.OUTCOME_COMPLETED, 1.0)
    answered = [
        item.function_call_output.call_id
        for item in rollout.response.output
        if item.HasField("function_call_output")
    ]
    assert answered == [f"c{index}" for index in range(5)], "outputs stand in the order of the calls"


async def _check_deadline_of_the_rollout(setting: _Setting) -> None:
    deadlines = Deadlines()
    deadlines.rollout.FromMilliseconds(200)
    rollout, _ = await setting.rollout([make_response(function_call("hang"))], deadlines=deadlines)
    _is(rollout, rollout_pb2.OUTCOME_TIMED_OUT, None)
    assert rollout.failure.stage == Stage.STAGE_TOOL
    assert _kinds(rollout.response.output)[0] == "function_call", "what there was until then is kept"


async def _check_deadline_of_a_tool(setting: _Setting) -> None:
    deadlines = Deadlines()
    deadlines.tool.FromMilliseconds(100)
    async with setting.mesh([make_response(function_call("hang"))]) as mesh:
        bench: Any = mesh[TOOLS].server
        rollout = await mesh.run_rollout(AGENT, row(), deadlines=deadlines)
        _is(rollout, rollout_pb2.OUTCOME_TIMED_OUT, None)
        await eventually(bench.stopped.is_set, "stopping the tool")


async def _check_cancel_in_mid_tool_call(setting: _Setting) -> None:
    async with setting.mesh([make_response(function_call("hang"))]) as mesh:
        bench: Any = mesh[TOOLS].server
        running = asyncio.ensure_future(mesh.run_rollout(AGENT, row()))
        await asyncio.wait(
            [asyncio.ensure_future(bench.started.wait()), running], return_when="FIRST_COMPLETED"
        )
        assert not running.done(), "the rollout ended before its tool was called"
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await eventually(bench.stopped.is_set, "stopping the tool")
        await eventually(lambda: not mesh[TOOLS].open_sessions, "closing the session")


async def _check_cancel_in_mid_model_call(setting: _Setting) -> None:
    asked, stopped = asyncio.Event(), asyncio.Event()

    async def never(*_: Any) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with setting.mesh(never) as mesh:
        running = asyncio.ensure_future(mesh.run_rollout(AGENT, row()))
        await asyncio.wait([asyncio.ensure_future(asked.wait()), running], return_when="FIRST_COMPLETED")
        running.cancel()
        await asyncio.wait([running])
        await eventually(stopped.is_set, "stopping the model call")
        await eventually(lambda: not mesh[TOOLS].open_sessions, "closing the session")


async def _check_model_failure(setting: _Setting) -> None:
    failure = error("UPSTREAM_UNAVAILABLE", "the endpoint answers 503", upstream_status=503)
    script: list[Answer] = [make_response(function_call("add", {"number": 1})), failure]
    rollout, _ = await setting.rollout(script)
    _is(rollout, rollout_pb2.OUTCOME_MODEL_FAILED, None)
    assert rollout.failure.stage == Stage.STAGE_MODEL
    assert rollout.failure.upstream_status == 503
    assert rollout.failure.retriable
    assert _outputs(rollout) == ["1"], "what there was until then is kept"


async def _check_verify_failure(setting: _Setting) -> None:
    rollout, _ = await setting.rollout(["Done."], fields={"verify": "raise"})
    _is(rollout, rollout_pb2.OUTCOME_VERIFY_FAILED, None)
    assert rollout.failure.stage == Stage.STAGE_VERIFY
    assert "broken" in rollout.failure.status.message
    assert _kinds(rollout.response.output) == ["message"], "the response is kept"


async def _check_hanging_verifier(setting: _Setting) -> None:
    deadlines = Deadlines()
    deadlines.verify.FromMilliseconds(100)
    rollout, _ = await setting.rollout(["Done."], fields={"verify": "hang"}, deadlines=deadlines)
    _is(rollout, rollout_pb2.OUTCOME_TIMED_OUT, None)
    assert rollout.failure.stage == Stage.STAGE_VERIFY


async def _check_invalid_task(setting: _Setting) -> None:
    rollout, requests = await setting.rollout([], fields={"expected": "many"})
    _is(rollout, rollout_pb2.OUTCOME_INVALID_TASK, None)
    assert rollout.failure.stage == Stage.STAGE_SEED
    assert not requests, "the model was asked although the task is invalid"


async def _check_conversation(setting: _Setting) -> None:
    async with setting.mesh([make_response(function_call("add", {"number": 2})), "2"]) as mesh:
        response = await mesh.ask(AGENT, "Count to two.")
        assert _kinds(response.output) == ["function_call", "function_call_output", "message"]


async def _check_many_at_a_time(setting: _Setting) -> None:
    def answer(params: Any, call: Any) -> Any:
        if params.input_items.items and params.input_items.items[-1].HasField("function_call_output"):
            return "Done."
        return make_response(function_call("add", {"number": int(call.rollout_id)}))

    async with setting.mesh(answer) as mesh:
        rollouts = await asyncio.gather(
            *(mesh.run_rollout(AGENT, row(expected=n), rollout_id=str(n)) for n in range(64))
        )
    for number, rollout in enumerate(rollouts):
        _is(rollout, rollout_pb2.OUTCOME_COMPLETED, 1.0)
        assert _outputs(rollout) == [str(number)], "rollouts see each other's sessions"


_CHECKS = (
    _check_final_message,
    _check_tool_call,
    _check_unknown_tool,
    _check_bad_arguments,
    _check_refusing_tool,
    _check_parallel_calls,
    _check_deadline_of_the_rollout,
    _check_deadline_of_a_tool,
    _check_cancel_in_mid_tool_call,
    _check_cancel_in_mid_model_call,
    _check_model_failure,
    _check_verify_failure,
    _check_hanging_verifier,
    _check_invalid_task,
    _check_conversation,
    _check_many_at_a_time,
)

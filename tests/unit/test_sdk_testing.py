"""The test kit itself: its fake fails where it should, its suites find servers that break the contract."""

from typing import Any

import pytest

from gymapi.v1.responses_pb2 import Response
from gymd.errors import GymdError, error
from gymd.sdk import AgentRun, AgentServer, ModelCall, ModelServer, ResourcesServer, Session, tool
from gymd.sdk.testing import (
    Attempt,
    FakeModel,
    check_agent_server,
    check_model_server,
    check_resources_server,
    eventually,
    expect_error,
    function_call,
    make_response,
    make_task,
    start_server,
    start_servers,
)


async def test_unused_answers_fail_the_test() -> None:
    with pytest.raises(AssertionError, match="fakemodel has 1 answers that nobody asked for"):
        async with start_server(FakeModel, {"script": ["a", "b"]}) as server:
            await server.respond("Hi.")


async def test_a_failing_test_is_not_hidden_by_unused_answers() -> None:
    with pytest.raises(ZeroDivisionError):
        async with start_server(FakeModel, {"script": ["a"]}):
            raise ZeroDivisionError


async def test_more_questions_than_answers() -> None:
    async with start_server(FakeModel, {"script": []}, name="model") as server:
        failure = await expect_error("INTERNAL", server.respond("Hi."), "one question too many")
        assert "model was asked 1 times, but its script holds 0 answers" in str(failure)


async def test_scripts_hold_texts_responses_and_errors() -> None:
    script = ["text", make_response(function_call("x")), error("UPSTREAM_AUTH", "wrong key")]
    async with start_server(FakeModel, {"script": script}) as server:
        assert (await server.respond("1")).output[0].message.content_parts.parts[0].output_text.text == "text"
        assert (await server.respond("2")).output[0].function_call.name == "x"
        await expect_error("UPSTREAM_AUTH", server.respond("3"), "the third answer")
        model: Any = server.server
        assert [request.params.input_text for request in model.requests] == ["1", "2", "3"]


async def test_functions_as_scripts() -> None:
    async def answer(params: Any, call: ModelCall) -> str:
        return f"{params.input_text} of {call.rollout_id}"

    async with start_server(FakeModel, {"script": answer}) as server:
        response = await server.respond("Answer", rollout_id="r")
    assert response.output[0].message.content_parts.parts[0].output_text.text == "Answer of r"


def test_rows_become_tasks() -> None:
    task = make_task(
        {"responses_create_params": {"input": "Hi."}, "agent_ref": {"name": "a"}, "n": 2**70, "ä": None}
    )
    assert (task.agent, task.create_params.input_text) == ("a", "Hi.")
    assert task.fields_json == f'{{"n":{2**70},"\\u00e4":null}}'


async def test_expectations() -> None:
    async def fine() -> int:
        return 1

    with pytest.raises(AssertionError, match="it succeeded with 1, expected CANCELLED"):
        await expect_error("CANCELLED", fine(), "it")
    with pytest.raises(AssertionError, match="it did not happen within"):
        await eventually(lambda: False, "it", timeout=0.01)


async def test_a_server_that_cannot_start_leaves_nothing() -> None:
    class Broken(ResourcesServer):
        async def start(self) -> None:
            raise OSError("no disk")

        async def verify(self) -> float:
            return 1.0

    with pytest.raises(GymdError, match="cannot start broken: OSError: no disk"):
        async with start_servers({"model": (FakeModel, {}), "broken": (Broken, {})}):
            pass


# Suites.


class Shared(ResourcesServer):
    """Keeps one state for all sessions."""

    total = 0

    @tool
    async def add(self, number: int) -> str:
        """Add."""
        self.total += number
        return "ok"

    async def verify(self) -> float:
        return float(self.total)


class Forgetful(ResourcesServer):
    """Its reward depends on how often it was asked."""

    async def seed_session(self, session: Session) -> None:
        session.state = 0

    async def verify(self, session: Session) -> float:
        session.state += 1
        return float(session.state)


class Undocumented(ResourcesServer):
    """Its tool has no docstring."""

    @tool
    async def add(self) -> str:
        return "ok"

    async def verify(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("cls", "says"),
    [
        (Shared, "the reward was"),
        (Forgetful, "the reward was"),
        (Undocumented, "'add' has no docstring"),
    ],
)
async def test_the_suite_finds_broken_environments(cls: type[ResourcesServer], says: str) -> None:
    good = Attempt([("add", {"number": 1})] if cls is Shared else [])
    with pytest.raises(AssertionError, match=says):
        await check_resources_server(cls, rows=[{}], good=good)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": ""}, "no id"),
        ({"id": "same"}, "the same id"),
        ({"status": "fine"}, "unknown status 'fine'"),
        ({"status": "incomplete"}, "status and incomplete_details differ"),
        ({"model": ""}, "which model answered"),
        ({"output": []}, "has no output"),
        ({"total_tokens": 4}, "10 . 5 tokens are not 4"),
    ],
)
async def test_the_suite_finds_broken_models(change: dict[str, Any], says: str) -> None:
    def answer(*_: Any) -> Response:
        response = make_response("Hi.")
        for key, value in change.items():
            if key == "output":
                del response.output[:]
            else:
                setattr(response.usage if key == "total_tokens" else response, key, value)
        return response

    with pytest.raises(AssertionError, match=says):
        await check_model_server(FakeModel, {"script": answer})


async def test_the_suite_finds_a_model_that_edits_its_parameters() -> None:
    class Editor(ModelServer):
        async def create_response(self, params: Any, call: ModelCall) -> Response:
            params.temperature = 0.0
            return make_response("Hi.")

    with pytest.raises(AssertionError, match="edited the parameters"):
        await check_model_server(Editor, transport="in-process")


async def test_the_suite_finds_an_agent_that_stops_too_early() -> None:
    class OneCall(AgentServer):
        async def run(self, run: AgentRun) -> None:
            await run.model()

    with pytest.raises(AssertionError, match="OneCall, tool call: "):
        await check_agent_server(OneCall)

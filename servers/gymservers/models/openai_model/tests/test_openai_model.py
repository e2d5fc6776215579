"""openai_model against a real endpoint."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gymapi.v1.model_service_pb2 import CreateResponseRequest
from gymd.convert import response_to_json
from gymd.errors import GymdError
from gymd.sdk.testing import RunningServer, check_model_server, make_params, no_tasks_left, start_server
from gymservers.models.openai_model.server import OpenAIModel
from tests.fakes.openai_backend import Answer, Backend, openai_backend, response_call, response_text

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with openai_backend() as running:
        yield running


def config(url: str, **more: Any) -> dict[str, Any]:
    return {
        "openai_base_url": url,
        "openai_api_key": "sk-secret-0123456789",
        "openai_model": "some-model",
        "max_attempts": 3,
        **more,
    }


async def fails(server: RunningServer, params: Any = "hi") -> GymdError:
    with pytest.raises(GymdError) as caught:
        await server.respond(params)
    return caught.value


async def test_conformance(backend: Backend) -> None:
    numbers = itertools.count()
    backend.default = lambda _: Answer(json=response_text(id=f"resp_{next(numbers)}"))
    await check_model_server(OpenAIModel, config(backend.url))


async def test_passes_the_conversation_through(backend: Backend) -> None:
    backend.plan(Answer(json=response_call("get_weather", '{"city":"Köln"}')))
    params = {
        "input": [{"role": "user", "content": "Wie ist das Wetter?"}],
        "tools": [TOOL],
        "model": "asked-for",
        "temperature": 0,
        "metadata": {"a": "b"},
        "some_new_key": {"x": None},
    }
    async with no_tasks_left(), start_server(OpenAIModel, config(backend.url)) as server:
        response = await server.respond(params)
    assert backend.bodies("/responses") == [{**params, "model": "some-model"}]
    assert response_to_json(response) == response_call("get_weather", '{"city":"Köln"}')


async def test_config_keys_reach_the_request(backend: Backend) -> None:
    backend.plan(Answer(json=response_text()))
    more = {
        "extra_body": {"service_tier": "flex", "temperature": 0.1},
        "openai_default_headers": {"X-Team": "rl"},
    }
    async with start_server(OpenAIModel, config(backend.url, **more)) as server:
        await server.respond({"input": "hi", "temperature": 0.9})
    (request,) = backend.requests
    assert request.json == {
        "input": "hi",
        "temperature": 0.9,
        "service_tier": "flex",
        "model": "some-model",
    }
    assert request.headers["X-Team"] == "rl"
    assert request.headers["Authorization"] == "Bearer sk-secret-0123456789"


@pytest.mark.parametrize("drop", [False, True])
async def test_reasoning_of_earlier_turns(backend: Backend, drop: bool) -> None:
    backend.plan(Answer(json=response_text()))
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed"}
    history = [{"role": "user", "content": "hi"}, reasoning, {"role": "user", "content": "go on"}]
    async with start_server(OpenAIModel, config(backend.url, drop_input_reasoning_items=drop)) as server:
        await server.respond({"input": history})
    sent = backend.bodies("/responses")[0]["input"]
    kept = {"type": "reasoning", "id": "rs_1", "summary": []}
    assert sent == [history[0], *([] if drop else [kept]), history[2]]


async def test_token_ids_are_not_sent_to_the_provider(backend: Backend) -> None:
    backend.plan(Answer(json=response_text()))
    item = {"role": "assistant", "content": "a", "prompt_token_ids": [1], "generation_token_ids": [2]}
    item["generation_log_probs"] = [-0.5]
    async with start_server(OpenAIModel, config(backend.url)) as server:
        await server.respond({"input": [{"role": "user", "content": "hi"}, item]})
    assert backend.bodies("/responses")[0]["input"][1] == {"role": "assistant", "content": "a"}


async def test_streams_become_one_answer(backend: Backend) -> None:
    backend.plan(Answer(json=response_text("Sunny.")))
    async with start_server(OpenAIModel, config(backend.url)) as server:
        events = await server.stream({"input": "hi", "stream": True})
    assert "stream" not in backend.bodies("/responses")[0]
    assert events[-1].completed.response.output[0].message.content_parts.parts[0].output_text.text == "Sunny."


async def test_background_is_refused(backend: Backend) -> None:
    async with start_server(OpenAIModel, config(backend.url)) as server:
        failure = await fails(server, {"input": "hi", "background": True})
    assert failure.reason_name == "INVALID_REQUEST"


async def test_context_overflow_is_an_incomplete_response(backend: Backend) -> None:
    backend.plan(Answer(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}))
    async with start_server(OpenAIModel, config(backend.url)) as server:
        response = await server.respond("hi")
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.model == "some-model"


@pytest.mark.parametrize(
    ("answers", "reason", "says"),
    [
        ([Answer(401, {"error": {"message": "bad key"}})], "UPSTREAM_AUTH", "check openai_api_key"),
        ([Answer(404, body=b"404 page")], "UPSTREAM_NOT_FOUND", "correct openai_base_url"),
        ([Answer(422, {"detail": "no"})], "UPSTREAM_REJECTED", "no"),
        ([Answer(503, {})] * 3, "UPSTREAM_UNAVAILABLE", "3 attempts"),
        ([Answer(429, {})] * 3, "UPSTREAM_RATE_LIMITED", "lower the concurrency"),
        ([Answer(body=b"{")], "UPSTREAM_MALFORMED", "is not JSON"),
        ([Answer(json={"choices": []})], "UPSTREAM_MALFORMED", "no list `output`"),
        (
            [Answer(json=response_text(status="failed", error={"code": "server_error", "message": "oops"}))],
            "UPSTREAM_UNAVAILABLE",
            "oops",
        ),
    ],
)
async def test_outcomes(backend: Backend, answers: list[Answer], reason: str, says: str) -> None:
    backend.plan(*answers)
    async with start_server(OpenAIModel, config(backend.url)) as server:
        failure = await fails(server)
    assert failure.reason_name == reason
    assert says in failure.message
    assert failure.metadata["url"] == backend.url + "/responses"


async def test_rate_limit_then_success(backend: Backend) -> None:
    backend.plan(Answer(429, {}, headers={"Retry-After": "0.05"}), Answer(json=response_text()))
    async with start_server(OpenAIModel, config(backend.url)) as server:
        assert (await server.respond("hi")).status == "completed"


async def test_connection_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with start_server(OpenAIModel, config(url, max_attempts=1)) as server:
            failure = await fails(server)
    assert failure.reason_name == "UPSTREAM_UNAVAILABLE"
    assert "connection refused" in failure.message


@pytest.mark.parametrize("transport", ["link", "plain", "in-process"])
async def test_cancel_reaches_the_endpoint(backend: Backend, transport: Any) -> None:
    backend.plan(Answer(hang=True))
    async with no_tasks_left(), start_server(OpenAIModel, config(backend.url), transport=transport) as server:
        call = asyncio.create_task(server.respond("hi"))
        async with asyncio.timeout(10):
            await backend.arrived.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await backend.aborted.wait()


async def test_deadline_reaches_the_endpoint(backend: Backend) -> None:
    backend.plan(Answer(hang=True))
    async with start_server(OpenAIModel, config(backend.url)) as server:
        request = CreateResponseRequest(params=make_params("hi"))
        with pytest.raises(GymdError) as caught:
            await server.call("CreateResponse", request, timeout=0.3)
        async with asyncio.timeout(10):
            await backend.aborted.wait()
    assert caught.value.reason_name == "DEADLINE_EXCEEDED"


async def test_concurrency_is_bounded(backend: Backend) -> None:
    peak = 0

    def answer(_: object) -> Answer:
        nonlocal peak
        peak = max(peak, backend.in_flight + 1)
        return Answer(json=response_text())

    backend.default = answer
    async with start_server(OpenAIModel, config(backend.url, max_concurrent_requests=3)) as server:
        await asyncio.gather(*(server.respond("hi") for _ in range(30)))
    assert 1 <= peak <= 3
    assert len(backend.requests) == 30


async def test_wrong_url_is_told_at_the_start() -> None:
    with pytest.raises(GymdError, match="openai_base_url is 'localhost:8000'"):
        async with start_server(OpenAIModel, config("localhost:8000")):
            pass


def test_the_key_is_not_shown() -> None:
    parsed = OpenAIModel.Config.parse(config("http://x/v1"))
    assert "sk-secret" not in repr(parsed)

"""local_model with the real model: small, but nothing is faked. Set GYMD_TESTS_OFFLINE=1 to skip it."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gymapi.v1.model_service_pb2 import CreateResponseRequest
from gymapi.v1.responses_pb2 import Response, SamplingParams
from gymd.convert import item_to_json
from gymd.errors import GymdError
from gymd.sdk.testing import RunningServer, check_model_server, eventually, make_params, start_server
from gymservers.models.local_model.server import LocalModel
from gymservers.models.local_model.tests.test_grammar import ODD
from gymservers.models.local_model.weights import ensure_weights

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("GYMD_TESTS_OFFLINE")), reason="GYMD_TESTS_OFFLINE: the model cannot be fetched"
)

shared = pytest.mark.asyncio(loop_scope="module")
"""For tests that use the one server; it lives on the module's event loop."""

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}
USER = {"role": "user", "content": "What is the weather in Paris?"}


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xllamacpp", reason="needs the extra: pip install 'gymd[local]'")
    folder = tmp_path_factory.mktemp("models")
    return asyncio.run(ensure_weights(folder, logging.getLogger("test")))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(model_path: Path) -> AsyncIterator[RunningServer]:
    """One server for several tests: it loads the model once."""
    config = {"model_path": str(model_path), "context_size": 512, "parallel": 2, "temperature": 0}
    async with start_server(LocalModel, config) as running:
        yield running


def text(response: Response) -> str:
    return response.output[-1].message.content_parts.parts[0].output_text.text


async def test_conformance(model_path: Path) -> None:
    config = {"model_path": str(model_path), "context_size": 256}
    await check_model_server(LocalModel, config, {"input": "Hi.", "max_output_tokens": 4}, calls=6)


@shared
async def test_answers_in_text(server: RunningServer) -> None:
    response = await server.respond({"input": "Say hello.", "max_output_tokens": 12})
    assert text(response)
    assert 1 <= response.usage.output_tokens <= 12
    assert response.model == "SmolLM2-135M-Instruct.Q4_1"
    assert not response.output[-1].HasField("token_trace")


@shared
async def test_calls_the_tool_and_then_answers(server: RunningServer) -> None:
    params: dict[str, Any] = {"input": [USER], "tools": [TOOL]}
    first = await server.respond(params, return_tokens=True)
    call = first.output[0].function_call
    assert call.name == "get_weather"
    assert json.loads(call.arguments_json) == {"city": "Paris"}
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "It is cold in Paris."}
    params["input"] = [USER, item_to_json(first.output[0]), output]
    second = await server.respond(params, return_tokens=True)
    assert second.output[0].HasField("message")
    assert "cold" in text(second)
    # What the model wrote stays in the prompt token by token: one sequence for training.
    one, two = first.output[-1].token_trace, second.output[-1].token_trace
    seen = [*one.prompt_token_ids, *one.generation_token_ids]
    assert list(two.prompt_token_ids)[: len(seen)] == seen
    for trace, response in ((one, first), (two, second)):
        assert len(trace.prompt_token_ids) == response.usage.input_tokens
        assert len(trace.generation_logprobs) == len(trace.generation_token_ids) > 0
        assert all(value <= 0 for value in trace.generation_logprobs)


@shared
async def test_token_traces_say_how_it_was_sampled(server: RunningServer) -> None:
    params = {"input": "Hi.", "max_output_tokens": 2}
    response = await server.respond(params, return_tokens=True)
    # What the configuration says, and that nothing cuts the distribution.
    assert (response.temperature, response.top_p) == (0.0, 1.0)
    assert response.output[-1].token_trace.sampling == SamplingParams(top_k=0, min_p=0.0)
    own = {"temperature": 0.5, "top_k": 3, "seed": 7, "repeat_penalty": 1.25, "repetition_penalty": 9}
    response = await server.respond({**params, **own}, return_tokens=True)
    assert (response.temperature, response.top_p) == (0.5, 1.0)
    told = SamplingParams(top_k=3, min_p=0.0, seed=7, repetition_penalty=1.25)
    assert response.output[-1].token_trace.sampling == told
    called = await server.respond({"input": [USER], "tools": [TOOL]}, return_tokens=True)
    assert (called.output[0].WhichOneof("kind"), called.temperature) == ("function_call", 0.0)


@shared
async def test_tool_choice(server: RunningServer) -> None:
    other = {**TOOL, "name": "send_mail", "description": "Send a mail."}
    named = {
        "input": [USER],
        "tools": [TOOL, other],
        "tool_choice": {"type": "function", "name": "send_mail"},
    }
    assert (await server.respond(named)).output[0].function_call.name == "send_mail"
    free = {"input": [USER], "tools": [TOOL], "tool_choice": "none", "max_output_tokens": 5}
    assert (await server.respond(free)).output[0].HasField("message")
    unknown = {"input": [USER], "tools": [TOOL], "tool_choice": {"type": "function", "name": "nope"}}
    with pytest.raises(GymdError, match="there is no tool 'nope'"):
        await server.respond(unknown)


@shared
async def test_odd_schemas_still_give_calls(server: RunningServer) -> None:
    async def call(schema: Any) -> None:
        tool = {**TOOL, "name": "odd", "parameters": schema, "strict": False}
        params = {"input": "Go.", "tools": [tool], "max_output_tokens": 24}
        response = await server.respond(params)
        kind = response.output[0].WhichOneof("kind")
        if response.status == "completed":
            assert kind == "function_call", schema
            assert isinstance(json.loads(response.output[0].function_call.arguments_json), dict)
        else:
            assert kind == "message"

    await call({"type": "object"})
    # One grammar of all the odd ones: what the engine refuses in any of them, it refuses here.
    schemas = [schema for schema in ODD if schema is None or isinstance(schema, dict)]
    names = {f"tool_{number}": schema for number, schema in enumerate(schemas)}
    tools = [{**TOOL, "name": name, "parameters": schema, "strict": False} for name, schema in names.items()]
    params = {"input": "Go.", "tools": tools, "max_output_tokens": 16}
    assert (await server.respond(params)).output[0].WhichOneof("kind") in ("function_call", "message")


@shared
async def test_json_schema_format(server: RunningServer) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}, "ok": {"type": "boolean"}}}
    schema["required"] = ["age", "ok"]
    form = {"format": {"type": "json_schema", "name": "person", "schema": schema}}
    response = await server.respond({"input": "A person of 30 years.", "text": form})
    value = json.loads(text(response))
    assert isinstance(value["age"], int)
    assert isinstance(value["ok"], bool)


@shared
async def test_more_calls_than_slots(server: RunningServer) -> None:
    ask = {"input": "Count.", "max_output_tokens": 4}
    responses = await asyncio.gather(*(server.respond(ask) for _ in range(8)))
    assert all(response.usage.output_tokens <= 4 for response in responses)


@shared
async def test_context_overflow_is_an_incomplete_response(server: RunningServer) -> None:
    response = await server.respond("word " * 2000)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


@shared
async def test_images_are_refused(server: RunningServer) -> None:
    part = {"type": "input_image", "image_url": "http://x/y.png", "detail": "auto"}
    with pytest.raises(GymdError, match="reads text only"):
        await server.respond({"input": [{"role": "user", "content": [part]}]})


@shared
async def test_deadline_and_cancel_free_the_slot(server: RunningServer) -> None:
    params = make_params({"input": "Tell a long story.", "max_output_tokens": 480})
    request = CreateResponseRequest(params=params)
    with pytest.raises(GymdError) as caught:
        await server.call("CreateResponse", request, timeout=0.2)
    assert caught.value.reason_name == "DEADLINE_EXCEEDED"
    call = asyncio.create_task(server.call("CreateResponse", request, timeout=30))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    model = server.server
    assert isinstance(model, LocalModel)
    await eventually(lambda: model._slots._value == 2, "freeing both slots")
    assert text(await server.respond({"input": "Hi.", "max_output_tokens": 2}))


async def test_wrong_files_are_told_at_the_start(tmp_path: Path, model_path: Path) -> None:
    wrong = tmp_path / "model.gguf"
    for content, says in ((b"hello", "no GGUF file"), (b"GGUF" + b"\0" * 100, "cannot load")):
        wrong.write_bytes(content)
        with pytest.raises(GymdError, match=says):
            async with start_server(LocalModel, {"model_path": str(wrong)}):
                pass
    with pytest.raises(GymdError, match="cannot read the model"):
        async with start_server(LocalModel, {"model_path": str(tmp_path / "missing.gguf")}):
            pass


def test_missing_package_is_told(model_path: Path) -> None:
    code = (
        "import sys; sys.modules['xllamacpp'] = None\n"
        "from pathlib import Path\n"
        "from gymservers.models.local_model.engine import Engine\n"
        f"Engine(Path({str(model_path)!r}), context_size=128, parallel=1, threads=1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    assert "pip install 'gymd[local]'" in done.stderr


def test_a_process_ends_cleanly_without_stop(model_path: Path) -> None:
    """Native threads that generate must not crash or hang the interpreter's end."""
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from gymd.sdk.http import HttpClient\n"
        "from gymservers.models.local_model.engine import Engine\n"
        "async def main():\n"
        f"    engine = Engine(Path({str(model_path)!r}), context_size=512, parallel=1, threads=2)\n"
        "    http = HttpClient(); await http.start()\n"
        "    body = {'messages': [{'role': 'user', 'content': 'Story'}], 'max_tokens': 400}\n"
        "    call = asyncio.create_task(http.post_json(engine.api, '/chat/completions', body))\n"
        "    await asyncio.sleep(0.3); call.cancel(); await http.close(); print('done', flush=True)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr

"""vllm_model against a real endpoint: token ids in all forms, reasoning, side channels, completions."""

import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pydantic
import pytest

from gymapi.v1.responses_pb2 import Response, SamplingParams
from gymapi.v1.rollout_pb2 import TokenSegment
from gymd.errors import GymdError
from gymd.sdk.testing import RunningServer, check_model_server, no_tasks_left, start_server
from gymd.sdk.tokens import TokenRecorder
from gymservers.models.vllm_model.server import VLLMModel
from tests.fakes.openai_backend import Answer, Backend, chat_message, openai_backend

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}
CALL = {"id": "call_9", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"X"}'}}
LOGPROBS = {"content": [{"token": f"token_id:{number}", "logprob": -0.5} for number in (7, 8)]}


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with openai_backend() as running:
        yield running


def config(url: Any, **more: Any) -> dict[str, Any]:
    return {"base_url": url, "api_key": "k", "model": "some-model", "max_attempts": 2, **more}


async def ask(backend: Backend, chat: Any, params: Any = "hi", **more: Any) -> tuple[Response, Any]:
    """One call: the response, and the body that was sent."""
    backend.plan(Answer(json=chat))
    async with no_tasks_left(), start_server(VLLMModel, config(backend.url, **more)) as server:
        response = await server.respond(params)
    return response, backend.requests[0].json


async def fails(backend: Backend, chat: Any, params: Any = "hi", **more: Any) -> GymdError:
    with pytest.raises(GymdError) as caught:
        await ask(backend, chat, params, **more)
    return caught.value


def trace(response: Response) -> tuple[list[int], list[int], list[float]]:
    for item in response.output[:-1]:
        assert not item.HasField("token_trace")
    found = response.output[-1].token_trace
    return (
        list(found.prompt_token_ids),
        list(found.generation_token_ids),
        [round(value, 3) for value in found.generation_logprobs],
    )


async def test_conformance(backend: Backend) -> None:
    choice = {"token_ids": [7, 8], "logprobs": LOGPROBS}
    backend.default = lambda _: Answer(json=chat_message(choice=choice, top={"prompt_token_ids": [1]}))
    await check_model_server(VLLMModel, config(backend.url, return_token_id_information=True))


async def test_converts_to_chat_and_back(backend: Backend) -> None:
    params = {
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "weather?"}],
        "tools": [TOOL],
        "tool_choice": "required",
        "max_output_tokens": 99,
        "model": "asked-for",
    }
    response, body = await ask(backend, chat_message(None, tool_calls=[CALL]), params)
    assert backend.requests[0].path == "/v1/chat/completions"
    assert body["model"] == "some-model"
    assert body["max_tokens"] == 99
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["tools"][0]["function"]["name"] == "get_weather"
    assert "logprobs" not in body
    assert response.output[0].function_call.call_id == "call_9"
    assert response.usage.total_tokens == 18
    assert not response.output[-1].HasField("token_trace")


async def test_reasoning_parser(backend: Backend) -> None:
    response, _ = await ask(backend, chat_message("Sunny.", reasoning_content="It is summer."))
    assert response.output[0].reasoning.summary[0].summary_text.text == "It is summer."
    assert response.output[1].message.content_parts.parts[0].output_text.text == "Sunny."


async def test_reasoning_without_the_parser_is_told(backend: Backend) -> None:
    chat = chat_message("Sunny.", reasoning_content="It is summer.")
    failure = await fails(backend, chat, uses_reasoning_parser=False)
    assert failure.reason_name == "UPSTREAM_MALFORMED"
    assert "uses_reasoning_parser" in failure.message


@pytest.mark.parametrize("interleaved", [False, True])
async def test_reasoning_of_earlier_turns(backend: Backend, interleaved: bool) -> None:
    history = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "go on"},
    ]
    _, body = await ask(backend, chat_message(), {"input": history}, uses_interleaved_reasoning=interleaved)
    assistant = body["messages"][1]
    assert assistant["content"] == "Hello."
    assert assistant.get("reasoning_content") == ("Hm." if interleaved else None)


async def test_tokens_on_the_message(backend: Backend) -> None:
    bundle = {
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [7, 8],
        "generation_log_probs": [-0.5, -1.0],
    }
    response, body = await ask(backend, chat_message("a", **bundle), return_token_id_information=True)
    assert trace(response) == ([1, 2], [7, 8], [-0.5, -1.0])
    assert body["logprobs"] is True
    assert body["return_tokens_as_token_ids"] is True
    assert body["return_token_ids"] is True


async def test_tokens_beside_the_choices(backend: Backend) -> None:
    choice = {"token_ids": [7, 8], "logprobs": LOGPROBS}
    chat = chat_message("a", tool_calls=[CALL], choice=choice, top={"prompt_token_ids": [1, 2]})
    response, _ = await ask(backend, chat, return_token_id_information=True)
    assert trace(response) == ([1, 2], [7, 8], [-0.5, -0.5])
    assert len(response.output) == 2


@pytest.mark.parametrize("blank", [b"", b" "])
async def test_tokens_of_a_long_answer(backend: Backend, blank: bytes) -> None:
    """The same from vLLM's own form, which is not parsed object by object, and from any other."""
    ids = [number * 37 % 90_000 for number in range(3000)]
    entries = [
        {"token": f"token_id:{number}", "logprob": -number / 1024, "bytes": [32], "top_logprobs": []}
        for number in ids
    ]
    choice = {"token_ids": ids, "logprobs": {"content": entries}}
    chat = chat_message("a", choice=choice, top={"prompt_token_ids": [1, 2]})
    backend.plan(Answer(body=orjson.dumps(chat).replace(b'"bytes":', b'"bytes":' + blank)))
    async with start_server(VLLMModel, config(backend.url, return_token_id_information=True)) as server:
        response = await server.respond("hi")
    found = response.output[-1].token_trace
    assert found.generation_token_ids == ids
    assert list(found.generation_logprobs) == [-number / 1024 for number in ids]
    assert found.prompt_token_ids == [1, 2]


async def test_tokens_in_the_logprobs_with_a_call_of_tokenize(backend: Backend) -> None:
    backend.plan(
        Answer(json=chat_message("a", choice={"logprobs": LOGPROBS})), Answer(json={"tokens": [1, 2]})
    )
    more = {"return_token_id_information": True, "chat_template_kwargs": {"enable_thinking": False}}
    async with start_server(VLLMModel, config(backend.url, **more)) as server:
        response = await server.respond({"input": [{"role": "user", "content": "hi"}], "tools": [TOOL]})
    assert trace(response) == ([1, 2], [7, 8], [-0.5, -0.5])
    sent, tokenize = backend.requests
    assert tokenize.path == "/tokenize"
    assert set(tokenize.json) == {"model", "messages", "tools", "chat_template_kwargs"}
    assert tokenize.json["messages"] == sent.json["messages"]


async def test_partial_tokens_are_an_error(backend: Backend) -> None:
    chat = chat_message("a", choice={"logprobs": LOGPROBS}, top={"prompt_token_ids": [1]})
    failure = await fails(backend, chat, return_token_id_information=True)
    assert failure.reason_name == "UPSTREAM_MALFORMED"


@pytest.mark.parametrize(("configured", "asked", "wanted"), [(True, False, False), (False, True, True)])
async def test_the_call_decides_over_the_configuration(
    backend: Backend, configured: bool, asked: bool, wanted: bool
) -> None:
    choice = {"token_ids": [7, 8], "logprobs": LOGPROBS}
    backend.plan(Answer(json=chat_message("a", choice=choice, top={"prompt_token_ids": [1]})))
    more = {"return_token_id_information": configured}
    async with start_server(VLLMModel, config(backend.url, **more)) as server:
        response = await server.respond("hi", return_tokens=asked)
    assert response.output[-1].HasField("token_trace") is wanted


async def test_side_channels_and_overrides(backend: Backend) -> None:
    params = {
        "input": "hi",
        "temperature": 0.2,
        "metadata": {
            "chat_template_kwargs": json.dumps({"enable_thinking": True}),
            "extra_body": json.dumps({"top_k": 5, "temperature": 0.9}),
        },
    }
    _, body = await ask(
        backend,
        chat_message(),
        params,
        chat_template_kwargs={"enable_thinking": False, "other": 1},
        extra_body={"top_k": 9, "min_p": 0.1},
        sampling_overrides={"top_p": 0.5},
    )
    assert body["chat_template_kwargs"] == {"enable_thinking": True, "other": 1}
    assert (body["top_k"], body["min_p"], body["top_p"], body["temperature"]) == (5, 0.1, 0.5, 0.2)
    assert "metadata" not in body


async def test_sampling_overrides_replace_those_of_the_task(backend: Backend) -> None:
    overrides = {"temperature": 1.0, "top_p": None}
    params = {"input": "hi", "temperature": 0.2, "top_p": 0.5}
    response, body = await ask(backend, chat_message(), params, sampling_overrides=overrides)
    assert (body["temperature"], body["top_p"]) == (1.0, None)
    # What the response says is noted with the token ids, so it says how they were sampled.
    assert response.temperature == 1.0
    assert not response.HasField("top_p")


SAMPLED = chat_message(
    "a", choice={"token_ids": [7, 8], "logprobs": LOGPROBS}, top={"prompt_token_ids": [1, 2]}
)


def segment(response: Response) -> TokenSegment:
    """What an agent records of a call."""
    recorder = TokenRecorder()
    recorder.add(response, 0)
    assert recorder.trajectory is not None
    [only] = recorder.trajectory.segments
    assert list(only.token_ids) == [1, 2, 7, 8]
    return only


async def test_segments_say_what_the_engine_was_told(backend: Backend) -> None:
    """From each source, the one that wins: overrides, the task, its metadata, the configuration."""
    extra = {"top_k": 5, "seed": 11, "repetition_penalty": 1.5, "min_p": 0.25}
    params = {
        "input": "hi",
        "temperature": 0.5,
        "presence_penalty": -0.5,
        "metadata": {"extra_body": json.dumps(extra)},
    }
    response, body = await ask(
        backend,
        SAMPLED,
        params,
        return_token_id_information=True,
        extra_body={"top_k": 9, "frequency_penalty": 0.75, "top_p": 0.5},
        sampling_overrides={"min_p": 0.125, "repetition_penalty": None, "temperature": 1},
    )
    found = segment(response)
    assert (found.temperature, found.top_p) == (1.0, 0.5)
    told: dict[str, Any] = {"top_k": 5, "min_p": 0.125, "seed": 11}
    told.update(presence_penalty=-0.5, frequency_penalty=0.75)
    assert found.sampling == SamplingParams(**told)
    assert {name: body[name] for name in told} == told
    assert body["repetition_penalty"] is None, "which leaves it to the engine, whose default nobody knows"


async def test_what_the_engine_was_not_told_stays_unsaid(backend: Backend) -> None:
    response, _ = await ask(backend, SAMPLED, return_token_id_information=True)
    found = segment(response)
    assert [found.HasField(name) for name in ("temperature", "top_p", "sampling")] == [False] * 3


async def test_context_overflow_is_an_incomplete_response(backend: Backend) -> None:
    backend.plan(Answer(400, {"message": "This model's maximum context length is 4096 tokens."}))
    async with start_server(VLLMModel, config(backend.url, return_token_id_information=True)) as server:
        response = await server.respond("hi")
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


async def test_finish_reasons(backend: Backend) -> None:
    response, _ = await ask(backend, chat_message("a", choice={"finish_reason": "length"}))
    assert response.incomplete_details.reason == "max_output_tokens"


async def test_reasoning_alone_is_cut_short(backend: Backend) -> None:
    history = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    ]
    async with start_server(VLLMModel, config(backend.url, sequential_reasoning_allowed=False)) as server:
        response = await server.respond({"input": history})
    assert response.incomplete_details.reason == "content_filter"
    assert not backend.requests


async def test_several_engines_are_sticky(backend: Backend) -> None:
    async with openai_backend() as second:
        for engine in (backend, second):
            engine.default = lambda _: Answer(json=chat_message())
        async with start_server(VLLMModel, config([backend.url, second.url])) as server:
            for rollout in range(8):
                for _ in range(3):
                    await server.respond("hi", rollout_id=f"rollout-{rollout}")
            counts = [len(backend.requests), len(second.requests)]
            for _ in range(4):
                await server.respond("hi")
    assert sum(counts) == 24
    assert all(count and count % 3 == 0 for count in counts)
    assert [len(backend.requests) - counts[0], len(second.requests) - counts[1]] == [2, 2]


async def test_items_that_chat_cannot_express_are_named(backend: Backend) -> None:
    async with start_server(VLLMModel, config(backend.url)) as server:
        failure = await _refused(
            server, {"input": [{"type": "mcp_list_tools", "server_label": "x", "tools": []}]}
        )
        assert "input[0]" in failure.message
        failure = await _refused(server, {"input": "hi", "metadata": {"audio_path": "/x.wav"}})
        assert "audio" in failure.message


async def _refused(server: RunningServer, params: Any) -> GymdError:
    with pytest.raises(GymdError) as caught:
        await server.respond(params)
    assert caught.value.reason_name == "INVALID_REQUEST"
    return caught.value


@pytest.mark.parametrize("answer", [[1], {"choices": []}, {"choices": [{"message": 3}]}, "text"])
async def test_answers_that_are_no_completion(backend: Backend, answer: Any) -> None:
    failure = await fails(backend, answer, return_token_id_information=True)
    assert failure.reason_name == "UPSTREAM_MALFORMED"


async def test_raw_completions(backend: Backend) -> None:
    answer = {
        "id": "cmpl-1",
        "model": "some-model",
        "choices": [
            {
                "text": " world",
                "finish_reason": "stop",
                "logprobs": {"tokens": ["token_id:7"], "token_logprobs": [-0.5]},
                "token_ids": [7],
                "prompt_token_ids": [1, 2],
            }
        ],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3},
    }
    params = {
        "input": [{"role": "system", "content": "Continue."}, {"role": "user", "content": "Hello"}],
        "max_output_tokens": 5,
        "top_k": 3,
    }
    more = {"use_completions_api": True, "return_token_id_information": True}
    response, body = await ask(backend, answer, params, **more)
    assert backend.requests[0].path == "/v1/completions"
    assert body == {
        "model": "some-model",
        "prompt": "Continue.\n\nHello",
        "max_tokens": 5,
        "top_k": 3,
        "logprobs": 0,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    assert response.output[0].message.content_parts.parts[0].output_text.text == " world"
    assert trace(response) == ([1, 2], [7], [-0.5])


async def test_raw_completions_take_one_user_message(backend: Backend) -> None:
    async with start_server(VLLMModel, config(backend.url, use_completions_api=True)) as server:
        history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        await _refused(server, {"input": history})
        await _refused(server, {"input": "hi", "tools": [TOOL]})


@pytest.mark.parametrize("key", ["render_chat_template", "is_responses_native"])
def test_unsupported_settings_are_told(key: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=r"instead|not supported"):
        VLLMModel.Config.parse(config("http://x/v1", **{key: True}))


def test_the_reference_files_load() -> None:
    block = {
        "entrypoint": "app.py",
        "num_workers": 8,
        "base_url": "http://x/v1",
        "api_key": "k",
        "model": "m",
        "return_token_id_information": False,
        "uses_reasoning_parser": True,
        "uses_interleaved_reasoning": True,
        "chat_template_kwargs": None,
        "extra_body": None,
        "default_headers": {},
    }
    assert VLLMModel.Config.parse(block)

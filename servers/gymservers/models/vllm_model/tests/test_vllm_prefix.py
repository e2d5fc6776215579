"""Prompts that begin with the very tokens of earlier turns: both kinds of engines."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

from gymapi.v1.model_service_pb2 import CreateResponseRequest
from gymapi.v1.responses_pb2 import Response, ResponseCreateParams, SamplingParams
from gymapi.v1.rollout_pb2 import DRIFT_CLEAN, DRIFT_FORKED, DRIFT_REALIGNED
from gymd.convert import params_from_json
from gymd.errors import GymdError
from gymd.sdk.testing import RunningServer, check_model_server, no_tasks_left, start_server
from gymd.sdk.tokens import TokenRecorder
from gymservers.models.vllm_model.server import VLLMModel
from tests.fakes import small_tokenizer as small
from tests.fakes.openai_backend import Answer, Backend, chat_message, openai_backend

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}
CALL = '<tool_call>\n{"name":"look","arguments":{"at":"ab"}}\n</tool_call><|im_end|>'
END = "<|im_end|>"


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with openai_backend() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small.write_tokenizer(tmp_path / "model")


def config(backend: Backend, folder: Path, prefix: str = "tokens", **more: Any) -> dict[str, Any]:
    base = {"base_url": backend.url, "model": "m", "return_token_id_information": True, "max_attempts": 1}
    return {**base, "prefix": prefix, "tokenizer": str(folder), **more}


class Talk:
    """A conversation as an agent has it: the items of answers go back without their tokens."""

    def __init__(self, server: RunningServer, rollout_id: str = "r", **params: Any) -> None:
        self.server = server
        self.rollout_id = rollout_id
        start = {"input": [{"role": "user", "content": "the ab?"}], "tools": [TOOL], "max_output_tokens": 999}
        self.params: ResponseCreateParams = params_from_json({**start, **params})
        self.recorder = TokenRecorder()

    async def ask(self) -> Response:
        request = CreateResponseRequest(params=self.params, rollout_id=self.rollout_id)
        response: Response = (await self.server.call("CreateResponse", request)).response
        self.recorder.add(response, 0)
        for item in response.output:
            added = self.params.input_items.items.add()
            added.MergeFrom(item)
            added.ClearField("token_trace")
        return response

    def add(self, **item: Any) -> None:
        self.params.input_items.items.extend(params_from_json({"input": [item]}).input_items.items)

    def answer_calls(self, response: Response, output: str = "the ab") -> None:
        for item in response.output:
            if item.HasField("function_call"):
                call_id = item.function_call.call_id
                self.add(type="function_call_output", call_id=call_id, output=output)

    @property
    def drifts(self) -> list[int]:
        assert self.recorder.trajectory is not None
        return [segment.drift for segment in self.recorder.trajectory.segments]


async def test_conformance(backend: Backend, folder: Path) -> None:
    choice: dict[str, Any] = {"text": "ab", "token_ids": [1], "finish_reason": "stop"}
    choice["logprobs"] = {"tokens": ["token_id:1"], "token_logprobs": [-0.5]}
    backend.default = lambda _: Answer(json={"model": "m", "choices": [choice]})
    await check_model_server(VLLMModel, config(backend, folder, max_model_len=500))


@pytest.mark.parametrize("prefix", ["tokens", "prefix_ids"])
async def test_later_prompts_begin_with_the_sampled_ids(backend: Backend, folder: Path, prefix: str) -> None:
    texts = ("ab" + END, "the ab" + END, "the" + END)
    engine = backend.default = small.Engine(folder, *texts)
    async with no_tasks_left(), start_server(VLLMModel, config(backend, folder, prefix)) as server:
        talk = Talk(server)
        for _ in texts:
            await talk.ask()
            talk.add(role="user", content="and the ab?")
    assert talk.drifts == [DRIFT_CLEAN] * 3
    for turn in (1, 2):
        earlier = engine.prompts[turn - 1] + engine.sampled[turn - 1]
        assert engine.prompts[turn][: len(earlier)] == earlier
        # A new tokenization would have been another: `ab` was sampled as two tokens.
        assert engine.sampled[turn] != engine.template.encode(texts[turn])
    rest = engine.prompts[1][len(engine.prompts[0] + engine.sampled[0]) :]
    wanted = "\n<|im_start|>user\nand the ab?<|im_end|>\n<|im_start|>assistant\n"
    assert rest == engine.template.encode(wanted)


async def test_what_is_sent_as_ids(backend: Backend, folder: Path) -> None:
    engine = backend.default = small.Engine(folder, "<think>\nthe ab\n</think>\n\nI look." + CALL, "ab" + END)
    async with start_server(VLLMModel, config(backend, folder)) as server:
        talk = Talk(server, temperature=0.5)
        response = await talk.ask()
        talk.answer_calls(response)
        last = await talk.ask()
    assert [request.path for request in backend.requests] == ["/v1/completions"] * 2
    body = backend.requests[0].json
    sent = dict(body)
    assert engine.template.encode(_whole(engine, talk, 1)) == sent.pop("prompt")
    assert sent == {
        "model": "m",
        "max_tokens": 999,
        "temperature": 0.5,
        "logprobs": 0,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
    reasoning, message, call = response.output
    assert reasoning.reasoning.summary[0].summary_text.text == "the ab"
    assert message.message.content_parts.parts[0].output_text.text == "I look."
    assert (call.function_call.name, call.function_call.arguments_json) == ("look", '{"at":"ab"}')
    assert call.token_trace.generation_token_ids == engine.sampled[0]
    assert last.output[0].token_trace.prompt_token_ids == engine.prompts[1]
    assert talk.drifts == [DRIFT_CLEAN] * 2


async def test_segments_say_how_each_turn_was_sampled(backend: Backend, folder: Path) -> None:
    backend.default = small.Engine(folder, "ab" + END, "the" + END)
    settings = config(backend, folder, sampling_overrides={"seed": 3})
    async with start_server(VLLMModel, settings) as server:
        talk = Talk(server, temperature=0.5, top_k=4, seed=2)
        await talk.ask()
        talk.add(role="user", content="and the ab?")
        talk.params.temperature = 0.25
        await talk.ask()
    assert talk.recorder.trajectory is not None
    segments = talk.recorder.trajectory.segments
    assert [segment.temperature for segment in segments] == [0.5, 0.25]
    assert [segment.sampling for segment in segments] == [SamplingParams(top_k=4, seed=3)] * 2
    assert [(request.json["top_k"], request.json["seed"]) for request in backend.requests] == [(4, 3)] * 2
    assert talk.drifts == [DRIFT_CLEAN] * 2


def _whole(engine: Any, talk: Talk, count: int) -> str:
    tools = [{"type": "function", "function": {key: TOOL[key] for key in ("name", "parameters")}}]
    messages = [{"role": "user", "content": "the ab?"}][:count]
    return engine.template.render(messages, {"tools": tools}, answer=True)


async def test_a_template_that_drops_reasoning_shows_as_drift(backend: Backend, folder: Path) -> None:
    thought = "<think>\nthe ab\n</think>\n\n"
    small.write_tokenizer(folder, small.DROPS_REASONING)
    backend.default = small.Engine(folder, thought + CALL, thought + "ab" + END, "the" + END)
    async with start_server(VLLMModel, config(backend, folder)) as server:
        talk = Talk(server)
        talk.answer_calls(await talk.ask())
        await talk.ask()  # a tool has answered: the reasoning stays
        talk.add(role="user", content="go on")
        await talk.ask()  # the user speaks: the template drops it
    assert talk.drifts[:2] == [DRIFT_CLEAN] * 2
    assert talk.drifts[2] in (DRIFT_REALIGNED, DRIFT_FORKED)


async def test_an_answer_that_was_cut_off_is_ended_as_context(backend: Backend, folder: Path) -> None:
    engine = backend.default = small.Engine(folder, "ab", "ab" + END)
    async with start_server(VLLMModel, config(backend, folder)) as server:
        talk = Talk(server)
        response = await talk.ask()
        assert response.incomplete_details.reason == "max_output_tokens"
        talk.add(role="user", content="go on")
        await talk.ask()
    earlier = engine.prompts[0] + engine.sampled[0]
    rest = "<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"
    assert engine.prompts[1] == earlier + engine.template.encode(rest)
    assert talk.drifts == [DRIFT_CLEAN] * 2


async def test_only_the_very_conversation_is_continued(backend: Backend, folder: Path) -> None:
    engine = backend.default = small.Engine(folder, *["ab" + END] * 5)
    async with start_server(VLLMModel, config(backend, folder)) as server:
        one, other = Talk(server), Talk(server, "other")
        await one.ask()
        earlier = engine.prompts[0] + engine.sampled[0]
        # Another rollout that says the same has tokens of its own.
        other.params.CopyFrom(one.params)
        for talk in (one, other):
            talk.add(role="user", content="go on")
        await other.ask()
        assert engine.prompts[1][: len(earlier)] != earlier
        # So has an answer that the agent rewrote, and one to other tools.
        for change in ("ba", None):
            changed = Talk(server)
            changed.params.CopyFrom(one.params)
            if change:
                parts = changed.params.input_items.items[1].message.content_parts.parts
                parts[0].output_text.text = change
            else:
                del changed.params.tools[:]
            await changed.ask()
            assert engine.prompts[-1][: len(earlier)] != earlier
        await one.ask()
        assert engine.prompts[-1][: len(earlier)] == earlier


@pytest.mark.parametrize("prefix", ["tokens", "prefix_ids"])
async def test_ids_in_the_request_are_used(backend: Backend, folder: Path, prefix: str) -> None:
    engine = backend.default = small.Engine(folder, "ab" + END, "ab" + END)
    async with start_server(VLLMModel, config(backend, folder, prefix)) as server:
        talk = Talk(server, "")
        first = await talk.ask()
        talk.params.input_items.items[-1].token_trace.CopyFrom(first.output[-1].token_trace)
        talk.add(role="user", content="go on")
        await talk.ask()
    earlier = engine.prompts[0] + engine.sampled[0]
    assert engine.prompts[1][: len(earlier)] == earlier
    assert "prompt_token_ids" not in json.dumps(backend.requests[1].json)


async def test_ids_that_are_remembered_win_over_those_of_the_request(backend: Backend, folder: Path) -> None:
    engine = backend.default = small.Engine(folder, "ab" + END, "ab" + END)
    async with start_server(VLLMModel, config(backend, folder)) as server:
        talk = Talk(server)
        await talk.ask()
        forged = talk.params.input_items.items[-1].token_trace
        forged.prompt_token_ids.extend(engine.prompts[0][:-1])
        forged.generation_token_ids.extend(engine.sampled[0])
        forged.generation_logprobs.extend([-1.0] * len(engine.sampled[0]))
        talk.add(role="user", content="go on")
        await talk.ask()
    earlier = engine.prompts[0] + engine.sampled[0]
    assert engine.prompts[1][: len(earlier)] == earlier


@pytest.mark.parametrize("text", [*small.ODD_CALLS, "\ud800"])
async def test_what_no_text_can_hold(backend: Backend, folder: Path, text: str) -> None:
    """The answer can be used, and so can the conversation with it in the next turn."""
    small.write_tokenizer(folder, "{% for m in messages %}{{ m | tojson }}{% endfor %}")
    choice: dict[str, Any] = {"text": text, "finish_reason": "stop"}
    body = json.dumps({"choices": [choice]}).encode()
    backend.default = lambda _: Answer(body=body)
    more: dict[str, Any] = {"return_token_id_information": False, "max_model_len": 500}
    async with start_server(VLLMModel, config(backend, folder, **more)) as server:
        talk = Talk(server)
        response = await talk.ask()
        talk.answer_calls(response)
        assert len((await talk.ask()).output) == 1


async def test_an_engine_that_ignores_the_prefix_is_named_once(
    backend: Backend, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backend.default = small.Engine(folder, *["ab" + END] * 3, patched=False)
    with caplog.at_level(logging.WARNING):
        async with start_server(VLLMModel, config(backend, folder, "prefix_ids")) as server:
            talk = Talk(server)
            for _ in range(3):
                await talk.ask()
                talk.add(role="user", content="go on")
    assert [len(r.json.get("required_prefix_token_ids", ())) > 0 for r in backend.requests] == [
        False,
        True,
        True,
    ]
    assert sum("required_prefix_token_ids" in record.getMessage() for record in caplog.records) == 1
    assert talk.drifts == [DRIFT_CLEAN, DRIFT_REALIGNED, DRIFT_REALIGNED]


async def test_the_ids_of_the_prefix_go_to_tokenize_too(backend: Backend, folder: Path) -> None:
    logprobs = {"content": [{"token": "token_id:7", "logprob": -0.5}]}
    chat = Answer(json=chat_message("a", choice={"logprobs": logprobs}))
    backend.plan(chat, Answer(json={"tokens": [1, 2]}), chat, Answer(json={"tokens": [1, 2, 7, 3]}))
    async with start_server(VLLMModel, config(backend, folder, "prefix_ids")) as server:
        talk = Talk(server)
        await talk.ask()
        talk.add(role="user", content="go on")
        await talk.ask()
    assert backend.requests[3].json["required_prefix_token_ids"] == [1, 2, 7]
    assert talk.drifts == [DRIFT_CLEAN] * 2


async def test_calls_without_tokens_are_plain(backend: Backend, folder: Path) -> None:
    engine = backend.default = small.Engine(folder, "ab", "ab")
    for prefix in ("tokens", "prefix_ids"):
        async with start_server(VLLMModel, config(backend, folder, prefix)) as server:
            response = await server.respond("the?", return_tokens=False)
        assert not response.output[0].HasField("token_trace")
        assert "logprobs" not in backend.requests[-1].json
    assert len(engine.prompts) == 2


async def test_the_engine_is_asked_for_its_context(backend: Backend, folder: Path) -> None:
    engine = backend.default = small.Engine(folder, "ab" + END, "ab" + END)
    async with start_server(VLLMModel, config(backend, folder)) as server:
        for _ in range(2):
            await server.respond("the?")
        assert [request.path for request in backend.requests].count("/tokenize") == 1
        assert backend.requests[-1].json["max_tokens"] == 4096 - len(engine.prompts[-1])
        response = await server.respond("x" * 5000)
        assert response.incomplete_details.reason == "max_output_tokens"
    assert len(engine.prompts) == 2
    backend.default = lambda _: Answer(json={"tokens": [1]})
    async with start_server(VLLMModel, config(backend, folder)) as server:
        with pytest.raises(GymdError, match="max_model_len"):
            await server.respond("the?")


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"input": "a", "tools": [TOOL], "tool_choice": "required"}, "call cannot be forced"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "text only"),
        ({"input": [{"role": "tool", "content": "!"}]}, "no role for it"),
    ],
)
async def test_what_cannot_be_sent_as_ids(backend: Backend, folder: Path, params: Any, why: str) -> None:
    small.write_tokenizer(
        folder, "{% if messages[-1].role == 'tool' %}{{ raise_exception('no role for it') }}{% endif %}"
    )
    async with start_server(VLLMModel, config(backend, folder)) as server:
        with pytest.raises(GymdError, match=why) as caught:
            await server.respond(params)
    assert caught.value.reason_name == "INVALID_REQUEST"


async def test_an_engine_that_changes_the_prompt_is_refused(backend: Backend, folder: Path) -> None:
    choice: dict[str, Any] = {
        "text": "a",
        "token_ids": [1],
        "prompt_token_ids": [9, 9],
        "finish_reason": "stop",
    }
    choice["logprobs"] = {"tokens": ["token_id:1"], "token_logprobs": [-0.5]}
    backend.default = lambda _: Answer(json={"choices": [choice]})
    async with start_server(VLLMModel, config(backend, folder, max_model_len=500)) as server:
        with pytest.raises(GymdError, match="two sources of prompt_token_ids disagree"):
            await server.respond("the?")


def test_settings_that_do_not_fit(backend: Backend, folder: Path) -> None:
    with pytest.raises(pydantic.ValidationError, match="needs `tokenizer`"):
        VLLMModel.Config.parse({**config(backend, folder), "tokenizer": None})
    with pytest.raises(pydantic.ValidationError, match="raw prompts"):
        VLLMModel.Config.parse(config(backend, folder, use_completions_api=True))
    off = VLLMModel.Config.parse({**config(backend, folder), "prefix": False})
    assert off.prefix == "off"  # type: ignore[attr-defined]

"""The trainer's policy asked in token ids: prompts out, sampled ids back, and what becomes of both."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.model_service_pb2 import CreateResponseRequest
from gymapi.v1.responses_pb2 import Response, ResponseCreateParams, SamplingParams
from gymapi.v1.rollout_pb2 import DRIFT_CLEAN, DRIFT_FORKED, DRIFT_REALIGNED
from gymapi.v1.rollout_service_pb2 import GenerateRequest, GenerateResult, GenerateResults
from gymd.convert import output_text, params_from_json
from gymd.daemon.policy import TrainerPolicy, find_desk
from gymd.errors import GymdError, error, to_status_message
from gymd.mesh import CallContext
from gymd.prompts import PolicySettings, Template, load_template, work_on
from gymd.sdk.tokens import TokenRecorder
from tests.fakes import small_tokenizer as small
from tests.fakes.plan import Plan, task

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

END = "<|im_end|>"
CALL = '<tool_call>\n{"name":"look","arguments":{"at":"ab"}}\n</tool_call>' + END
TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}


class Talk:
    """A rollout with a real server, on whose stream the test answers in ids."""

    def __init__(self, folder: Path, settings: dict[str, Any] | None = None, **params: Any) -> None:
        self.plan = Plan().open(serves_policy=True, policy_version=4)
        self.plan.submit(task("a", count=2))
        config = PolicySettings(tokenizer=str(folder), **(settings or {}))
        running_as = self.plan.executor.running_as
        self.server = TrainerPolicy("policy", config, lambda name: find_desk(running_as(name), name))
        self.template = load_template(str(folder))
        self.spell = small.Engine(folder).spelled
        start = {"input": [{"role": "user", "content": "the ab?"}], "tools": [TOOL], "temperature": 0.5}
        self.params: ResponseCreateParams = params_from_json({**start, **params})
        self.recorder = TokenRecorder()
        self.asked: list[GenerateRequest] = []
        self.rollout_id = "a/0"
        self.return_tokens: bool | None = True

    async def begin(self) -> asyncio.Task[Response]:
        """Asks the server; returns its answer to be, once the trainer has the call."""
        if self.server._tokens is None:
            await self.server.load()
        request = CreateResponseRequest(params=self.params, rollout_id=self.rollout_id)
        if self.return_tokens is not None:
            request.return_tokens = self.return_tokens
        seen = asyncio.Event()
        self.plan.session.wake = seen.set
        answer = asyncio.ensure_future(self._response(request))
        waiting = asyncio.ensure_future(seen.wait())
        await asyncio.wait([answer, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if answer.done():  # it failed before the trainer was asked
            await answer
        self.asked += self.plan.take("generate_requests").generate_requests.requests
        return answer

    async def _response(self, request: CreateResponseRequest) -> Response:
        return (await self.server.CreateResponse(request, CallContext("policy", None, {}))).response

    async def say(self, text: str, **result: Any) -> Response:
        """One turn, sampled letter by letter; the items go back into the conversation without ids."""
        response = await self.answer(await self.begin(), self.spell(text), **result)
        for item in response.output:
            added = self.params.input_items.items.add()
            added.MergeFrom(item)
            added.ClearField("token_trace")
        return response

    async def answer(self, running: asyncio.Task[Response], ids: list[int], **more: Any) -> Response:
        """Answers the last call with ids."""
        result = GenerateResult(call_id=self.asked[-1].call_id, policy_version=4)
        result.token_trace.generation_token_ids.extend(ids)
        result.token_trace.generation_logprobs.extend([-0.5] * len(ids))
        result.MergeFrom(GenerateResult(**more))
        return await self.reply(running, result)

    async def reply(self, running: asyncio.Task[Response], result: GenerateResult) -> Response:
        result.call_id = self.asked[-1].call_id
        self.plan.send(generate_results=GenerateResults(results=[result]))
        response = await running
        self.recorder.add(response, 0)
        return response

    def add(self, **item: Any) -> None:
        self.params.input_items.items.extend(params_from_json({"input": [item]}).input_items.items)

    def prompt(self, number: int = -1) -> list[int]:
        return list(self.asked[number].prompt_token_ids)

    @property
    def drifts(self) -> list[int]:
        assert self.recorder.trajectory is not None
        return [segment.drift for segment in self.recorder.trajectory.segments]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small.write_tokenizer(tmp_path / "model")


async def test_turns_with_a_tool_are_one_sequence(folder: Path) -> None:
    talk = Talk(folder)
    first = await talk.say("<think>\nthe ab\n</think>\n\nI look." + CALL)
    reasoning, message, call = first.output
    assert reasoning.reasoning.summary[0].summary_text.text == "the ab"
    assert message.message.content_parts.parts[0].output_text.text == "I look."
    assert (call.function_call.name, call.function_call.arguments_json) == ("look", '{"at":"ab"}')
    assert (first.status, first.model, first.temperature) == ("completed", "policy", 0.5)
    assert call.token_trace.policy_version == 4
    talk.add(type="function_call_output", call_id=call.function_call.call_id, output="the ab")
    second = await talk.say("the" + END)
    assert output_text(second) == "the"
    earlier = talk.prompt(0) + talk.spell("<think>\nthe ab\n</think>\n\nI look." + CALL)
    new = "\n<|im_start|>tool\nthe ab<|im_end|>\n<|im_start|>assistant\n"
    assert talk.prompt(1) == earlier + talk.template.encode(new)
    assert list(second.output[-1].token_trace.prompt_token_ids) == talk.prompt(1)
    assert (second.usage.input_tokens, second.usage.output_tokens) == (len(talk.prompt(1)), 4)
    assert talk.drifts == [DRIFT_CLEAN] * 2


async def test_a_trace_may_hold_fields_of_a_newer_trainer(folder: Path) -> None:
    talk = Talk(folder)
    running = await talk.begin()
    result = GenerateResult()
    result.token_trace.generation_token_ids.extend(talk.spell("the" + END))
    result.token_trace.generation_logprobs.extend([-0.5] * 4)
    fixed32, fixed64 = b"\xa5\x06" + b"\xff" * 4, b"\xa9\x06" + b"\xff" * 8
    result.token_trace.MergeFromString(fixed64 + fixed32)
    response = await talk.reply(running, result)
    assert output_text(response) == "the"
    trace = response.output[-1].token_trace
    assert len(trace.generation_token_ids) == len(trace.generation_logprobs) == 4
    assert trace.SerializeToString().endswith(fixed64 + fixed32)


@pytest.mark.parametrize(
    "item",
    [
        {"web_search_call": {"id": "w", "status": "completed"}},
        {"unknown": {"type": "later", "raw_json": "{}"}},
        {"message": {"content_text": "the"}},
    ],
    ids=["no chat item", "unknown", "no role"],
)
async def test_items_that_no_prompt_can_hold_are_refused(folder: Path, item: dict[str, Any]) -> None:
    talk = Talk(folder)
    running = await talk.begin()
    with pytest.raises(GymdError, match="cannot become part of a prompt") as caught:
        await talk.answer(running, talk.spell("the" + END), response={"output": [item]})
    assert caught.value.reason_name == "UPSTREAM_MALFORMED"


async def test_the_request_holds_a_prompt_and_how_to_sample(folder: Path) -> None:
    talk = Talk(folder, instructions="the", tool_choice="auto", max_output_tokens=99, top_p=0.25)
    await talk.say("ab" + END)
    [asked] = talk.asked
    tools = [{"type": "function", "function": {key: TOOL[key] for key in ("name", "parameters")}}]
    messages = [{"role": "system", "content": "the"}, {"role": "user", "content": "the ab?"}]
    whole = talk.template.render(messages, {"tools": tools}, answer=True)
    assert talk.prompt() == talk.template.encode(whole)
    named = {field.name for field, _ in asked.params.ListFields()} - {"json_form"}
    assert named == {"temperature", "top_p", "max_output_tokens"}
    assert (asked.params.temperature, asked.params.max_output_tokens, asked.server) == (0.5, 99, "policy")
    assert asked.return_tokens


async def test_arguments_of_the_template(tmp_path: Path) -> None:
    folder = small.write_tokenizer(tmp_path / "m", "{{ one }}{{ two }}{{ reasoning_effort }}<|im_start|>")
    settings = {"chat_template_kwargs": {"one": "ab", "two": "the"}}
    labels = {"chat_template_kwargs": '{"two": "th"}', "extra_body": '{"top_k": 3}'}
    talk = Talk(folder, settings, metadata=labels, reasoning={"effort": "low"})
    await talk.say("ab" + END)
    assert dict(talk.asked[0].params.metadata) == {"extra_body": '{"top_k": 3}'}
    assert talk.template.decode(talk.prompt()) == "abthlow<|im_start|>"


async def test_a_template_that_drops_reasoning_shows_as_drift(folder: Path) -> None:
    small.write_tokenizer(folder, small.DROPS_REASONING)
    talk = Talk(folder)
    thought = "<think>\nthe ab\n</think>\n\n"
    first = await talk.say(thought + CALL)
    talk.add(type="function_call_output", call_id=first.output[-1].function_call.call_id, output="ab")
    await talk.say(thought + "ab" + END)
    talk.add(role="user", content="go on")
    await talk.say("the" + END)
    assert talk.drifts[:2] == [DRIFT_CLEAN] * 2
    assert talk.drifts[2] in (DRIFT_REALIGNED, DRIFT_FORKED)


async def test_a_template_that_continues_nothing_renders_no_more_in_late_turns(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.write_tokenizer(folder, small.DROPS_REASONING)
    talk = Talk(folder)
    rendered: list[int] = []
    render = Template.render

    def counted(*args: Any, **named: Any) -> str:
        rendered[-1] += 1
        return render(*args, **named)

    monkeypatch.setattr(Template, "render", counted)
    for _ in range(8):
        rendered.append(0)
        await talk.say("<think>\nthe ab\n</think>\n\nab" + END)
        talk.add(role="user", content="go on")
    assert rendered == [1, 2, 3, 4, 5, 5, 5, 5]


async def test_a_template_that_refuses_a_conversation_up_to_an_answer(folder: Path) -> None:
    refusal = (
        "{% if not add_generation_prompt %}{{ raise_exception('the user has the last word') }}{% endif %}"
    )
    small.write_tokenizer(folder, refusal + small.CHATML)
    talk = Talk(folder)
    await talk.say("the ab" + END)
    talk.add(role="user", content="go on")
    await talk.say("the" + END)
    assert talk.template.decode(talk.prompt()).endswith("go on<|im_end|>\n<|im_start|>assistant\n")


async def test_an_answer_that_was_cut_off(folder: Path) -> None:
    talk = Talk(folder)
    cut = {"response": {"incomplete_details": {"reason": "max_output_tokens"}}}
    response = await talk.say("ab", **cut)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert output_text(response) == "ab"
    talk.add(role="user", content="go on")
    await talk.say("ab" + END)
    rest = "<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"
    assert talk.prompt(1) == talk.prompt(0) + talk.spell("ab") + talk.template.encode(rest)
    assert talk.drifts == [DRIFT_CLEAN] * 2


async def test_a_prompt_that_leaves_no_room(folder: Path) -> None:
    talk = Talk(folder)
    running = await talk.begin()
    result = GenerateResult(response={"incomplete_details": {"reason": "max_output_tokens"}})
    response = await talk.reply(running, result)
    assert (response.status, output_text(response)) == ("incomplete", "")
    assert not response.output[-1].HasField("token_trace")


async def test_a_text_that_comes_back_as_a_message_is_the_same(folder: Path) -> None:
    talk = Talk(folder, input="the ab?")
    await talk.answer(await talk.begin(), talk.spell("ab" + END))
    talk.params.ClearField("input")
    for role, text in (("user", "the ab?"), ("assistant", "ab"), ("user", "go on")):
        talk.add(role=role, content=text)
    await talk.say("ab" + END)
    assert talk.drifts == [DRIFT_CLEAN] * 2


async def test_other_rollouts_have_tokens_of_their_own(folder: Path) -> None:
    talk = Talk(folder)
    await talk.say("ab" + END)
    talk.add(role="user", content="go on")
    talk.rollout_id = "a/1"
    await talk.say("ab" + END)
    assert talk.prompt(1)[: len(talk.prompt(0))] == talk.prompt(0)
    assert talk.prompt(1)[len(talk.prompt(0)) :][:1] == talk.template.encode("ab"), "tokenized anew"


async def test_items_that_the_trainer_read_itself(folder: Path) -> None:
    talk = Talk(folder, {"tool_call_parser": "none"})
    call = {"function_call": {"call_id": "1", "name": "look", "arguments_json": "{}"}}
    response = await talk.say("look!" + END, response={"output": [call]})
    assert response.output[0].function_call.name == "look"
    assert list(response.output[0].token_trace.generation_token_ids) == talk.spell("look!" + END)


async def test_ids_on_the_last_item(folder: Path) -> None:
    talk = Talk(folder)
    running = await talk.begin()
    message = {"role": "assistant", "content_text": "ab"}
    trace = {"generation_token_ids": [1, 2], "generation_logprobs": [-1, -2]}
    result = GenerateResult(response={"output": [{"message": message, "token_trace": trace}]})
    response = await talk.reply(running, result)
    assert list(response.output[0].token_trace.prompt_token_ids) == talk.prompt()
    assert list(response.output[0].token_trace.generation_token_ids) == [1, 2]


async def test_what_else_a_trace_holds_stays(folder: Path) -> None:
    talk = Talk(folder)
    told = {"routed_experts": "AAEC", "sampling": {"top_k": 20, "seed": 3}}
    response = await talk.say("ab" + END, token_trace=told, response={"top_p": 0.25})
    trace = response.output[-1].token_trace
    assert (trace.routed_experts, trace.policy_version) == ("AAEC", 4)
    assert talk.recorder.trajectory is not None
    [segment] = talk.recorder.trajectory.segments
    assert (segment.temperature, segment.top_p) == (0.5, 0.25)
    assert segment.sampling == SamplingParams(top_k=20, seed=3)
    assert list(trace.generation_token_ids) == talk.spell("ab" + END)


async def test_ids_that_the_tokenizer_does_not_know_have_no_text(folder: Path) -> None:
    talk = Talk(folder)
    response = await talk.answer(await talk.begin(), [*talk.spell("ab"), 1_000_000])
    assert output_text(response) == "ab"
    assert list(response.output[-1].token_trace.generation_token_ids)[-1] == 1_000_000


async def test_several_calls_where_only_one_is_allowed(folder: Path) -> None:
    talk = Talk(folder, parallel_tool_calls=False)
    response = await talk.say(CALL.removesuffix(END) + CALL)
    assert [item.WhichOneof("kind") for item in response.output] == ["function_call"]


@pytest.mark.parametrize("wanted", [False, None])
async def test_logprobs_that_nobody_asked_for(folder: Path, wanted: bool | None) -> None:
    talk = Talk(folder)
    talk.return_tokens = wanted
    running = await talk.begin()
    ids = talk.spell("ab" + END)
    response = await talk.reply(running, GenerateResult(token_trace={"generation_token_ids": ids}))
    assert output_text(response) == "ab"
    assert not response.output[-1].HasField("token_trace")
    added = talk.params.input_items.items.add()
    added.MergeFrom(response.output[0])
    talk.add(role="user", content="go on")
    await talk.say("ab" + END)
    earlier = talk.prompt(0) + ids
    assert talk.prompt(1)[: len(earlier)] == earlier, "the prefix is exact all the same"


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"token_trace": {"generation_token_ids": [1]}}, "1 generated token ids and 0 logprobs"),
        ({}, "holds no generation_token_ids"),
        ({"response": {"output": [{"message": {"role": "assistant"}}]}}, "holds no generation_token_ids"),
        (
            {"token_trace": {"generation_token_ids": [3, -5], "generation_logprobs": [-1, -1]}},
            "hold -5, and ids begin at 0",
        ),
    ],
)
async def test_answers_that_break_the_contract(folder: Path, result: Any, why: str) -> None:
    talk = Talk(folder)
    running = await talk.begin()
    with pytest.raises(GymdError, match=why) as caught:
        await talk.reply(running, GenerateResult(**result))
    assert caught.value.reason_name == "UPSTREAM_MALFORMED"


async def test_answers_that_contradict_the_prompt(folder: Path) -> None:
    talk = Talk(folder)
    sampled = {"generation_token_ids": [1], "generation_logprobs": [-1]}
    running = await talk.begin()
    prompt = talk.prompt()
    same = GenerateResult(token_trace={"prompt_token_ids": prompt, **sampled})
    assert (await talk.reply(running, same)).status == "completed"
    for other, why in (
        ([*prompt[:3], 77, *prompt[4:]], f"number 3 is 77, and was {prompt[3]}"),
        (
            prompt[:-1],
            f"its {len(prompt) - 1} prompt_token_ids are not the {len(prompt)} that it was asked with",
        ),
    ):
        running = await talk.begin()
        with pytest.raises(GymdError, match=why) as caught:
            await talk.reply(running, GenerateResult(token_trace={"prompt_token_ids": other, **sampled}))
        assert caught.value.reason_name == "UPSTREAM_MALFORMED"


async def test_the_trainers_error_is_the_models(folder: Path) -> None:
    talk = Talk(folder)
    running = await talk.begin()
    status = to_status_message(error("UPSTREAM_RATE_LIMITED", "the engine is full"))
    with pytest.raises(GymdError, match="the engine is full"):
        await talk.reply(running, GenerateResult(error=status))


@pytest.mark.parametrize("text", [*small.ODD_CALLS, "\ud800".encode("utf-8", "replace").decode(), ""])
async def test_odd_answers_become_items_that_can_be_sent_back(folder: Path, text: str) -> None:
    talk = Talk(folder)
    response = await talk.say(text + END)
    for item in response.output:
        if item.HasField("function_call"):
            talk.add(type="function_call_output", call_id=item.function_call.call_id, output="ab")
    talk.add(role="user", content="go on")
    await talk.say("ab" + END)
    assert len(talk.asked) == 2


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"tool_choice": "required"}, "call cannot be forced"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "text only"),
        ({"previous_response_id": "r"}, "keeps no state"),
    ],
)
async def test_what_no_prompt_can_say(folder: Path, params: Any, why: str) -> None:
    talk = Talk(folder, **params)
    with pytest.raises(GymdError, match=why) as caught:
        await talk.begin()
    assert caught.value.reason_name == "INVALID_REQUEST"


async def test_long_conversations_are_written_in_a_thread(folder: Path) -> None:
    talk = Talk(folder, input=[{"role": "user", "content": "the ab " * 8000}])
    await talk.say("ab " * 12_000 + END)
    talk.add(role="user", content="go on")
    await talk.say("ab" + END)
    assert talk.drifts == [DRIFT_CLEAN] * 2


async def test_work_on() -> None:
    assert await work_on(1, threading.current_thread) is threading.main_thread()
    assert await work_on(1 << 20, threading.current_thread) is not threading.main_thread()


async def test_a_tokenizer_that_cannot_be_used(tmp_path: Path) -> None:
    settings = PolicySettings(tokenizer=str(tmp_path / "none"))
    server = TrainerPolicy("policy", settings, lambda name: find_desk([], name))
    with pytest.raises(GymdError, match="there is no file"):
        await server.load()

"""scripted_model: its default, rules, placeholders, failures, tokens, files and determinism."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pydantic
import pytest

from gymapi.v1.responses_pb2 import Response
from gymd.errors import GymdError
from gymd.mesh import CallContext
from gymd.sdk import ModelCall
from gymd.sdk.testing import check_model_server, make_params, no_tasks_left, start_server
from gymservers.models.scripted_model.chance import parse_distribution, share
from gymservers.models.scripted_model.server import ScriptedModel
from gymservers.models.scripted_model.synth import synthesise

TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 2}},
        "required": ["city", "days"],
    },
    "strict": True,
}
USER = {"role": "user", "content": "weather in Paris?"}
CALL = {"type": "function_call", "call_id": "call_0_0", "name": "get_weather", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_0_0", "output": "cold"}


async def test_conformance() -> None:
    await check_model_server(ScriptedModel)
    await check_model_server(ScriptedModel, params={"input": [USER], "tools": [TOOL]}, transport="plain")


def text(response: Response) -> str:
    return response.output[-1].message.content_parts.parts[0].output_text.text


async def answers(config: dict[str, Any], *calls: Any, **options: Any) -> list[Response]:
    async with no_tasks_left(), start_server(ScriptedModel, config) as server:
        return [await server.respond(params, **options) for params in calls]


async def test_default_calls_the_first_tool_once() -> None:
    first, second = await answers(
        {}, {"input": [USER], "tools": [TOOL]}, {"input": [USER, CALL, OUTPUT], "tools": [TOOL]}
    )
    call = first.output[0].function_call
    assert (call.name, json.loads(call.arguments_json)) == ("get_weather", {"city": "text", "days": 2})
    assert text(second)
    assert second.id != first.id


async def test_default_without_tools_is_a_text() -> None:
    (response,) = await answers({}, "hi")
    assert text(response)
    assert response.usage.total_tokens == 80


async def test_rules_in_order() -> None:
    rules = [
        {
            "when": {"match": r"weather in (\w+)", "turn": 0},
            "call": {"name": "w", "arguments": {"city": "{1}"}},
        },
        {"when": {"output_contains": "cold"}, "text": "Turn {turn}: {user_text}", "reasoning": "Hm."},
        {"when": {"contains": "bye", "tools": False}, "incomplete": "max_output_tokens"},
        {"text": "else"},
    ]
    called, answered, overflow, rest = await answers(
        {"rules": rules}, {"input": [USER]}, {"input": [USER, CALL, OUTPUT]}, "bye", "hello"
    )
    assert json.loads(called.output[0].function_call.arguments_json) == {"city": "Paris"}
    assert text(answered) == "Turn 1: weather in Paris?"
    assert answered.output[0].reasoning.summary[0].summary_text.text == "Hm."
    assert (overflow.status, overflow.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert text(rest) == "else"


async def test_sequence_of_turns() -> None:
    rules = [{"turns": [{"calls": [{"name": "a", "arguments": {}}] * 2}, {"text": "second"}]}]
    first, second, third = await answers(
        {"rules": rules},
        {"input": [USER]},
        {"input": [USER, CALL, OUTPUT]},
        {"input": [USER, CALL, OUTPUT, CALL, OUTPUT]},
    )
    ids = [item.function_call.call_id for item in first.output]
    assert len(set(ids)) == 2
    assert text(second) == text(third) == "second"


async def test_failures() -> None:
    rules = [
        {"when": {"contains": "limit"}, "error": {"reason": "UPSTREAM_RATE_LIMITED", "retry_delay": 2}},
        {"error": "UPSTREAM_UNAVAILABLE"},
    ]
    async with start_server(ScriptedModel, {"rules": rules}) as server:
        with pytest.raises(GymdError) as caught:
            await server.respond("limit")
        assert (caught.value.reason_name, caught.value.retry_delay) == ("UPSTREAM_RATE_LIMITED", 2)
        with pytest.raises(GymdError) as caught:
            await server.respond("x")
        assert caught.value.reason_name == "UPSTREAM_UNAVAILABLE"


async def test_hang_ends_with_the_caller() -> None:
    async with no_tasks_left(), start_server(ScriptedModel, {"rules": [{"hang": True}]}) as server:
        call = asyncio.create_task(server.respond("x"))
        done, _ = await asyncio.wait([call], timeout=0.1)
        assert not done
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_probability_follows_seed_and_rollout() -> None:
    rules = [{"when": {"probability": 0.3}, "text": "rare"}, {"text": "often"}]

    async def draw(seed: int) -> list[str]:
        async with start_server(ScriptedModel, {"rules": rules, "seed": seed}) as server:
            return [text(await server.respond("x", rollout_id=f"r{number}")) for number in range(200)]

    first = await draw(1)
    assert first == await draw(1)
    assert first != await draw(2)
    assert 30 <= first.count("rare") <= 90


async def test_token_traces_continue_each_other() -> None:
    tokens = {"prompt": 10, "generated": 4, "between": 3}
    first, second = await answers(
        {"tokens": tokens},
        {"input": [USER], "tools": [TOOL]},
        {"input": [USER, CALL, OUTPUT], "tools": [TOOL]},
        return_tokens=True,
    )
    one, two = first.output[-1].token_trace, second.output[-1].token_trace
    seen = [*one.prompt_token_ids, *one.generation_token_ids]
    assert (len(one.prompt_token_ids), len(seen), len(two.prompt_token_ids)) == (10, 14, 17)
    assert list(two.prompt_token_ids)[:14] == seen
    assert len(two.generation_logprobs) == 4


async def test_latency_and_whole_responses() -> None:
    whole = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [], "status": "failed"}
    loop = asyncio.get_running_loop()
    started = loop.time()
    (response,) = await answers({"rules": [{"response": whole, "latency": "fixed:0.1"}]}, "x")
    assert loop.time() - started >= 0.1
    assert response.status == "failed"


async def test_yaml_and_python_scripts(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("latency: 0\ntokens: {prompt: 5}\nrules:\n  - text: from yaml\n")
    (response,) = await answers({"script": str(rules)}, "x")
    assert (text(response), response.usage.input_tokens) == ("from yaml", 5)
    code = tmp_path / "rules.py"
    code.write_text("async def answer(request):\n    return {'text': request.user_text.upper()}\n")
    (response,) = await answers({"script": str(code)}, "hello")
    assert text(response) == "HELLO"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", "rules: [{txt: x}]", "txt"),
        ("a.yaml", "3", "list of rules"),
        ("a.py", "x = 1", "needs a function"),
        ("missing.yaml", None, "No such file"),
    ],
)
async def test_bad_scripts_are_told_at_the_start(
    tmp_path: Path, name: str, content: str | None, says: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(GymdError, match=says):
        async with start_server(ScriptedModel, {"script": str(path)}):
            pass


@pytest.mark.parametrize(
    "block",
    [
        {"latency": "fast"},
        {"latency": -1},
        {"rules": [{"text": "a", "error": "INTERNAL"}]},
        {"rules": [{"error": "NO_SUCH_REASON"}]},
        {"rules": [{"when": {"match": "("}, "text": "a"}]},
        {"rules": [{"latency": "uniform:1", "text": "a"}]},
        {"tokens": {"generated": "some"}},
        {"tokens": {"prompt": -1}},
    ],
)
def test_bad_rules_are_told(block: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        ScriptedModel.Config.parse(block)


async def test_unknown_tool_and_no_rule_are_told() -> None:
    rules = [{"when": {"turn": 0}, "call": {"name": "nope"}}]
    async with start_server(ScriptedModel, {"rules": rules}) as server:
        with pytest.raises(GymdError, match="offers: get_weather"):
            await server.respond({"input": [USER], "tools": [TOOL]})
        with pytest.raises(GymdError, match="no rule"):
            await server.respond({"input": [USER, CALL, OUTPUT]})


async def test_prepared_responses_are_named_by_rollout_and_turn() -> None:
    async with start_server(ScriptedModel, {}, transport="in-process") as running:
        server = running.server
        assert isinstance(server, ScriptedModel)
        params = make_params({"input": [USER], "tools": [TOOL]})
        call = ModelCall("r", None, CallContext("m", None, {}))
        first = await server.create_response(params, call)
        assert first == await server.create_response(params, call)
        assert first.output[0].function_call.call_id == "call_r_0_0"
        unnamed = ModelCall("", None, CallContext("m", None, {}))
        ids = [(await server.create_response(params, unnamed)).id for _ in range(2)]
        assert len({*ids, first.id}) == 3
        other = make_params({"input": [USER], "tools": [{**TOOL, "name": "other"}]})
        assert (await server.create_response(other, call)).output[0].function_call.name == "other"


@pytest.mark.parametrize(
    ("form", "low", "high", "middle"),
    [("2", 2, 2, 2), ("uniform:1:3", 1, 3, 2), ("exponential:1", 0, 99, 0.69), ("lognormal:2:0.5", 0, 99, 2)],
)
def test_latency_forms(form: str, low: float, high: float, middle: float) -> None:
    delay = parse_distribution(form)
    drawn = [delay(share(0, number)) for number in range(500)]
    assert min(drawn) >= low
    assert max(drawn) <= high
    assert delay(0.5) == pytest.approx(middle, abs=0.01)


async def test_lengths_from_distributions_belong_to_rollout_and_turn() -> None:
    tokens = {"prompt": "uniform:10:20", "generated": "lognormal:50:1", "between": 5, "filler": True}
    config = {"tokens": tokens, "rules": [{"text": "Hi."}], "return_token_id_information": True, "seed": 3}
    turns = [USER], [USER, CALL, OUTPUT]
    async with start_server(ScriptedModel, config) as server:
        found = {
            name: [await server.respond({"input": turn}, rollout_id=name) for turn in turns]
            for name in "abca"
        }
        again = [await server.respond({"input": turn}, rollout_id="a") for turn in turns]
    assert again == found["a"]
    assert len({pair[0].usage.output_tokens for pair in found.values()}) == 3
    for first, second in found.values():
        one, two = first.output[-1].token_trace, second.output[-1].token_trace
        assert 10 <= len(one.prompt_token_ids) <= 20
        assert len(one.generation_token_ids) == first.usage.output_tokens
        assert second.usage.input_tokens == first.usage.total_tokens + 5
        whole = [*one.prompt_token_ids, *one.generation_token_ids]
        assert list(two.prompt_token_ids)[: len(whole)] == whole
        assert len(text(first)) == 4 * first.usage.output_tokens


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": ["b", "a"]}, "b"),
        ({"type": ["integer", "null"], "minimum": 4}, 4),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [True, True]),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"const": 3}}}, 3),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"type": "string", "minLength": 6}, "textxx"),
        ({"type": "object", "properties": {"a": {"default": 1}, "b": {}}, "required": ["a"]}, {"a": 1}),
        (True, "text"),
    ],
)
def test_arguments_from_schemas(schema: Any, value: Any) -> None:
    assert synthesise(schema) == value

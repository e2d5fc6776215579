"""The policy in the trainer, asked in token ids: a real daemon with real hosts, and a policy of ids only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.responses_pb2 import SamplingParams
from gymapi.v1.rollout_pb2 import DRIFT_CLEAN, OUTCOME_COMPLETED, Rollout
from gymd.client import GenerateCall, Generated, Trainer
from gymd.client.tokens import branches
from gymd.config import ServerSpec
from gymd.errors import GymdError
from tests.fakes import small_tokenizer as small
from tests.fakes.mesh import LIMIT_S, running

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
ROW = {"responses_create_params": {"input": "How is the weather in ab?", "tools": [TOOL], "temperature": 0.5}}
ASK = 'I ask.<tool_call>\n{"name":"get_weather","arguments":{"city":"ab"}}\n</tool_call><|im_end|>'
TELL = "In ab the weather is cold.<|im_end|>"


def servers(folder: Path) -> list[ServerSpec]:
    """An agent with the weather environment, and the trainer as its model, with a tokenizer."""
    agent = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    policy = {"tokenizer": str(folder)}
    return [
        ServerSpec(name="agent", kind="agent", implementation="simple_agent", config=agent),
        ServerSpec(name="env", kind="resources", implementation="example_single_tool_call"),
        ServerSpec(name="policy_model", kind="model", implementation="trainer_policy", config=policy),
    ]


class IdsOnly:
    """A policy that knows no text: it samples the planned ids, turn by turn.

    Attributes:
        calls: prompts and what was sampled, by rollout.
    """

    def __init__(self, *plan: list[int]) -> None:
        self.plan = plan
        self.calls: dict[str, list[tuple[list[int], list[int]]]] = {}

    def __call__(self, call: GenerateCall) -> Generated:
        turns = self.calls.setdefault(call.rollout_id, [])
        sampled = self.plan[len(turns)]
        turns.append((call.prompt_token_ids, sampled))
        told = {"top_p": 0.75, "top_k": 20, "seed": len(turns)}
        return Generated(token_ids=sampled, logprobs=[-0.5] * len(sampled), sampling=told)


async def test_two_turns_with_a_tool_are_one_sequence(tmp_path: Path) -> None:
    folder = small.write_tokenizer(tmp_path / "model")
    engine = small.Engine(folder)
    policy = IdsOnly(engine.spelled(ASK), engine.spelled(TELL))
    async with (
        running(tmp_path, *servers(folder)) as mesh,
        Trainer(mesh.daemon.address, policy=policy, policy_version=3) as gym,
        asyncio.timeout(LIMIT_S),
    ):
        found = [rollout async for group in gym.groups([ROW], n=4) for rollout in group.rollouts]
    assert len(policy.calls) == len(found) == 4
    for rollout in found:
        _check(rollout, engine, *policy.calls[rollout.rollout_id])


def _check(rollout: Rollout, engine: Any, *turns: tuple[list[int], list[int]]) -> None:
    assert (rollout.outcome, rollout.reward.value) == (OUTCOME_COMPLETED, 1.0)
    kinds = [item.WhichOneof("kind") for item in rollout.response.output]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert rollout.response.output[1].function_call.arguments_json == '{"city":"ab"}'
    assert [segment.drift for segment in rollout.trajectory.segments] == [DRIFT_CLEAN] * 2
    told_sampling = [(one.temperature, one.top_p, one.sampling) for one in rollout.trajectory.segments]
    assert told_sampling == [(0.5, 0.75, SamplingParams(top_k=20, seed=turn)) for turn in (1, 2)]
    (first, asked), (second, told) = turns
    output = rollout.response.output[2].function_call_output.output_text
    new = f"\n<|im_start|>tool\n{output}<|im_end|>\n<|im_start|>assistant\n"
    assert second == first + asked + engine.template.encode(new)
    [branch] = branches(rollout)
    assert branch.ids.tolist() == second + told
    assert branch.ids[branch.sampled].tolist() == asked + told
    assert set(branch.versions[branch.sampled]) == {3}
    assert rollout.response.usage.output_tokens == len(asked) + len(told)


async def test_a_policy_that_wants_text_is_told(tmp_path: Path) -> None:
    folder = small.write_tokenizer(tmp_path / "model")
    async with (
        running(tmp_path, *servers(folder)) as mesh,
        Trainer(mesh.daemon.address, policy=lambda call: call.messages[-1]["content"]) as gym,
        asyncio.timeout(LIMIT_S),
    ):
        with pytest.raises(ValueError, match="sample from them, or take `tokenizer` out"):
            [group async for group in gym.groups([ROW], n=1)]


async def test_a_tokenizer_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(GymdError, match=r"tokenizer .* cannot be used: there is no file"):
        async with running(tmp_path, *servers(tmp_path / "nowhere")):
            pass

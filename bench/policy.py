"""The policy in the trainer: every model call of an agent comes to this process, and its answer goes back."""

from __future__ import annotations

import time
from typing import Any

from bench.rollouts import WEATHER
from bench.stack import Stack, stack
from gymd.client import GenerateCall, Generated, ToolCall, Trainer

__all__ = ["trainer_policy"]

COUNT, IN_FLIGHT, GROUP = 4000, 256, 8
CONFIG = """
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: env}
      model_server: {type: responses_api_models, name: policy_model}
env:
  resources_servers:
    example_single_tool_call: {domain: agent}
policy_model:
  responses_api_models:
    trainer_policy: {}
gymd: {pool_hosts: 1}
"""
ASK = Generated(
    tool_calls=[ToolCall("get_weather", {"city": "sf"})],
    prompt_token_ids=range(64),
    token_ids=range(16),
    logprobs=[-0.5] * 16,
)
TELL = Generated("It is cold.", prompt_token_ids=range(96), token_ids=range(16), logprobs=[-0.5] * 16)


async def trainer_policy(options: Any) -> dict[str, Any]:
    """weather, 256 at a time, every model call answered by this process."""
    row = {**WEATHER, "agent_ref": {"name": "agent"}}
    with stack(CONFIG) as running:
        async with Trainer(running.address, policy_batch=_policy, credits=IN_FLIGHT, resume_window=0) as gym:
            await _collect(gym, row, IN_FLIGHT)
            return await _measure(running, gym, row)


async def _measure(running: Stack, gym: Trainer, row: dict[str, Any]) -> dict[str, Any]:
    before, begin = running.usage(), time.perf_counter()
    done = await _collect(gym, row, COUNT)
    wall, cpu = time.perf_counter() - begin, running.usage().since(before)
    return {
        "rollouts": COUNT,
        "in flight": IN_FLIGHT,
        "rollouts/s": round(COUNT / wall, 1),
        "CPU ms/rollout": round(1000 * sum(cpu.values()) / COUNT, 3),
        **{f"{role} ms": round(1000 * seconds / COUNT, 3) for role, seconds in cpu.items()},
        "failed": COUNT - done,
    }


async def _collect(gym: Trainer, row: dict[str, Any], count: int) -> int:
    """Runs so many rollouts; returns how many earned their reward."""
    done = 0
    async for group in gym.groups([row] * (count // GROUP), n=GROUP):
        done += sum(reward == 1.0 for reward in group.rewards)
    return done


def _policy(calls: list[GenerateCall]) -> list[Generated]:
    told = [call.params.input_items.items[-1].HasField("function_call_output") for call in calls]
    return [TELL if done else ASK for done in told]

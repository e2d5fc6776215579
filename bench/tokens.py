"""What token ids and logprobs cost: long answers, and long conversations."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from bench.cases import WEATHER, Figures, Run, config, task_of
from bench.stack import Stack, backend, stack
from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import RolloutResult, TaskSubmission
from gymd.client import RolloutClient
from gymd.client.tokens import branches, prompt_and_completion

__all__ = ["CASES"]

GENERATED = 32_768
ENV = "example_single_tool_call"
QUESTION = {"responses_create_params": {"input": "Think about it for long."}}
WIRE_SAMPLE = 20
"""Rollouts whose bytes are counted."""

_SCRIPTED = f"{{return_token_id_information: true, tokens: {{prompt: 64, generated: {GENERATED}}}}}"
# 145,008 ids at the end: 60 turns, 1,600 generated in each and 800 from each tool.
_TURNS = 60
_LONG = """
      return_token_id_information: true
      tokens: {{prompt: 1800, generated: 1600, between: 800}}
      rules:
      - when: {{turn: [{turns}]}}
        call: {{name: get_weather, arguments: {{city: Bonn}}}}
      - text: Cold.
"""
_VLLM = """
policy_model:
  responses_api_models:
    vllm_model:
      base_url: "{url}"
      api_key: bench
      model: fake-model
      return_token_id_information: true
      uses_reasoning_parser: false
"""


async def tokens(options: Any) -> Figures:
    """32,768 generated ids with logprobs per rollout, by the scripted model."""
    with stack(config(ENV, scripted=_SCRIPTED, hosts=options.hosts)) as running:
        return await _measure(running, 1500, 64)


async def tokens_vllm(options: Any) -> Figures:
    """The same through vllm_model, from a backend that sends vLLM's JSON."""
    with backend(0.0, options.backend, ("--tokens", str(GENERATED))) as endpoint:
        text = config(ENV, hosts=options.hosts).partition("\npolicy_model:")[0] + _VLLM
        text += f"gymd: {{pool_hosts: {options.hosts}}}\n"
        with stack(text.replace("{url}", endpoint.url)) as running:
            return await _measure(running, 300, 16)


async def tokens_60(options: Any) -> Figures:
    """One rollout of 60 turns and 145,000 tokens: its size, and the time to write it and to read it."""
    scripted = _LONG.format(turns=", ".join(map(str, range(_TURNS - 1))))
    with stack(config(ENV, scripted=scripted, hosts=options.hosts)) as running:
        [rollout], wire = await _counted(running, WEATHER, 1)
    data = rollout.SerializeToString()
    [branch] = branches(rollout)
    return {
        "turns": rollout.model_call_count,
        "tokens": len(branch.ids),
        "wire KB": round(wire / 1000, 1),
        "encode ms": _milliseconds(rollout.SerializeToString),
        "decode ms": _milliseconds(lambda: branches(Rollout.FromString(data))),
        "with GRPO form ms": _milliseconds(lambda: _completion(data)),
    }


def _completion(data: bytes) -> list[dict[str, Any]]:
    """Prompt ids, completion ids, mask, logprobs and versions as GRPO trainers want them, from the bytes."""
    return [prompt_and_completion(branch) for branch in branches(Rollout.FromString(data))]


async def _measure(running: Stack, count: int, in_flight: int) -> Figures:
    """Throughput, processor time and bytes of rollouts with tokens, each checked."""
    sample, wire = await _counted(running, QUESTION, WIRE_SAMPLE)
    for rollout in sample:
        [branch] = branches(rollout)
        if int(branch.sampled.sum()) != GENERATED:
            raise RuntimeError(f"{GENERATED} sampled ids expected: {int(branch.sampled.sum())}")
    before = running.usage()
    run = Run(QUESTION, count, in_flight)
    await run.through(running.address)
    cpu = running.usage().since(before)
    return {
        "rollouts": count,
        "in flight": in_flight,
        "rollouts/s": round(count / run.wall_s, 1),
        "CPU ms/rollout": round(1000 * sum(cpu.values()) / count, 2),
        **{f"{role} ms": round(1000 * value / count, 2) for role, value in cpu.items()},
        "wire KB/rollout": round(wire / 1000, 1),
        "p50 ms": round(run.percentile_ms(0.5), 1),
        "failed": run.failed,
    }


async def _counted(running: Stack, row: dict[str, Any], count: int) -> tuple[list[Rollout], float]:
    """Some rollouts, and the bytes that came from the daemon for each, gRPC and HTTP/2 included."""
    rollouts = []
    async with (
        _relay(running.address) as (address, received),
        RolloutClient(address) as client,
        client.session(credits=count, resume_window=0, return_tokens=True, policy_version=1) as session,
    ):
        async for result in session.run(_tasks(row, count)):
            if not isinstance(result, RolloutResult) or not result.rollout.HasField("trajectory"):
                raise RuntimeError(f"no rollout with tokens: {result}")
            rollouts.append(result.rollout)
    return rollouts, received[0] / count


def _tasks(row: dict[str, Any], count: int) -> Iterable[TaskSubmission]:
    return (TaskSubmission(task_id=str(number), task=task_of(row)) for number in range(count))


@contextlib.asynccontextmanager
async def _relay(target: str) -> AsyncIterator[tuple[str, list[int]]]:
    """A port that leads to `target`; counts the bytes that come from there."""
    host, _, port = target.rpartition(":")
    received = [0]
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                received[0] += len(data) * counts
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        for way in (pump(reader, far_writer, False), pump(far_reader, writer, True)):
            tasks.add(asyncio.create_task(way))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", received
    finally:
        server.close()
        for task in tasks:  # gRPC keeps its connections beyond the channel
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _milliseconds(work: Callable[[], object]) -> float:
    """Processor time, median of 50 runs."""
    seconds = []
    for _ in range(50):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return round(1000 * statistics.median(seconds), 2)


CASES = {"tokens": tokens, "tokens-vllm": tokens_vllm, "tokens-60": tokens_60}

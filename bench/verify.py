"""How fast environments verify: their own example rollouts, 64 at a time, without agent or daemon."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymapi.v1.resources_service_pb2 import CallToolRequest, SeedSessionRequest, VerifyRequest
from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED
from gymd.client.rows import parse_row, stored_task
from gymd.config import GymConfig, builtin_folder, builtin_names, load_config
from gymd.convert import response_from_json
from gymd.errors import GymdError
from gymd.sdk.loading import load_server_class
from gymd.sdk.testing import start_servers

__all__ = ["verify"]

AT_A_TIME = 64
WARM_UP_S = 1.0
MEASURED_S = 3.0
TIMEOUT_S = 60.0
LEFT_OUT = frozenset({"swe"})
"""Each verification runs a repository's tests: seconds, whatever gymd does."""


@dataclass
class Counter:
    """Verifications until a moment."""

    until: float
    done: int = 0


async def verify() -> dict[str, Any]:
    """Verifications per second of every built-in environment that has example rollouts."""
    found: dict[str, Any] = {}
    for name in sorted(set(builtin_names("resources")) - LEFT_OUT):
        folder = builtin_folder("resources", name)
        if folder is not None and (folder / "data" / "example_rollouts.jsonl").is_file():
            found[f"{name}/s"] = round(await _rate(name, folder / "data"))
    return found


async def _rate(name: str, data: Path) -> float:
    config = load_config([name, str(data / "example_answers.yaml")])
    async with _running(config) as mesh:
        server = mesh[name]
        requests = [_request(line) for line in (data / "example_rollouts.jsonl").read_text().splitlines()]
        for number, request in enumerate(requests):
            request.session_id = f"{name}-{number}"
            await _play(server, request)
        await _repeat(server, requests, WARM_UP_S)
        return await _repeat(server, requests, MEASURED_S) / MEASURED_S


async def _play(server: Any, request: VerifyRequest) -> None:
    """Seeds the session of a rollout and makes its tool calls, for verifiers that look at the state."""
    seed = SeedSessionRequest(session_id=request.session_id, task=request.task)
    await server.call("SeedSession", seed)
    calls = [item.function_call for item in request.response.output if item.HasField("function_call")]
    for number, call in enumerate(calls):
        tool = CallToolRequest(session_id=request.session_id, call_id=str(number), name=call.name)
        tool.arguments_json = call.arguments_json
        with contextlib.suppress(GymdError):  # an answer that has the form of a call
            await server.call("CallTool", tool)


@asynccontextmanager
async def _running(config: GymConfig) -> AsyncIterator[Any]:
    """The resources and model servers of a configuration, called in-process."""
    servers = {
        spec.name: (load_server_class(spec.kind, spec.implementation, spec.entrypoint or ""), spec.config)
        for spec in config.servers
        if spec.kind != "agent"
    }
    async with start_servers(servers, transport="in-process") as mesh:
        yield mesh


def _request(line: str) -> VerifyRequest:
    return VerifyRequest(
        task=stored_task(parse_row(line)),
        response=response_from_json(json.loads(line)["response"]),
        outcome=OUTCOME_COMPLETED,
    )


async def _repeat(server: Any, requests: Sequence[VerifyRequest], seconds: float) -> int:
    """Verifies as often as it goes; returns how often."""
    counter = Counter(time.perf_counter() + seconds)

    async def one(number: int) -> None:
        while time.perf_counter() < counter.until:
            answer = await server.call("Verify", requests[number % len(requests)], TIMEOUT_S)
            if answer.reward.value != 1.0:
                raise RuntimeError(f"an example of {server.name} earned {answer.reward}")
            number += 1
            counter.done += 1

    await asyncio.gather(*(one(number) for number in range(AT_A_TIME)))
    return counter.done

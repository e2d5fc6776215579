"""What is measured: each case starts its own stack, runs bounded work on loopback and returns figures."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil

from bench.cancelling import cancel, cancel_over_link
from bench.data import prepare, view
from bench.policy import trainer_policy
from bench.recovery import resume, stall
from bench.rollouts import MCQA, WEATHER, config, task_of
from bench.stack import Stack, backend, stack
from bench.verify import verify
from gymapi.v1 import registry_service_pb2 as registry
from gymapi.v1.agent_service_pb2 import RunRolloutRequest
from gymapi.v1.agent_service_pb2_grpc import AgentServiceStub
from gymapi.v1.rollout_pb2 import Outcome
from gymapi.v1.rollout_service_pb2 import RolloutResult, TaskSubmission
from gymd.client import RolloutClient
from gymd.mesh import dial

__all__ = ["CASES"]

Figures = dict[str, Any]


class Run:
    """Rollouts through the stream, timed one by one."""

    def __init__(self, row: dict[str, Any], count: int, in_flight: int, resume_window: float = 0.0) -> None:
        self._task = task_of(row)
        self._resume_window = resume_window
        self._count = count
        self._in_flight = in_flight
        self._begun: dict[str, float] = {}
        self.seconds: list[float] = []
        self.failed = 0
        self.wall_s = 0.0
        self.peak_pss_mib = 0.0

    def _submissions(self) -> Iterator[TaskSubmission]:
        for number in range(self._count):
            task_id = str(number)
            self._begun[task_id] = time.perf_counter()
            yield TaskSubmission(task_id=task_id, task=self._task)

    async def through(self, address: str, watch: Stack | None = None, keep_seconds: bool = True) -> None:
        """Runs them all; `watch` samples the memory of a stack meanwhile."""
        self._keep_seconds = keep_seconds
        sampler = asyncio.create_task(self._sample(watch)) if watch is not None else None
        async with RolloutClient(address, client_name="bench") as client:
            begin = time.perf_counter()
            async with client.session(credits=self._in_flight, resume_window=self._resume_window) as session:
                async for result in session.run(self._submissions()):
                    self._take(result)
            self.wall_s = time.perf_counter() - begin
        if sampler is not None:
            sampler.cancel()

    def _take(self, result: Any) -> None:
        if not isinstance(result, RolloutResult):
            raise RuntimeError(f"task rejected: {result}")
        rollout = result.rollout
        seconds = time.perf_counter() - self._begun.pop(rollout.task_id)
        if self._keep_seconds:
            self.seconds.append(seconds)
        if rollout.outcome != Outcome.OUTCOME_COMPLETED or rollout.reward.value != 1.0:
            self.failed += 1
            if self.failed == 1:
                sys.stderr.write(f"first failure: {rollout}\n")

    async def _sample(self, watched: Stack) -> None:
        while True:
            usage = await asyncio.to_thread(watched.usage, memory=True)
            self.peak_pss_mib = max(self.peak_pss_mib, usage.pss_mib)
            await asyncio.sleep(0.5)

    def percentile_ms(self, share: float) -> float:
        """Seconds from submission to result, in milliseconds."""
        return 1000 * sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


async def measure(
    running: Stack, row: dict[str, Any], count: int, in_flight: int, resume_window: float = 0.0
) -> Figures:
    """Throughput, latency and processor time of `count` rollouts after a warm-up."""
    await Run(row, min(count, 500), in_flight, resume_window).through(running.address)
    before = running.usage()
    run = Run(row, count, in_flight, resume_window)
    await run.through(running.address)
    cpu = running.usage().since(before)
    return {
        "rollouts": count,
        "in flight": in_flight,
        "rollouts/s": round(count / run.wall_s, 1),
        "CPU ms/rollout": round(1000 * sum(cpu.values()) / count, 3),
        **{f"{role} ms": round(1000 * value / count, 3) for role, value in cpu.items()},
        "p50 ms": round(run.percentile_ms(0.5), 2),
        "p99 ms": round(run.percentile_ms(0.99), 2),
        "failed": run.failed,
    }


async def http(row: dict[str, Any], env: str, count: int, in_flight: int, script: str, hosts: int) -> Figures:
    """Rollouts whose model calls go to a backend over HTTP."""
    with backend(0.0, script) as endpoint, stack(config(env, url=endpoint.url, hosts=hosts)) as running:
        return await measure(running, row, count, in_flight)


async def weather(options: Any) -> Figures:
    """Two model calls over HTTP, one tool call, seed, verify, close."""
    return await http(WEATHER, "example_single_tool_call", 5000, 256, options.backend, options.hosts)


async def weather_alone(options: Any) -> Figures:
    """The same, one at a time."""
    return await http(WEATHER, "example_single_tool_call", 500, 1, options.backend, options.hosts)


async def mcqa(options: Any) -> Figures:
    """One model call over HTTP, seed, verify, close."""
    return await http(MCQA, "mcqa", 8000, 256, options.backend, options.hosts)


async def scripted(options: Any) -> Figures:
    """weather with the scripted model: no HTTP."""
    with stack(config("example_single_tool_call", hosts=options.hosts)) as running:
        return await measure(running, WEATHER, 20000, 256)


async def durable(options: Any) -> Figures:
    """scripted with every task and result in the journal."""
    with stack(config("example_single_tool_call", hosts=options.hosts)) as running:
        return await measure(running, WEATHER, 20000, 256, resume_window=600.0)


async def foreign(options: Any) -> Figures:
    """weather with the scripted model, one plain unary RunRollout per rollout, straight to the agent."""
    with stack(config("example_single_tool_call")) as running:
        async with RolloutClient(running.address) as client:
            listed = await client.list_servers("agent", registry.SERVER_KIND_AGENT)
        async with dial(listed.servers[0].address) as channel:
            stub = AgentServiceStub(channel)
            task = task_of(WEATHER)
            seconds: list[float] = []

            async def worker(first: int, count: int) -> None:
                for number in range(first, first + count):
                    request = RunRolloutRequest(rollout_id=f"r{number}", task=task, attempt=1)
                    begin = time.perf_counter()
                    answer = await stub.RunRollout(request, timeout=60, metadata=(("gymd-server", "agent"),))
                    seconds.append(time.perf_counter() - begin)
                    assert answer.rollout.reward.value == 1.0

            await asyncio.gather(*(worker(n * 10, 10) for n in range(64)))
            seconds.clear()
            before, begin = running.usage(), time.perf_counter()
            await asyncio.gather(*(worker(10_000 + n * 50, 50) for n in range(64)))
            wall = time.perf_counter() - begin
            cpu = running.usage().since(before)
    return {
        "rollouts": len(seconds),
        "in flight": 64,
        "rollouts/s": round(len(seconds) / wall, 1),
        "CPU ms/rollout": round(1000 * sum(cpu.values()) / len(seconds), 3),
        "p50 ms": round(1000 * statistics.median(seconds), 2),
        "failed": 0,
    }


async def waiting(count: int, options: Any) -> Figures:
    """`count` rollouts at once, each waiting 2 s on each of two model calls over HTTP."""
    text = "example_single_tool_call"
    with (
        backend(2.0, options.backend) as endpoint,
        stack(config(text, url=endpoint.url, running=count, hosts=options.hosts)) as running,
    ):
        run = Run(WEATHER, count, count)
        await run.through(running.address, watch=running)
    return {
        "in flight": count,
        "wall s": round(run.wall_s, 2),
        "failed": run.failed,
        "peak PSS MiB": round(run.peak_pss_mib),
        "p50 ms": round(run.percentile_ms(0.5)),
    }


async def waiting_5000(options: Any) -> Figures:
    """5,000 rollouts in flight, 2 s per model call."""
    return await waiting(5000, options)


async def waiting_16384(options: Any) -> Figures:
    """16,384 rollouts in flight, 2 s per model call."""
    return await waiting(16384, options)


async def parked_50000(options: Any) -> Figures:
    """50,000 rollouts in flight with the scripted model, 10 s per model call; memory over all processes."""
    count = 50_000
    with stack(config("example_single_tool_call", scripted="{latency: 10}", running=count)) as running:
        client = psutil.Process()
        idle = _all_pss(running, client)
        run = Run(WEATHER, count, count)
        peak = 0.0

        async def sample() -> None:
            nonlocal peak
            while True:
                peak = max(peak, await asyncio.to_thread(_all_pss, running, client))
                await asyncio.sleep(1.0)

        sampler = asyncio.create_task(sample())
        await run.through(running.address)
        sampler.cancel()
    return {
        "in flight": count,
        "wall s": round(run.wall_s, 2),
        "failed": run.failed,
        "peak MiB": round(peak),
        "KB/rollout": round((peak - idle) * 1024 / count, 1),
    }


async def million(options: Any) -> Figures:
    """1,000,000 scripted tasks through one client with 512 credits; memory over all processes."""
    count, in_flight = 1_000_000, 512
    client = psutil.Process()
    with stack(config("example_single_tool_call")) as running:
        await Run(WEATHER, 20_000, in_flight).through(running.address)
        before = _all_pss(running, client)
        run = Run(WEATHER, count, in_flight)
        peak = 0.0

        async def sample() -> None:
            nonlocal peak
            while True:
                peak = max(peak, await asyncio.to_thread(_all_pss, running, client))
                await asyncio.sleep(5.0)

        sampler = asyncio.create_task(sample())
        await run.through(running.address, keep_seconds=False)
        sampler.cancel()
    return {
        "rollouts": count,
        "in flight": in_flight,
        "rollouts/s": round(count / run.wall_s, 1),
        "MiB after 20,000": round(before),
        "peak MiB": round(peak),
        "failed": run.failed,
    }


def _all_pss(running: Stack, client: psutil.Process) -> float:
    return running.usage(memory=True).pss_mib + client.memory_full_info().pss / 2**20


async def startup(options: Any) -> Figures:
    """`gymctl up` until agent, model and resources server are ready; memory when idle."""
    with tempfile.TemporaryDirectory(prefix="gymd-bench-") as folder:
        env = {**os.environ, "GYMD_STATE_DIR": f"{folder}/state"}
        text = config("example_single_tool_call", url="http://127.0.0.1:9/v1")
        await asyncio.to_thread(Path(folder, "bench.yaml").write_text, text)
        up = [sys.executable, "-m", "gymctl", "up", "-d", "-c", "bench.yaml", "gymd.listen=127.0.0.1:0"]
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            await _program(up, cwd=folder, env=env)
            seconds.append(time.perf_counter() - begin)
            await asyncio.sleep(2)  # the figure is memory at rest
            record = await asyncio.to_thread(Path(folder, "state", "daemon.json").read_text)
            pss, processes = _pss(json.loads(record)["pid"])
            await _program([sys.executable, "-m", "gymctl", "down"], env=env)
    return {
        "ready s": round(statistics.median(seconds), 2),
        "idle PSS MiB": round(pss),
        "processes": processes,
    }


async def collect(options: Any) -> Figures:
    """`gymctl rollouts collect` of 100 rollouts against a running daemon, from start to exit."""
    with (
        backend(0.0, options.backend) as endpoint,
        stack(config("example_single_tool_call", url=endpoint.url)) as running,
    ):
        rows = running.state.parent / "rows.jsonl"
        rows.write_bytes((orjson.dumps(WEATHER) + b"\n") * 100)
        seconds = []
        for number in range(3):
            command = [sys.executable, "-m", "gymctl", "rollouts", "collect", "--address", running.address]
            command += ["--input", str(rows), "--output", f"out{number}.jsonl", "--agent", "agent"]
            begin = time.perf_counter()
            await _program(command, cwd=str(rows.parent))
            seconds.append(time.perf_counter() - begin)
    return {"rollouts": 100, "wall s": round(statistics.median(seconds), 2)}


async def _program(command: list[str], **options: Any) -> None:
    """Runs a program to its end; its output is shown only when it fails."""
    done = await asyncio.to_thread(lambda: subprocess.run(command, capture_output=True, text=True, **options))
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _pss(pid: int) -> tuple[float, int]:
    daemon = psutil.Process(pid)
    members = [daemon, *daemon.children(recursive=True)]
    return sum(member.memory_full_info().pss for member in members) / 2**20, len(members)


CASES = {
    "weather": weather,
    "weather-1": weather_alone,
    "mcqa": mcqa,
    "scripted": scripted,
    "durable": durable,
    "trainer-policy": trainer_policy,
    "foreign": foreign,
    "waiting-5000": waiting_5000,
    "waiting-16384": waiting_16384,
    "parked-50000": parked_50000,
    "million": million,
    "startup": startup,
    "collect": collect,
    "cancel": cancel,
    "cancel-link": cancel_over_link,
    "resume": resume,
    "stall": stall,
    "verify": lambda options: verify(),
    "prepare": lambda options: asyncio.to_thread(prepare, options.rows),
    "view": lambda options: asyncio.to_thread(view, options.rows),
}

"""From a cancel to the end of the model request that it stops, with many rollouts in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp

from bench.rollouts import MCQA, config, task_of
from bench.stack import program, stack
from gymapi.v1.rollout_pb2 import Outcome
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.client import RolloutClient, RolloutSession

__all__ = ["cancel", "cancel_over_link"]

IN_FLIGHT = 1000
SINGLE = 100
SPACING_S = 0.03
LIMIT_S = 60.0
POLL_S = 0.2


class Upstream:
    """What the endpoint knows of its requests."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.removesuffix("/v1") + "/state"

    async def state(self) -> dict[str, Any]:
        """How many requests are held, and when the others were let go."""
        async with self._session.get(self._url) as answer:
            return await answer.json()

    async def closed(self, count: int) -> dict[int, float]:
        """Waits until so many requests were let go; returns when."""
        found = await self._until(lambda state: len(state["closed"]) >= count)
        return {int(name): moment for name, moment in found["closed"].items()}

    async def holds(self, count: int) -> None:
        """Waits until so many requests are held."""
        await self._until(lambda state: state["held"] >= count)

    async def _until(self, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S):
            while True:
                if reached(state := await self.state()):
                    return state
                await asyncio.sleep(POLL_S)


def submissions(count: int) -> Iterator[TaskSubmission]:
    """Tasks that name themselves in the text that the endpoint reads."""
    for number in range(count):
        row = dict(MCQA)
        row["responses_create_params"] = {"input": [{"role": "user", "content": f"task-{number} A or B?"}]}
        yield TaskSubmission(task_id=str(number), task=task_of(row))


async def cancel(options: Any) -> dict[str, Any]:
    """1,000 model calls in flight over HTTP: 100 single cancels over 3 s, then one of all the others."""
    return await _cancel(options.hosts, "shared")


async def cancel_over_link(options: Any) -> dict[str, Any]:
    """The same with the model server in a host of its own, behind a link."""
    return await _cancel(options.hosts, "process")


async def _cancel(hosts: int, placement: str) -> dict[str, Any]:
    with (
        program("bench.holding") as endpoint,
        stack(config("mcqa", url=endpoint.url, hosts=hosts, placement=placement)) as running,
    ):
        outcomes: list[int] = []
        async with (
            aiohttp.ClientSession() as http,
            RolloutClient(running.address, client_name="bench") as client,
            client.session(credits=IN_FLIGHT) as session,
        ):
            upstream = Upstream(http, endpoint.url)

            async def consume() -> None:
                async for result in session.run(submissions(IN_FLIGHT)):
                    outcomes.append(result.rollout.outcome)  # type: ignore[union-attr]

            consumer = asyncio.create_task(consume())
            await upstream.holds(IN_FLIGHT)
            sent = await _one_by_one(session)
            closed = await upstream.closed(SINGLE)
            single = sorted(closed[number] - moment for number, moment in sent.items())
            begin = time.monotonic()
            await session.cancel(everything=True)
            answered = time.monotonic() - begin
            # Nobody asks the endpoint meanwhile: the answer would hold it up.
            await consumer
            closed = await upstream.closed(IN_FLIGHT)
            together = sorted(moment - begin for number, moment in closed.items() if number not in sent)
    return {
        "in flight": IN_FLIGHT,
        **_figures("single", single),
        **_figures("all", together),
        "all answered ms": round(1000 * answered, 1),
        "not cancelled": sum(outcome != Outcome.OUTCOME_CANCELLED for outcome in outcomes),
    }


async def _one_by_one(session: RolloutSession) -> dict[int, float]:
    """Cancels some rollouts, spread over the numbers and over time; returns when each cancel was sent."""
    sent = {}
    answers = []
    for number in range(0, IN_FLIGHT, IN_FLIGHT // SINGLE):
        sent[number] = time.monotonic()
        answers.append(asyncio.create_task(session.cancel(task_id=str(number))))
        await asyncio.sleep(SPACING_S)
    await asyncio.gather(*answers)
    return sent


def _figures(name: str, seconds: list[float]) -> dict[str, float]:
    def at(share: float) -> float:
        return round(1000 * seconds[min(len(seconds) - 1, int(share * len(seconds)))], 1)

    return {f"{name} p50 ms": at(0.5), f"{name} p99 ms": at(0.99), f"{name} max ms": at(1.0)}

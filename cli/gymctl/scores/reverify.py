"""Scores stored rollouts again with today's verifiers; no model is asked, but for judges."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymapi.v1.registry_service_pb2 import SERVER_KIND_AGENT
from gymapi.v1.resources_service_pb2 import VerifyRequest
from gymapi.v1.rollout_pb2 import Outcome, Reward
from gymctl.collect.files import LineFile
from gymctl.collect.metrics import agent_of, facts_of
from gymctl.errors import CliError
from gymctl.scores.lines import Place, read_lines
from gymd.client import RolloutClient, Verifier
from gymd.client.rows import Row, RowError, parse_row, rescored_line, stored_task
from gymd.convert import response_from_json
from gymd.errors import GymdError

__all__ = ["Outputs", "Reverified", "reverify"]


@dataclass(frozen=True)
class Outputs:
    """Where the lines go."""

    scored: Path
    failures: Path


@dataclass
class Reverified:
    """What came of it."""

    lines: int = 0
    changed: int = 0
    """Rewards that are not what they were, or were not there."""
    failed: int = 0
    skipped: int = 0
    """Rollouts without a response: there is nothing to verify."""
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Job:
    text: str
    line: Mapping[str, Any]
    row: Row
    """The row that it was made from."""
    original: Row | None
    """The same, if it was given and not read out of the line."""
    resources: str


async def reverify(
    client: RolloutClient,
    paths: Sequence[Path],
    outputs: Outputs,
    *,
    rows: Path | None,
    concurrency: int,
    timeout: float,
    tell: Any,
) -> Reverified:
    """Verifies every rollout of some files again and writes them with their new rewards.

    Args:
        client: to the daemon whose resources servers verify.
        paths: rollouts, perhaps failures too: those that failed in the verifier have a response.
        outputs: new files.
        rows: the tasks that the rollouts were made from, in order; None: as the rollouts hold them.
        concurrency: verifications at a time.
        timeout: limit of each, in seconds.
        tell: is called with the result so far now and then.

    Raises:
        CliError: a server verifies inside a session only; a rollout names no agent that runs here.
        GymdError: the daemon went away; what was verified is written.
    """
    originals = await asyncio.to_thread(_originals, rows) if rows is not None else None
    result = Reverified()
    places = asyncio.Semaphore(concurrency)
    async with AsyncExitStack() as stack:
        verifiers = _Verifiers(client, stack)
        await verifiers.load()
        with closing(LineFile(outputs.scored)) as scored, closing(LineFile(outputs.failures)) as failures:
            scored.open(fresh=True)
            failures.open(fresh=True)

            async def one(job: _Job) -> None:
                try:
                    await _verify(job, verifiers, result, scored, failures, timeout)
                finally:
                    places.release()
                    tell(result)

            try:
                async with asyncio.TaskGroup() as group:
                    for job in _jobs(paths, originals, verifiers, result):
                        await places.acquire()
                        group.create_task(one(job))
            except BaseExceptionGroup as problems:
                raise problems.exceptions[0] from None
    if not outputs.failures.stat().st_size:
        outputs.failures.unlink()
    return result


class _Verifiers:
    """The resources server behind each agent, dialled once."""

    def __init__(self, client: RolloutClient, stack: AsyncExitStack) -> None:
        self._client = client
        self._stack = stack
        self._behind: dict[str, str] = {}
        self._dialled: dict[str, asyncio.Task[Verifier]] = {}

    async def load(self) -> None:
        listed = await self._client.list_servers(kind=SERVER_KIND_AGENT)
        self._behind = {one.name: one.labels.get("resources_server", "") for one in listed.servers}

    def of_agent(self, agent: str) -> str:
        """The resources server's name; raises CliError."""
        resources = self._behind.get(agent)
        if resources:
            return resources
        if resources is None:
            known = ", ".join(sorted(self._behind)) or "none"
            text = f"no agent is called {agent!r}; there are: {known}"
            raise CliError(text, "Start the daemon with the configuration that the rollouts were made with.")
        raise CliError(f"agent {agent} has no resources server, so nothing verifies its rollouts")

    async def get(self, resources: str) -> Verifier:
        task = self._dialled.get(resources)
        if task is None:
            enter = self._stack.enter_async_context(self._client.verifier(resources))
            task = self._dialled[resources] = asyncio.ensure_future(enter)
        return await asyncio.shield(task)


def _originals(path: Path) -> list[Row]:
    hint = "Give the tasks that the rollouts were made from."
    return [_row(place, text.decode(), hint) for place, text, _ in read_lines([path])]


def _row(place: Place, text: str, hint: str) -> Row:
    try:
        return parse_row(text)
    except RowError as problem:
        raise CliError(f"{place[0]}:{place[1]}: {problem}", hint) from None


def _jobs(
    paths: Sequence[Path], originals: Sequence[Row] | None, verifiers: _Verifiers, result: Reverified
) -> Iterator[_Job]:
    for place, text, line in read_lines(paths):
        if not isinstance(line.get("response"), dict):
            result.skipped += 1
            continue
        original = None
        if originals is not None:
            index = int(line.get("_ng_task_index") or 0)
            if index >= len(originals):
                hint = "Give the tasks that these rollouts were made from."
                raise CliError(
                    f"{place[0]}:{place[1]} is of task {index}, and there are {len(originals)} tasks", hint
                )
            original = originals[index]
        whole = text.decode()
        row = original or _row(place, whole, "Give files that `gymctl rollouts collect` wrote.")
        yield _Job(whole, line, row, original, verifiers.of_agent(agent_of(line)))


async def _verify(
    job: _Job,
    verifiers: _Verifiers,
    result: Reverified,
    scored: LineFile,
    failures: LineFile,
    timeout: float,
) -> None:
    before = job.line.get("reward")
    try:
        verifier = await verifiers.get(job.resources)
        request = VerifyRequest(
            task=stored_task(job.row, agent_of(job.line)),
            response=response_from_json(job.line["response"]),
            outcome=_outcome(job.line),  # type: ignore[arg-type]
        )
        reward: Reward = await verifier.verify(request, timeout=timeout)
    except GymdError as failure:
        if failure.metadata.get("field") == "session_id":
            hint = (
                "Collect its rollouts again: its verifier needs the state that the tools left in the session."
            )
            raise CliError(f"{job.resources} verifies inside a session only", hint) from None
        result.failed += 1
        result.reasons[failure.reason_name] += 1
        result.examples.setdefault(failure.reason_name, failure.message)
        failures.write(rescored_line(job.text, failure, original=job.original))
        return
    scored.write(rescored_line(job.text, reward, original=job.original))
    result.lines += 1
    result.after.append(reward.value)
    if isinstance(before, int | float):
        result.before.append(float(before))
    result.changed += before != reward.value


def _outcome(line: Mapping[str, Any]) -> int:
    """How the agent ended; a rollout that failed in its verifier had completed before."""
    word = str(facts_of(line).get("outcome", "completed")).upper()
    number = Outcome.DESCRIPTOR.values_by_name.get(f"OUTCOME_{word}")
    if number is None or word in ("VERIFY_FAILED", "TIMED_OUT"):
        return Outcome.OUTCOME_COMPLETED
    return int(number.number)

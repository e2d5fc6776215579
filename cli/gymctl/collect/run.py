"""The collection itself: jobs go into the stream, lines come out of it."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gymapi.v1.rollout_pb2 import OUTCOME_CANCELLED, Rollout, Task
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymctl.collect.environment import ScoredRollouts
from gymctl.collect.files import LineFile
from gymctl.collect.metrics import Metrics
from gymctl.collect.plan import DoneSet, Job, Plan
from gymctl.collect.progress import make_reporter
from gymd.client import Rejection, RolloutClient, RolloutSession
from gymd.client.rows import failure_line, is_success, load_line, make_task, rollout_line
from gymd.errors import GymdError, error, from_status_message, to_status_message

if TYPE_CHECKING:
    from gymctl.collect.progress import Reporter

__all__ = ["Collection", "Tally"]

# When so many rollouts came back and every one failed, the set-up is wrong: stop before all is spent.
_HOPELESS_AFTER = 100
# How long cancelled rollouts may take to come back after Ctrl-C.
_STOP_TIMEOUT_S = 15.0


@dataclass
class Tally:
    """What came of a collection so far."""

    total: int
    done: int = 0
    """Lines in the output, those of an earlier run included."""
    failed: int = 0
    cancelled: int = 0
    metrics: Metrics = field(default_factory=Metrics)
    scored: ScoredRollouts = field(default_factory=ScoredRollouts)
    """For the environments' own metrics."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Failures by reason."""
    examples: dict[str, str] = field(default_factory=dict)
    """One text for each reason."""
    interrupted: bool = False
    hopeless: bool = False

    @property
    def mean_reward(self) -> float | None:
        """Of what was scored; None: nothing."""
        return self.metrics.mean_reward

    def keep(self, line: Mapping[str, Any]) -> None:
        """Takes a line of the output into the metrics."""
        self.metrics.add(line)
        self.scored.add(line)

    @property
    def missing(self) -> int:
        """Rollouts that neither came back nor failed."""
        return self.total - self.done - self.failed


class Collection:
    """Runs jobs through a daemon and writes their lines.

    Args:
        done: what the output holds; grows with it.
        output: takes what succeeded.
        failures: takes what failed; opened on the first failure.
    """

    def __init__(self, plan: Plan, tally: Tally, done: DoneSet, output: LineFile, failures: LineFile) -> None:
        self._plan = plan
        self._tally = tally
        self._done = done
        self._output = output
        self._failures = failures
        self._failures_open = False
        self._in_flight: dict[str, Job] = {}  # bounded by the credits
        self._last_task: tuple[Any, Task] | None = None
        self._session: RolloutSession | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._timeout: asyncio.TimerHandle

    async def run(self, client: RolloutClient, jobs: Iterable[Job]) -> None:
        """Runs all jobs.

        Raises:
            GymdError: the daemon went away; what had come back is written.
            CliError: a file could not be written.
        """
        loop, watched = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        reporter = make_reporter(self._tally)
        return_tokens = True if self._plan.return_tokens else None
        session = client.session(
            credits=self._plan.concurrency,
            default_agent=self._plan.agent,
            return_tokens=return_tokens,
            resume_window=0,  # what is done is in the output file: --resume goes on from there
        )
        before = {number: signal.getsignal(number) for number in watched}
        for number in watched:
            loop.add_signal_handler(number, self._interrupt)
        try:
            async with session:
                self._session = session
                with reporter:
                    await self._consume(session, jobs, reporter)
        finally:
            for number in watched:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])
            if self._stopping is not None:
                self._timeout.cancel()
                self._stopping.cancel()
                await asyncio.gather(self._stopping, return_exceptions=True)
            self._failures.close()

    async def _consume(self, session: RolloutSession, jobs: Iterable[Job], reporter: Reporter) -> None:
        stream = session.run(self._submissions(jobs))
        async with aclosing(stream):  # type: ignore[type-var]
            async for result in stream:
                if isinstance(result, Rejection):
                    self._take_rejection(result)
                else:
                    self._take_rollout(result.rollout)
                reporter.update()
                if self._is_hopeless():
                    self._tally.hopeless = True
                    self._stop()

    def _submissions(self, jobs: Iterable[Job]) -> Iterator[TaskSubmission]:
        for job in jobs:
            try:
                task = self._task_of(job)
            except ValueError as problem:
                # The check found nothing, so this is rare; it must not end the others.
                self._fail(job, error("INVALID_REQUEST", f"the row cannot be converted: {problem}"))
                continue
            self._in_flight[job.task_id] = job
            yield TaskSubmission(
                task_id=job.task_id,
                group_id=str(job.task_index) if self._plan.repeats > 1 else "",
                task=task,
                first_index=job.index,
            )

    def _task_of(self, job: Job) -> Task:
        # The repeats of a row follow each other: convert it once.
        if self._last_task is None or self._last_task[0] is not job.row:
            self._last_task = (job.row, make_task(job.row, self._plan.agent, self._plan.overrides))
        return self._last_task[1]

    # ---- what comes back

    def _take_rollout(self, rollout: Rollout) -> None:
        job = self._in_flight.pop(rollout.task_id)
        tally = self._tally
        if is_success(rollout):
            line = rollout_line(job.row, rollout, job.task_index, self._plan.overrides)
            self._output.write(line)
            tally.done += 1
            self._done.add(job.task_index, job.index)
            tally.keep(load_line(line))
        elif rollout.outcome == OUTCOME_CANCELLED and (tally.interrupted or tally.hopeless):
            tally.cancelled += 1  # not a failure of the rollout: a resume runs it
        else:
            self._count_failure(from_status_message(rollout.failure.status))
            self._write_failure(rollout_line(job.row, rollout, job.task_index, self._plan.overrides))

    def _take_rejection(self, rejection: Rejection) -> None:
        job = self._in_flight.pop(rejection.task_id)
        if rejection.error.reason_name == "DRAINING":
            self._tally.cancelled += 1
        else:
            self._fail(job, rejection.error)

    def _fail(self, job: Job, problem: GymdError) -> None:
        self._count_failure(problem)
        status = to_status_message(problem)
        self._write_failure(failure_line(job.row, job.index, status, job.task_index, self._plan.overrides))

    def _count_failure(self, problem: GymdError) -> None:
        self._tally.failed += 1
        self._tally.reasons[problem.reason_name] += 1
        self._tally.examples.setdefault(problem.reason_name, problem.message)

    def _write_failure(self, line: bytes) -> None:
        if not self._failures_open:
            self._failures.open(fresh=False)
            self._failures_open = True
        self._failures.write(line)

    # ---- ending early

    def _is_hopeless(self) -> bool:
        tally = self._tally
        if self._plan.keep_going or tally.hopeless or tally.interrupted:
            return False
        return tally.failed >= _HOPELESS_AFTER and tally.done == 0

    def _interrupt(self) -> None:
        if self._tally.interrupted:  # the second time: do not wait for what is in flight
            if self._session is not None:
                self._session.abandon()
            return
        self._tally.interrupted = True
        self._stop()

    def _stop(self) -> None:
        """Submits nothing more and cancels what is in flight; its results are still taken."""
        if self._session is None or self._stopping is not None:
            return
        self._session.stop()
        self._stopping = asyncio.create_task(self._cancel_all(self._session))
        self._timeout = asyncio.get_running_loop().call_later(_STOP_TIMEOUT_S, self._session.abandon)

    async def _cancel_all(self, session: RolloutSession) -> None:
        try:
            await session.cancel(everything=True, reason="gymctl was asked to stop")
        except GymdError:
            return  # the stream has ended: there is nothing to cancel

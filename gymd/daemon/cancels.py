"""What a cancel of the client covers, how it is carried out, and what a restart of the daemon makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gymapi.v1.agent_service_pb2 import StopMode
from gymapi.v1.rollout_service_pb2 import CancelMode, CancelWork, WorkCancelled
from gymd.daemon.admission import Agents
from gymd.daemon.executor import Executor
from gymd.daemon.journal import StoredStop
from gymd.daemon.ledger import Ledger
from gymd.daemon.work import Job, TaskWork
from gymd.errors import NotFound, error, to_status_message

__all__ = ["carry_out", "stop_restored"]

MAX_REASON_LENGTH = 1000
"""Every result repeats the client's reason, and the journal holds it for every rollout under way."""

_MODES: dict[int, int] = {
    CancelMode.CANCEL_MODE_UNSPECIFIED: StopMode.STOP_MODE_ABORT,
    CancelMode.CANCEL_MODE_ABORT: StopMode.STOP_MODE_ABORT,
    CancelMode.CANCEL_MODE_PARTIAL: StopMode.STOP_MODE_PARTIAL,
    CancelMode.CANCEL_MODE_FINISH_TURN: StopMode.STOP_MODE_FINISH_TURN,
}


def carry_out(cancel: CancelWork, ledger: Ledger, executor: Executor, agents: Agents) -> WorkCancelled:
    """Stops what a cancel covers, but for one that was taken before: it is answered as then.

    The answer may be told when the journal has what was noted so far.

    Raises:
        InvalidRequest: it says no scope, a mode that is not known, or a number below 0.
    """
    if cancel.number < 0:
        text = f"the number of a cancel is {cancel.number}; it must be 0 or more"
        raise error("INVALID_REQUEST", text, field="cancel.number")
    if (answer := ledger.cancels.answer(cancel.number)) is None:
        answer = _first_time(cancel, ledger, executor, agents)
        ledger.cancels.note(cancel.number, answer)
    told = WorkCancelled(request=cancel)
    told.MergeFrom(answer)
    return told


def _first_time(cancel: CancelWork, ledger: Ledger, executor: Executor, agents: Agents) -> WorkCancelled:
    """Stops what a cancel covers; returns the answer without the request."""
    mode = _stop_mode(cancel)
    try:
        jobs = _covered(cancel, ledger, agents)
    except NotFound as failure:
        return WorkCancelled(error=to_status_message(failure))
    return WorkCancelled(cancelled_count=_stop(jobs, ledger, executor, _reason_of(cancel), mode))


def _stop(jobs: Iterable[Job], ledger: Ledger, executor: Executor, reason: str, mode: int) -> int:
    """Stops rollouts, and notes those that take a while for a daemon that takes over; returns how many."""
    count = 0
    for job in jobs:
        stopped = executor.cancel(job, reason, mode)
        count += stopped
        # What is being stopped for another reason (its policy is too old) would run again after a restart.
        if stopped or not ledger.is_stopping(job):
            ledger.note_stop(job, mode, reason)
    return count


def stop_restored(
    jobs: Iterable[Job], stops: Iterable[StoredStop], ledger: Ledger, executor: Executor
) -> None:
    """Ends the rollouts that the daemon before this one was stopping when it ended; `jobs` are submitted."""
    noted = {(found.task_number, found.index): found for found in stops}
    for job in jobs:
        if not ledger.is_stopping(job):
            continue
        found = noted[job.task.number, job.index]
        why = "the daemon restarted before it had stopped"
        if found.mode != StopMode.STOP_MODE_ABORT:
            why += ", and what it had generated is lost"
        executor.cancel(job, f"{found.reason} ({why})")


def _stop_mode(cancel: CancelWork) -> int:
    """How agents are asked to stop."""
    mode = _MODES.get(cancel.mode)
    if mode is None:
        text = f"cancel mode {cancel.mode} is unknown to this daemon"
        raise error("INVALID_REQUEST", text, field="cancel.mode")
    return mode


def _reason_of(cancel: CancelWork) -> str:
    """What the results say."""
    reason = cancel.reason[:MAX_REASON_LENGTH]
    return f"the client cancelled it: {reason}" if reason else "the client cancelled it"


def _covered(cancel: CancelWork, ledger: Ledger, agents: Agents) -> list[Job]:
    """The rollouts that a cancel covers; raises NotFound when nobody knows."""
    scope = cancel.WhichOneof("scope")
    if scope == "rollout_id":
        job = ledger.job_of(cancel.rollout_id)
        return [] if job is None else [job]
    jobs = (job for work in _tasks(cancel, ledger, agents) for job in work.jobs.values())
    if scope == "older_than_version":
        limit = cancel.older_than_version
        return [job for job in jobs if job.call is not None and (job.version is None or job.version < limit)]
    return list(jobs)


def _tasks(cancel: CancelWork, ledger: Ledger, agents: Agents) -> Iterator[TaskWork]:
    scope = cancel.WhichOneof("scope")
    if scope == "task_id":
        if cancel.task_id in ledger.tasks:
            yield ledger.tasks[cancel.task_id]
    elif scope == "group_id":
        yield from ledger.groups.tasks(cancel.group_id)
    elif scope == "agent":
        yield from (work for work in ledger.tasks.values() if work.agent == cancel.agent)
    elif scope == "environment":
        names = agents.of_environment(cancel.environment)
        yield from (work for work in ledger.tasks.values() if work.agent in names)
    elif scope == "older_than_version" or (scope == "all" and cancel.all):
        yield from ledger.tasks.values()
    else:
        raise error("INVALID_REQUEST", "cancel must say its scope; `all` must be true", field="scope")

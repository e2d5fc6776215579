"""Runs the rollouts of all sessions: whose turn, on which replica, again after a lost host, or not at all.

Pure but for the event loop: `run` is injected, and no gRPC is imported. One task per running rollout is the
call itself; everything around it is callbacks, because this is the daemon's hot path.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from gymapi.v1.agent_service_pb2 import (
    STOP_MODE_ABORT,
    RunRolloutRequest,
    RunRolloutResponse,
    UpdatePolicyRequest,
)
from gymapi.v1.errors_pb2 import ErrorStatus
from gymapi.v1.registry_service_pb2 import Server, ServerKind
from gymapi.v1.rollout_pb2 import FailedAttempt, FailureClass, Outcome, Rollout, Stage
from gymapi.v1.rollout_service_pb2 import StalenessMode
from gymd.daemon.lanes import Client, Turns, waiting
from gymd.daemon.notices import Notices, TellAgent
from gymd.daemon.replicas import Agent, Replica
from gymd.daemon.verdicts import Verdict, judge_error, judge_rollout
from gymd.daemon.versions import aged, is_too_old, too_old_error
from gymd.daemon.work import Job, cancelled_rollout, complete, failed_rollout, stamp
from gymd.errors import GymdError, error, to_status_message

__all__ = ["RunRollout", "Scheduler"]

log = logging.getLogger(__name__)

RunRollout = Callable[[Server, RunRolloutRequest, float], Coroutine[Any, Any, RunRolloutResponse]]
"""Calls RunRollout on a replica with a timeout in seconds; raises GymdError."""

DEFAULT_MAX_RUNNING = 8192
RETRY_BASE_S = 0.1
RETRY_MAX_S = 5.0
GONE_WAIT_S = 60.0
"""How long rollouts wait for an agent of which no replica is registered any more."""
MIN_SWEEP_S = 0.05


class Scheduler:
    """Runs rollouts.

    Args:
        run: calls one replica.
        tell: tells a replica something about its rollouts; None: see Notices.
        max_running: rollouts that run at a time, over all clients.
        clock: seconds that never jump; must be the clock that `TaskWork.accepted` was read from.
    """

    def __init__(
        self,
        run: RunRollout,
        *,
        tell: TellAgent | None = None,
        max_running: int = DEFAULT_MAX_RUNNING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self.notices = Notices(tell)
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._turns = Turns()
        self._agents: dict[str, Agent] = {}
        self._clients: set[Client] = set()
        self._by_id: dict[str, list[Job]] = {}  # what runs
        self._timer: asyncio.TimerHandle | None = None
        self._timer_when = float("inf")
        self.max_running = max_running
        self.running = 0
        self.retries_total = 0
        self.outcomes_total: Counter[tuple[str, int]] = Counter()
        """Ended rollouts by agent and outcome."""
        self.seconds_total: defaultdict[str, float] = defaultdict(float)
        """Seconds from acceptance to end, summed, by agent."""

    # Clients.

    def new_client(self) -> Client:
        """A place for one session; give it back with `close_client`."""
        client = Client()
        self._clients.add(client)
        return client

    def close_client(self, client: Client) -> None:
        """Forgets a client whose rollouts have all ended."""
        self._clients.discard(client)

    @property
    def queued(self) -> int:
        """Rollouts that wait, over all clients."""
        return sum(client.queued for client in self._clients)

    def submit(self, client: Client, jobs: Iterable[Job]) -> None:
        """Queues rollouts and starts what can start."""
        expires = self._timer_when
        for job in jobs:
            client.queued += 1
            expires = min(expires, job.expires)
            if _waits_for_version(job):
                client.parked[job] = None
            else:
                self._turns.put(client, self._agent(job.task.agent), job)
        self._arm(expires)
        self._pump()

    def cancel(self, job: Job, reason: str, mode: int = STOP_MODE_ABORT) -> bool:
        """Stops a rollout; its result follows (at once if it does not run). False if it had ended already.

        Args:
            mode: what becomes of what was generated. An ABORT may follow a gentler mode.
        """
        harder = mode == STOP_MODE_ABORT != job.stopping
        if job.finished or (job.cancel_reason and not harder):
            return False
        job.cancel_reason, job.stopping = reason, mode
        if job.call is None:
            self._leave_queue(job)
            self._finish(job, self._cancelled(job, Stage.STAGE_QUEUE))
        else:
            self.notices.stop(job, max(0.0, job.task.accepted + job.task.rollout_s - self._clock()))
        return True

    # The policy.

    def running_as(self, rollout_id: str) -> list[Job]:
        """The rollouts of an id that run: sessions may have chosen the same one."""
        return [job for job in self._by_id.get(rollout_id, ()) if job.client in self._clients]

    def policy_changed(self, client: Client) -> None:
        """A client's version or hold changed: what waited for it may begin."""
        for job in [job for job in client.parked if not _waits_for_version(job)]:
            del client.parked[job]
            self._turns.put(client, self._agent(job.task.agent), job)
        self._turns.wake(client)
        self._pump()

    def tell_policy(
        self, replicas: Iterable[Replica], request: UpdatePolicyRequest, done: Callable[[], None]
    ) -> None:
        """Tells agents of a change of the policy, and calls `done` when they know."""
        self.notices.policy(replicas, request, done)

    # Replicas.

    def update(self, servers: Iterable[Server], removed_ids: Iterable[str]) -> None:
        """Takes the registry's changes."""
        gone = set(removed_ids)
        touched: dict[str, Agent] = {}
        for name, agent in self._agents.items():
            for server_id in gone & agent.replicas.keys():
                del agent.replicas[server_id]
                touched[name] = agent
        for server in servers:
            if server.kind != ServerKind.SERVER_KIND_AGENT:
                continue
            agent = touched[server.name] = self._agent(server.name)
            replica = agent.replicas.get(server.server_id)
            if replica is None:
                agent.replicas[server.server_id] = Replica(server)
            else:
                replica.server = server
        for agent in touched.values():
            self._changed(agent)
        if touched:
            self._pump()

    def _agent(self, name: str) -> Agent:
        agent = self._agents.get(name)
        if agent is None:
            agent = self._agents[name] = Agent(name)
        return agent

    def _changed(self, agent: Agent) -> None:
        if agent.replicas:
            agent.gone_since = None
        elif agent.gone_since is None:
            agent.gone_since = self._clock()
            self._arm(agent.gone_since + GONE_WAIT_S)
        if why := agent.hopeless():
            self._give_up(
                agent,
                error("SERVER_NOT_READY", f"agent {agent.name!r} takes no work: {why}", server=agent.name),
            )
        self._turns.release(agent)

    def _give_up(self, agent: Agent, why: GymdError) -> None:
        status = to_status_message(why)
        for client in list(self._clients):
            for job in waiting(client, lambda lane: lane.agent is agent):
                self._leave_queue(job)
                outcome, kind = Outcome.OUTCOME_ENV_FAILED, FailureClass.FAILURE_CLASS_INFRA
                rollout = failed_rollout(
                    outcome, status, failure_class=kind, stage=Stage.STAGE_QUEUE, retriable=True
                )
                self._finish(job, rollout)

    # Starting.

    def _pump(self) -> None:
        if self.running >= self.max_running:
            return
        now = self._clock()
        while self.running < self.max_running:
            found = self._turns.take(now)
            if found is None:
                self._arm_probation(now)
                return
            self._start(found[0], found[1], now)

    def _start(self, job: Job, replica: Replica, now: float) -> None:
        client = job.client
        client.queued -= 1
        left = job.task.accepted + job.task.rollout_s - now
        if left <= 0:
            self._finish(job, self._too_late(job))
            return
        job.replica = replica
        job.version = client.version
        job.started = time.time()
        try:
            call = self._loop.create_task(self._run(replica.server, job.build_request(), left))
        except GymdError as failure:  # no channel to it
            self._apply(job, replica, judge_error(failure))
            return
        job.call = call
        self._by_id.setdefault(job.rollout_id, []).append(job)
        self.running += 1
        client.running += 1
        replica.outstanding += 1
        assert job.lane is not None
        job.lane.running += 1
        call.add_done_callback(partial(self._settled, job))

    # Ending.

    def _settled(self, job: Job, call: asyncio.Task[RunRolloutResponse]) -> None:
        replica, client = job.replica, job.client
        assert replica is not None
        job.call = None
        self._forget_id(job)
        self.running -= 1
        client.running -= 1
        replica.outstanding -= 1
        assert job.lane is not None
        job.lane.running -= 1
        if call.cancelled():
            failure: BaseException | None = asyncio.CancelledError()
        else:
            failure = call.exception()
        if job.cancel_reason:
            self._finish(job, self._stopped(job, None if failure is not None else call.result().rollout))
        elif failure is None:
            replica.failures = 0
            rollout = call.result().rollout
            verdict = judge_rollout(rollout)
            if job.task.constraint is not None and verdict.again is None and is_too_old(job):
                verdict = _judge_age(job, verdict)
            self._apply(job, replica, verdict, rollout)
        else:
            self._apply(job, replica, judge_error(failure))
        self._turns.release(job.lane.agent)
        if not client.running:
            client.idle()
        self._pump()

    def _forget_id(self, job: Job) -> None:
        jobs = self._by_id[job.rollout_id]
        jobs.remove(job)
        if not jobs:
            del self._by_id[job.rollout_id]

    def _apply(self, job: Job, replica: Replica, verdict: Verdict, rollout: Rollout | None = None) -> None:
        """Ends the rollout or queues its next attempt, as the verdict says."""
        now = self._clock()
        if verdict.unreachable:
            replica.penalise(now)
        if verdict.again is not None:
            pause = self._pause(job, verdict)
            late = now + pause >= job.task.accepted + job.task.rollout_s
            if pause >= 0 and not late:
                self._again(job, replica, verdict, now, pause)
                return
        if rollout is None:
            status = verdict.status or ErrorStatus()
            rollout = failed_rollout(
                verdict.outcome,
                status,
                failure_class=verdict.failure_class,
                stage=verdict.stage,
                word="deadline" if verdict.outcome == Outcome.OUTCOME_TIMED_OUT else "error",
                retriable=verdict.again in ("failed", "refused"),
            )
        self._finish(job, rollout)

    def _pause(self, job: Job, verdict: Verdict) -> float:
        """Seconds until the next attempt; negative if there is none."""
        if verdict.again == "refused":
            tries = job.refusals
        elif verdict.again == "data":
            if job.data_failures >= job.task.data_retry_limit:
                return -1.0
            tries = job.data_failures
        elif job.attempt - job.data_failures <= job.task.retry_limit:
            tries = job.attempt - job.data_failures - 1
        else:
            return -1.0
        return min(RETRY_BASE_S * 2 ** min(tries, 10), RETRY_MAX_S) * random.uniform(0.5, 1.5)

    def _again(self, job: Job, replica: Replica, verdict: Verdict, now: float, pause: float) -> None:
        if verdict.again == "refused":
            job.refusals += 1  # it never began: no attempt was made
        else:
            attempt = FailedAttempt(attempt=job.attempt, status=verdict.status)
            stamp(attempt.fail_time, time.time())
            job.failures = [*(job.failures or ()), attempt]
            job.attempt += 1
            job.data_failures += verdict.again == "data"
            job.refusals = 0
            job.expires = min(now + job.task.queue_s, job.task.accepted + job.task.rollout_s)
            self.retries_total += 1
        job.avoid = None if verdict.again == "data" else replica
        client = job.client
        client.queued += 1
        job.timer = self._loop.call_later(pause, self._requeue, job)

    def _requeue(self, job: Job) -> None:
        job.timer = None
        self._turns.put(job.client, self._agent(job.task.agent), job, first=True)
        self._arm(job.expires)
        self._pump()

    def _leave_queue(self, job: Job) -> None:
        """Takes out a rollout that waits: in its lane, or for its next attempt."""
        client = job.client
        client.queued -= 1
        job.finished = True
        if job.timer is not None:
            job.timer.cancel()
            job.timer = None
        elif job.lane is not None:
            job.lane.forget()
        else:
            del client.parked[job]

    def _finish(self, job: Job, rollout: Rollout) -> None:
        job.finished = True
        agent = job.task.agent
        self.outcomes_total[agent, rollout.outcome] += 1
        self.seconds_total[agent] += self._clock() - job.task.accepted
        job.done(job, complete(job, aged(job, rollout)))

    def _stopped(self, job: Job, rollout: Rollout | None) -> Rollout:
        """What a stopped rollout left: what the agent returned, if that is what was asked for."""
        if rollout is None:
            return self._cancelled(job, Stage.STAGE_UNSPECIFIED)
        if job.stopping != STOP_MODE_ABORT:
            judge_rollout(rollout)
            return rollout
        cancelled = self._cancelled(job, rollout.failure.stage)
        cancelled.timing.CopyFrom(rollout.timing)
        return cancelled

    def _cancelled(self, job: Job, stage: int) -> Rollout:
        return cancelled_rollout(to_status_message(error("CANCELLED", job.cancel_reason)), stage)

    def _too_late(self, job: Job) -> Rollout:
        agent = self._agent(job.task.agent)
        limit = min(job.task.queue_s, job.task.rollout_s)
        why = agent.conditions() or "all places are taken"
        if _waits_for_version(job):
            why = f"it waits for version {job.task.constraint.min_version} of the policy"  # type: ignore[union-attr]
        text = f"no replica of agent {agent.name!r} took it within {limit:g} s: {why}"
        failure = error("DEADLINE_EXCEEDED", text, server=agent.name, deadline_seconds=f"{limit:g}")
        return failed_rollout(
            Outcome.OUTCOME_TIMED_OUT,
            to_status_message(failure),
            failure_class=FailureClass.FAILURE_CLASS_CLIENT,
            stage=Stage.STAGE_QUEUE,
            word="deadline",
        )

    # Time.

    def _arm_probation(self, now: float) -> None:
        for agent in self._agents.values():
            if agent.blocked and (when := agent.resumes(now)) is not None:
                self._arm(when)

    def _arm(self, when: float) -> None:
        if when >= self._timer_when:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_when = when
        self._timer = self._loop.call_later(max(MIN_SWEEP_S, when - self._clock()), self._on_time)

    def _on_time(self) -> None:
        """Ends what waited too long and wakes what waits for a replica on probation."""
        self._timer, self._timer_when = None, float("inf")
        now = self._clock()
        following = float("inf")
        for client in list(self._clients):
            for job in [*waiting(client), *client.parked]:
                if now >= job.expires:
                    self._leave_queue(job)
                    self._finish(job, self._too_late(job))
                else:
                    following = min(following, job.expires)
        for agent in list(self._agents.values()):
            if agent.gone_since is not None:
                following = min(following, self._check_gone(agent, now))
            self._turns.release(agent)
        self._arm(following)
        self._pump()

    def _check_gone(self, agent: Agent, now: float) -> float:
        """Gives up on an agent that stays away; returns when to look again."""
        assert agent.gone_since is not None
        when = agent.gone_since + GONE_WAIT_S
        if now < when:
            return when
        text = f"agent {agent.name!r} left the registry {GONE_WAIT_S:g} s ago and did not come back"
        self._give_up(agent, error("SERVER_NOT_FOUND", text, server=agent.name))
        lanes = (lane for client in self._clients for lane in client.lanes.values())
        busy = any(lane.linked for lane in lanes if lane.agent is agent)
        if not busy:
            del self._agents[agent.name]
        return float("inf")

    def close(self) -> None:
        """Stops the timer; call it when no rollout is left."""
        self.notices.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _waits_for_version(job: Job) -> bool:
    constraint, live = job.task.constraint, job.client.version
    if constraint is None or not constraint.HasField("min_version"):
        return False
    return live is None or live < constraint.min_version


def _judge_age(job: Job, verdict: Verdict) -> Verdict:
    """A rollout that is too old runs again if its task says so."""
    constraint = job.task.constraint
    assert constraint is not None
    if constraint.mode != StalenessMode.STALENESS_MODE_WITHHOLD:
        return verdict
    status = to_status_message(too_old_error(job))
    return Verdict(Outcome.OUTCOME_STALE, FailureClass.FAILURE_CLASS_CLIENT, status=status, again="failed")

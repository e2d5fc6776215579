"""The open sessions of the daemon, and the figures over all of them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from uuid import uuid4

from gymapi.v1.registry_service_pb2 import ServerState
from gymapi.v1.rollout_pb2 import Outcome
from gymapi.v1.rollout_service_pb2 import Metric
from gymd.daemon.admission import Agents, SessionLimits
from gymd.daemon.registry import Registry
from gymd.daemon.scheduler import Scheduler
from gymd.daemon.sessions import RolloutSession
from gymd.errors import error

__all__ = ["MAX_SESSIONS", "Hub"]

MAX_SESSIONS = 1000
"""Sessions that may be open at a time."""


class Hub:
    """Opens, lists, drains and ends sessions.

    Args:
        registry: which agents there are.
        scheduler: runs their rollouts.
        limits: the daemon's configuration.
    """

    def __init__(self, registry: Registry, scheduler: Scheduler, limits: SessionLimits) -> None:
        self._registry = registry
        self._scheduler = scheduler
        self._limits = limits
        self._agents = Agents(registry.default_agent, registry.refusal)
        self._sessions: dict[str, RolloutSession] = {}
        self._draining = ""
        self._empty = asyncio.Event()
        self._empty.set()
        self._opened_total = 0
        self._accepted_total = 0
        self._rejected_total = 0

    @property
    def session_count(self) -> int:
        """Sessions that are open."""
        return len(self._sessions)

    def open(self, wake: Callable[[], None]) -> RolloutSession:
        """A new session; give it back with `close`.

        Raises:
            Unavailable: the daemon is shutting down.
            LimitReached: there are too many sessions.
        """
        if self._draining:
            raise error("DRAINING", f"the daemon is shutting down: {self._draining}")
        if len(self._sessions) >= MAX_SESSIONS:
            text = f"{MAX_SESSIONS} sessions are open; close some"
            raise error("LIMIT_REACHED", text, limit=MAX_SESSIONS)
        session = RolloutSession(uuid4().hex, self._scheduler, self._agents, self._limits, wake=wake)
        self._sessions[session.session_id] = session
        self._opened_total += 1
        self._empty.clear()
        return session

    def close(self, session: RolloutSession) -> None:
        """Ends a session; what still runs for it is cancelled."""
        session.abandon()
        if self._sessions.pop(session.session_id, None) is not None:
            self._accepted_total += session.accepted_total
            self._rejected_total += session.rejected_total
        if not self._sessions:
            self._empty.set()

    def infos(self) -> list[RolloutSession]:
        """The open sessions, oldest first."""
        return list(self._sessions.values())

    async def drain(self, grace_s: float, reason: str, *, now: asyncio.Event) -> None:
        """Lets sessions finish within the grace, then cancels what is left and lets them say so.

        Args:
            now: set when there is no time any more.
        """
        self._draining = reason
        for session in self.infos():
            session.drain(grace_s, reason)
        hurry = asyncio.ensure_future(now.wait())
        empty = asyncio.ensure_future(self._empty.wait())
        try:
            await asyncio.wait([hurry, empty], timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
            for session in self.infos():
                session.cancel_all(f"the daemon shut down: {reason}")
            # Their results and summaries are on their way; a client that reads nothing is not waited for.
            if not now.is_set():
                await asyncio.wait([hurry, empty], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
            empty.cancel()

    def metrics(self) -> Iterator[Metric]:
        """Counters and gauges."""
        sessions, scheduler = self._sessions.values(), self._scheduler
        accepted = self._accepted_total + sum(session.accepted_total for session in sessions)
        rejected = self._rejected_total + sum(session.rejected_total for session in sessions)
        yield _metric("sessions_open", len(sessions), "Sessions of StreamRollouts that are open.")
        yield _metric("sessions_total", self._opened_total, "Sessions opened since the start.")
        yield _metric("tasks_accepted_total", accepted, "Tasks accepted.")
        yield _metric("tasks_rejected_total", rejected, "Tasks rejected.")
        yield _metric("rollouts_running", scheduler.running, "Rollouts that run.")
        yield _metric("rollouts_queued", scheduler.queued, "Accepted rollouts that wait for a place.")
        yield _metric("rollout_retries_total", scheduler.retries_total, "Attempts after a lost host.")
        for (agent, outcome), count in sorted(scheduler.outcomes_total.items()):
            word = Outcome.Name(outcome).removeprefix("OUTCOME_").lower()
            yield _metric("rollouts_total", count, "Rollouts that ended.", agent=agent, outcome=word)
        for agent, seconds in sorted(scheduler.seconds_total.items()):
            yield _metric("rollout_seconds_sum", seconds, "Time from accepted to ended.", agent=agent)
        states = Counter(server.state for server in self._registry.servers())
        for state, count in sorted(states.items()):
            word = ServerState.Name(state).removeprefix("SERVER_STATE_").lower()
            yield _metric("servers", count, "Replicas of servers.", state=word)
        yield _metric("process_cpu_seconds_total", time.process_time(), "CPU time of the daemon.")


def _metric(name: str, value: float, text: str, **labels: str) -> Metric:
    return Metric(name=name, value=value, help=text, labels=labels)

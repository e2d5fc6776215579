"""The open sessions of the daemon, and the figures over all of them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from uuid import uuid4

from gymapi.v1.registry_service_pb2 import ServerState
from gymapi.v1.rollout_pb2 import Outcome
from gymapi.v1.rollout_service_pb2 import Metric, OpenSession, StreamRolloutsRequest
from gymd.daemon.admission import Agents, SessionLimits
from gymd.daemon.journal import Journal
from gymd.daemon.policy import find_desk
from gymd.daemon.policy_desk import PolicyDesk
from gymd.daemon.record import SessionRecord
from gymd.daemon.registry import Registry
from gymd.daemon.scheduler import Scheduler
from gymd.daemon.sessions import RolloutSession, violation
from gymd.daemon.work import TaskWork
from gymd.errors import GymdError, error

__all__ = ["MAX_SESSIONS", "Hub"]

log = logging.getLogger(__name__)

MAX_SESSIONS = 1000
"""Sessions that may be open at a time."""


class Hub:
    """Opens, resumes, lists, drains and ends sessions.

    Args:
        registry: which agents there are.
        scheduler: runs their rollouts.
        limits: the daemon's configuration.
        journal: where sessions with a resume window are kept; None: they do not survive a restart.
    """

    def __init__(
        self, registry: Registry, scheduler: Scheduler, limits: SessionLimits, journal: Journal | None = None
    ) -> None:
        self._registry = registry
        self._scheduler = scheduler
        self._limits = limits
        self._journal = journal
        self._numbers = itertools.count(1)
        self._agents = Agents(registry.default_agent, registry.refusal, registry.agents_of)
        self._sessions: dict[str, RolloutSession] = {}
        self._expiries: dict[str, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()
        self._draining = ""
        self.draining = asyncio.Event()
        """Set when the daemon takes no more sessions."""
        self._opened_total = 0
        self._accepted_total = 0
        self._rejected_total = 0
        if journal is not None:
            journal.listen(self._committed)

    def restore(self) -> int:
        """Takes over the sessions of the last daemon and runs what did not end; returns how many there
        are."""
        journal = self._journal
        if journal is None:
            return 0
        stored = journal.load()
        self._numbers = itertools.count(max((found.number for found in stored), default=0) + 1)
        for found in stored:
            session = self._new_session(found.session_id, self._changed.set)
            opening = OpenSession.FromString(found.opening)
            session.restore(opening, SessionRecord(journal, found.number), found)
            self._expire_later(session)
        return len(stored)

    # Streams.

    def enter(self, frame: StreamRolloutsRequest, wake: Callable[[], None]) -> RolloutSession:
        """The session that a stream's first frame opens or resumes; give it back with `leave`.

        Raises:
            GymdError: the stream ends with it (PROTOCOL_VIOLATION, DRAINING, LIMIT_REACHED,
            SESSION_NOT_FOUND,
                RESUME_POINT_GONE, INVALID_REQUEST).
        """
        if self._draining:
            raise error("DRAINING", f"the daemon is shutting down: {self._draining}")
        if frame.WhichOneof("frame") != "open":
            # None: the client said nothing, or something that this daemon does not know.
            kind = frame.WhichOneof("frame") or "nothing"
            raise violation(f"the first frame must be open, not {kind}", kind)
        opening = frame.open
        if opening.session_id:
            return self._resume(opening, wake)
        if opening.last_sequence:
            text = "last_sequence needs the session_id of the session to resume"
            raise error("INVALID_REQUEST", text, field="last_sequence")
        if len(self._sessions) >= MAX_SESSIONS:
            text = f"{MAX_SESSIONS} sessions are open; close some"
            raise error("LIMIT_REACHED", text, limit=MAX_SESSIONS)
        session = self._new_session(uuid4().hex, wake)
        try:
            session.receive(frame)
        except GymdError:
            self._close(session)
            raise
        self._opened_total += 1
        return session

    def _resume(self, opening: OpenSession, wake: Callable[[], None]) -> RolloutSession:
        session = self._sessions.get(opening.session_id)
        if session is None:
            text = (
                f"there is no session {opening.session_id}: it has ended, or its client stayed away too "
                "long; open a new one, without session_id"
            )
            raise error("SESSION_NOT_FOUND", text, session_id=opening.session_id)
        try:
            session.resume(opening, wake)
        except Exception:
            self.leave(session, wake)  # if it had the session already, nobody would ever give it back
            raise
        if expiry := self._expiries.pop(session.session_id, None):
            expiry.cancel()
        return session

    def leave(self, session: RolloutSession, wake: Callable[[], None]) -> None:
        """A stream ended. Its session ends with it, or waits for its client as long as its window says."""
        if session.wake is not wake:
            return  # another stream has it
        if session.over:
            self._close(session)
            return
        session.detach(self._changed.set)
        self._expire_later(session)
        self._changed.set()

    def _new_session(self, session_id: str, wake: Callable[[], None]) -> RolloutSession:
        session = RolloutSession(
            session_id,
            self._scheduler,
            self._agents,
            self._limits,
            new_record=None if self._journal is None else self._new_record,
            wake=wake,
        )
        self._sessions[session_id] = session
        return session

    def _new_record(self) -> SessionRecord:
        assert self._journal is not None
        return SessionRecord(self._journal, next(self._numbers))

    def _expire_later(self, session: RolloutSession) -> None:
        loop = asyncio.get_running_loop()
        if expiry := self._expiries.pop(session.session_id, None):
            expiry.cancel()
        self._expiries[session.session_id] = loop.call_later(session.window_s, self._expire, session)

    def _expire(self, session: RolloutSession) -> None:
        log.warning(
            "session_expired",
            extra={
                "session_id": session.session_id,
                "client": session.client_name,
                "after_s": session.window_s,
            },
        )
        self._close(session)

    def _close(self, session: RolloutSession) -> None:
        session.abandon()
        if expiry := self._expiries.pop(session.session_id, None):
            expiry.cancel()
        if self._sessions.pop(session.session_id, None) is not None:
            self._accepted_total += session.ledger.accepted
            self._rejected_total += session.ledger.rejected
        self._changed.set()

    def _committed(self) -> None:
        for session in self._sessions.values():
            if session.has_news:  # a thousand others have nothing that could have waited for this
                session.wake()

    def policy_of(self, rollout_id: str) -> tuple[PolicyDesk, TaskWork]:
        """Where the model calls of a rollout wait for its trainer, and its task; see find_desk."""
        return find_desk(self._scheduler.running_as(rollout_id), rollout_id)

    def infos(self) -> list[RolloutSession]:
        """The open sessions, oldest first."""
        return list(self._sessions.values())

    # The end.

    async def drain(self, grace_s: float, reason: str, *, now: asyncio.Event) -> None:
        """Lets sessions finish within the grace, then cancels what is left and lets them say so.

        Sessions in the journal stay there: what did not end runs again after the restart.

        Args:
            now: set when there is no time any more.
        """
        self._draining = reason
        self.draining.set()
        for session in self.infos():
            session.drain(grace_s, reason)
        await self._settle(grace_s, now)
        for session in self.infos():
            session.cancel_all(f"the daemon shut down: {reason}")
        # Their results and summaries are on their way; a client that reads nothing is not waited for.
        await self._settle(1.0, now)

    async def _settle(self, limit_s: float, now: asyncio.Event) -> None:
        """Waits until no session has anything to do, at most so long."""
        hurry = asyncio.ensure_future(now.wait())
        try:
            async with asyncio.timeout(limit_s):
                while not now.is_set() and any(session.busy for session in self._sessions.values()):
                    self._changed.clear()
                    changed = asyncio.ensure_future(self._changed.wait())
                    await asyncio.wait([hurry, changed], return_when=asyncio.FIRST_COMPLETED)
                    changed.cancel()
        except TimeoutError:
            pass
        finally:
            hurry.cancel()

    def metrics(self) -> Iterator[Metric]:
        """Counters and gauges."""
        sessions, scheduler = self._sessions.values(), self._scheduler
        accepted = self._accepted_total + sum(session.ledger.accepted for session in sessions)
        rejected = self._rejected_total + sum(session.ledger.rejected for session in sessions)
        yield _metric("sessions_open", len(sessions), "Sessions of StreamRollouts that are open.")
        yield _metric("sessions_total", self._opened_total, "Sessions opened since the start.")
        yield _metric("tasks_accepted_total", accepted, "Tasks accepted.")
        yield _metric("tasks_rejected_total", rejected, "Tasks rejected.")
        calls = sum(session.policy.open_count for session in sessions)
        yield _metric("policy_calls_open", calls, "Model calls that trainers have to answer.")
        if self._journal is not None:
            yield _metric("journal_bytes", self._journal.bytes, "Tasks and results that the journal holds.")
        yield _metric("rollouts_running", scheduler.running, "Rollouts that run.")
        yield _metric("rollouts_queued", scheduler.queued, "Accepted rollouts that wait for a place.")
        yield _metric("rollout_retries_total", scheduler.retries_total, "Attempts after a lost host.")
        notices = scheduler.notices
        yield _metric("rollouts_released_total", notices.released_total, "Rollouts stopped while they ran.")
        yield _metric(
            "release_seconds_sum", notices.release_seconds_total, "Time until stopped rollouts were released."
        )
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

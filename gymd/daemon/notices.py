"""What the daemon tells agents about rollouts that run: stop this one; the policy changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from gymapi.v1.agent_service_pb2 import StopMode, StopRolloutsRequest, UpdatePolicyRequest
from gymapi.v1.registry_service_pb2 import Server
from gymd.daemon.replicas import Replica
from gymd.daemon.work import Job
from gymd.errors import DeadlineExceeded, GymdError

__all__ = ["Notices", "TellAgent"]

log = logging.getLogger(__name__)

TellAgent = Callable[[Server, StopRolloutsRequest | UpdatePolicyRequest, float], Coroutine[Any, Any, Any]]
"""Calls StopRollouts or UpdatePolicy on a replica with a timeout in seconds; raises GymdError."""

STOP_TIMEOUT_S = 5.0
"""How long an agent may take to stop a rollout; then its call is cancelled."""
KEEP_TIMEOUT_S = 30.0
"""The same when what was generated is kept: it comes after the environment's session is closed."""
POLICY_TIMEOUT_S = 5.0
"""How long an agent may take to note a change of the policy."""
POLICY_ATTEMPTS = 3
"""How often it is told when it takes longer."""


_Stop = tuple[str, str, int, asyncio.Future[Any], float]
"""Session, rollout id, attempt, call, and seconds that are left to it."""


class Notices:
    """Tells agents, in tasks of its own.

    Args:
        tell: calls an agent; None: rollouts are stopped by cancelling their call, nobody hears of policies.
    """

    def __init__(self, tell: TellAgent | None) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping: dict[tuple[Replica, int, str], list[_Stop]] = {}
        # The last change of a session's policy that a replica does not know yet.
        self._telling: dict[tuple[str, Replica], asyncio.Task[None]] = {}
        self.released_total = 0
        """Rollouts that were stopped while they ran."""
        self.release_seconds_total = 0.0
        """Seconds from the request to stop them until they were released, summed."""

    def stop(self, job: Job, left_s: float) -> None:
        """Has a rollout's agent stop it, as `job.stopping` says, within its own time at most.

        Its call then returns what there is; it is cancelled if the agent cannot stop it, or takes too long.
        What is stopped in the same turn of the loop is told together.
        """
        assert job.call is not None
        assert job.replica is not None
        if self._tell is None:
            job.call.cancel()
            return
        if not self._stopping:
            self._loop.call_soon(self._tell_stops, self._tell)
        key = (job.replica, job.stopping, job.cancel_reason)
        self._stopping.setdefault(key, []).append(
            (job.client.policy_session, job.rollout_id, job.attempt, job.call, left_s)
        )

    def _tell_stops(self, tell: TellAgent) -> None:
        stopping, self._stopping = self._stopping, {}
        for (replica, mode, reason), stops in stopping.items():
            request = StopRolloutsRequest(mode=mode, reason=reason)  # type: ignore[arg-type]
            for session, rollout_id, attempt, _, _ in stops:
                one = request.rollouts.add()  # field by field: half the time of keywords
                one.policy_session, one.rollout_id, one.attempt = session, rollout_id, attempt
            left = max(left for *_, left in stops)
            limit = {StopMode.STOP_MODE_FINISH_TURN: left, StopMode.STOP_MODE_PARTIAL: KEEP_TIMEOUT_S}
            timeout = min(left, limit.get(mode, STOP_TIMEOUT_S))  # type: ignore[call-overload]
            calls = [call for *_, call, _ in stops]
            self._spawn(self._stop(tell(replica.server, request, timeout), calls, timeout))

    async def _stop(
        self, told: Coroutine[Any, Any, Any], calls: list[asyncio.Future[Any]], timeout: float
    ) -> None:
        begin = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                await told
                await asyncio.wait(calls)
        except (GymdError, TimeoutError) as failure:
            log.info("stop_failed", extra={"rollouts": len(calls), "why": str(failure)})
        for call in calls:
            call.cancel()
        self.released_total += len(calls)
        self.release_seconds_total += (time.monotonic() - begin) * len(calls)

    def policy(
        self, replicas: Iterable[Replica], request: UpdatePolicyRequest, done: Callable[[], None]
    ) -> None:
        """Tells agents of a change of the policy, and calls `done` when they know.

        An agent hears of the changes of a session in their order, one after the other.
        """
        telling: list[asyncio.Task[None]] = []
        if (tell := self._tell) is not None:
            for replica in replicas:
                key = (request.policy_session, replica)
                task = self._spawn(self._tell_policy(tell, key, request, self._telling.get(key)))
                self._telling[key] = task
                telling.append(task)
        self._spawn(self._when_told(telling, done))

    async def _when_told(self, telling: list[asyncio.Task[None]], done: Callable[[], None]) -> None:
        if telling:
            await asyncio.wait(telling)
        done()

    async def _tell_policy(
        self,
        tell: TellAgent,
        key: tuple[str, Replica],
        request: UpdatePolicyRequest,
        before: asyncio.Task[None] | None,
    ) -> None:
        task = asyncio.current_task()
        if before is not None:
            await asyncio.wait([before])
        try:
            for attempt in range(1, POLICY_ATTEMPTS + 1):
                try:
                    await tell(key[1].server, request, POLICY_TIMEOUT_S)
                    return
                except GymdError as failure:
                    # It is lost, and its rollouts with it; or it does not know of policies; or it is busy.
                    extra = {"server": key[1].server.name, "attempt": attempt, "why": str(failure)}
                    log.warning("policy_update_not_taken", extra=extra)
                    if not isinstance(failure, DeadlineExceeded) or self._telling[key] is not task:
                        return  # a later change says more than this one
        finally:
            if self._telling[key] is task:
                del self._telling[key]

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Stops what is under way."""
        for task in self._tasks:
            task.cancel()

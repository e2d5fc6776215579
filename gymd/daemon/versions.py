"""The policy's versions as the trainer of a session tells them, and what they mean for its rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gymapi.v1.agent_service_pb2 import UpdatePolicyRequest
from gymapi.v1.rollout_pb2 import FailureClass, Outcome, Rollout
from gymapi.v1.rollout_service_pb2 import (
    InflightMode,
    PolicyPhase,
    PolicyUpdate,
    PolicyUpdateAck,
    StalenessMode,
)
from gymd.daemon.executor import Executor
from gymd.daemon.lanes import Client
from gymd.daemon.replicas import Replica
from gymd.daemon.work import Job, failed_rollout
from gymd.errors import GymdError, error, to_status_message

__all__ = ["PolicyVersions", "aged", "is_too_old", "too_old_error"]


class PolicyVersions:
    """The versions of one session.

    Args:
        session_id: the daemon's name for the session.
        client: its place in the scheduler.
        executor: runs the rollouts.
        jobs: its rollouts that did not end yet.
        answer: sends an acknowledgement.
    """

    def __init__(
        self,
        session_id: str,
        client: Client,
        executor: Executor,
        jobs: Callable[[], Iterable[Job]],
        answer: Callable[[PolicyUpdateAck], None],
    ) -> None:
        self._session_id = session_id
        self._client = client
        self._executor = executor
        self._jobs = jobs
        self._answer = answer
        self._newest: PolicyUpdate | None = None
        self._drains: PolicyUpdate | None = None
        # Those that were told to hold calls hear of the next update too, whether they run something or not.
        self._holding: set[Replica] = set()
        client.policy_session = session_id
        client.idle = self._idle

    def begin(self, version: int) -> None:
        """Notes the version that is live when the session opens, or that its trainer resumes it with."""
        live = self._client.version
        if live is None or version > live:
            self._client.version = version

    def lift(self) -> None:
        """Rollouts may begin again, and model calls that agents hold: the trainer that paused the policy is
        gone."""
        self._client.held = False
        self._newest = self._drains = None
        running = self._running()
        self._drop(running)
        self._tell(running, UpdatePolicyRequest(), lambda: None)

    def update(self, update: PolicyUpdate) -> None:
        """Takes a frame of the trainer; the acknowledgement follows when every agent knows.

        Raises:
            InvalidRequest: the phase is unknown, or an older version than the live one.
        """
        client, live = self._client, update.phase == PolicyPhase.POLICY_PHASE_LIVE
        self._check(update)
        drains = update.inflight == InflightMode.INFLIGHT_MODE_DRAIN
        paused = update.phase == PolicyPhase.POLICY_PHASE_PAUSED
        client.held = not live and (paused or drains)
        self._newest, self._drains = update, None
        running = self._running()
        if live:
            client.version = update.version
            self._drop(running)
        request = UpdatePolicyRequest()
        request.abort_calls = paused and update.inflight == InflightMode.INFLIGHT_MODE_ABORT_RESUME
        request.hold_calls = request.abort_calls or (
            paused and update.inflight == InflightMode.INFLIGHT_MODE_HOLD
        )
        self._tell(running, request, lambda: self._acknowledge(update))

    def _running(self) -> list[Job]:
        return [job for job in self._jobs() if job.call is not None]

    def _tell(self, running: Iterable[Job], request: UpdatePolicyRequest, done: Callable[[], None]) -> None:
        """Tells the agents that run something, and those that hold calls, and calls `done` when they know."""
        client = self._client
        request.policy_session = self._session_id
        if client.version is not None:
            request.live_version = client.version
        told = self._holding | {job.replica for job in running if job.replica is not None}
        self._holding = told if request.hold_calls else set()
        self._executor.tell_policy(told, request, done)
        self._executor.policy_changed(client)

    def _check(self, update: PolicyUpdate) -> None:
        if update.phase not in PolicyPhase.values() or not update.phase:
            text = "policy_update must say its phase: PENDING, PAUSED or LIVE"
            raise error("INVALID_REQUEST", text, field="policy_update.phase")
        if update.inflight not in InflightMode.values():
            text = f"inflight mode {update.inflight} is unknown to this daemon"
            raise error("INVALID_REQUEST", text, field="policy_update.inflight")
        live = self._client.version
        if update.version < 0 or (live is not None and update.version < live):
            text = f"version {update.version} is older than {live or 0}, which is live; versions only grow"
            raise error("INVALID_REQUEST", text, field="policy_update.version")

    def _drop(self, running: Iterable[Job]) -> None:
        for job in running:
            constraint = job.task.constraint
            drops = constraint is not None and constraint.mode == StalenessMode.STALENESS_MODE_DROP
            if drops and is_too_old(job):
                self._executor.cancel(job, too_old_error(job).message)

    def _acknowledge(self, update: PolicyUpdate) -> None:
        running = self._running()
        older = sum(job.version is None or job.version < update.version for job in running)
        self._answer(
            PolicyUpdateAck(
                version=update.version,
                phase=update.phase,
                older_running_count=older,
                running_count=len(running),
            )
        )
        drains = update.inflight == InflightMode.INFLIGHT_MODE_DRAIN
        if drains and update.phase != PolicyPhase.POLICY_PHASE_LIVE and running and update is self._newest:
            self._drains = update

    def _idle(self) -> None:
        """Nothing runs any more: tells a trainer that drains."""
        if self._drains is not None:
            update, self._drains = self._drains, None
            self._acknowledge(update)


def is_too_old(job: Job) -> bool:
    """Whether more versions went live since a rollout began than its task allows."""
    constraint, live = job.task.constraint, job.client.version
    if constraint is None or job.version is None or live is None:
        return False
    return constraint.HasField("max_version_lag") and live - job.version > constraint.max_version_lag


def too_old_error(job: Job) -> GymdError:
    """Why a rollout is not delivered."""
    constraint, live = job.task.constraint, job.client.version
    assert constraint is not None
    text = (
        f"it began under version {job.version} of the policy and {live} is live; "
        f"the task allows a lag of {constraint.max_version_lag}"
    )
    return error("CANCELLED", text, start_version=job.version, live_version=live)


def aged(job: Job, rollout: Rollout) -> Rollout:
    """Notes the versions in a rollout that ended, and treats one that is too old as its task says."""
    if is_too_old(job):
        constraint = job.task.constraint
        assert constraint is not None
        if constraint.mode in (StalenessMode.STALENESS_MODE_DROP, StalenessMode.STALENESS_MODE_WITHHOLD):
            timing = rollout.timing
            rollout = failed_rollout(
                Outcome.OUTCOME_STALE,
                to_status_message(too_old_error(job)),
                failure_class=FailureClass.FAILURE_CLASS_CLIENT,
                word="cancelled",
            )
            rollout.timing.CopyFrom(timing)
        elif constraint.mode == StalenessMode.STALENESS_MODE_MASK and rollout.HasField("reward"):
            rollout.reward.use_for_loss = False
        rollout.policy.stale = True
    if job.version is not None:
        rollout.policy.start_version = job.version
        rollout.policy.end_version = job.client.version if job.client.version is not None else job.version
    return rollout

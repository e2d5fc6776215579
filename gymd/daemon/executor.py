"""What sessions ask of whoever runs their rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from gymapi.v1.agent_service_pb2 import StopMode, UpdatePolicyRequest
from gymd.daemon.lanes import Client
from gymd.daemon.replicas import Replica
from gymd.daemon.work import Job

__all__ = ["Executor"]


class Executor(Protocol):
    """Runs rollouts: the scheduler, or a test's stand-in."""

    def new_client(self) -> Client:
        """A place for one session."""

    def close_client(self, client: Client) -> None:
        """Gives the place back."""

    def submit(self, client: Client, jobs: Iterable[Job]) -> None:
        """Queues rollouts."""

    def cancel(self, job: Job, reason: str, mode: int = StopMode.STOP_MODE_ABORT) -> bool:
        """Stops one rollout; False if it ended already."""

    def policy_changed(self, client: Client) -> None:
        """The client's version or hold changed: what waited for it may begin."""

    def tell_policy(
        self, replicas: Iterable[Replica], request: UpdatePolicyRequest, done: Callable[[], None]
    ) -> None:
        """Tells agents of a change of the policy, and calls `done` when they know."""

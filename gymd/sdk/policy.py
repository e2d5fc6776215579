"""The policy that rollouts of this process sample from: its version, and whether calls may begin.

What AgentService.UpdatePolicy tells: one state for each trainer's session, shared by the process's agents.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gymapi.v1.agent_service_pb2 import UpdatePolicyRequest
from gymd.mesh import cancel_all

__all__ = ["PolicyState", "policy_state", "update_policy"]

T = TypeVar("T")

MAX_STATES = 1024
"""Sessions that are remembered; the one that was used longest ago goes first."""


class PolicyState:
    """What is known of the policy of one session.

    Attributes:
        version: that is live; None: unknown.
    """

    def __init__(self) -> None:
        self.version: int | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._aborted: set[asyncio.Task[Any]] = set()

    def begin(self, version: int | None) -> None:
        """A rollout begins: nothing does while the policy is paused, so calls may be made (again).

        Args:
            version: that was live for the daemon; updates may be ahead of it, never behind. None: unknown.
        """
        self._know(version)
        self._open.set()

    def _know(self, version: int | None) -> None:
        if version is not None and (self.version is None or version > self.version):
            self.version = version

    def update(self, request: UpdatePolicyRequest) -> None:
        """Takes a change."""
        if request.HasField("live_version"):
            self._know(request.live_version)
        if request.hold_calls:
            self._open.clear()
        else:
            self._open.set()
        if request.abort_calls:
            # Agents of one process are told one by one: what is being aborted already is not cancelled twice.
            calls = self._calls - self._aborted
            self._aborted |= calls
            cancel_all(calls)

    async def ask(self, call: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, int | None]:
        """Makes a model call when calls may begin, and again if an update aborted it.

        Each repeat needs an update of the trainer, so their number is the trainer's; the rollout's deadline
        bounds the time.

        Returns: its answer, and the version that was live when it began.
        """
        task = asyncio.current_task()
        assert task is not None
        while True:
            await self._open.wait()
            version = self.version
            self._calls.add(task)
            try:
                return await call(), version
            except asyncio.CancelledError:
                # By an update, or is the rollout itself cancelled? It may also be both.
                if task not in self._aborted or task.uncancel():
                    raise
            finally:
                self._calls.discard(task)
                self._aborted.discard(task)


_states: OrderedDict[str, PolicyState] = OrderedDict()


def policy_state(session: str) -> PolicyState:
    """The state of a trainer's session; a fresh one if it is not known."""
    state = _states.get(session)
    if state is None:
        state = _states[session] = PolicyState()
        if len(_states) > MAX_STATES:
            _states.popitem(last=False)
    else:
        _states.move_to_end(session)
    return state


def update_policy(request: UpdatePolicyRequest) -> None:
    """Takes a change of a session's policy."""
    policy_state(request.policy_session).update(request)

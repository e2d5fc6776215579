"""Whose turn it is: fair queues.

Evaluation comes before training. Within each, clients take turns; within a client its agents, by their
shares; within an agent rollouts go in the order they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gymd.daemon.replicas import Agent, Replica
from gymd.daemon.work import Job

if TYPE_CHECKING:
    from gymd.daemon.policy_desk import PolicyDesk

__all__ = ["EQUAL_SHARE", "Client", "Lane", "Share", "Turns", "waiting"]

COMPACT_ABOVE = 64


class Share(NamedTuple):
    """One agent's part of a client's places.

    Attributes:
        weight: how many rollouts begin for it compared with other agents.
        minimum: the part of the client's running rollouts that it has at least while it has some waiting.
    """

    weight: float = 1.0
    minimum: float = 0.0


EQUAL_SHARE = Share()


class Lane:
    """The rollouts of one client that wait for one agent, for training or for evaluation.

    Attributes:
        running: those that run.
        turns: how much of its turn it has had: grows by 1 / weight with each rollout that begins.
    """

    __slots__ = ("agent", "client", "jobs", "linked", "rank", "running", "share", "stale", "turns")

    def __init__(self, client: Client, agent: Agent, rank: int) -> None:
        self.client = client
        self.agent = agent
        self.rank = rank
        self.share = client.shares.get(agent.name, EQUAL_SHARE)
        self.jobs: deque[Job] = deque()
        # It stands in the client's ring or in the agent's list of blocked lanes.
        self.linked = False
        self.stale = 0
        self.running = 0
        self.turns = 0.0

    def head(self) -> Job | None:
        """The next rollout that still wants to run."""
        jobs = self.jobs
        while jobs and jobs[0].finished:
            jobs.popleft()
            self.stale -= 1
        return jobs[0] if jobs else None

    def forget(self, count: int = 1) -> None:
        """Notes that waiting rollouts ended; they leave the queue when they make up half of it."""
        self.stale += count
        if self.stale > COMPACT_ABOVE and self.stale * 2 > len(self.jobs):
            self.jobs = deque(job for job in self.jobs if not job.finished)
            self.stale = 0


class Client:
    """One session's place in the scheduler.

    Attributes:
        queued: its rollouts that wait, those between two attempts included.
        running: its rollouts that run.
        shares: parts of its agents, by name.
        held: nothing of it begins for now.
        version: of the policy that is live; None: unknown.
        policy_session: whose policy updates concern its rollouts; "": nobody's.
        idle: called when its last running rollout ended, or waits for its next attempt.
        parked: its rollouts that wait for a newer version of the policy.
        desk: where model calls of its rollouts wait for its trainer.
    """

    __slots__ = (
        "desk",
        "held",
        "idle",
        "in_ring",
        "lanes",
        "parked",
        "policy_session",
        "queued",
        "rings",
        "running",
        "shares",
        "turns",
        "version",
    )

    desk: PolicyDesk

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, int], Lane] = {}
        self.rings: tuple[list[Lane], list[Lane]] = ([], [])
        self.in_ring = [False, False]
        self.turns = 0.0
        self.queued = 0
        self.running = 0
        self.shares: Mapping[str, Share] = {}
        self.held = False
        self.version: int | None = None
        self.policy_session = ""
        self.idle: Callable[[], None] = lambda: None
        self.parked: dict[Job, None] = {}


class Turns:
    """The queues of all clients."""

    def __init__(self) -> None:
        self._rings: tuple[deque[Client], deque[Client]] = (deque(), deque())

    def put(self, client: Client, agent: Agent, job: Job, *, first: bool = False) -> None:
        """Queues a rollout; `first`: in front of the others of its lane."""
        key = (agent.name, job.task.rank)
        lane = client.lanes.get(key)
        if lane is None:
            lane = client.lanes[key] = Lane(client, agent, job.task.rank)
        lane.agent = agent
        job.lane = lane
        if first:
            lane.jobs.appendleft(job)
        else:
            lane.jobs.append(job)
        if not lane.linked:
            lane.linked = True
            # What it did not use while nothing waited is not made up for.
            lane.turns = max(lane.turns, client.turns)
            self._link(lane)

    def release(self, agent: Agent) -> None:
        """The agent may have room again: its blocked lanes take turns once more."""
        if agent.blocked:
            lanes, agent.blocked = agent.blocked, []
            for lane in lanes:
                self._link(lane)

    def wake(self, client: Client) -> None:
        """The client is not held any more."""
        for rank, lanes in enumerate(client.rings):
            if lanes:
                self._enter(client, rank)

    def _link(self, lane: Lane) -> None:
        lane.client.rings[lane.rank].append(lane)
        self._enter(lane.client, lane.rank)

    def _enter(self, client: Client, rank: int) -> None:
        if not client.in_ring[rank]:
            client.in_ring[rank] = True
            self._rings[rank].append(client)

    def take(self, now: float) -> tuple[Job, Replica] | None:
        """The next rollout and the replica for it, or None if nothing can run now."""
        for rank, ring in enumerate(self._rings):
            while ring:
                client = ring[0]
                found = None if client.held else _take_of(client, client.rings[rank], now)
                if found is not None:
                    ring.rotate(-1)
                    return found
                ring.popleft()
                client.in_ring[rank] = False
        return None


def _take_of(client: Client, lanes: list[Lane], now: float) -> tuple[Job, Replica] | None:
    while lanes:
        lane = lanes[0] if len(lanes) == 1 else _next_lane(client, lanes)
        job = lane.head()
        if job is None:
            lanes.remove(lane)
            lane.linked = False
            continue
        replica = lane.agent.pick(now, job.avoid)
        if replica is None:
            lanes.remove(lane)
            lane.agent.blocked.append(lane)
            continue
        lane.jobs.popleft()
        client.turns = lane.turns
        lane.turns += 1.0 / lane.share.weight
        return job, replica
    return None


def _next_lane(client: Client, lanes: list[Lane]) -> Lane:
    """The lane that is furthest below its minimum, else the one that has had least of its turn."""
    places = client.running + 1
    neediest = max(lanes, key=lambda one: one.share.minimum * places - one.running)
    if neediest.share.minimum * places > neediest.running:
        return neediest
    return min(lanes, key=lambda one: one.turns)


def waiting(client: Client, wanted: Callable[[Lane], bool] = lambda lane: True) -> Iterator[Job]:
    """The rollouts of a client that wait in the lanes that `wanted` says."""
    for lane in client.lanes.values():
        if wanted(lane):
            yield from [job for job in lane.jobs if not job.finished]

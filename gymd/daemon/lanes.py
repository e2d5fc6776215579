"""Whose turn it is: fair queues. Clients take turns; within a client its agents take turns; within an agent
rollouts go in the order they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from gymd.daemon.replicas import Agent, Replica
from gymd.daemon.work import Job

__all__ = ["Client", "Lane", "Turns"]

COMPACT_ABOVE = 64


class Lane:
    """The rollouts of one client that wait for one agent."""

    __slots__ = ("agent", "client", "jobs", "linked", "stale")

    def __init__(self, client: Client, agent: Agent) -> None:
        self.client = client
        self.agent = agent
        self.jobs: deque[Job] = deque()
        # It stands in the client's ring or in the agent's list of blocked lanes.
        self.linked = False
        self.stale = 0

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
    """

    __slots__ = ("in_ring", "lanes", "queued", "ring", "running")

    def __init__(self) -> None:
        self.lanes: dict[str, Lane] = {}
        self.ring: deque[Lane] = deque()
        self.in_ring = False
        self.queued = 0
        self.running = 0


class Turns:
    """The queues of all clients."""

    def __init__(self) -> None:
        self._ring: deque[Client] = deque()

    def put(self, client: Client, agent: Agent, job: Job, *, first: bool = False) -> None:
        """Queues a rollout; `first`: in front of the others of its lane."""
        lane = client.lanes.get(agent.name)
        if lane is None:
            lane = client.lanes[agent.name] = Lane(client, agent)
        lane.agent = agent
        if first:
            lane.jobs.appendleft(job)
        else:
            lane.jobs.append(job)
        if not lane.linked:
            lane.linked = True
            self._link(lane)

    def release(self, agent: Agent) -> None:
        """The agent may have room again: its blocked lanes take turns once more."""
        if agent.blocked:
            lanes, agent.blocked = agent.blocked, []
            for lane in lanes:
                self._link(lane)

    def _link(self, lane: Lane) -> None:
        client = lane.client
        client.ring.append(lane)
        if not client.in_ring:
            client.in_ring = True
            self._ring.append(client)

    def take(self, now: float) -> tuple[Job, Replica] | None:
        """The next rollout and the replica for it, or None if nothing can run now."""
        ring = self._ring
        while ring:
            client = ring[0]
            found = self._take_of(client, now)
            if found is not None:
                ring.rotate(-1)
                return found
            ring.popleft()
            client.in_ring = False
        return None

    def _take_of(self, client: Client, now: float) -> tuple[Job, Replica] | None:
        lanes = client.ring
        while lanes:
            lane = lanes[0]
            job = lane.head()
            if job is None:
                lanes.popleft()
                lane.linked = False
                continue
            replica = lane.agent.pick(now, job.avoid)
            if replica is None:
                lanes.popleft()
                lane.agent.blocked.append(lane)
                continue
            lane.jobs.popleft()
            lanes.rotate(-1)
            return job, replica
        return None


def waiting(client: Client, wanted: Callable[[Lane], bool] = lambda lane: True) -> Iterator[Job]:
    """The rollouts of a client that wait in the lanes that `wanted` says."""
    for lane in client.lanes.values():
        if wanted(lane):
            yield from [job for job in lane.jobs if not job.finished]

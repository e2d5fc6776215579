"""StreamRollouts played by plan: a session, its clock, and a stand-in for the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from gymapi.v1.agent_service_pb2 import StopMode, UpdatePolicyRequest
from gymapi.v1.errors_pb2 import ErrorReason
from gymapi.v1.registry_service_pb2 import Server
from gymapi.v1.rollout_pb2 import Outcome, Rollout, Stage
from gymapi.v1.rollout_service_pb2 import (
    OpenSession,
    StreamRolloutsRequest,
    StreamRolloutsResponse,
    SubmitTasks,
    TaskSubmission,
)
from gymd.daemon.admission import Agents, SessionLimits
from gymd.daemon.lanes import Client
from gymd.daemon.record import SessionRecord
from gymd.daemon.replicas import Replica
from gymd.daemon.sessions import RolloutSession
from gymd.daemon.versions import aged
from gymd.daemon.work import Job, cancelled_rollout, complete
from gymd.errors import GymdError, error, to_status_message

__all__ = ["CANCELLED", "COMPLETED", "Executor", "Plan", "reason", "task"]

COMPLETED, CANCELLED = Outcome.OUTCOME_COMPLETED, Outcome.OUTCOME_CANCELLED


class Executor:
    """Holds every rollout until the test ends it."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.closed = 0
        self.modes: list[int] = []
        self.stubborn = False
        """What runs takes until `release` to stop."""
        self.told: list[tuple[list[Replica], UpdatePolicyRequest]] = []
        self.waiting: list[Callable[[], None]] = []

    def new_client(self) -> Client:
        return Client()

    def close_client(self, client: Client) -> None:
        self.closed += 1

    def submit(self, client: Client, jobs: Iterable[Job]) -> None:
        self.jobs += jobs

    def cancel(self, job: Job, reason: str, mode: int = StopMode.STOP_MODE_ABORT) -> bool:
        harder = mode == StopMode.STOP_MODE_ABORT != job.stopping
        if job.finished or (job.cancel_reason and not harder):
            return False
        self.modes.append(mode)
        job.cancel_reason, job.stopping = reason, mode
        if job.call is not None and self.stubborn:
            return True
        self._end(job, reason)
        return True

    def release(self) -> None:
        """Ends what is being stopped."""
        for job in [job for job in self.jobs if job.cancel_reason and not job.finished]:
            self._end(job, job.cancel_reason)

    @staticmethod
    def _end(job: Job, reason: str) -> None:
        job.finished = True
        status = to_status_message(error("CANCELLED", reason))
        job.done(job, complete(job, cancelled_rollout(status, Stage.STAGE_QUEUE)))

    def running_as(self, rollout_id: str) -> list[Job]:
        return [job for job in self.jobs if job.rollout_id == rollout_id and not job.finished]

    def policy_changed(self, client: Client) -> None:
        """Nothing waits here."""

    def tell_policy(
        self, replicas: Iterable[Replica], request: UpdatePolicyRequest, done: Callable[[], None]
    ) -> None:
        self.told.append((list(replicas), request))
        self.waiting.append(done)

    def start(self, *indices: int) -> None:
        """Lets rollouts begin."""
        for index in indices:
            job = self.jobs[index]
            job.call, job.version = asyncio.get_event_loop().create_future(), job.client.version
            job.replica = Replica(Server(server_id=f"s{index}"))
            job.client.running += 1

    def agents_know(self) -> None:
        """The agents have noted the changes of the policy."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done()

    def finish(self, count: int = 1, *, reward: float | None = None, text: str = "") -> None:
        """Ends the oldest rollouts that are not over."""
        for job in [job for job in self.jobs if not job.finished][:count]:
            job.finished = True
            if job.call is not None:
                job.call, job.client.running = None, job.client.running - 1
                if not job.client.running:
                    job.client.idle()
            rollout = Rollout(outcome=COMPLETED, termination_reason=text)
            if reward is not None:
                rollout.reward.value = reward
            job.done(job, complete(job, aged(job, rollout)))


class Plan:
    """A session and what happens around it."""

    def __init__(self, *, new_record: Callable[[], SessionRecord] | None = None, **limits: object) -> None:
        self.now = 100.0
        self.executor = Executor()
        self.wakes = 0
        agents = Agents(lambda: "calc", self.refusal, self.of_environment)
        self.session = RolloutSession(
            "s1",
            self.executor,
            agents,
            SessionLimits(version="9", **limits),  # type: ignore[arg-type]
            new_record=new_record,
            wake=self.wake,
            clock=lambda: self.now,
            wall=lambda: 1e9,
        )

    def wake(self) -> None:
        self.wakes += 1

    @staticmethod
    def refusal(agent: str) -> GymdError | None:
        if agent in ("calc", "other"):
            return None
        return error("SERVER_NOT_FOUND", f"no {agent!r}; did you mean 'calc'?", server=agent)

    @staticmethod
    def of_environment(name: str) -> list[str]:
        if name == "sums":
            return ["calc"]
        raise error("SERVER_NOT_FOUND", f"no agent is known to work with {name!r}", server=name)

    def send(self, **frame: object) -> None:
        self.session.receive(StreamRolloutsRequest(**frame))  # type: ignore[arg-type]

    def open(self, credits: int = 10, **fields: object) -> Plan:
        self.send(open=OpenSession(granted_rollouts=credits, **fields))  # type: ignore[arg-type]
        assert self.take("opened").opened.session_id == "s1"
        return self

    def submit(self, *tasks: TaskSubmission) -> list[int]:
        """Submits; returns the reason of each rejection, 0 for accepted."""
        self.send(submit=SubmitTasks(tasks=tasks))
        admissions = self.take("admissions").admissions.admissions
        assert [a.task_id for a in admissions] == [t.task_id for t in tasks]
        return [a.rejection.reason if a.HasField("rejection") else 0 for a in admissions]

    def take(self, kind: str) -> StreamRolloutsResponse:
        frame = self.session.next_frame()
        if isinstance(frame, bytes):
            frame = StreamRolloutsResponse.FromString(frame)
        assert frame is not None, f"expected {kind}, found nothing"
        assert frame.WhichOneof("frame") == kind
        return frame

    def nothing(self) -> None:
        assert self.session.next_frame() is None

    def results(self) -> list[tuple[int, str, int]]:
        found = self.take("results").results.results
        return [(r.sequence, r.rollout.rollout_id, r.rollout.outcome) for r in found]


def task(task_id: str, count: int = 0, agent: str = "", **fields: object) -> TaskSubmission:
    one = TaskSubmission(task_id=task_id, rollout_count=count, **fields)  # type: ignore[arg-type]
    one.task.agent = agent
    one.task.create_params.input_text = "hello"
    return one


def reason(name: str) -> int:
    return ErrorReason.Value(f"ERROR_REASON_{name}")

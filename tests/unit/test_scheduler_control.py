"""The scheduler's part of what trainers steer: shares, evaluation first, versions, retries, stopping."""

import asyncio
from collections import Counter

from gymapi.v1.agent_service_pb2 import (
    RunRolloutResponse,
    StopMode,
    StopRolloutsRequest,
    UpdatePolicyRequest,
)
from gymapi.v1.registry_service_pb2 import Server
from gymapi.v1.rollout_pb2 import FailureClass, Outcome, Stage
from gymapi.v1.rollout_service_pb2 import PolicyConstraint, StalenessMode
from gymd.daemon import notices
from gymd.daemon.lanes import Share
from gymd.daemon.replicas import Replica
from gymd.errors import error
from tests.fakes.scheduler import Bench, good, replica

COMPLETED, CANCELLED = Outcome.OUTCOME_COMPLETED, Outcome.OUTCOME_CANCELLED


class Told:
    """Notes what agents are told, and answers when the test says."""

    def __init__(self, bench: list[Bench]) -> None:
        self.bench = bench
        self.requests: list[StopRolloutsRequest | UpdatePolicyRequest] = []
        self.refusal: Exception | None = None
        self.silent = False
        self.came = asyncio.Event()

    async def __call__(
        self, server: Server, request: StopRolloutsRequest | UpdatePolicyRequest, timeout: float
    ) -> None:
        self.requests.append(request)
        self.came.set()
        if self.silent:
            await asyncio.Event().wait()
        if self.refusal is not None:
            raise self.refusal
        if isinstance(request, StopRolloutsRequest):
            partial = request.mode == StopMode.STOP_MODE_PARTIAL
            stopped = {one.rollout_id for one in request.rollouts}
            for position, rollout_id in enumerate(self.bench[0].started()):
                if rollout_id in stopped:
                    response = RunRolloutResponse()
                    response.rollout.outcome = Outcome.OUTCOME_PARTIAL if partial else CANCELLED
                    response.rollout.failure.stage = Stage.STAGE_TOOL
                    self.bench[0].finish(position, response)


def bench_with(told: Told | None = None, *, limit: int = 0, **options: object) -> Bench:
    bench = Bench(tell=told, **options)
    bench.scheduler.update([replica("s", limit=limit)], [])
    if told is not None:
        told.bench.append(bench)
    return bench


async def finish_the_rest(bench: Bench, total: int) -> None:
    bench.answer = good
    for _, _, future in bench.calls:
        if not future.done():
            future.set_result(good())
    await bench.ends(total)


class TestTurns:
    async def test_evaluation_begins_before_training(self) -> None:
        bench = bench_with(max_running=1)
        bench.submit("t0", "t1")
        bench.submit("e0", "e1", rank=0)
        other = bench.scheduler.new_client()
        bench.submit("e2", rank=0, client=other)
        for position in range(5):
            await bench.calling(position + 1)
            bench.finish(position)
        # What runs is not stopped; all evaluation, of every client, comes next.
        assert bench.started()[0] == "t0/0"
        assert sorted(bench.started()[1:4]) == ["e0/0", "e1/0", "e2/0"]
        assert bench.started()[4] == "t1/0"

    async def test_agents_get_places_by_their_weights(self) -> None:
        bench = bench_with(max_running=1)
        bench.scheduler.update([replica("o", name="other")], [])
        bench.client.shares = {"calc": Share(3.0), "other": Share(1.0)}
        bench.submit(*(f"c{n}" for n in range(20)))
        bench.submit(*(f"o{n}" for n in range(20)), agent="other")
        for position in range(16):
            await bench.calling(position + 1)
            bench.finish(position)
        counts = Counter(name[0] for name in bench.started()[:16])
        assert counts["c"] in (11, 12, 13)
        await finish_the_rest(bench, 40)

    async def test_a_minimum_share_is_kept_against_any_weight(self) -> None:
        bench = bench_with(max_running=10)
        bench.scheduler.update([replica("o", name="other")], [])
        bench.client.shares = {"calc": Share(1000.0), "other": Share(0.001, 0.3)}
        bench.submit(*(f"c{n}" for n in range(50)))
        bench.submit(*(f"o{n}" for n in range(50)), agent="other")
        # The first ten began before the others came; from now on three of ten places are theirs.
        for position in range(30):
            await bench.calling(position + 10)
            bench.finish(position)
        await bench.calling(40)
        running = Counter(name[0] for name in bench.started()[30:40])
        assert running["o"] >= 3
        await finish_the_rest(bench, 100)

    async def test_what_an_agent_did_not_use_is_not_made_up_for(self) -> None:
        bench = bench_with(max_running=1)
        bench.scheduler.update([replica("o", name="other")], [])
        bench.submit(*(f"c{n}" for n in range(10)))
        for position in range(5):
            await bench.calling(position + 1)
            bench.finish(position)
        bench.submit(*(f"o{n}" for n in range(10)), agent="other")
        for position in range(5, 13):
            await bench.calling(position + 1)
            bench.finish(position)
        assert 3 <= sum(name.startswith("o") for name in bench.started()[6:13]) <= 4
        await finish_the_rest(bench, 20)


class TestVersions:
    async def test_a_rollout_waits_for_its_version(self) -> None:
        bench = bench_with()
        bench.client.version = 1
        bench.submit("new", constraint=PolicyConstraint(min_version=3))
        bench.submit("old", constraint=PolicyConstraint(min_version=1))
        await bench.calling(1)
        assert (bench.started(), bench.client.queued) == (["old/0"], 1)
        bench.client.version = 3
        bench.scheduler.policy_changed(bench.client)
        await bench.calling(2)
        assert bench.calls[1][1].policy_version == 3
        bench.finish(0)
        bench.finish(1)
        await bench.ends(2)
        assert bench.done["new/0"].policy.start_version == 3

    async def test_one_that_waits_in_vain_is_told_for_what(self) -> None:
        bench = bench_with()
        [job] = bench.submit("new", constraint=PolicyConstraint(min_version=3), queue_s=0.05)
        await bench.ends(1)
        failure = bench.done["new/0"].failure
        assert "version 3 of the policy" in failure.status.message
        assert not bench.client.parked
        assert bench.scheduler.cancel(job, "late") is False

    async def test_one_that_waits_can_be_cancelled(self) -> None:
        bench = bench_with()
        [job] = bench.submit("new", constraint=PolicyConstraint(min_version=3))
        assert bench.scheduler.cancel(job, "enough")
        assert bench.done["new/0"].outcome == CANCELLED
        assert (bench.client.queued, len(bench.client.parked)) == (0, 0)

    async def test_nothing_begins_while_a_client_is_held(self) -> None:
        bench = bench_with()
        bench.client.held = True
        bench.submit("a", "b")
        other = bench.scheduler.new_client()
        bench.submit("c", client=other)
        await bench.calling(1)
        assert bench.started() == ["c/0"]
        bench.client.held = False
        bench.scheduler.policy_changed(bench.client)
        await bench.calling(3)
        for position in range(3):
            bench.finish(position)
        await bench.ends(3)

    async def test_withhold_runs_it_again_and_gives_up_at_the_limit(self) -> None:
        bench = bench_with()
        bench.client.version = 1
        constraint = PolicyConstraint(max_version_lag=0, mode=StalenessMode.STALENESS_MODE_WITHHOLD)
        bench.submit("a", constraint=constraint, retries=1)
        for attempt in range(2):
            await bench.calling(attempt + 1)
            bench.client.version += 1
            bench.finish(attempt, good())
        await bench.ends(1)
        rollout = bench.done["a/0"]
        assert (rollout.outcome, rollout.attempt) == (Outcome.OUTCOME_STALE, 2)
        assert (rollout.policy.start_version, rollout.policy.end_version) == (2, 3)
        assert not rollout.HasField("reward")
        assert "allows a lag of 0" in rollout.failure.attempts[0].status.message

    async def test_withhold_delivers_the_fresh_one(self) -> None:
        bench = bench_with()
        bench.client.version = 1
        constraint = PolicyConstraint(max_version_lag=0, mode=StalenessMode.STALENESS_MODE_WITHHOLD)
        bench.submit("a", constraint=constraint)
        await bench.calling(1)
        bench.client.version = 2
        bench.finish(0, good())
        await bench.calling(2)
        bench.finish(1, good())
        await bench.ends(1)
        assert (bench.done["a/0"].outcome, bench.done["a/0"].policy.stale) == (COMPLETED, False)

    async def test_agents_of_running_rollouts_are_told(self) -> None:
        told = Told([])
        bench = bench_with(told)
        jobs = bench.submit("a", "b")
        await bench.calling(2)
        knew = asyncio.Event()
        replicas = {job.replica for job in jobs if job.replica is not None}
        bench.scheduler.tell_policy(replicas, UpdatePolicyRequest(policy_session="s"), knew.set)
        await asyncio.wait_for(knew.wait(), 5)
        assert len(told.requests) == 1  # both run on the same replica
        told.refusal = error("NOT_IMPLEMENTED", "an agent of another kind", feature="policy")
        knew.clear()
        bench.scheduler.tell_policy(replicas, UpdatePolicyRequest(policy_session="s"), knew.set)
        await asyncio.wait_for(knew.wait(), 5)
        bench.finish(0)
        bench.finish(1)
        await bench.ends(2)

    async def test_an_agent_hears_of_changes_in_their_order(self) -> None:
        """Otherwise a pause that is told again could come behind its end, and hold calls for ever."""
        heard: dict[str, list[int]] = {"one": [], "two": []}
        first, answer = asyncio.Event(), asyncio.Event()

        async def slow(server: Server, request: object, timeout: float) -> None:
            assert isinstance(request, UpdatePolicyRequest)
            heard[server.server_id].append(request.live_version)
            if request.live_version == 1:
                first.set()
                await answer.wait()
                raise error("DEADLINE_EXCEEDED", "busy", deadline_seconds="5")

        telling = notices.Notices(slow)
        agents = [Replica(replica("one")), Replica(replica("two"))]
        others, all_know = asyncio.Event(), asyncio.Event()
        telling.policy(agents, UpdatePolicyRequest(policy_session="s", live_version=1), lambda: None)
        telling.policy(agents, UpdatePolicyRequest(policy_session="s", live_version=2), all_know.set)
        telling.policy(agents, UpdatePolicyRequest(policy_session="t", live_version=9), others.set)
        async with asyncio.timeout(10):
            await first.wait()
            await others.wait()  # another session's does not wait
            assert (heard, all_know.is_set()) == ({"one": [1, 9], "two": [1, 9]}, False)
            answer.set()
            await all_know.wait()
        assert heard == {"one": [1, 9, 2], "two": [1, 9, 2]}  # the first was not told again


def invalid(*_: object) -> RunRolloutResponse:
    response = RunRolloutResponse()
    response.rollout.outcome = Outcome.OUTCOME_VERIFY_FAILED
    response.rollout.failure.failure_class = FailureClass.FAILURE_CLASS_DATA
    return response


class TestDataRetries:
    async def test_they_have_a_budget_of_their_own(self) -> None:
        bench = bench_with()
        bench.submit("a", retries=0, data_retry_limit=2)
        for position in range(2):
            await bench.calling(position + 1)
            bench.finish(position, invalid())
        await bench.calling(3)
        bench.finish(2, good())
        await bench.ends(1)
        assert (bench.done["a/0"].outcome, bench.done["a/0"].attempt) == (COMPLETED, 3)

    async def test_none_by_default(self) -> None:
        bench = bench_with()
        bench.submit("a")
        await bench.calling(1)
        bench.finish(0, invalid())
        await bench.ends(1)
        assert (bench.done["a/0"].outcome, bench.done["a/0"].attempt) == (Outcome.OUTCOME_VERIFY_FAILED, 1)

    async def test_an_invalid_task_is_one_too(self) -> None:
        bench = bench_with()
        bench.submit("a", data_retry_limit=1)
        for position in range(2):
            await bench.calling(position + 1)
            bench.finish(position, error("INVALID_REQUEST", "the row has no answer", field="answer"))
        await bench.ends(1)
        rollout = bench.done["a/0"]
        assert (rollout.outcome, rollout.attempt) == (Outcome.OUTCOME_INVALID_TASK, 2)
        assert not rollout.failure.retriable


class TestStop:
    async def test_the_agent_is_told_and_returns_what_there_is(self) -> None:
        told = Told([])
        bench = bench_with(told)
        [job] = bench.submit("a")
        await bench.calling(1)
        assert bench.scheduler.cancel(job, "enough", StopMode.STOP_MODE_PARTIAL)
        assert not bench.scheduler.cancel(job, "enough", StopMode.STOP_MODE_PARTIAL)
        await bench.ends(1)
        request = told.requests[0]
        assert isinstance(request, StopRolloutsRequest)
        [stopped] = request.rollouts
        assert (stopped.rollout_id, stopped.attempt, request.reason) == ("a/0", 1, "enough")
        assert bench.done["a/0"].outcome == Outcome.OUTCOME_PARTIAL
        assert bench.scheduler.notices.released_total == 1

    async def test_many_are_stopped_by_one_message(self) -> None:
        told = Told([])
        bench = bench_with(told)
        jobs = bench.submit("t", count=100)
        await bench.calling(100)
        for job in jobs[:99]:
            bench.scheduler.cancel(job, "enough")
        bench.scheduler.cancel(jobs[99], "enough", StopMode.STOP_MODE_PARTIAL)
        await bench.ends(100)
        assert [len(request.rollouts) for request in told.requests] == [99, 1]  # type: ignore[union-attr]
        assert Counter(rollout.outcome for rollout in bench.done.values()) == {
            CANCELLED: 99,
            Outcome.OUTCOME_PARTIAL: 1,
        }

    async def test_an_abort_ends_as_cancelled_with_the_stage(self) -> None:
        told = Told([])
        bench = bench_with(told)
        [job] = bench.submit("a")
        await bench.calling(1)
        bench.scheduler.cancel(job, "enough")
        await bench.ends(1)
        rollout = bench.done["a/0"]
        assert (rollout.outcome, rollout.failure.stage) == (CANCELLED, Stage.STAGE_TOOL)
        assert "enough" in rollout.failure.status.message

    async def test_an_agent_that_cannot_stop_has_its_call_cancelled(self) -> None:
        told = Told([])
        told.refusal = error("NOT_IMPLEMENTED", "no StopRollouts here", feature="stop")
        bench = bench_with(told)
        [job] = bench.submit("a")
        await bench.calling(1)
        bench.scheduler.cancel(job, "enough", StopMode.STOP_MODE_FINISH_TURN)
        await bench.ends(1)
        assert bench.done["a/0"].outcome == CANCELLED
        assert bench.calls[0][2].cancelled()

    async def test_one_that_takes_too_long_too(self, monkeypatch: object) -> None:
        told = Told([])
        told.silent = True
        monkeypatch.setattr(notices, "STOP_TIMEOUT_S", 0.05)  # type: ignore[attr-defined]
        bench = bench_with(told)
        [job] = bench.submit("a")
        await bench.calling(1)
        bench.scheduler.cancel(job, "enough")
        await bench.ends(1)
        assert bench.done["a/0"].outcome == CANCELLED

    async def test_an_abort_may_follow_a_gentler_stop(self) -> None:
        told = Told([])
        told.silent = True
        bench = bench_with(told)
        [job] = bench.submit("a")
        await bench.calling(1)
        bench.scheduler.cancel(job, "wait", StopMode.STOP_MODE_FINISH_TURN)
        await told.came.wait()
        told.silent = False
        assert bench.scheduler.cancel(job, "now")
        await bench.ends(1)
        assert bench.done["a/0"].outcome == CANCELLED
        bench.scheduler.close()

"""Turns, replicas, second attempts and ends of rollouts, with calls that the test answers."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from gymapi.v1.agent_service_pb2 import RunRolloutRequest, RunRolloutResponse
from gymapi.v1.errors_pb2 import ErrorReason
from gymapi.v1.registry_service_pb2 import Server, ServerState
from gymapi.v1.rollout_pb2 import FailureClass, Outcome, Stage
from gymd.daemon import scheduler as scheduler_module
from gymd.daemon.verdicts import Verdict
from gymd.errors import error
from tests.fakes.scheduler import Bench, good, replica

READY, FAILED = ServerState.SERVER_STATE_READY, ServerState.SERVER_STATE_FAILED
STARTING, DRAINING = ServerState.SERVER_STATE_STARTING, ServerState.SERVER_STATE_DRAINING
COMPLETED, CANCELLED = Outcome.OUTCOME_COMPLETED, Outcome.OUTCOME_CANCELLED
TIMED_OUT, ENV_FAILED = Outcome.OUTCOME_TIMED_OUT, Outcome.OUTCOME_ENV_FAILED


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(scheduler_module, "RETRY_BASE_S", 0.01)
    one = Bench()
    yield one
    assert one.scheduler.running == 0
    assert one.scheduler.queued == 0
    assert set(one.ended.values()) <= {1}, "every rollout ends exactly once"
    one.scheduler.close()
    gc.collect()


LOST = error("PEER_UNREACHABLE", "lost the host")


class TestRunning:
    async def test_a_rollout_runs_and_is_completed(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a")], [])
        bench.submit("t", rollout_s=30)
        await bench.calling(1)
        assert 29 < bench.timeouts[0] <= 30
        bench.finish(0)
        await bench.ends(1)
        rollout = bench.done["t/0"]
        assert (rollout.task_id, rollout.index, rollout.attempt, rollout.agent) == ("t", 0, 1, "calc")
        assert rollout.reward.value == 1.0
        assert rollout.timing.accept_time.seconds > 0
        assert rollout.timing.end_time.seconds > 0
        assert bench.scheduler.outcomes_total["calc", COMPLETED] == 1

    async def test_waits_for_a_replica(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", STARTING)], [])
        bench.submit("t")
        bench.answer = good
        await asyncio.sleep(0)
        assert not bench.done
        bench.scheduler.update([replica("a")], [])
        await bench.ends(1)

    async def test_least_outstanding_replica(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a"), replica("b")], [])
        bench.submit(*"tuvw")
        await bench.calling(4)
        assert Counter(server.server_id for server, _, _ in bench.calls) == {"a": 2, "b": 2}
        for position in range(4):
            bench.finish(position)
        await bench.ends(4)

    async def test_capacity_of_a_replica(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", limit=2)], [])
        bench.submit(*"tuvw")
        await bench.calling(2)
        await asyncio.sleep(0)
        assert bench.started() == ["t/0", "u/0"]
        assert (bench.client.running, bench.client.queued) == (2, 2)
        for position in range(4):
            await bench.calling(position + 1)
            bench.finish(position)
        await bench.ends(4)

    async def test_global_limit(self, bench: Bench) -> None:
        bench.scheduler.max_running = 3
        bench.scheduler.update([replica("a")], [])
        bench.submit("t", count=7)
        for position in range(7):
            await bench.calling(position + 1)
            assert bench.scheduler.running <= 3
            bench.finish(position)
        await bench.ends(7)

    async def test_sessions_take_turns(self, bench: Bench) -> None:
        bench.scheduler.max_running = 1
        bench.scheduler.update([replica("a")], [])
        other = bench.scheduler.new_client()
        bench.submit("big", count=5)
        bench.submit("x", "y", client=other)
        for position in range(7):
            await bench.calling(position + 1)
            bench.finish(position)
        await bench.ends(7)
        assert bench.started() == ["big/0", "big/1", "x/0", "big/2", "y/0", "big/3", "big/4"]

    async def test_a_full_agent_does_not_hold_up_another(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", limit=1), replica("o", name="other")], [])
        bench.submit("t", "u")
        bench.submit("v", agent="other")
        await bench.calling(2)
        assert bench.started() == ["t/0", "v/0"]
        bench.finish(0)
        bench.finish(1)
        await bench.calling(3)
        bench.finish(2)
        await bench.ends(3)

    async def test_what_runs_is_found_by_its_id(self, bench: Bench) -> None:
        scheduler, other = bench.scheduler, bench.scheduler.new_client()
        jobs = [*bench.submit("t"), *bench.submit("t", client=other)]
        assert scheduler.running_as("t/0") == []  # they wait
        scheduler.update([replica("a"), replica("b")], [])
        assert scheduler.running_as("t/0") == jobs
        await bench.calling(2)
        bench.finish(0, LOST)
        await bench.calling(3)
        assert scheduler.running_as("t/0") == [jobs[1], jobs[0]]  # another attempt
        scheduler.close_client(other)
        assert scheduler.running_as("t/0") == [jobs[0]]  # what its agent has not stopped yet is nobody's
        bench.finish(1)
        bench.finish(2)
        await asyncio.gather(*(job.call for job in jobs if job.call is not None))
        assert scheduler.running_as("t/0") == []
        assert bench.ended.pop("t/0") == 2


class TestAgain:
    async def test_a_lost_host_costs_an_attempt(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a"), replica("b")], [])
        bench.submit("t")
        await bench.calling(1)
        bench.finish(0, LOST)
        await bench.calling(2)
        first, second = (server.server_id for server, _, _ in bench.calls)
        assert first != second, "the next attempt goes elsewhere"
        assert bench.calls[1][1].attempt == 2
        bench.finish(1)
        await bench.ends(1)
        assert bench.done["t/0"].attempt == 2
        assert not bench.done["t/0"].HasField("failure")
        assert bench.scheduler.retries_total == 1

    async def test_the_limit_ends_it_with_all_attempts_told(self, bench: Bench) -> None:
        def lost(*_: object) -> RunRolloutResponse:
            raise error("SESSION_LOST", "gone")

        bench.answer = lost
        bench.scheduler.update([replica("a")], [])
        bench.submit("t", retries=2)
        await bench.ends(1)
        rollout = bench.done["t/0"]
        assert (rollout.outcome, rollout.attempt) == (ENV_FAILED, 3)
        assert rollout.failure.stage == Stage.STAGE_TRANSPORT
        assert rollout.failure.failure_class == FailureClass.FAILURE_CLASS_INFRA
        assert [attempt.attempt for attempt in rollout.failure.attempts] == [1, 2]
        assert not rollout.HasField("reward")

    async def test_a_refusal_costs_no_attempt(self, bench: Bench) -> None:
        answers = [error("DRAINING", "leaving"), error("LIMIT_REACHED", "full")]

        def refuse(*_: object) -> RunRolloutResponse:
            if answers:
                raise answers.pop()
            return good()

        bench.answer = refuse
        bench.scheduler.update([replica("a")], [])
        bench.submit("t", retries=0)
        await bench.ends(1)
        assert (bench.done["t/0"].outcome, bench.done["t/0"].attempt) == (COMPLETED, 1)

    @pytest.mark.parametrize("stage", [Stage.STAGE_SEED, Stage.STAGE_TRANSPORT])
    async def test_a_rollout_that_says_try_again(self, bench: Bench, stage: int) -> None:
        def answer(server: Server, request: RunRolloutRequest) -> RunRolloutResponse:
            if request.attempt == 2:
                return good()
            response = RunRolloutResponse()
            response.rollout.outcome = ENV_FAILED
            failure = response.rollout.failure
            failure.failure_class, failure.stage = FailureClass.FAILURE_CLASS_INFRA, stage  # type: ignore[assignment]
            failure.retriable = True
            return response

        bench.answer = answer
        bench.scheduler.update([replica("a")], [])
        bench.submit("t")
        await bench.ends(1)
        assert (bench.done["t/0"].outcome, bench.done["t/0"].attempt) == (COMPLETED, 2)

    async def test_a_failed_model_is_not_tried_again(self, bench: Bench) -> None:
        response = RunRolloutResponse()
        response.rollout.outcome = Outcome.OUTCOME_MODEL_FAILED
        response.rollout.failure.retriable = True
        response.rollout.failure.failure_class = FailureClass.FAILURE_CLASS_INFRA
        response.rollout.failure.stage = Stage.STAGE_MODEL
        response.rollout.failure.status.reason = ErrorReason.ERROR_REASON_UPSTREAM_UNAVAILABLE
        response.rollout.reward.value = 0.0
        bench.answer = lambda *_: response
        bench.scheduler.update([replica("a")], [])
        bench.submit("t")
        await bench.ends(1)
        rollout = bench.done["t/0"]
        assert (rollout.outcome, rollout.attempt) == (Outcome.OUTCOME_MODEL_FAILED, 1)
        assert not rollout.HasField("reward"), "nobody may fabricate a reward for what failed"

    async def test_an_unreachable_replica_is_probed_by_one(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a")], [])
        bench.submit("t", count=20)
        await bench.calling(20)
        for position in range(20):
            bench.finish(position, LOST)
        await bench.calling(21)
        await asyncio.sleep(0.05)
        assert len(bench.calls) == 21, "one rollout tries a replica that was lost, the others wait"
        bench.answer = good
        bench.finish(20)
        await bench.ends(20)
        assert {rollout.attempt for rollout in bench.done.values()} == {2}


class TestVerdicts:
    @pytest.mark.parametrize(
        ("reason", "outcome", "kind"),
        [
            ("INVALID_REQUEST", Outcome.OUTCOME_INVALID_TASK, FailureClass.FAILURE_CLASS_DATA),
            ("SERVER_CODE_FAILED", ENV_FAILED, FailureClass.FAILURE_CLASS_INFRA),
            ("DEADLINE_EXCEEDED", TIMED_OUT, FailureClass.FAILURE_CLASS_CLIENT),
            ("UPSTREAM_AUTH", Outcome.OUTCOME_MODEL_FAILED, FailureClass.FAILURE_CLASS_INFRA),
        ],
    )
    async def test_errors(self, bench: Bench, reason: str, outcome: int, kind: int) -> None:
        bench.scheduler.update([replica("a")], [])
        bench.submit("t")
        await bench.calling(1)
        bench.finish(0, error(reason, "it went wrong"))
        await bench.ends(1)
        rollout = bench.done["t/0"]
        assert (rollout.outcome, rollout.failure.failure_class) == (outcome, kind)
        assert rollout.failure.status.message == "it went wrong"
        assert not rollout.HasField("reward")

    async def test_a_bug_in_a_call_is_a_result_too(self, bench: Bench) -> None:
        def bug(*_: object) -> RunRolloutResponse:
            raise ZeroDivisionError("oops")

        bench.answer = bug
        bench.scheduler.update([replica("a")], [])
        bench.submit("t")
        await bench.ends(1)
        assert bench.done["t/0"].outcome == ENV_FAILED
        assert "oops" in bench.done["t/0"].failure.status.message

    async def test_a_rollout_without_an_outcome(self, bench: Bench) -> None:
        bench.answer = lambda *_: RunRolloutResponse()
        bench.scheduler.update([replica("a")], [])
        bench.submit("t")
        await bench.ends(1)
        assert bench.done["t/0"].outcome == ENV_FAILED
        assert "outcome" in bench.done["t/0"].failure.status.message


class TestLimits:
    async def test_queue_deadline(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", STARTING, why="building its environment")], [])
        bench.submit("t", queue_s=0.05)
        await bench.ends(1)
        rollout = bench.done["t/0"]
        assert (rollout.outcome, rollout.failure.stage) == (TIMED_OUT, Stage.STAGE_QUEUE)
        assert rollout.termination_reason == "deadline"
        assert "building its environment" in rollout.failure.status.message

    async def test_rollout_deadline_counts_from_acceptance(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", limit=1)], [])
        bench.submit("t")
        bench.submit("u", rollout_s=0.05)
        await bench.calling(1)
        await bench.ends(1)
        assert bench.done["u/0"].outcome == TIMED_OUT
        bench.finish(0)
        await bench.ends(2)

    async def test_a_given_up_agent_ends_what_waits_for_it(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", STARTING)], [])
        bench.submit("t", count=3)
        bench.scheduler.update([replica("a", FAILED, why="no API key")], [])
        await bench.ends(3)
        assert {rollout.outcome for rollout in bench.done.values()} == {ENV_FAILED}
        assert "no API key" in bench.done["t/0"].failure.status.message

    async def test_an_agent_that_left_is_waited_for_only_so_long(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scheduler_module, "GONE_WAIT_S", 0.05)
        bench.scheduler.update([replica("a", STARTING)], [])
        bench.submit("t")
        bench.scheduler.update([], ["a"])
        await bench.ends(1)
        assert "left the registry" in bench.done["t/0"].failure.status.message

    async def test_a_drained_replica_gets_nothing_new(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a"), replica("b", DRAINING)], [])
        bench.submit(*"tu")
        await bench.calling(2)
        assert {server.server_id for server, _, _ in bench.calls} == {"a"}
        bench.finish(0)
        bench.finish(1)
        await bench.ends(2)


class TestCancel:
    async def test_queued_and_running(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", limit=1)], [])
        running, queued = bench.submit("t", "u")
        await bench.calling(1)
        assert bench.scheduler.cancel(queued, "enough")
        assert bench.done["u/0"].outcome == CANCELLED, "a queued one ends at once"
        assert bench.scheduler.cancel(running, "enough")
        assert not bench.scheduler.cancel(running, "enough"), "it is being stopped already"
        await bench.ends(2)
        assert bench.calls[0][2].cancelled(), "the call itself was cancelled"
        rollout = bench.done["t/0"]
        assert (rollout.outcome, rollout.termination_reason) == (CANCELLED, "cancelled")
        assert rollout.failure.failure_class == FailureClass.FAILURE_CLASS_CLIENT
        assert not bench.scheduler.cancel(running, "enough")

    async def test_between_two_attempts(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scheduler_module, "RETRY_BASE_S", 60.0)
        bench.scheduler.update([replica("a")], [])
        (job,) = bench.submit("t", rollout_s=3600)
        await bench.calling(1)
        bench.finish(0, LOST)
        for _ in range(5):  # the call's end travels through the loop
            await asyncio.sleep(0)
        assert job.timer is not None
        assert bench.client.queued == 1
        assert bench.scheduler.cancel(job, "enough")
        assert bench.done["t/0"].outcome == CANCELLED

    async def test_cancelled_ones_do_not_pile_up(self, bench: Bench) -> None:
        bench.scheduler.update([replica("a", STARTING)], [])
        for number in range(50):
            for job in bench.submit(f"t{number}", count=100):
                bench.scheduler.cancel(job, "enough")
        assert sum(len(lane.jobs) for lane in bench.client.lanes.values()) < 200
        bench.scheduler.update([replica("a")], [])
        bench.answer = good
        bench.submit("last")
        await bench.ends(5001)
        assert bench.done["last/0"].outcome == COMPLETED


async def test_pauses_before_another_attempt_grow_to_a_bound_and_vary(bench: Bench) -> None:
    [job] = bench.submit("t", retries=100)
    again = Verdict(ENV_FAILED, again="failed")
    first = {bench.scheduler._pause(job, again) for _ in range(100)}
    assert len(first) > 90
    assert 0.005 <= min(first) < max(first) <= 0.015
    job.attempt = 60
    last = {bench.scheduler._pause(job, again) for _ in range(100)}
    assert 2.5 <= min(last) < max(last) <= 7.5
    job.attempt = 101
    assert bench.scheduler._pause(job, again) < 0  # no further one
    bench.scheduler.cancel(job, "enough")


async def test_thousands_end_exactly_once_while_replicas_come_and_go(bench: Bench) -> None:
    failing = True

    def answer(server: Server, request: RunRolloutRequest) -> RunRolloutResponse:
        if failing and server.server_id == "a" and request.index % 3 == 0:
            raise error("SESSION_LOST", "gone")
        return good()

    bench.answer = answer
    bench.scheduler.max_running = 100
    bench.scheduler.update([replica("a"), replica("b", limit=20)], [])
    bench.submit("t", count=5000, retries=10)
    await bench.ends(1000)
    bench.scheduler.update([replica("c")], ["b"])
    await bench.ends(3000)
    failing = False
    await bench.ends(5000)
    assert {rollout.outcome for rollout in bench.done.values()} == {COMPLETED}

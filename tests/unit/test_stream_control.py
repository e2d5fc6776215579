"""What trainers steer on the rollout stream: groups, credits of each kind, cancels, versions."""

import pytest

from gymapi.v1.agent_service_pb2 import StopMode
from gymapi.v1.rollout_pb2 import Outcome
from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    CancelMode,
    CancelWork,
    GrantCredits,
    GroupCancelReason,
    InflightMode,
    OpenSession,
    PolicyPhase,
    PolicyUpdate,
    StalenessMode,
    TaskSubmission,
)
from gymd.errors import InvalidRequest
from tests.fakes.plan import CANCELLED, COMPLETED, Plan, reason, task

LIVE, PAUSED, PENDING = (
    PolicyPhase.POLICY_PHASE_LIVE,
    PolicyPhase.POLICY_PHASE_PAUSED,
    PolicyPhase.POLICY_PHASE_PENDING,
)


class TestGroups:
    def test_enough_of_a_group_cancels_the_rest(self) -> None:
        plan = Plan().open(credits=20)
        plan.submit(task("a", 4, group_id="g", wanted_count=2), task("b", 1))
        plan.executor.finish(2, reward=1.0)
        outcomes = [outcome for _, _, outcome in plan.results()]
        assert outcomes == [COMPLETED, COMPLETED, CANCELLED, CANCELLED]
        completed = plan.take("group_completed").group_completed
        assert (completed.group_id, completed.mean_reward) == ("g", 1.0)
        assert [job.finished for job in plan.executor.jobs] == [True] * 4 + [False]

    def test_a_rollout_without_a_reward_is_not_enough(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 3, group_id="g", wanted_count=1))
        plan.executor.finish(2)
        assert not plan.executor.jobs[2].finished

    def test_what_joins_a_group_that_has_enough_is_stopped(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", group_id="g", wanted_count=1), task("b", group_id="g"))
        plan.executor.finish(1, reward=0.0)
        plan.results()
        plan.take("group_completed")
        assert plan.executor.jobs[1].finished

    def test_a_task_alone_may_want_fewer_too(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 3, wanted_count=1))
        plan.executor.finish(1, reward=0.5)
        assert [outcome for _, _, outcome in plan.results()] == [COMPLETED, CANCELLED, CANCELLED]
        plan.nothing()

    def test_a_group_that_was_given_up_says_so(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 3, group_id="g"))
        plan.executor.finish(1, reward=1.0)
        plan.send(cancel=CancelWork(group_id="g"))
        plan.take("cancelled")
        plan.results()
        news = plan.take("group_cancelled").group_cancelled
        assert (news.group_id, news.stopped_count) == ("g", 2)
        assert news.reason == GroupCancelReason.GROUP_CANCEL_REASON_CLIENT
        assert [(c.outcome, c.count) for c in news.outcome_counts] == [(COMPLETED, 1), (CANCELLED, 2)]

    def test_a_shutdown_is_the_reason_where_it_is(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", group_id="g"))
        plan.session.drain(1.0, "update")
        plan.take("draining")
        plan.session.cancel_all("update")
        plan.results()
        news = plan.take("group_cancelled").group_cancelled
        assert news.reason == GroupCancelReason.GROUP_CANCEL_REASON_SHUTDOWN

    def test_a_negative_number_wanted_is_refused(self) -> None:
        assert Plan().open().submit(task("a", wanted_count=-1)) == [reason("INVALID_REQUEST")]


class TestCredits:
    def test_rejected_results_give_their_credits_back_once(self) -> None:
        plan = Plan().open(credits=4)
        plan.submit(task("a", 4))
        plan.executor.finish(4)
        plan.results()
        assert plan.submit(task("b")) == [reason("CREDIT_EXCEEDED")]
        plan.send(ack=AckResults(through_sequence=2, rejected_sequences=[1, 2, 2]))
        plan.send(ack=AckResults(through_sequence=3, rejected_sequences=[1, 2]))  # settled already
        assert plan.submit(task("c", 3)) == [reason("CREDIT_EXCEEDED")]
        assert plan.submit(task("d", 2)) == [0]

    @pytest.mark.parametrize(
        "ack",
        [
            AckResults(through_sequence=1, rejected_sequences=[2]),
            AckResults(through_sequence=2, rejected_sequences=[7]),
        ],
    )
    def test_only_what_is_acknowledged_can_be_rejected(self, ack: AckResults) -> None:
        plan = Plan().open()
        plan.submit(task("a", 2))
        plan.executor.finish(2)
        plan.results()
        with pytest.raises(InvalidRequest):
            plan.send(ack=ack)

    @pytest.mark.parametrize("window", [0, 60])
    def test_groups_are_counted_and_come_back_with_their_last_result(self, window: int) -> None:
        plan = Plan()
        opening = OpenSession(granted_rollouts=100, granted_groups=2)
        opening.resume_window.seconds = window
        plan.send(open=opening)
        plan.take("opened")
        assert plan.submit(task("a", 2, group_id="g"), task("b", group_id="g"), task("c")) == [0, 0, 0]
        assert plan.submit(task("d", group_id="h")) == [reason("CREDIT_EXCEEDED")]
        assert plan.submit(task("e", group_id="g")) == [0]  # the group has its credit
        plan.executor.finish(10, reward=1.0)
        assert [sequence for sequence, _, _ in plan.results()] == [1, 2, 3, 4, 5]
        plan.take("group_completed")
        plan.send(ack=AckResults(through_sequence=3, rejected_sequences=[1, 3]))
        assert plan.submit(task("d", group_id="h")) == [reason("CREDIT_EXCEEDED")]
        plan.send(ack=AckResults(through_sequence=5, rejected_sequences=[4, 5]))
        assert plan.submit(task("f", group_id="h")) == [0]
        plan.send(grant=GrantCredits(granted_rollouts=100, granted_groups=9))
        assert plan.submit(task("i")) == [0]

    @pytest.mark.parametrize("window", [0, 60])
    def test_results_wait_for_bytes(self, window: int) -> None:
        plan = Plan()
        opening = OpenSession(granted_rollouts=10, granted_bytes=1500)
        opening.resume_window.seconds = window
        plan.send(open=opening)
        session = plan.take("opened").opened.session_id
        plan.submit(task("a", 3))
        plan.executor.finish(3, text="x" * 1000)
        assert plan.results() == [(1, "a/0", COMPLETED)]
        plan.nothing()
        plan.now += 11
        assert 1000 < plan.take("progress").progress.waiting_result_bytes < 1200
        plan.send(grant=GrantCredits(granted_bytes=1600))  # never shrinks, does not fit yet
        plan.nothing()
        plan.send(grant=GrantCredits(granted_bytes=2500))
        assert plan.results() == [(2, "a/1", COMPLETED)]
        if window:  # what is sent again counts once
            again = OpenSession(session_id=session, last_sequence=0)
            plan.session.resume(again, plan.wake)
            plan.take("opened")
            assert [sequence for sequence, _, _ in plan.results()] == [1, 2]
        plan.nothing()
        plan.send(grant=GrantCredits(granted_bytes=10_000))
        assert plan.results() == [(3, "a/2", COMPLETED)]

    @pytest.mark.parametrize("field", ["granted_groups", "granted_bytes"])
    def test_negative_grants_are_refused(self, field: str) -> None:
        with pytest.raises(InvalidRequest):
            Plan().open().send(grant=GrantCredits(**{field: -1}))  # type: ignore[arg-type]

    def test_after_the_half_close_bytes_do_not_count(self) -> None:
        plan = Plan().open(granted_bytes=10)
        plan.submit(task("a"))
        plan.executor.finish(1)
        plan.nothing()
        plan.session.half_close()
        assert plan.results() == [(1, "a/0", COMPLETED)]
        plan.take("summary")

    @pytest.mark.parametrize("size", [-1, 1, 4095])
    def test_messages_must_hold_something(self, size: int) -> None:
        with pytest.raises(InvalidRequest, match="4096 or more"):
            Plan().send(open=OpenSession(max_message_bytes=size))


class TestCancelModes:
    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (CancelMode.CANCEL_MODE_UNSPECIFIED, StopMode.STOP_MODE_ABORT),
            (CancelMode.CANCEL_MODE_PARTIAL, StopMode.STOP_MODE_PARTIAL),
            (CancelMode.CANCEL_MODE_FINISH_TURN, StopMode.STOP_MODE_FINISH_TURN),
        ],
    )
    def test_agents_are_told_the_mode(self, asked: CancelMode, told: StopMode) -> None:
        plan = Plan().open()
        plan.submit(task("a"))
        plan.send(cancel=CancelWork(all=True, mode=asked))
        assert plan.executor.modes == [told]

    def test_an_unknown_mode_is_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="mode 9"):
            Plan().open().send(cancel=CancelWork(all=True, mode=9))  # type: ignore[arg-type]

    async def test_older_than_a_version_covers_what_runs(self) -> None:
        plan = Plan().open(policy_version=3)
        plan.submit(task("a", 2))
        plan.executor.start(0)
        plan.send(policy_update=PolicyUpdate(version=4, phase=LIVE))
        plan.send(cancel=CancelWork(older_than_version=3))
        assert plan.take("cancelled").cancelled.cancelled_count == 0
        plan.send(cancel=CancelWork(older_than_version=4))
        assert plan.take("cancelled").cancelled.cancelled_count == 1
        assert plan.results() == [(1, "a/0", CANCELLED)]


def constrained(task_id: str, mode: StalenessMode, lag: int = 1) -> TaskSubmission:
    one = task(task_id, group_id="g")
    one.policy_constraint.max_version_lag = lag
    one.policy_constraint.mode = mode
    return one


class TestPolicy:
    async def test_an_update_is_acknowledged_when_the_agents_know(self) -> None:
        plan = Plan().open(policy_version=1)
        plan.submit(task("a", 2))
        plan.executor.start(0)
        plan.send(policy_update=PolicyUpdate(version=2, phase=LIVE))
        plan.nothing()
        [(jobs, request)] = plan.executor.told
        assert (len(jobs), request.live_version, request.hold_calls) == (1, 2, False)
        plan.executor.agents_know()
        ack = plan.take("policy_update_ack").policy_update_ack
        assert (ack.version, ack.phase, ack.older_running_count, ack.running_count) == (2, LIVE, 1, 1)

    @pytest.mark.parametrize(
        ("inflight", "holds", "aborts"),
        [
            (InflightMode.INFLIGHT_MODE_CONTINUE, False, False),
            (InflightMode.INFLIGHT_MODE_HOLD, True, False),
            (InflightMode.INFLIGHT_MODE_ABORT_RESUME, True, True),
        ],
    )
    async def test_a_pause_holds_what_it_says(
        self, inflight: InflightMode, holds: bool, aborts: bool
    ) -> None:
        plan = Plan().open(policy_version=1)
        plan.submit(task("a"))
        plan.executor.start(0)
        client = plan.executor.jobs[0].client
        plan.send(policy_update=PolicyUpdate(version=2, phase=PENDING, inflight=inflight))
        assert not client.held
        assert not plan.executor.told[-1][1].hold_calls
        plan.send(policy_update=PolicyUpdate(version=2, phase=PAUSED, inflight=inflight))
        assert client.held
        request = plan.executor.told[-1][1]
        assert (request.hold_calls, request.abort_calls, request.live_version) == (holds, aborts, 1)
        plan.send(policy_update=PolicyUpdate(version=2, phase=LIVE, inflight=inflight))
        assert not client.held
        assert not plan.executor.told[-1][1].hold_calls
        assert client.version == 2

    async def test_a_drain_is_acknowledged_again_when_nothing_runs(self) -> None:
        plan = Plan().open(policy_version=1)
        plan.submit(task("a"))
        plan.executor.start(0)
        update = PolicyUpdate(version=2, phase=PENDING, inflight=InflightMode.INFLIGHT_MODE_DRAIN)
        plan.send(policy_update=update)
        plan.executor.agents_know()
        assert plan.take("policy_update_ack").policy_update_ack.running_count == 1
        assert plan.executor.jobs[0].client.held
        plan.executor.finish(1)
        assert plan.take("policy_update_ack").policy_update_ack.running_count == 0
        plan.results()
        plan.nothing()

    async def test_who_was_told_to_hold_hears_of_the_next_update_too(self) -> None:
        plan = Plan().open(policy_version=1)
        plan.submit(task("a"))
        plan.executor.start(0)
        hold = InflightMode.INFLIGHT_MODE_HOLD
        plan.send(policy_update=PolicyUpdate(version=2, phase=PAUSED, inflight=hold))
        plan.executor.finish(1)  # its last call ended; nothing of the host runs any more
        plan.send(policy_update=PolicyUpdate(version=2, phase=LIVE))
        [(first, _), (second, request)] = plan.executor.told
        assert (first, request.hold_calls) == (second, False)

    async def test_a_drain_with_nothing_running_needs_one_answer(self) -> None:
        plan = Plan().open(policy_version=1)
        update = PolicyUpdate(version=2, phase=PENDING, inflight=InflightMode.INFLIGHT_MODE_DRAIN)
        plan.send(policy_update=update)
        plan.executor.agents_know()
        assert plan.take("policy_update_ack").policy_update_ack.running_count == 0
        plan.nothing()

    async def test_a_trainer_that_resumes_with_a_version_ends_the_pause(self) -> None:
        plan = Plan()
        opening = OpenSession(granted_rollouts=5, policy_version=1)
        opening.resume_window.seconds = 60
        plan.send(open=opening)
        plan.take("opened")
        plan.send(policy_update=PolicyUpdate(version=2, phase=PAUSED))
        plan.submit(task("a"))
        client = plan.executor.jobs[0].client
        assert client.held
        plan.session.resume(OpenSession(session_id="s1"), plan.wake)
        opened = plan.take("opened").opened
        assert (opened.policy_version, opened.policy_paused) == (1, True)
        plan.session.resume(OpenSession(session_id="s1", policy_version=3), plan.wake)
        assert (client.held, client.version) == (False, 3)
        opened = plan.take("opened").opened
        assert (opened.policy_version, opened.policy_paused) == (3, False)

    @pytest.mark.parametrize(
        "update",
        [PolicyUpdate(version=1), PolicyUpdate(version=1, phase=LIVE), PolicyUpdate(version=9, phase=8)],  # type: ignore[arg-type]
    )
    async def test_versions_only_grow_and_phases_are_known(self, update: PolicyUpdate) -> None:
        with pytest.raises(InvalidRequest):
            Plan().open(policy_version=2).send(policy_update=update)

    async def test_versions_stand_in_the_rollout(self) -> None:
        plan = Plan().open(policy_version=1)
        plan.submit(task("a"))
        plan.executor.start(0)
        plan.send(policy_update=PolicyUpdate(version=5, phase=LIVE))
        plan.executor.finish(1)
        policy = plan.take("results").results.results[0].rollout.policy
        assert (policy.start_version, policy.end_version, policy.stale) == (1, 5, False)

    @pytest.mark.parametrize(
        ("mode", "outcome"),
        [
            (StalenessMode.STALENESS_MODE_PACE, COMPLETED),
            (StalenessMode.STALENESS_MODE_UNSPECIFIED, COMPLETED),
            (StalenessMode.STALENESS_MODE_MASK, COMPLETED),
            (StalenessMode.STALENESS_MODE_WITHHOLD, Outcome.OUTCOME_STALE),
        ],
    )
    async def test_nothing_too_old_is_delivered_unmarked(self, mode: StalenessMode, outcome: int) -> None:
        plan = Plan().open(policy_version=1)
        plan.submit(constrained("a", mode))
        plan.executor.start(0)
        plan.send(policy_update=PolicyUpdate(version=3, phase=LIVE))
        plan.executor.finish(1, reward=1.0, text="long")
        rollout = plan.take("results").results.results[0].rollout
        assert (rollout.outcome, rollout.policy.stale) == (outcome, True)
        masked = rollout.reward.HasField("use_for_loss") and not rollout.reward.use_for_loss
        assert masked == (mode == StalenessMode.STALENESS_MODE_MASK)
        assert rollout.HasField("reward") == (outcome == COMPLETED)
        if outcome != COMPLETED:
            assert "allows a lag of 1" in rollout.failure.status.message
            news = plan.take("group_cancelled").group_cancelled
            assert news.reason == GroupCancelReason.GROUP_CANCEL_REASON_STALE

    async def test_drop_stops_it_when_the_version_goes_live(self) -> None:
        plan = Plan().open(policy_version=1)
        plan.submit(constrained("a", StalenessMode.STALENESS_MODE_DROP), task("b"))
        plan.executor.start(0, 1)
        plan.send(policy_update=PolicyUpdate(version=2, phase=LIVE))
        assert not plan.executor.jobs[0].finished
        plan.send(policy_update=PolicyUpdate(version=3, phase=LIVE))
        assert [job.finished for job in plan.executor.jobs] == [True, False]

    @pytest.mark.parametrize("field", ["min_version", "max_version_lag"])
    def test_a_bad_constraint_rejects_the_task_only(self, field: str) -> None:
        bad = task("a")
        setattr(bad.policy_constraint, field, -1)
        assert Plan().open().submit(bad, task("b")) == [reason("INVALID_REQUEST"), 0]

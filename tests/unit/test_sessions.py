"""The protocol of StreamRollouts, played by plan against a stand-in for the scheduler."""

import pytest

from gymapi.v1.rollout_service_pb2 import (
    CancelWork,
    GrantCredits,
    OpenSession,
    StreamRolloutsRequest,
    StreamRolloutsResponse,
    SubmitTasks,
    TaskSubmission,
)
from gymd.errors import InvalidRequest, Unavailable, Unimplemented
from tests.fakes.plan import CANCELLED, COMPLETED, Plan, reason, task


class TestHandshake:
    def test_opened_says_what_the_daemon_can_do(self) -> None:
        plan = Plan(max_running=7)
        plan.send(open=OpenSession(granted_rollouts=1))
        opened = plan.take("opened").opened
        assert (opened.session_id, opened.resumed, opened.max_running_rollouts) == ("s1", False, 7)
        assert opened.progress_interval.seconds == 10
        assert {"groups", "resume", "policy_versions", "trainer_policy"} <= set(opened.features)
        assert opened.daemon_version == "9"

    @pytest.mark.parametrize("kind", ["submit", "grant", "ack", "cancel"])
    def test_open_comes_first(self, kind: str) -> None:
        frame = StreamRolloutsRequest()
        getattr(frame, kind).SetInParent()
        with pytest.raises(InvalidRequest) as caught:
            Plan().session.receive(frame)
        assert caught.value.reason_name == "PROTOCOL_VIOLATION"

    def test_open_comes_once(self) -> None:
        with pytest.raises(InvalidRequest, match="open already"):
            Plan().open().send(open=OpenSession())

    def test_half_close_before_open(self) -> None:
        with pytest.raises(InvalidRequest):
            Plan().session.half_close()

    def test_progress_interval_is_kept_in_bounds(self) -> None:
        plan = Plan()
        opening = OpenSession()
        opening.progress_interval.seconds = 3600
        plan.send(open=opening)
        assert plan.take("opened").opened.progress_interval.seconds == 60

    @pytest.mark.parametrize(
        "opening",
        [
            OpenSession(granted_rollouts=-1),
            OpenSession(infra_retry_limit=-1),
            OpenSession(max_message_bytes=-1),
        ],
    )
    def test_values_out_of_range(self, opening: OpenSession) -> None:
        with pytest.raises(InvalidRequest):
            Plan().send(open=opening)

    def test_a_silent_client_does_not_spin_the_daemon(self) -> None:
        plan = Plan()
        plan.now += 1000
        plan.nothing()
        assert plan.session.silence_left() > 1


class TestNotBuiltYet:
    @pytest.mark.parametrize(
        ("frame", "feature"),
        [({}, "unknown_frame")],
    )
    def test_frames(self, frame: dict[str, object], feature: str) -> None:
        with pytest.raises(Unimplemented) as caught:
            Plan().open().send(**frame)
        assert caught.value.metadata["feature"] == feature


class TestAdmission:
    def test_one_bad_task_does_not_touch_the_others(self) -> None:
        missing_task, missing_input = TaskSubmission(task_id="x"), TaskSubmission(task_id="y")
        missing_input.task.agent = "calc"
        bad_deadline = task("z")
        bad_deadline.deadlines.rollout.seconds = -1
        plan = Plan().open(100)
        found = plan.submit(
            task("a"),
            task(""),
            task("a"),
            missing_task,
            missing_input,
            task("b", agent="clac"),
            task("c", count=-1),
            task("d", count=65_537),
            task("e", first_index=-1),
            bad_deadline,
            task("f"),
        )
        invalid = reason("INVALID_REQUEST")
        wanted = [0, invalid, reason("NAME_TAKEN"), invalid, invalid, reason("SERVER_NOT_FOUND")]
        assert found == [*wanted, invalid, invalid, invalid, invalid, 0]
        assert [job.rollout_id for job in plan.executor.jobs] == ["a/0", "f/0"]
        assert plan.session.ledger.rejected == 9

    def test_too_large_a_task_names_the_sizes(self) -> None:
        plan = Plan(max_task_bytes=100).open()
        big = task("big")
        big.task.fields_json = "x" * 200
        plan.send(submit=SubmitTasks(tasks=[big]))
        rejection = plan.take("admissions").admissions.admissions[0].rejection
        assert rejection.reason == reason("MESSAGE_TOO_LARGE")
        assert int(rejection.metadata["size_bytes"]) > int(rejection.metadata["limit_bytes"]) == 100

    def test_no_agent_at_all(self) -> None:
        plan = Plan()
        plan.session._agents.default = lambda: ""
        assert plan.open().submit(task("a"), task("b", agent="calc")) == [reason("INVALID_REQUEST"), 0]

    def test_the_default_agent_of_the_session_wins(self) -> None:
        plan = Plan().open(default_agent="other")
        plan.submit(task("a"), task("b", agent="calc"))
        assert [job.task.agent for job in plan.executor.jobs] == ["other", "calc"]

    def test_what_the_agent_is_asked(self) -> None:
        plan = Plan()
        opening = OpenSession(granted_rollouts=4, return_tokens=True, infra_retry_limit=1)
        opening.deadlines.model.seconds = 5
        opening.deadlines.rollout.seconds = 50
        plan.send(open=opening)
        plan.take("opened")
        one = task("t", count=2, group_id="g", first_index=3)
        one.deadlines.rollout.seconds = 7
        plan.submit(one)
        first, second = plan.executor.jobs
        request = second.build_request()
        assert (request.rollout_id, request.index, request.attempt) == ("t/4", 4, 1)
        assert (request.task_id, request.group_id, request.return_tokens) == ("t", "g", True)
        assert (request.deadlines.model.seconds, request.deadlines.rollout.seconds) == (5, 7)
        assert (first.task.rollout_s, first.task.retry_limit) == (7.0, 1)
        assert first.build_request() is not request, "rollouts of a task run at the same time"


class TestCredits:
    def test_a_task_beyond_the_grant_is_rejected_and_costs_nothing(self) -> None:
        plan = Plan().open(3)
        over = reason("CREDIT_EXCEEDED")
        assert plan.submit(task("a", 2), task("b", 2), task("c"), task("d")) == [0, over, 0, over]
        plan.send(grant=GrantCredits(granted_rollouts=5))
        plan.send(grant=GrantCredits(granted_rollouts=4))
        assert plan.submit(task("b", 2), task("d")) == [0, over]

    def test_credits_are_a_total_over_the_session(self) -> None:
        plan = Plan().open(1)
        plan.submit(task("a"))
        plan.executor.finish()
        assert plan.results() == [(1, "a/0", COMPLETED)]
        assert plan.submit(task("b")) == [reason("CREDIT_EXCEEDED")]

    def test_a_delivered_id_may_be_used_again(self) -> None:
        plan = Plan().open(3)
        plan.submit(task("a"))
        plan.executor.finish()
        assert plan.submit(task("a")) == [reason("NAME_TAKEN")], "not delivered yet"
        plan.results()
        assert plan.submit(task("a")) == [0]


class TestResults:
    def test_numbers_have_no_gaps_and_batches_are_bounded(self) -> None:
        plan = Plan().open(200)
        plan.submit(task("a", 200))
        plan.executor.finish(200)
        sizes, numbers = [], []
        for _ in range(4):
            batch = plan.results()
            sizes.append(len(batch))
            numbers += [number for number, _, _ in batch]
        assert sizes == [64, 64, 64, 8]
        assert numbers == list(range(1, 201))
        plan.nothing()

    def test_large_results_get_frames_of_their_own(self) -> None:
        plan = Plan().open(4, max_message_bytes=64 << 20)
        plan.submit(task("a", 4))
        plan.executor.finish(4, text="x" * 600_000)
        assert [len(plan.results()) for _ in range(4)] == [1, 1, 1, 1]

    def test_a_result_that_the_client_cannot_take_becomes_a_failure(self) -> None:
        plan = Plan().open(2, max_message_bytes=10_000)
        plan.submit(task("a"), task("b"))
        plan.executor.finish(1, text="x" * 20_000, reward=1.0)
        plan.executor.finish(1, reward=1.0)
        frame = plan.take("results").results
        big, small = (result.rollout for result in frame.results)
        assert big.failure.status.reason == reason("MESSAGE_TOO_LARGE")
        assert (big.rollout_id, big.HasField("reward")) == ("a/0", False)
        assert small.reward.value == 1.0

    def test_acks(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 2))
        plan.executor.finish(2)
        frame = StreamRolloutsRequest()
        frame.ack.through_sequence = 1
        with pytest.raises(InvalidRequest) as caught:
            plan.session.receive(frame)
        assert caught.value.reason_name == "PROTOCOL_VIOLATION"
        plan.results()
        plan.session.receive(frame)
        frame.ack.through_sequence = 0
        plan.session.receive(frame)
        assert plan.session.info().progress.acked_sequence == 1

    def test_what_was_delivered_is_forgotten(self) -> None:
        plan = Plan().open(64)
        granted = 64
        for number in range(0, 6400, 64):
            plan.submit(*(task(str(number + k), group_id=f"g{number}") for k in range(64)))
            plan.executor.finish(64)
            plan.executor.jobs.clear()
            plan.results()
            plan.take("group_completed")
            granted += 64
            plan.send(grant=GrantCredits(granted_rollouts=granted))
        ledger = plan.session.ledger
        assert not ledger.tasks
        assert not ledger.groups
        assert not ledger.results.size


class TestGroups:
    def test_completion_counts_outcomes_and_rewards(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 2, group_id="g"), task("b", group_id="g"), task("c"))
        plan.executor.finish(1, reward=1.0)
        plan.executor.finish(1, reward=0.0)
        assert len(plan.results()) == 2
        plan.nothing()
        plan.executor.finish(2)
        plan.results()
        group = plan.take("group_completed").group_completed
        assert (group.group_id, group.mean_reward) == ("g", 0.5)
        assert [(c.outcome, c.count) for c in group.outcome_counts] == [(COMPLETED, 3)]


class TestCancel:
    @pytest.mark.parametrize(
        ("scope", "stopped"),
        [
            ({"task_id": "a"}, ["a/0", "a/1"]),
            ({"group_id": "g"}, ["a/0", "a/1", "b/0"]),
            ({"agent": "other"}, ["c/0"]),
            ({"all": True}, ["a/0", "a/1", "b/0", "c/0", "d/0"]),
            ({"task_id": "nope"}, []),
            ({"group_id": "nope"}, []),
        ],
    )
    def test_scopes(self, scope: dict[str, object], stopped: list[str]) -> None:
        plan = Plan().open()
        plan.submit(task("a", 2, group_id="g"), task("b", group_id="g"), task("c", agent="other"), task("d"))
        plan.send(cancel=CancelWork(reason="enough", **scope))  # type: ignore[arg-type]
        answer = plan.take("cancelled").cancelled
        assert answer.cancelled_count == len(stopped)
        assert answer.request.reason == "enough"
        if stopped:
            frame = plan.take("results").results
            assert sorted(result.rollout.rollout_id for result in frame.results) == stopped
            assert {result.rollout.outcome for result in frame.results} == {CANCELLED}
            assert "enough" in frame.results[0].rollout.failure.status.message

    @pytest.mark.parametrize("cancel", [CancelWork(), CancelWork(all=False)])
    def test_scope_is_required(self, cancel: CancelWork) -> None:
        with pytest.raises(InvalidRequest):
            Plan().open().send(cancel=cancel)

    def test_what_ended_already_is_not_stopped(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 2))
        plan.executor.finish(1)
        plan.send(cancel=CancelWork(all=True))
        assert plan.take("cancelled").cancelled.cancelled_count == 1
        assert plan.results() == [(1, "a/0", COMPLETED), (2, "a/1", CANCELLED)]


class TestEnds:
    def test_half_close_ends_in_a_summary(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 2), task(""))
        plan.session.half_close()
        plan.nothing()
        with pytest.raises(InvalidRequest):
            plan.send(submit=SubmitTasks(tasks=[task("late")]))
        plan.executor.jobs[0].attempt = 2
        plan.executor.finish(2)
        plan.results()
        summary = plan.take("summary").summary
        assert (summary.accepted_task_count, summary.rejected_task_count) == (1, 1)
        assert (summary.result_count, summary.retried_count) == (2, 1)
        assert [(c.outcome, c.count) for c in summary.outcome_counts] == [(COMPLETED, 2)]
        assert plan.session.finished
        plan.nothing()

    def test_draining_refuses_tasks_and_ends_when_all_is_delivered(self) -> None:
        plan = Plan().open()
        plan.submit(task("a"))
        plan.session.drain(5.0, "update")
        draining = plan.take("draining").draining
        assert (draining.time_left.seconds, draining.reason) == (5, "update")
        assert plan.submit(task("b")) == [reason("DRAINING")]
        plan.nothing()
        assert plan.session.cancel_all("update") == 1
        assert plan.results() == [(1, "a/0", CANCELLED)]
        plan.take("summary")

    def test_draining_before_open(self) -> None:
        plan = Plan()
        plan.session.drain(5.0, "update")
        assert plan.session.refused is not None
        with pytest.raises(Unavailable):
            plan.send(open=OpenSession())

    def test_a_broken_stream_cancels_everything(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 3))
        plan.executor.finish(1)
        plan.session.abandon()
        assert all(job.finished for job in plan.executor.jobs)
        assert plan.executor.closed == 1
        plan.nothing()


class TestProgress:
    def test_after_silence(self) -> None:
        plan = Plan().open()
        plan.submit(task("a"))
        assert plan.session.silence_left() == 10.0
        plan.now += 9
        plan.nothing()
        plan.now += 1
        progress = plan.take("progress").progress
        assert (progress.last_sequence, progress.done_count) == (0, 0)
        plan.nothing()
        plan.executor.finish(1)
        plan.results()
        plan.now += 10
        assert plan.take("progress").progress.last_sequence == 1

    def test_a_client_that_reads_no_answers_is_not_read_either(self) -> None:
        plan = Plan().open()
        for _ in range(300):
            plan.send(submit=SubmitTasks(tasks=[task("")]))
        assert plan.session.congested
        while plan.session.next_frame() is not None:
            pass
        assert not plan.session.congested

    def test_answers_fit_into_what_the_client_accepts(self) -> None:
        plan = Plan().open(2000, max_message_bytes=4096)
        tasks = [task(f"{number:060}") for number in range(500)]
        plan.send(submit=SubmitTasks(tasks=tasks))
        told: list[str] = []
        while (frame := plan.session.next_frame()) is not None:
            assert isinstance(frame, bytes)
            assert len(frame) <= 4096
            admissions = StreamRolloutsResponse.FromString(frame).admissions.admissions
            told += [admission.task_id for admission in admissions]
        assert told == [one.task_id for one in tasks]

    def test_wakes_for_results(self) -> None:
        plan = Plan().open()
        plan.submit(task("a"))
        before = plan.wakes
        plan.executor.finish(1)
        assert plan.wakes > before

    def test_info(self) -> None:
        plan = Plan().open(client_name="trainer-0")
        info = plan.session.info()
        assert (info.session_id, info.client_name, info.granted_rollouts) == ("s1", "trainer-0", 10)

"""Sessions that outlive their stream and their daemon: nothing lost, nothing twice, the counts exact."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    EndSession,
    OpenSession,
    PolicyPhase,
    PolicyUpdate,
    StreamRolloutsResponse,
    SubmitTasks,
    TaskPurpose,
)
from gymd.daemon import results
from gymd.daemon.journal import Journal
from gymd.daemon.record import SessionRecord
from gymd.errors import GymdError, InvalidRequest, LimitReached, OutOfRange
from tests.fakes.durable import HOUR, committed, durable, restarted, resume
from tests.fakes.plan import COMPLETED, Plan, reason, task


class TestInMemory:
    def test_a_session_without_a_window_forgets_what_it_sent(self) -> None:
        plan = Plan().open(4)
        plan.submit(task("a"))
        plan.executor.finish()
        plan.results()
        assert plan.session.over
        assert not plan.session.ledger.tasks

    def test_results_that_were_not_stored_are_sent_again(self) -> None:
        plan = Plan().open(10, resume_window=HOUR)
        plan.submit(task("a", 2), task("b"))
        plan.executor.finish(3)
        sent = plan.results()
        assert [number for number, _, _ in sent] == [1, 2, 3]
        plan.send(ack=AckResults(through_sequence=1))
        resume(plan, 1)
        opened = plan.take("opened").opened
        assert (opened.resumed, opened.last_sequence, opened.used_rollouts, opened.granted_rollouts) == (
            True,
            3,
            3,
            10,
        )
        assert opened.resume_window == HOUR
        assert not opened.durable
        assert plan.results() == sent[1:]
        plan.send(ack=AckResults(through_sequence=3))
        assert not plan.session.ledger.tasks

    def test_work_goes_on_without_a_client(self) -> None:
        plan = Plan().open(10, resume_window=HOUR)
        plan.submit(task("a"), task("b"))
        plan.session.detach(plan.wake)
        plan.executor.finish(2)
        resume(plan, 0)
        plan.take("opened")
        assert [rollout for _, rollout, _ in plan.results()] == ["a/0", "b/0"]

    def test_a_repeated_task_is_known_and_runs_once(self) -> None:
        plan = Plan().open(3, resume_window=HOUR)
        plan.submit(task("a", 2, group_id="g"))
        resume(plan, 0)
        plan.take("opened")
        plan.send(
            submit=SubmitTasks(tasks=[task("a", 2, group_id="g"), task("a", 1, group_id="g"), task("b")])
        )
        first, second, third = plan.take("admissions").admissions.admissions
        assert first.known
        assert not first.HasField("rejection")
        assert second.rejection.reason == reason("NAME_TAKEN")  # the same id for something else
        assert not third.known
        assert not third.HasField("rejection")
        assert [job.rollout_id for job in plan.executor.jobs] == ["a/0", "a/1", "b/0"]
        assert plan.session.ledger.used == 3

    def test_a_task_is_known_until_its_results_are_stored(self) -> None:
        plan = Plan().open(5, resume_window=HOUR)
        plan.submit(task("a"))
        plan.executor.finish()
        plan.results()
        plan.send(submit=SubmitTasks(tasks=[task("a")]))
        assert plan.take("admissions").admissions.admissions[0].known
        plan.send(ack=AckResults(through_sequence=1))
        assert plan.submit(task("a")) == [0]
        assert len(plan.executor.jobs) == 2

    def test_a_point_that_is_gone_is_told_with_the_earliest(self) -> None:
        plan = Plan().open(5, resume_window=HOUR)
        plan.submit(task("a", 3))
        plan.executor.finish(3)
        plan.results()
        plan.send(ack=AckResults(through_sequence=2))
        with pytest.raises(OutOfRange) as caught:
            resume(plan, 1)
        assert caught.value.reason_name == "RESUME_POINT_GONE"
        assert caught.value.metadata["earliest_sequence"] == "3"

    @pytest.mark.parametrize("fields", [{"last": 2}, {"last": 1, "max_message_bytes": 1_000_000}])
    def test_a_client_cannot_resume_from_what_was_never_sent(self, fields: dict[str, int]) -> None:
        plan = Plan().open(5, resume_window=HOUR)
        plan.submit(task("a"))
        plan.executor.finish()
        plan.results()
        with pytest.raises(InvalidRequest):
            resume(plan, **fields)

    def test_a_client_that_accepts_too_little_to_hear_of_all_tasks_is_told_so(self) -> None:
        plan = Plan().open(1000, resume_window=HOUR, max_message_bytes=4096)
        plan.send(submit=SubmitTasks(tasks=[task(f"{number:060}") for number in range(200)]))
        plan.executor.finish(100)
        with pytest.raises(LimitReached, match="larger max_message_bytes") as caught:
            resume(plan, 0, max_message_bytes=4096)
        assert caught.value.reason_name == "MESSAGE_TOO_LARGE"
        resume(plan, 0, max_message_bytes=100_000)
        assert len(plan.take("opened").opened.task_ids) == 200

    def test_the_end_is_the_summary_and_everything_stored(self) -> None:
        plan = Plan().open(5, resume_window=HOUR)
        plan.submit(task("a"))
        plan.executor.finish()
        plan.results()
        plan.session.half_close()
        plan.take("summary")
        assert not plan.session.over  # the client may have crashed before it stored the result
        resume(plan, 0)
        plan.take("opened")
        plan.results()
        plan.send(ack=AckResults(through_sequence=1))
        plan.session.half_close()
        assert plan.take("summary").summary.result_count == 1
        assert plan.session.over

    def test_a_client_can_give_it_up(self) -> None:
        plan = Plan().open(5, resume_window=HOUR)
        plan.submit(task("a"))
        plan.send(end=EndSession())
        assert plan.session.over

    def test_group_news_come_again_with_the_last_result(self) -> None:
        plan = Plan().open(5, resume_window=HOUR)
        plan.submit(task("a", 2, group_id="g"))
        plan.executor.finish(2, reward=0.5)
        plan.results()
        plan.take("group_completed")
        plan.send(ack=AckResults(through_sequence=1))
        resume(plan, 1)
        plan.take("opened")
        assert len(plan.results()) == 1
        assert plan.take("group_completed").group_completed.mean_reward == 0.5


class TestDurable:
    async def test_nothing_is_told_before_it_is_kept(self, journal: Journal) -> None:
        plan = durable(journal)
        plan.nothing()
        await committed(journal)
        assert plan.take("opened").opened.durable
        plan.send(submit=SubmitTasks(tasks=[task("a")]))
        plan.nothing()
        await committed(journal)
        plan.take("admissions")
        plan.executor.finish()
        plan.nothing()
        await committed(journal)
        assert plan.results() == [(1, "a/0", COMPLETED)]

    async def test_a_killed_daemon_loses_nothing(self, journal: Journal, tmp_path: Path) -> None:
        plan = durable(journal)
        plan.send(
            submit=SubmitTasks(tasks=[task("a", 3, group_id="g"), task("b"), task("bad", agent="nobody")])
        )
        plan.executor.finish(2, reward=1.0)
        await committed(journal)
        for kind in ("opened", "admissions", "results"):
            plan.take(kind)
        plan.send(ack=AckResults(through_sequence=1))
        await committed(journal)  # ... and here it is killed

        again, second = await restarted(tmp_path)
        # What had not ended runs again, under the same ids.
        assert sorted(job.rollout_id for job in again.executor.jobs) == ["a/2", "b/0"]
        resume(again, 1)
        opened = again.take("opened").opened
        assert (opened.last_sequence, opened.used_rollouts, opened.granted_rollouts) == (2, 4, 10)
        assert again.results() == [(2, "a/1", COMPLETED)]
        again.executor.finish(2, reward=0.0)
        await committed(second)
        assert [number for number, _, _ in again.results()] == [3, 4]
        news = again.take("group_completed").group_completed
        assert (news.group_id, round(news.mean_reward, 3)) == ("g", 0.667)
        again.send(ack=AckResults(through_sequence=4))
        again.session.half_close()
        summary = again.take("summary").summary
        assert (summary.accepted_task_count, summary.rejected_task_count, summary.result_count) == (2, 1, 4)
        assert [(count.outcome, count.count) for count in summary.outcome_counts] == [(COMPLETED, 4)]
        again.session.abandon()
        await committed(second)
        assert second.bytes == 0
        await second.close()

    async def test_the_news_of_a_group_comes_again_until_its_last_result_is_acknowledged(
        self, journal: Journal
    ) -> None:
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", 2, group_id="g")]))
        plan.executor.finish(2)
        await committed(journal)
        for kind in ("opened", "admissions", "results", "group_completed"):
            plan.take(kind)
        resume(plan, 2)  # it has the results; the stream broke before the news
        plan.take("opened")
        assert plan.take("group_completed").group_completed.group_id == "g"
        plan.send(ack=AckResults(through_sequence=2))
        resume(plan, 2)
        await committed(journal)
        plan.take("opened")
        plan.nothing()

    async def test_a_group_id_that_is_used_again_stays_two_groups(
        self, journal: Journal, tmp_path: Path
    ) -> None:
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", 2, group_id="g", wanted_count=1)]))
        plan.executor.finish(1, reward=1.0)
        plan.send(submit=SubmitTasks(tasks=[task("b", 2, group_id="g", wanted_count=2)]))
        await committed(journal)
        again, second = await restarted(tmp_path)
        assert [job.rollout_id for job in again.executor.jobs if not job.finished] == ["b/0", "b/1"]
        resume(again, 0)
        again.executor.finish(2, reward=0.0)
        await committed(second)
        kinds, frames = ("opened", "results", "group_completed", "group_completed"), []
        for kind in kinds:
            frames.append(again.take(kind))
        assert [frame.group_completed.mean_reward for frame in frames[2:]] == [1.0, 0.0]
        again.session.abandon()
        await committed(second)
        await second.close()

    async def test_a_task_id_that_is_used_again_in_its_group_counts_twice(
        self, journal: Journal, tmp_path: Path
    ) -> None:
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", group_id="g"), task("b", group_id="g")]))
        plan.executor.finish(1, reward=1.0)
        await committed(journal)
        for kind in ("opened", "admissions", "results"):
            plan.take(kind)
        plan.send(ack=AckResults(through_sequence=1))  # now the id is free, and the group goes on
        plan.send(submit=SubmitTasks(tasks=[task("a", group_id="g")]))
        await committed(journal)
        again, second = await restarted(tmp_path)
        assert [job.rollout_id for job in again.executor.jobs if not job.finished] == ["b/0", "a/0"]
        resume(again, 1)
        again.executor.finish(1, reward=0.0)
        await committed(second)
        again.take("opened")
        assert len(again.results()) == 1
        again.nothing()
        again.executor.finish(1, reward=0.0)
        await committed(second)
        assert len(again.results()) == 1
        assert again.take("group_completed").group_completed.outcome_counts[0].count == 3
        again.session.abandon()
        await committed(second)
        assert second.bytes == 0
        await second.close()

    async def test_control_state_survives_a_restart(self, journal: Journal, tmp_path: Path) -> None:
        plan = Plan(new_record=lambda: SessionRecord(journal, 1))
        opening = OpenSession(
            granted_rollouts=10, granted_groups=5, granted_bytes=9999, policy_version=3, resume_window=HOUR
        )
        plan.send(open=opening)
        one = task("a", 3, group_id="g", wanted_count=2, purpose=TaskPurpose.TASK_PURPOSE_EVAL)
        one.policy_constraint.max_version_lag = 4
        plan.send(submit=SubmitTasks(tasks=[one]))
        plan.executor.finish(1, reward=1.0)
        plan.send(policy_update=PolicyUpdate(version=4, phase=PolicyPhase.POLICY_PHASE_PAUSED))
        await committed(journal)

        again, second = await restarted(tmp_path)
        jobs = again.executor.jobs
        assert {(job.task.wanted, job.task.rank, job.task.constraint.max_version_lag) for job in jobs} == {
            (2, 0, 4)
        }
        client = jobs[0].client
        assert (client.version, client.held, client.policy_session) == (3, True, again.session.session_id)
        ledger = again.session.ledger
        assert (ledger.granted_groups, ledger.used_groups, ledger.results.granted_bytes) == (5, 1, 9999)
        again.executor.finish(1, reward=1.0)  # the second of two that are wanted
        assert all(job.finished for job in jobs)
        again.session.abandon()
        await committed(second)
        await second.close()

    async def test_what_is_stored_leaves_the_journal(self, journal: Journal) -> None:
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", 2, group_id="g"), task("b", group_id="g")]))
        plan.executor.finish(3)
        await committed(journal)
        for kind in ("opened", "admissions", "results", "group_completed"):
            plan.take(kind)
        kept = journal.bytes
        plan.send(ack=AckResults(through_sequence=2))
        assert 0 < journal.bytes < kept
        plan.send(ack=AckResults(through_sequence=3))
        assert journal.bytes == 0
        await committed(journal)
        assert journal.read(1, 1) == []

    async def test_a_client_that_stalls_costs_disk_not_memory(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(results, "MEMORY_BYTES", 10_000)
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", 10)]))
        plan.executor.finish(10, text="x" * 4000)
        assert plan.session.ledger.results._in_memory <= 10_000
        await committed(journal)
        plan.take("opened")
        plan.take("admissions")
        assert [number for number, _, _ in plan.results()] == list(range(1, 11))

    @pytest.mark.parametrize("settled", [False, True])
    async def test_a_task_that_waits_to_be_read_is_kept_by_the_journal_alone(
        self, journal: Journal, settled: bool
    ) -> None:
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", 2, group_id="g")]))
        plan.executor.finish(2)
        assert not plan.session.ledger.tasks
        if settled:  # otherwise it is on its way to the disk
            await committed(journal)
        same, other = task("a", 2, group_id="g"), task("a", 2, group_id="g")
        other.task.create_params.input_text = "good bye"
        plan.send(submit=SubmitTasks(tasks=[same, other, task("a", 2, group_id="h"), task("a", 3)]))
        await committed(journal)
        plan.take("opened")
        plan.take("admissions")
        known, *rejected = plan.take("admissions").admissions.admissions
        assert known.known
        assert [one.rejection.reason for one in rejected] == [reason("NAME_TAKEN")] * 3
        assert len(plan.results()) == 2
        assert plan.take("group_completed").group_completed.outcome_counts[0].count == 2

    async def test_a_full_journal_refuses_tasks(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path, max_bytes=1000)
        journal.load()
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", 9)]))
        plan.executor.finish(9, text="x" * 200)
        plan.send(submit=SubmitTasks(tasks=[task("b")]))
        await committed(journal)
        plan.take("opened")
        plan.take("admissions")
        refused = plan.take("admissions").admissions.admissions[0].rejection
        assert refused.reason == reason("STORAGE_FULL")
        assert "gymd.journal_max_bytes" in refused.message
        await journal.close()

    async def test_a_shutdown_leaves_the_rest_for_the_next_daemon(
        self, journal: Journal, tmp_path: Path
    ) -> None:
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a"), task("b")]))
        plan.session.drain(1.0, "a test")
        plan.executor.finish(1)
        await committed(journal)
        for kind in ("opened", "admissions", "draining", "results"):
            plan.take(kind)
        assert plan.session.refused is None  # b still runs
        plan.session.cancel_all("the grace is over")
        plan.nothing()
        assert plan.session.refused is not None
        assert plan.session.refused.reason_name == "DRAINING"
        await committed(journal)
        again, second = await restarted(tmp_path)
        assert [job.rollout_id for job in again.executor.jobs] == ["b/0"]
        await second.close()


class TestJournal:
    async def test_a_full_disk_is_told_and_waited_out(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path, max_bytes=1 << 30)
        journal.load()
        # The same answer that a full disk gives, from SQLite itself.
        journal._writer.execute("PRAGMA max_page_count = 20")
        record = SessionRecord(journal, 1)
        record.begin("s", b"", 0.0, {})
        record.task(1, b"x" * 200_000, 0.0, 1)
        told = asyncio.Event()
        journal.listen(told.set)
        while journal.trouble is None:
            await told.wait()
            told.clear()
        assert journal.trouble.reason_name == "STORAGE_FULL"
        assert journal.committed == 0
        journal._writer.execute("PRAGMA max_page_count = 1000000")
        await committed(journal)
        assert journal.trouble is None
        await journal.close()

    async def test_a_journal_of_another_version_is_not_touched(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "journal.db") as other:
            other.execute("PRAGMA user_version = 99")
        other.close()
        with pytest.raises(GymdError) as caught:
            Journal(tmp_path, max_bytes=1)
        assert "version 99" in caught.value.message
        assert "gymd.journal_dir" in caught.value.message

    async def test_a_file_that_is_no_journal_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "journal.db").write_bytes(b"something else entirely" * 100)
        with pytest.raises(GymdError) as caught:
            Journal(tmp_path, max_bytes=1)
        assert "cannot be used" in caught.value.message


def test_frames_written_by_hand_are_the_contract() -> None:
    """The bytes of a frame of results are what protobuf itself would write."""
    plan = Plan().open(200, resume_window=HOUR)
    plan.submit(task("a", 200))
    plan.executor.finish(200, text="é" * 40_000)
    frames = []
    while (frame := plan.session.next_frame()) is not None:
        assert isinstance(frame, bytes)
        parsed = StreamRolloutsResponse.FromString(frame)
        assert parsed.SerializeToString() == frame
        frames.append(len(parsed.results.results))
    assert sum(frames) == 200
    assert len(frames) > 1

"""What cancels cover, and what becomes of one that was answered when the daemon ends."""

import sqlite3
from pathlib import Path

import pytest

from gymapi.v1.agent_service_pb2 import StopMode
from gymapi.v1.registry_service_pb2 import Placement, RegisterServerRequest, ServerKind
from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    CancelMode,
    CancelWork,
    GroupCancelReason,
    OpenSession,
    PolicyPhase,
    PolicyUpdate,
    StalenessMode,
    SubmitTasks,
    TaskSubmission,
)
from gymd.config import ServerSpec
from gymd.daemon.journal import Journal, schema
from gymd.daemon.plan import peer_labels
from gymd.daemon.record import SessionRecord
from gymd.daemon.registry import Registry
from gymd.errors import GymdError, NotFound
from tests.fakes.durable import HOUR, committed, durable, restarted, resume
from tests.fakes.plan import CANCELLED, COMPLETED, Plan, reason, task

ABORT, PARTIAL, FINISH_TURN = (
    CancelMode.CANCEL_MODE_ABORT,
    CancelMode.CANCEL_MODE_PARTIAL,
    CancelMode.CANCEL_MODE_FINISH_TURN,
)


def cancelled(plan: Plan, **fields: object) -> int:
    """How many rollouts a cancel stopped."""
    plan.send(cancel=CancelWork(**fields))  # type: ignore[arg-type]
    answer = plan.take("cancelled").cancelled
    assert not answer.HasField("error")
    return answer.cancelled_count


class TestScopes:
    def test_one_rollout_of_a_task(self) -> None:
        plan = Plan().open()
        plan.submit(task("a/b", 3, first_index=4))
        assert cancelled(plan, rollout_id="a/b/5") == 1
        assert plan.results() == [(1, "a/b/5", CANCELLED)]
        assert cancelled(plan, rollout_id="a/b/5") == 0  # it has ended
        assert [job.finished for job in plan.executor.jobs] == [False, True, False]

    @pytest.mark.parametrize("name", ["", "a", "a/", "a/3", "a/-1", "a/01", "a/١", "b/0", "a/" + "9" * 5000])
    def test_what_names_no_rollout_covers_nothing(self, name: str) -> None:
        plan = Plan().open()
        plan.submit(task("a", 3))
        assert cancelled(plan, rollout_id=name) == 0

    def test_an_environment_is_what_its_agents_run(self) -> None:
        plan = Plan().open()
        plan.submit(task("a", 2, agent="calc"), task("b", 1, agent="other"))
        assert cancelled(plan, environment="sums") == 2
        assert [(name, outcome) for _, name, outcome in plan.results()] == [
            ("a/0", CANCELLED),
            ("a/1", CANCELLED),
        ]

    def test_an_environment_that_nobody_knows_is_told_and_the_stream_goes_on(self) -> None:
        plan = Plan().open()
        plan.submit(task("a"))
        plan.send(cancel=CancelWork(environment="elsewhere"))
        answer = plan.take("cancelled").cancelled
        assert (answer.error.reason, answer.cancelled_count) == (reason("SERVER_NOT_FOUND"), 0)
        assert answer.request.environment == "elsewhere"
        assert cancelled(plan, all=True) == 1

    def test_a_long_reason_is_cut(self) -> None:
        plan = Plan().open()
        plan.submit(task("a"))
        assert cancelled(plan, all=True, reason="x" * 5000) == 1
        message = plan.take("results").results.results[0].rollout.failure.status.message
        assert message.count("x") == 1000


class TestNumbers:
    def test_one_that_is_sent_again_stops_nothing_that_came_after_it(self) -> None:
        plan = Plan().open(resume_window=HOUR)
        plan.submit(task("a", 2))
        plan.send(cancel=CancelWork(number=1, all=True))
        plan.send(submit=SubmitTasks(tasks=[task("b")]))
        resume(plan, 0)
        assert plan.take("opened").opened.last_cancel_number == 1
        plan.send(cancel=CancelWork(number=1, all=True, reason="again"))
        answer = plan.take("cancelled").cancelled
        assert (answer.cancelled_count, answer.known) == (2, True)
        assert answer.request == CancelWork(number=1, all=True, reason="again")
        assert [job.finished for job in plan.executor.jobs] == [True, True, False]
        plan.send(cancel=CancelWork(number=2, all=True))
        answer = plan.take("cancelled").cancelled
        assert (answer.cancelled_count, answer.known) == (1, False)

    def test_without_a_number_each_is_carried_out(self) -> None:
        plan = Plan().open()
        for name in ("a", "b"):
            plan.submit(task(name))
            plan.send(cancel=CancelWork(all=True))
            answer = plan.take("cancelled").cancelled
            assert (answer.cancelled_count, answer.known) == (1, False)
            plan.results()
        assert plan.session.ledger.cancels.last == 0

    def test_numbers_only_grow(self) -> None:
        plan = Plan().open()
        plan.submit(task("a"))
        assert cancelled(plan, number=5, task_id="nobody") == 0
        assert cancelled(plan, number=3, all=True) == 0
        assert not plan.executor.jobs[0].finished
        with pytest.raises(GymdError, match="it must be 0 or more"):
            plan.send(cancel=CancelWork(number=-1, all=True))
        assert cancelled(plan, number=(1 << 63) - 1, all=True) == 1

    def test_what_nobody_knew_stays_the_answer(self) -> None:
        plan = Plan().open()
        plan.send(cancel=CancelWork(number=1, environment="elsewhere"))
        plan.take("cancelled")
        plan.submit(task("a"))
        plan.send(cancel=CancelWork(number=1, all=True))  # it stands for an environment that is known by now
        answer = plan.take("cancelled").cancelled
        assert (answer.error.reason, answer.known) == (reason("SERVER_NOT_FOUND"), True)
        assert not plan.executor.jobs[0].finished

    def test_the_last_answers_are_kept(self) -> None:
        plan = Plan().open(200)
        for number in range(1, 151):
            plan.submit(task(str(number)))
            assert cancelled(plan, number=number, all=True) == 1
            plan.results()
        plan.submit(task("later"))
        assert [cancelled(plan, number=number, all=True) for number in (1, 50, 51, 150)] == [0, 0, 1, 1]
        assert not plan.executor.jobs[-1].finished


class TestEnvironments:
    def registry(self) -> Registry:
        registry = Registry(15.0)
        labels = peer_labels(ServerSpec(name="a", kind="agent", implementation="x", config=PEERS))
        agent, resources = ServerKind.SERVER_KIND_AGENT, ServerKind.SERVER_KIND_RESOURCES
        registry.expect("a", agent, Placement.PLACEMENT_SHARED, host_id="pool-0", labels=labels)
        registry.expect("sums", resources, Placement.PLACEMENT_SHARED, host_id="pool-0")
        return registry

    def test_an_agent_of_the_configuration_is_known_before_it_starts(self) -> None:
        assert self.registry().agents_of("sums") == {"a"}

    def test_an_agent_that_registers_itself_says_it(self) -> None:
        registry = self.registry()
        request = RegisterServerRequest(name="b", kind=ServerKind.SERVER_KIND_AGENT, address="127.0.0.1:1")
        registry.register(request)
        with pytest.raises(NotFound, match=r"known are: sums\. .*resources_server.* cancel by agent"):
            registry.agents_of("words")
        request.labels["resources_server"] = "words"
        registry.register(request)
        assert registry.agents_of("words") == {"b"}

    def test_only_agents_have_peers(self) -> None:
        assert peer_labels(ServerSpec(name="m", kind="model", implementation="x", config=PEERS)) == {}


PEERS = {
    "resources_server": {"type": "resources_servers", "name": "sums"},
    "model_server": {"type": "responses_api_models", "name": "m"},
}


async def begun(journal: Journal, *tasks: TaskSubmission, **opening: object) -> Plan:
    """A durable session whose rollouts all run, and take their time to stop."""
    plan = Plan(new_record=lambda: SessionRecord(journal, 1))
    plan.send(open=OpenSession(granted_rollouts=10, resume_window=HOUR, **opening))  # type: ignore[arg-type]
    plan.executor.stubborn = True
    plan.send(submit=SubmitTasks(tasks=tasks))
    plan.executor.start(*range(len(plan.executor.jobs)))
    await committed(journal)
    plan.take("opened")
    plan.take("admissions")
    return plan


def messages(plan: Plan) -> list[str]:
    return [one.rollout.failure.status.message for one in plan.take("results").results.results]


class TestRestart:
    async def test_a_cancel_is_answered_when_it_is_kept(self, journal: Journal) -> None:
        plan = await begun(journal, task("a", 2))
        plan.send(cancel=CancelWork(all=True))
        plan.nothing()
        await committed(journal)
        assert plan.take("cancelled").cancelled.cancelled_count == 2

    @pytest.mark.parametrize("mode", [ABORT, PARTIAL, FINISH_TURN])
    async def test_what_was_being_stopped_does_not_run_again(
        self, journal: Journal, tmp_path: Path, mode: CancelMode
    ) -> None:
        plan = await begun(journal, task("a", 3, group_id="g"), task("b"))
        plan.executor.finish(1, reward=1.0)
        plan.send(cancel=CancelWork(group_id="g", mode=mode, reason="too late"))
        await committed(journal)  # ... and here it is killed

        again, second = await restarted(tmp_path)
        assert [job.rollout_id for job in again.executor.jobs if not job.finished] == ["b/0"]
        resume(again, 0)
        await committed(second)
        opened = again.take("opened").opened
        assert (opened.last_sequence, opened.used_rollouts) == (3, 4)
        results = again.take("results").results.results
        assert [(one.sequence, one.rollout.rollout_id, one.rollout.outcome) for one in results] == [
            (1, "a/0", COMPLETED),
            (2, "a/1", CANCELLED),
            (3, "a/2", CANCELLED),
        ]
        for one in results[1:]:
            message = one.rollout.failure.status.message
            assert message.startswith("the client cancelled it: too late (the daemon restarted")
            assert ("what it had generated is lost" in message) == (mode != ABORT)
        news = again.take("group_cancelled").group_cancelled
        assert (news.group_id, news.stopped_count) == ("g", 2)
        assert news.reason == GroupCancelReason.GROUP_CANCEL_REASON_CLIENT
        again.executor.finish(1)
        await committed(second)
        assert again.results() == [(4, "b/0", COMPLETED)]
        again.send(ack=AckResults(through_sequence=4))
        again.session.half_close()
        summary = again.take("summary").summary
        assert [(c.outcome, c.count) for c in summary.outcome_counts] == [(COMPLETED, 2), (CANCELLED, 2)]
        again.session.abandon()
        await committed(second)
        assert rows(tmp_path) == []
        await second.close()

    async def test_one_that_is_sent_again_after_it_stops_nothing(
        self, journal: Journal, tmp_path: Path
    ) -> None:
        plan = await begun(journal, task("a", 2))
        plan.send(cancel=CancelWork(number=1, environment="elsewhere"))
        plan.send(cancel=CancelWork(number=2, all=True))
        plan.send(submit=SubmitTasks(tasks=[task("b")]))
        await committed(journal)  # ... and here it is killed

        again, second = await restarted(tmp_path)
        resume(again, 0)
        await committed(second)
        assert again.take("opened").opened.last_cancel_number == 2
        again.send(cancel=CancelWork(number=1, environment="elsewhere"))
        again.send(cancel=CancelWork(number=2, all=True))
        again.send(cancel=CancelWork(number=3, task_id="a"))
        await committed(second)
        answers = [again.take("cancelled").cancelled for _ in range(3)]
        assert [(one.cancelled_count, one.known) for one in answers] == [(0, True), (2, True), (0, False)]
        assert answers[0].error.reason == reason("SERVER_NOT_FOUND")
        assert [job.rollout_id for job in again.executor.jobs if not job.finished] == ["b/0"]
        again.executor.finish(1, reward=1.0)
        await committed(second)
        assert again.results() == [(1, "a/0", CANCELLED), (2, "a/1", CANCELLED), (3, "b/0", COMPLETED)]
        await second.close()

    @pytest.mark.parametrize("began", [True, False])
    async def test_a_number_is_kept_with_what_the_cancel_stops(
        self, journal: Journal, tmp_path: Path, began: bool
    ) -> None:
        plan = durable(journal)
        plan.executor.stubborn = True
        plan.send(submit=SubmitTasks(tasks=[task("a")]))
        if began:
            plan.executor.start(0)
        await committed(journal)
        before = journal.committed
        plan.send(cancel=CancelWork(number=1, all=True))
        noted = {statement for statement, _ in journal._fresh}  # what is written in one transaction
        assert {schema.ADD_CANCEL, schema.ADD_STOP if began else schema.ADD_RESULT} <= noted
        assert journal.committed == before
        journal._fresh.clear()  # it is killed before that
        again, second = await restarted(tmp_path)
        resume(again, 0)
        assert again.take("opened").opened.last_cancel_number == 0
        again.send(cancel=CancelWork(number=1, all=True))
        assert again.executor.jobs[0].finished
        await committed(second)
        answer = again.take("cancelled").cancelled
        assert (answer.cancelled_count, answer.known) == (1, False)
        await second.close()

    async def test_the_journal_has_the_last_numbers_until_the_session_ends(
        self, journal: Journal, tmp_path: Path
    ) -> None:
        plan = await begun(journal, task("a"))
        for number in range(1, 151):
            plan.send(cancel=CancelWork(number=number, all=True))
        await committed(journal)
        assert numbers(tmp_path) == list(range(51, 151))
        plan.session.abandon()
        await committed(journal)
        assert numbers(tmp_path) == []

    async def test_what_has_stopped_leaves_the_journal(self, journal: Journal, tmp_path: Path) -> None:
        plan = await begun(journal, task("a", 3))
        plan.send(cancel=CancelWork(rollout_id="a/0", mode=FINISH_TURN))
        plan.send(cancel=CancelWork(rollout_id="a/1", mode=PARTIAL))
        plan.send(cancel=CancelWork(rollout_id="a/1", mode=ABORT))
        plan.send(cancel=CancelWork(all=True, mode=PARTIAL))  # the harder one stays
        await committed(journal)
        modes = [StopMode.STOP_MODE_FINISH_TURN, StopMode.STOP_MODE_ABORT, StopMode.STOP_MODE_PARTIAL]
        assert [(index, mode) for _, index, mode, _ in rows(tmp_path)] == list(enumerate(modes))
        plan.executor.finish(1)  # its verifier ended, and it with it
        plan.executor.release()
        await committed(journal)
        assert rows(tmp_path) == []
        for _ in range(4):
            plan.take("cancelled")
        assert [outcome for _, _, outcome in plan.results()] == [COMPLETED, CANCELLED, CANCELLED]

    async def test_a_session_that_is_given_up_takes_its_stops_along(
        self, journal: Journal, tmp_path: Path
    ) -> None:
        plan = await begun(journal, task("a", 2))
        plan.send(cancel=CancelWork(all=True))
        plan.session.abandon()
        await committed(journal)
        assert rows(tmp_path) == []

    async def test_a_shutdown_is_no_cancel_but_keeps_one(self, journal: Journal, tmp_path: Path) -> None:
        plan = await begun(journal, task("a", 2))
        plan.send(cancel=CancelWork(rollout_id="a/0", mode=FINISH_TURN))
        plan.session.drain(1.0, "an update")
        plan.session.cancel_all("an update")
        with pytest.raises(GymdError, match="shutting down"):  # the next daemon gets it
            plan.send(cancel=CancelWork(rollout_id="a/1"))
        plan.executor.release()
        await committed(journal)
        again, second = await restarted(tmp_path)
        assert [job.rollout_id for job in again.executor.jobs if not job.finished] == ["a/1"]
        await committed(second)
        resume(again, 0)
        again.take("opened")
        assert again.results() == [(1, "a/0", CANCELLED)]
        again.session.abandon()
        await committed(second)
        await second.close()

    async def test_a_second_restart_changes_nothing(self, journal: Journal, tmp_path: Path) -> None:
        plan = await begun(journal, task("a", 2))
        plan.send(cancel=CancelWork(all=True))
        await committed(journal)
        first, second = await restarted(tmp_path)
        await committed(second)
        assert all(job.finished for job in first.executor.jobs)
        again, third = await restarted(tmp_path)
        assert again.executor.jobs == []
        resume(again, 0)
        again.take("opened")
        assert again.results() == [(1, "a/0", CANCELLED), (2, "a/1", CANCELLED)]
        for one in (second, third):
            await one.close()

    async def test_a_cancel_covers_what_is_stopped_as_too_old(self, journal: Journal, tmp_path: Path) -> None:
        one = task("a")
        one.policy_constraint.mode = StalenessMode.STALENESS_MODE_DROP
        one.policy_constraint.max_version_lag = 0
        plan = await begun(journal, one, policy_version=1)
        plan.send(policy_update=PolicyUpdate(version=2, phase=PolicyPhase.POLICY_PHASE_LIVE))
        assert plan.executor.jobs[0].cancel_reason
        plan.send(cancel=CancelWork(all=True))
        await committed(journal)
        assert plan.take("cancelled").cancelled.cancelled_count == 0  # it was being stopped already
        again, second = await restarted(tmp_path)
        assert [job.finished for job in again.executor.jobs] == [True]
        await committed(second)
        await second.close()

    async def test_what_a_full_group_stopped_stays_stopped(self, journal: Journal, tmp_path: Path) -> None:
        # The second task names no number: the group has one all the same.
        plan = await begun(
            journal, task("a", group_id="g", wanted_count=1), task("b", 2, group_id="g"), task("c")
        )
        plan.executor.finish(1, reward=1.0)
        assert [bool(job.cancel_reason) for job in plan.executor.jobs] == [False, True, True, False]
        await committed(journal)
        again, second = await restarted(tmp_path)
        assert [job.rollout_id for job in again.executor.jobs if not job.finished] == ["c/0"]
        resume(again, 0)
        await committed(second)
        again.take("opened")
        assert [outcome for _, _, outcome in again.results()] == [COMPLETED, CANCELLED, CANCELLED]
        news = again.take("group_completed").group_completed
        assert (news.group_id, news.mean_reward) == ("g", 1.0)
        again.session.abandon()
        await committed(second)
        await second.close()

    async def test_nothing_is_noted_without_a_cancel(self, journal: Journal) -> None:
        plan = durable(journal)
        plan.send(submit=SubmitTasks(tasks=[task("a", 3)]))
        before = journal.mark
        plan.executor.finish(3)
        assert journal.mark == before + 3  # the results, and nothing else


def rows(folder: Path) -> list[tuple[int, int, int, str]]:
    """The stops that a journal holds."""
    with sqlite3.connect(folder / "journal.db") as reader:
        found = reader.execute("SELECT * FROM stops ORDER BY id, idx").fetchall()
    reader.close()
    return found


def numbers(folder: Path) -> list[int]:
    """The cancels that a journal holds."""
    with sqlite3.connect(folder / "journal.db") as reader:
        found = reader.execute("SELECT number FROM cancels ORDER BY number").fetchall()
    reader.close()
    return [number for (number,) in found]


@pytest.mark.parametrize(("version", "missing"), [(2, ("stops", "cancels")), (3, ("cancels",))])
async def test_a_journal_of_a_version_before_is_taken_over(
    tmp_path: Path, version: int, missing: tuple[str, ...]
) -> None:
    old = Journal(tmp_path, max_bytes=1 << 30)
    old.load()
    plan = durable(old)
    plan.send(submit=SubmitTasks(tasks=[task("a")]))
    await committed(old)
    await old.close()
    with sqlite3.connect(tmp_path / "journal.db") as writer:
        for table in missing:
            writer.execute(f"DROP TABLE {table}")
        writer.execute(f"PRAGMA user_version = {version}")
    writer.close()
    again, journal = await restarted(tmp_path)
    assert [job.rollout_id for job in again.executor.jobs] == ["a/0"]
    assert rows(tmp_path) == []
    assert again.session.ledger.cancels.last == 0
    again.send(cancel=CancelWork(number=7, all=True))  # an older daemon carried out six, and noted none
    await committed(journal)
    assert numbers(tmp_path) == [7]
    assert again.executor.jobs[0].finished
    await journal.close()

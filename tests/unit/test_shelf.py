"""Results that wait long: what the daemon knows about them is on disk, and nothing else changes."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    GrantCredits,
    OpenSession,
    StreamRolloutsResponse,
    SubmitTasks,
    TaskSubmission,
)
from gymd.daemon import results
from gymd.daemon.journal import Journal, shelf
from gymd.daemon.record import SessionRecord
from tests.fakes.plan import COMPLETED, Plan, task

HOUR = Duration(seconds=3600)
ACTS = ("submit", "finish", "finish", "read", "ack", "again", "resume", "restart", "grant")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to nothing is held in memory."""
    monkeypatch.setattr(results, "MEMORY_RESULTS", 4)
    monkeypatch.setattr(results, "SHELF_BATCH", 3)


class Daemon:
    """A session with a journal, and all that it said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder, max_bytes=1 << 30)
        self.killed: list[Journal] = []
        self.plan = Plan()
        self.said: list[StreamRolloutsResponse] = []

    def open(self, **fields: object) -> None:
        """A new session."""
        self.journal.load()
        self.plan = Plan(new_record=lambda: SessionRecord(self.journal, 1))
        self.plan.send(open=OpenSession(resume_window=HOUR, granted_rollouts=10_000, **fields))  # type: ignore[arg-type]

    def restart(self) -> None:
        """What the next daemon makes of the journal of one that was killed."""
        self.killed.append(self.journal)
        self.journal = Journal(self.folder, max_bytes=1 << 30)
        [stored] = self.journal.load()
        self.plan = Plan()
        opening, record = OpenSession.FromString(stored.opening), SessionRecord(self.journal, stored.number)
        self.plan.session.restore(opening, record, stored)

    async def settle(self) -> None:
        """Waits until everything is kept."""
        done = asyncio.Event()
        self.journal.listen(done.set)
        while self.journal.committed < self.journal.mark:
            await done.wait()
            done.clear()
        self.journal._listeners.remove(done.set)

    async def read(self, limit: int = 1 << 30) -> None:
        """Takes frames."""
        await self.settle()
        for _ in range(limit):
            if (frame := self.plan.session.next_frame()) is None:
                return
            whole = StreamRolloutsResponse.FromString(frame) if isinstance(frame, bytes) else frame
            self.said.append(whole)

    def resume(self, last: int) -> None:
        """A new stream."""
        session, plan = self.plan.session, self.plan
        session.detach(plan.wake)
        session.resume(OpenSession(session_id="s1", last_sequence=last), plan.wake)

    @property
    def shelved(self) -> int:
        """Results on the shelf."""
        shelf = self.plan.session.ledger.results._shelf
        assert shelf is not None
        return len(shelf)

    async def end(self) -> None:
        """Gives the session up; nothing is left of it."""
        self.plan.session.abandon()
        await self.settle()
        assert self.journal.bytes == 0
        assert self.shelved == 0
        await self.journal.close()
        for journal in self.killed:
            await journal.close()
        assert not (self.folder / "shelf.db").exists()

    def numbers(self) -> list[int]:
        """Of the results that it said."""
        return [result.sequence for frame in self.said for result in frame.results.results]


@asynccontextmanager
async def daemon(folder: Path, **fields: object) -> AsyncIterator[Daemon]:
    one = Daemon(folder)
    one.open(**fields)
    yield one
    await one.end()


@pytest.mark.usefixtures("small")
class TestShelf:
    async def test_memory_holds_a_bounded_number_and_everything_arrives(self, tmp_path: Path) -> None:
        async with daemon(tmp_path) as one:
            for number in range(50):
                one.plan.send(submit=SubmitTasks(tasks=[task(f"t{number}", 2, group_id=f"g{number}")]))
                one.plan.executor.finish(2, reward=1.0)
            ledger = one.plan.session.ledger
            assert len(ledger.results._results) <= 7
            assert not ledger.tasks
            assert not ledger.groups
            assert one.shelved >= 93
            assert sorted(ledger.task_ids()) == sorted(f"t{number}" for number in range(50))
            await one.read()
            assert one.numbers() == list(range(1, 101))
            told = [frame.group_completed.group_id for frame in one.said if frame.HasField("group_completed")]
            assert told == [f"g{number}" for number in range(50)]
            assert len(ledger.results._results) <= 7  # what was read waits for its ack, there too
            one.plan.send(ack=AckResults(through_sequence=100))
            assert one.shelved == 0
            assert not ledger.task_ids()
            assert one.journal.bytes == 0

    async def test_a_task_that_waits_is_known_and_its_id_taken(self, tmp_path: Path) -> None:
        async with daemon(tmp_path) as one:
            one.plan.send(submit=SubmitTasks(tasks=[task(f"t{number}") for number in range(20)]))
            one.plan.executor.finish(20)
            await one.read()
            one.said.clear()
            again = [task("t11"), task("t11", 2), task("t19", group_id="g"), task("t3")]
            one.plan.send(submit=SubmitTasks(tasks=again))
            one.plan.send(ack=AckResults(through_sequence=12))
            one.plan.send(submit=SubmitTasks(tasks=[task("t11"), task("t12")]))
            await one.read()
            first, second = (frame.admissions.admissions for frame in one.said)
            assert [(one.known, one.HasField("rejection")) for one in first] == [
                (True, False),
                (False, True),
                (False, True),
                (True, False),
            ]
            assert [one.known for one in second] == [False, True]  # t11 was stored: it runs anew
            assert [job.rollout_id for job in one.plan.executor.jobs if not job.finished] == ["t11/0"]

    async def test_another_session_may_use_the_same_ids(self, tmp_path: Path) -> None:
        async with daemon(tmp_path) as one:
            other = Plan(new_record=lambda: SessionRecord(one.journal, 2))
            other.send(open=OpenSession(resume_window=HOUR, granted_rollouts=100))
            for plan in (one.plan, other):
                plan.send(submit=SubmitTasks(tasks=[task(f"t{number}") for number in range(20)]))
                plan.executor.finish(20)
            other.session.abandon()
            assert one.shelved > 0
            await one.read()
            assert one.numbers() == list(range(1, 21))
            assert len(one.plan.executor.jobs) == 20

    async def test_a_disk_that_takes_nothing_costs_memory_and_nothing_else(self, tmp_path: Path) -> None:
        async with daemon(tmp_path) as one:
            obstacle = tmp_path / "shelf.db"
            obstacle.mkdir()
            one.plan.send(submit=SubmitTasks(tasks=[task(f"t{number}") for number in range(40)]))
            one.plan.executor.finish(20)
            assert one.shelved == 0
            obstacle.rmdir()
            one.plan.executor.finish(20)
            assert one.shelved > 0
            await one.read()
            assert one.numbers() == list(range(1, 41))

    async def test_a_file_that_cannot_be_removed_stops_nothing(self, tmp_path: Path) -> None:
        obstacle = tmp_path / "shelf.db"
        obstacle.mkdir()
        one = Daemon(tmp_path)
        one.open()
        one.plan.send(submit=SubmitTasks(tasks=[task(f"t{number}") for number in range(20)]))
        one.plan.executor.finish(20)
        await one.read()
        assert one.shelved == 0
        assert one.numbers() == list(range(1, 21))
        one.plan.session.abandon()
        await one.journal.close()
        assert obstacle.is_dir()

    async def test_rows_that_the_disk_does_not_let_go_are_gone_all_the_same(self, tmp_path: Path) -> None:
        async with daemon(tmp_path) as one:
            one.plan.send(submit=SubmitTasks(tasks=[task(f"t{number}") for number in range(40)]))
            one.plan.executor.finish(40)
            await one.read()
            connection = one.journal._shelf.open()
            connection.execute("PRAGMA query_only = ON")
            one.plan.send(ack=AckResults(through_sequence=30))
            ledger = one.plan.session.ledger
            assert sorted(ledger.task_ids()) == sorted(f"t{number}" for number in range(30, 40))
            assert not ledger.has_task("t3")
            one.resume(30)
            await one.read()
            assert one.numbers()[40:] == list(range(31, 41))
            await one.settle()
            one.restart()  # the journal heard of the ack
            assert one.plan.session.ledger.acked == 30
            connection.execute("PRAGMA query_only = OFF")

    async def test_what_a_killed_daemon_left_is_not_believed(self, tmp_path: Path) -> None:
        async with daemon(tmp_path) as one:
            one.plan.send(submit=SubmitTasks(tasks=[task(f"t{number}") for number in range(20)]))
            one.plan.executor.finish(20)
            await one.settle()
            one.restart()
            assert one.shelved > 0
            one.resume(0)
            await one.read()
            assert sorted(one.said[0].opened.task_ids) == sorted(f"t{number}" for number in range(20))
            assert one.numbers() == list(range(1, 21))


async def test_giving_up_many_results_never_holds_the_event_loop_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "PAUSE_S", 0)
    async with daemon(tmp_path) as one:
        other = Plan(new_record=lambda: SessionRecord(one.journal, 2))
        other.send(open=OpenSession(resume_window=HOUR, granted_rollouts=3000))
        other.send(submit=SubmitTasks(tasks=[task(f"t{number}") for number in range(3000)]))
        other.executor.finish(3000)
        kept = len(other.session.ledger.results._shelf or ())
        assert kept
        log = one.plan.session.ledger.results
        for number in range(100_000):
            result = results.Result(b"", 0, 0, COMPLETED, retried=False)
            result.task_id, result.task = f"t{number}", number
            log.append(result)
        away = one.shelved
        assert away > 90_000
        connection = one.journal._shelf.open()
        one.plan.session.abandon()
        changes = [connection.total_changes]
        assert one.shelved == 0
        while connection.execute("SELECT count(*) FROM shelved").fetchone()[0] > kept:
            await asyncio.sleep(0)
            changes.append(connection.total_changes)
        dropped = [after - before for before, after in pairwise(changes)]
        assert sum(dropped) == away
        assert max(dropped) == shelf.SLICE  # in one turn of the loop

        assert not other.session.ledger.is_known(task("t3000"))
        assert other.session.ledger.is_known(task("t2999"))
        await one.settle()
        numbers = []
        while other.session.next_frame() is not None:
            numbers.append(other.session.ledger.results.sent_sequence)
        assert numbers[-1] == 3000
        other.session.abandon()


async def test_a_daemon_that_ends_drops_what_is_left_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "shelf.db"
    file = shelf.ShelfFile(path)
    one = shelf.Shelf(file, 1)
    one.put([shelf.Shelved(n, 1, 0, COMPLETED, 0, None, 0, None, None, 0, None) for n in range(1, 4)])
    one.drop()
    file.close()
    await asyncio.sleep(0)
    assert not path.exists()


async def play(folder: Path, seed: int) -> list[StreamRolloutsResponse]:
    """A client and a daemon that do anything in any order; returns all that the daemon said."""
    dice = random.Random(seed)
    one = Daemon(folder)
    one.open(granted_groups=1000, granted_bytes=3000)
    tasks = [
        task(f"t{number}", dice.choice((1, 1, 2, 5)), group_id=dice.choice(("", "", f"g{number // 3}")))
        for number in range(120)
    ]
    submitted: list[TaskSubmission] = []
    granted = 3000
    for _ in range(300):
        ledger = one.plan.session.ledger
        sent = ledger.results.sent_sequence
        act = dice.choice(ACTS)
        if act == "submit":
            fresh, tasks = tasks[:6], tasks[6:]
            submitted += fresh
            one.plan.send(submit=SubmitTasks(tasks=fresh))
        elif act == "again" and submitted:
            known = dice.choice(submitted)
            one.plan.send(submit=SubmitTasks(tasks=[known, task(known.task_id, dice.choice((1, 2)))]))
        elif act == "finish":
            one.plan.executor.finish(dice.randrange(12), reward=dice.choice((None, 0.0, 1.0)))
        elif act == "read":
            await one.read(dice.randrange(1, 6))
        elif act == "ack" and sent > ledger.acked:
            through = dice.randint(ledger.acked + 1, sent)
            rejected = [number for number in range(ledger.acked + 1, through + 1) if dice.random() < 0.2]
            one.plan.send(ack=AckResults(through_sequence=through, rejected_sequences=rejected))
        elif act == "resume":
            one.resume(dice.randint(ledger.acked, sent))
        elif act == "restart" and dice.random() < 0.3:
            await one.settle()
            one.restart()
            one.resume(one.plan.session.ledger.acked)
        elif act == "grant":
            granted += dice.randrange(2000)
            one.plan.send(grant=GrantCredits(granted_bytes=granted))
    one.plan.send(grant=GrantCredits(granted_bytes=1 << 40))
    one.plan.executor.finish(1 << 30, reward=1.0)
    await one.read()
    one.plan.session.half_close()
    await one.read()
    assert one.said[-1].WhichOneof("frame") == "summary"
    await one.end()
    return one.said


@pytest.mark.parametrize("seed", range(8))
async def test_no_frame_tells_whether_there_is_a_shelf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("gymd.daemon.work.time.time", lambda: 1e9)
    for name in ("memory", "shelf"):
        (tmp_path / name).mkdir()
    in_memory = await play(tmp_path / "memory", seed)
    monkeypatch.setattr(results, "MEMORY_RESULTS", 4)
    monkeypatch.setattr(results, "SHELF_BATCH", 3)
    shelved = await play(tmp_path / "shelf", seed)
    for frame in (*in_memory, *shelved):
        frame.opened.task_ids.sort()
    assert shelved == in_memory

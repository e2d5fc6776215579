"""Kill -9 at any moment: what was not written yet is gone, and client and next daemon still agree."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from gymapi.v1.rollout_service_pb2 import (
    AckResults,
    CancelWork,
    OpenSession,
    StreamRolloutsResponse,
    SubmitTasks,
    TaskSubmission,
    WorkCancelled,
)
from gymd.daemon import results
from gymd.daemon.journal import Journal, schema
from gymd.daemon.record import SessionRecord
from tests.fakes.durable import committed
from tests.fakes.plan import Plan, task

HOUR = Duration(seconds=3600)
ACTS = ("submit", "begin", "finish", "finish", "read", "read", "ack", "cancel", "stop", "resume", "kill")


class Client:
    """A trainer that keeps what it was told, and the daemon that it talks to."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.dice = folder, random.Random(seed)
        self.journal = Journal(folder, max_bytes=1 << 30)
        self.journal.load()
        self.plan = Plan(new_record=lambda: SessionRecord(self.journal, 1))
        self.plan.executor.stubborn = True
        self.plan.send(open=OpenSession(resume_window=HOUR, granted_rollouts=10_000))
        self.submitted: list[TaskSubmission] = []
        self.admitted: set[str] = set()
        self.stored: dict[int, tuple[str, int]] = {}
        self.groups: Counter[str] = Counter()
        self.cancels: dict[int, WorkCancelled] = {}
        self.numbered = self.repeats = 0
        self.last = self.acked = self.rejected = self.kills = 0

    def read(self, limit: int = 1 << 30) -> None:
        """Takes frames; numbers have no gaps, and a number is always the same result."""
        for _ in range(limit):
            if (frame := self.plan.session.next_frame()) is None:
                return
            whole = StreamRolloutsResponse.FromString(frame) if isinstance(frame, bytes) else frame
            for result in whole.results.results:
                self.last += 1
                found = (result.rollout.rollout_id, result.rollout.outcome)
                assert result.sequence == self.last
                assert self.stored.setdefault(self.last, found) == found
            accepted = [one for one in whole.admissions.admissions if not one.HasField("rejection")]
            self.admitted.update(one.task_id for one in accepted)
            if whole.HasField("cancelled"):
                self.take_cancelled(whole.cancelled)
            if whole.HasField("group_completed") or whole.HasField("group_cancelled"):
                self.groups[whole.group_completed.group_id or whole.group_cancelled.group_id] += 1

    def take_cancelled(self, answer: WorkCancelled) -> None:
        """A cancel that was answered once is never carried out again."""
        if first := self.cancels.get(answer.request.number):
            self.repeats += 1
            assert (answer.known, answer.cancelled_count) == (True, first.cancelled_count)
            assert answer.request == first.request
        self.cancels.setdefault(answer.request.number, answer)

    def cancel(self) -> None:
        """One more, or one of the last once more."""
        if self.cancels and self.dice.random() < 0.3:
            self.plan.send(cancel=self.dice.choice(list(self.cancels.values())[-20:]).request)
            return
        task_id = self.dice.choice(self.submitted).task_id
        scope = self.dice.choice(({"task_id": task_id}, {"rollout_id": f"{task_id}/0"}))
        self.numbered += 1
        self.plan.send(cancel=CancelWork(**scope, number=self.numbered))

    def submit(self, tasks: list[TaskSubmission]) -> None:
        self.plan.send(submit=SubmitTasks(tasks=tasks))

    def finish(self, count: int) -> None:
        for _ in range(count):  # one by one: a group that has enough ends others
            self.plan.executor.finish(1, reward=self.dice.choice((None, 1.0)))

    def resume(self) -> None:
        """A new stream; tasks whose admission never came are handed in again."""
        self.last = self.dice.randint(self.acked, self.last)
        session = self.plan.session
        session.detach(self.plan.wake)
        session.resume(OpenSession(session_id="s1", last_sequence=self.last), self.plan.wake)
        self.submit([one for one in self.submitted if one.task_id not in self.admitted])

    async def ack(self) -> None:
        """Acknowledges what was read whole, and hears of it."""
        await committed(self.journal)
        while len(self.plan.session._answers):
            self.read(1)
        if self.last > self.acked:
            through = self.dice.randint(self.acked + 1, self.last)
            rejected = [n for n in range(self.acked + 1, through + 1) if self.dice.random() < 0.2]
            self.plan.send(ack=AckResults(through_sequence=through, rejected_sequences=rejected))
            await committed(self.journal)
            self.acked, self.rejected = through, self.rejected + len(rejected)

    async def kill(self) -> None:
        """The writer has some of what was noted, or none of the last of it; then there is another daemon."""
        if self.dice.random() < 0.5:
            await asyncio.sleep(0)
        self.read(self.dice.randrange(4))
        self.journal._fresh.clear()
        self.journal._noted = self.journal._handed
        await committed(self.journal)
        await self.journal.close()
        self.journal = Journal(self.folder, max_bytes=1 << 30)
        [stored] = self.journal.load()
        self.plan = Plan()
        self.plan.executor.stubborn = True
        opening, record = OpenSession.FromString(stored.opening), SessionRecord(self.journal, stored.number)
        self.plan.session.restore(opening, record, stored)
        assert self.plan.session.ledger.acked == self.acked
        self.kills += 1
        self.resume()

    async def act(self, tasks: list[TaskSubmission]) -> None:
        """Anything that may happen."""
        dice, executor = self.dice, self.plan.executor
        act = dice.choice(ACTS)
        if act == "submit":
            fresh, tasks[:5] = tasks[:5], []
            self.submitted += fresh
            self.submit(fresh)
        elif act == "begin":
            waiting = [n for n, job in enumerate(executor.jobs) if not job.finished and job.call is None]
            executor.start(*dice.sample(waiting, min(3, len(waiting))))
        elif act == "finish":
            self.finish(dice.randrange(12))
        elif act == "read":
            await asyncio.sleep(0)
            self.read(dice.randrange(1, 8))
        elif act == "ack":
            await self.ack()
        elif act == "cancel" and self.submitted:
            self.cancel()
        elif act == "stop":
            executor.release()
        elif act == "resume":
            self.resume()
        elif act == "kill" and dice.random() < 0.5:
            await self.kill()


@pytest.mark.parametrize("seed", range(6))
async def test_every_rollout_comes_once_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(results, "MEMORY_RESULTS", 4)
    monkeypatch.setattr(results, "SHELF_BATCH", 3)
    one = Client(tmp_path, seed)
    await committed(one.journal)
    dice = random.Random(seed)
    tasks = [
        task(
            f"t{number}",
            dice.choice((1, 1, 2, 5)),
            group_id=dice.choice(("", f"g{number // 3}")),
            wanted_count=dice.choice((0, 0, 2)),
        )
        for number in range(100)
    ]
    for _ in range(300):
        await one.act(tasks)
    one.submitted += tasks
    one.resume()
    while any(not job.finished for job in one.plan.executor.jobs):
        one.finish(1)
    await committed(one.journal)
    one.read()
    assert one.kills > 3
    assert one.repeats
    rollouts = [f"{job.task_id}/{n}" for job in one.submitted for n in range(job.rollout_count)]
    assert sorted(rollout for rollout, _ in one.stored.values()) == sorted(rollouts)
    assert set(one.groups) == {job.group_id for job in one.submitted if job.group_id}
    ledger = one.plan.session.ledger
    assert ledger.used == len(rollouts) - one.rejected
    one.plan.send(ack=AckResults(through_sequence=one.last))
    await committed(one.journal)
    assert one.journal.bytes == 0
    assert not ledger.task_ids()
    [stored] = schema.load(one.journal._reader)
    assert (stored.tasks, stored.results, stored.stops) == ([], [], [])
    one.plan.session.abandon()
    await one.journal.close()

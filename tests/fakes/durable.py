"""Sessions of a plan that survive their stream, and their daemon."""

from __future__ import annotations

import asyncio
from pathlib import Path

from google.protobuf.duration_pb2 import Duration

from gymapi.v1.rollout_service_pb2 import OpenSession
from gymd.daemon.journal import Journal
from gymd.daemon.record import SessionRecord
from tests.fakes.plan import Plan

__all__ = ["HOUR", "committed", "durable", "restarted", "resume"]

HOUR = Duration(seconds=3600)


def resume(plan: Plan, last: int, **fields: object) -> None:
    plan.session.detach(plan.wake)
    opening = OpenSession(session_id="s1", last_sequence=last, **fields)  # type: ignore[arg-type]
    plan.session.resume(opening, plan.wake)


async def committed(journal: Journal) -> None:
    """Waits until everything noted so far is kept."""
    done = asyncio.Event()
    journal.listen(done.set)
    while journal.committed < journal.mark:
        await done.wait()
        done.clear()
    journal._listeners.remove(done.set)


def durable(journal: Journal, **limits: object) -> Plan:
    plan = Plan(new_record=lambda: SessionRecord(journal, 1), **limits)
    plan.send(open=OpenSession(granted_rollouts=10, resume_window=HOUR))
    return plan


async def restarted(folder: Path) -> tuple[Plan, Journal]:
    """What a new daemon makes of the journal of one that was killed."""
    journal = Journal(folder, max_bytes=1 << 30)
    [stored] = journal.load()
    plan = Plan()
    plan.session.restore(
        OpenSession.FromString(stored.opening), SessionRecord(journal, stored.number), stored
    )
    return plan, journal

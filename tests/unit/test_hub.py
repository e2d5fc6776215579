"""The open sessions of a daemon: who has them, and who is woken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from gymapi.v1.registry_service_pb2 import RegisterServerRequest, ServerKind
from gymapi.v1.rollout_service_pb2 import OpenSession, StreamRolloutsRequest, SubmitTasks
from gymd.daemon.admission import SessionLimits
from gymd.daemon.hub import Hub
from gymd.daemon.journal import Journal
from gymd.daemon.registry import Registry
from gymd.daemon.scheduler import Scheduler
from gymd.daemon.sessions import RolloutSession
from gymd.errors import InvalidRequest
from tests.fakes.durable import committed
from tests.fakes.plan import task
from tests.fakes.scheduler import good


class Stream:
    """A client's stream as far as the hub knows it."""

    def __init__(self) -> None:
        self.wakes = 0
        self.wake = self._wake  # one object: the hub tells streams apart by it

    def _wake(self) -> None:
        self.wakes += 1


def opening(**fields: Any) -> StreamRolloutsRequest:
    return StreamRolloutsRequest(open=OpenSession(granted_rollouts=10, **fields))


@pytest.fixture
async def hub(journal: Journal) -> AsyncIterator[Hub]:
    registry = Registry(15.0)
    registry.register(
        RegisterServerRequest(name="calc", kind=ServerKind.SERVER_KIND_AGENT, address="127.0.0.1:1")
    )

    async def run(*_: object) -> Any:
        return good()

    scheduler = Scheduler(run)
    yield Hub(registry, scheduler, SessionLimits(), journal)
    scheduler.close()


def drained(session: RolloutSession) -> None:
    """Reads all that a session has to say."""
    while session.next_frame() is not None:
        pass


async def test_a_resume_that_is_refused_leaves_the_session_as_it_was(hub: Hub) -> None:
    first, second = Stream(), Stream()
    window = Duration(seconds=3600)
    session = hub.enter(opening(resume_window=window), first.wake)
    again = StreamRolloutsRequest(open=OpenSession(session_id=session.session_id, granted_bytes=-1))
    with pytest.raises(InvalidRequest, match="granted_bytes"):
        hub.enter(again, second.wake)
    assert session.wake is first.wake
    hub.leave(session, first.wake)
    assert session.session_id in hub._expiries  # its window counts
    hub._close(session)


async def test_a_resume_that_breaks_gives_the_session_back(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Stream(), Stream()
    session = hub.enter(opening(resume_window=Duration(seconds=3600)), first.wake)
    hub.leave(session, first.wake)
    before = hub._expiries[session.session_id]

    def broken(last: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(session.ledger.results, "rewind", broken)
    again = StreamRolloutsRequest(open=OpenSession(session_id=session.session_id))
    with pytest.raises(OSError, match="gone"):
        hub.enter(again, second.wake)
    assert not session.attached
    assert before.cancelled()
    assert not hub._expiries[session.session_id].cancelled()
    monkeypatch.undo()
    assert hub.enter(again, second.wake) is session
    assert session.attached
    hub._close(session)


async def test_a_commit_wakes_only_those_that_waited_for_it(hub: Hub, journal: Journal) -> None:
    busy, idle = Stream(), Stream()
    window = Duration(seconds=3600)
    sessions = [hub.enter(opening(resume_window=window), stream.wake) for stream in (busy, idle)]
    await committed(journal)
    for session in sessions:
        drained(session)
    busy.wakes = idle.wakes = 0
    sessions[0].receive(StreamRolloutsRequest(submit=SubmitTasks(tasks=[task("a", agent="calc")])))
    assert busy.wakes == 1
    assert sessions[0].next_frame() is None  # nothing is told before it is kept
    await committed(journal)
    assert busy.wakes > 1
    assert idle.wakes == 0
    assert sessions[0].next_frame() is not None
    for session in sessions:
        hub._close(session)

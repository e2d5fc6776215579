"""The trainer without async: mistakes of its user, and Ctrl-C."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gymd.client import sync
from gymd.client.resume import ResumeFile
from gymd.client.sync import connect
from tests.fakes.daemon import FakeDaemon

ROW = json.dumps({"responses_create_params": {"input": "hello"}, "agent_ref": {"name": "a"}})
LIMIT_S = 10.0


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    async with FakeDaemon() as one:
        yield one


async def in_thread(work: Callable[[], Any]) -> Any:
    """Runs what must not block for ever."""
    return await asyncio.wait_for(asyncio.to_thread(work), LIMIT_S)


async def test_outside_of_its_context_it_says_so(daemon: FakeDaemon) -> None:
    gym = connect(daemon.address)

    def train() -> None:
        for use in (lambda: next(gym.groups([ROW])), lambda: gym.update_policy(1), gym.commit):
            with pytest.raises(RuntimeError, match=r"with connect\(\.\.\.\) as gym"):
                use()
        with gym:
            groups = gym.groups([ROW, ROW], n=1)
            assert next(groups).number in (0, 1)
        groups.close()  # nothing is left to be stopped
        with pytest.raises(RuntimeError, match=r"with connect\(\.\.\.\) as gym"):
            gym.update_policy(1)

    await in_thread(train)


async def test_on_its_own_loop_it_does_not_wait_for_itself(daemon: FakeDaemon) -> None:
    def train() -> None:
        with connect(daemon.address) as gym:

            def tasks() -> Iterator[str]:
                gym.update_policy(1)
                yield ROW

            with pytest.raises(RuntimeError, match="outside of its own event loop"):
                next(gym.groups(tasks(), n=1))

    await in_thread(train)


async def test_ctrl_c_while_it_waits_for_a_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = asyncio.run_coroutine_threadsafe

    def interrupted(work: Any, loop: asyncio.AbstractEventLoop) -> Future[Any]:
        async def dialling() -> Any:
            waiting = asyncio.create_task(work)
            await asyncio.sleep(0.1)  # until it has the file and nobody answers; a longer wait does no harm
            begun.set_result(None)
            return await waiting

        begun: Future[None] = Future()
        future = schedule(dialling(), loop)

        def result(timeout: float | None = None) -> None:
            begun.result(LIMIT_S)
            raise KeyboardInterrupt

        future.result = result  # type: ignore[method-assign]
        return future

    monkeypatch.setattr(sync.asyncio, "run_coroutine_threadsafe", interrupted)
    gym = connect("127.0.0.1:1", resume_file=tmp_path / "resume", wait_for_daemon=60)

    def train() -> None:
        with pytest.raises(KeyboardInterrupt), gym:
            pass

    await in_thread(train)
    notes = ResumeFile(tmp_path / "resume")
    notes.open()  # it has been let go
    notes.close()
    assert not caplog.records

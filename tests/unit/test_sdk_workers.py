"""The process pool: what does not end is killed, what crashes is named, and the rest goes on."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import uvloop

from gymd.errors import GymdError
from gymd.sdk import ProcessPool, cpu_bound
from gymd.sdk.testing import eventually, expect_error, start_server
from gymd.sdk.workers import close_shared_pool
from tests.fakes import work


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    running = ProcessPool(2)
    yield running
    await running.close()


async def test_calls_run_in_other_processes_that_are_reused(pool: ProcessPool) -> None:
    assert await pool.run(work.double, (21,), timeout=30) == 42
    assert await pool.run(work.double, kwargs={"number": 1}, timeout=30) == 2
    first = await pool.run(work.pid, timeout=30)
    assert first != os.getpid()
    assert await pool.run(work.pid, timeout=30) == first


async def test_at_most_size_workers(pool: ProcessPool) -> None:
    pids = await asyncio.gather(*(pool.run(work.pid, timeout=30) for _ in range(20)))
    assert len(set(pids)) <= 2


async def test_a_call_that_does_not_end_is_killed_with_its_process(pool: ProcessPool, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    assert await pool.run(work.double, (1,), timeout=30) == 2  # now a worker has loaded the module
    begin = time.monotonic()
    call = pool.run(work.spin_with_pid, (str(file),), timeout=0.5)
    failure = await expect_error("DEADLINE_EXCEEDED", call, "an endless call")
    assert time.monotonic() - begin < 10
    assert "spin_with_pid did not end within 0.5 s; its process was killed" in str(failure)
    assert not psutil.pid_exists(int(file.read_text()))
    assert await pool.run(work.double, (1,), timeout=30) == 2


async def test_a_cancelled_call_is_killed_too(pool: ProcessPool, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    running = asyncio.ensure_future(pool.run(work.spin_with_pid, (str(file),), timeout=60))
    await eventually(lambda: file.exists() and file.read_text(), "starting the call", timeout=20)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert not psutil.pid_exists(int(file.read_text()))


async def test_loading_a_module_does_not_count_against_the_limit(pool: ProcessPool) -> None:
    # Named, not imported here, where it would be loaded already.
    assert await pool.run("tests.fakes.slow_import:fast", timeout=1.0) == "loaded"
    assert "tests.fakes.slow_import" not in sys.modules


async def test_memory_without_end_is_a_failure_of_the_call(pool: ProcessPool) -> None:
    text = "MemoryError"
    failure = await expect_error("SERVER_CODE_FAILED", pool.run(work.hoard, timeout=30), "a hoarding call")
    assert text in str(failure)
    assert await pool.run(work.double, (1,), timeout=30) == 2


async def test_a_worker_that_crashes_is_named_and_replaced(pool: ProcessPool) -> None:
    failure = await expect_error("SERVER_CODE_FAILED", pool.run(work.crash, timeout=30), "a crash")
    assert "exit code -9" in str(failure)
    assert await pool.run(work.double, (1,), timeout=30) == 2


async def test_a_worker_that_was_killed_while_it_was_idle_fails_no_call(pool: ProcessPool) -> None:
    idle = await pool.run(work.pid, timeout=30)
    os.kill(idle, signal.SIGKILL)  # as the kernel does where memory is short
    await eventually(lambda: psutil.Process(idle).status() == psutil.STATUS_ZOMBIE, "its end", timeout=20)
    assert await pool.run(work.pid, timeout=30) != idle
    assert not psutil.pid_exists(idle)


def test_workers_that_crashed_leave_no_pipes_open() -> None:
    async def crash() -> None:
        pool, files = ProcessPool(1), []
        for _ in range(3):
            await expect_error("SERVER_CODE_FAILED", pool.run(work.crash, timeout=30), "a crash")
            await asyncio.sleep(0)
            files.append(len(os.listdir("/proc/self/fd")))
        assert files[0] == files[1] == files[2]

    uvloop.run(crash())  # as in hosts; asyncio's pipes close themselves


async def test_what_a_call_raises_comes_back_and_the_worker_lives(pool: ProcessPool) -> None:
    before = await pool.run(work.pid, timeout=30)
    failure = await expect_error("SERVER_CODE_FAILED", pool.run(work.fail, ("no",), timeout=30), "a failure")
    assert "ValueError: no" in str(failure)
    odd = pool.run(work.fail, ("\ud800",), timeout=30)
    assert r"ValueError: \ud800" in str(await expect_error("SERVER_CODE_FAILED", odd, "half a character"))
    call = pool.run(work.unpicklable, timeout=30)
    assert "pickle" in str(await expect_error("SERVER_CODE_FAILED", call, "an odd result"))
    assert await pool.run(work.pid, timeout=30) == before


async def test_printing_does_not_disturb(pool: ProcessPool, capfd: pytest.CaptureFixture[str]) -> None:
    assert await pool.run(work.noisy, ("x" * 100_000,), timeout=30) == "x" * 100_000


async def test_what_a_call_reads_is_empty(pool: ProcessPool) -> None:
    assert await pool.run(work.read, timeout=10) == ""


async def test_large_arguments_and_results(pool: ProcessPool) -> None:
    text = "ä" * 5_000_000
    assert await pool.run(work.noisy, (text,), timeout=30) == text


async def test_cpu_bound_functions_and_verifiers() -> None:
    try:
        assert await work.spin(0.01) == 0.01
        with pytest.raises(GymdError, match="killed"):
            await work.spin(30)
        assert work.spin.inline(0.001) == 0.001
        async with start_server(work.Graded) as server:
            assert (await server.verify({}, "0")).value != os.getpid()
            await expect_error("DEADLINE_EXCEEDED", server.verify({}, "30"), "a verifier that does not end")
            assert (await server.verify({}, "0")).value > 0
    finally:
        await close_shared_pool()


async def test_a_busy_worker_does_not_stop_the_event_loop() -> None:
    try:
        running = asyncio.ensure_future(work.spin(0.2))
        turns = 0
        while not running.done():
            await asyncio.sleep(0.005)
            turns += 1
        assert turns > 5
    finally:
        await close_shared_pool()


@pytest.mark.parametrize("name", ["self", "session"])
def test_what_cannot_travel_is_refused_when_it_is_declared(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"def grade({name}): ...", namespace)  # a parameter name cannot be given otherwise
    with pytest.raises(TypeError, match=f"cannot take {name}"):
        cpu_bound(timeout_s=1)(namespace["grade"])  # type: ignore[arg-type]

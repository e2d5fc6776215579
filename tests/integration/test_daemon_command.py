"""The `gymd` command as a process: ready line, signals, exit codes, nothing left behind."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import orjson
import psutil
import pytest

from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub
from gymd.mesh import dial
from tests.fakes.mesh import TOY, Stream, task

CONFIG = f"""
toy:
  responses_api_agents:
    toy:
      entrypoint: {TOY}
      delay_s: 0.0
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "mesh.yaml"
    file.write_text(CONFIG)
    return file


@asynccontextmanager
async def gymd(tmp_path: Path, *arguments: str) -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "gymd", "gymd.listen=127.0.0.1:0", f"gymd.state_dir={tmp_path}/state"]
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=tmp_path
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        line = await process.stdout.readline()
    assert line, (await process.communicate())[1].decode()
    event: dict[str, Any] = orjson.loads(line)
    return event


async def ended(process: Process) -> tuple[int | None, str]:
    async with asyncio.timeout(30):
        _, errors = await process.communicate()
    return process.returncode, errors.decode()


async def run_some(address: str) -> None:
    async with dial(address) as channel:
        stream = await Stream(RolloutServiceStub(channel)).open()
        await stream.submit(task("a", rollout_count=10))
        await stream.until(10)
        await stream.finish()


def children(process: Process) -> Sequence[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


async def test_ready_then_sigterm(tmp_path: Path, config: Path) -> None:
    async with gymd(tmp_path, "-c", str(config), "--wait-ready") as process:
        ready = await said(process)
        assert (ready["event"], ready["pid"]) == ("ready", process.pid)
        info = orjson.loads((tmp_path / "state" / "daemon.json").read_bytes())
        assert info["address"] == ready["address"]
        assert info["config_files"] == [str(config)]
        hosts = children(process)
        assert len(hosts) >= 1
        await run_some(ready["address"])
        process.send_signal(signal.SIGTERM)
        code, errors = await ended(process)
        assert code == 0
        assert not psutil.wait_procs(hosts, timeout=20)[1]
        assert not (tmp_path / "state" / "daemon.json").exists()
        lines = [orjson.loads(line) for line in errors.splitlines()]
        assert [line["event"] for line in lines][-1] == "daemon_stopped"
        assert not [line for line in lines if line["level"] in ("warning", "error")]


async def test_the_second_signal_does_not_wait(tmp_path: Path, config: Path) -> None:
    async with gymd(tmp_path, "-c", str(config), "--wait-ready", "gymd.grace_s=60") as process:
        ready = await said(process)
        async with dial(ready["address"]) as channel:
            stream = await Stream(RolloutServiceStub(channel)).open()
            await stream.submit(task("stuck", "hang"))
            await stream.expect("admissions")
            process.send_signal(signal.SIGINT)
            draining = await stream.expect("draining")
            assert draining.time_left.seconds == 60
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            code, _ = await ended(process)
            assert (code, time.monotonic() - began < 40) == (0, True)
            with pytest.raises((grpc.aio.AioRpcError, AssertionError)):
                await stream.expect("never")


@pytest.mark.parametrize("wait", [True, False])
async def test_the_end_of_its_lifeline_stops_it_in_order(tmp_path: Path, config: Path, wait: bool) -> None:
    async with gymd(tmp_path, "-c", str(config), "--wait-ready", "--stdin-lifeline") as process:
        if wait:  # else: told to stop while it starts
            await said(process)
        assert process.stdin is not None
        process.stdin.close()
        code, errors = await ended(process)
        assert code == 0
        assert not errors or orjson.loads(errors.splitlines()[-1])["event"] == "daemon_stopped"
        assert not (tmp_path / "state" / "daemon.json").exists()


async def test_hosts_do_not_outlive_a_killed_daemon(tmp_path: Path, config: Path) -> None:
    async with gymd(tmp_path, "-c", str(config), "--wait-ready") as process:
        ready = await said(process)
        await run_some(ready["address"])
        hosts = children(process)
        os.kill(process.pid, signal.SIGKILL)
        assert not psutil.wait_procs(hosts, timeout=15)[1]
        await ended(process)
    async with gymd(tmp_path, "-c", str(config)) as again:
        assert (await said(again))["event"] == "ready", "a dead daemon's lock and files are no hindrance"
        again.send_signal(signal.SIGTERM)
        assert (await ended(again))[0] == 0


async def test_a_server_that_fails_is_told_and_fails_the_command(tmp_path: Path, config: Path) -> None:
    broken = "toy.responses_api_agents.toy.fail_start=no licence"
    async with gymd(tmp_path, "-c", str(config), "--wait-ready", f"++{broken}") as process:
        event = await said(process)
        assert event["event"] == "failed"
        assert "no licence" in event["servers"][0]["condition"]
        code, errors = await ended(process)
        assert code == 1
        assert "gymd: toy: cannot start toy" in errors


async def test_every_mistake_of_the_configuration_is_told(tmp_path: Path) -> None:
    async with gymd(tmp_path, "-c", "nowhere.yaml", "gymd.grace_s=-1", "gymd.nonsense=1") as process:
        code, errors = await ended(process)
    assert code == 1
    assert "nowhere.yaml" in errors
    assert "Traceback" not in errors


async def test_log_file(tmp_path: Path, config: Path) -> None:
    log = tmp_path / "gymd.log"
    options = ["--log-file", str(log), "--log-level", "debug"]
    async with gymd(tmp_path, "-c", str(config), "--wait-ready", *options) as process:
        await said(process)
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == (0, "")
    events = [orjson.loads(line) for line in log.read_text().splitlines()]
    assert {"daemon_started", "host_started", "daemon_stopped"} <= {event["event"] for event in events}
    assert all({"time", "level", "logger"} <= set(event) for event in events)


async def test_version(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "gymd", "--version", stdout=PIPE)
    output, _ = await process.communicate()
    assert output.decode().startswith("gymd ")


async def test_a_daemon_that_stood_still_does_not_take_its_hosts_for_hung(
    tmp_path: Path, config: Path
) -> None:
    extra = ("-c", str(config), "--wait-ready", "gymd.lease_ttl_s=2", "gymd.pool_hosts=1")
    async with gymd(tmp_path, *extra) as process:
        address = (await said(process))["address"]
        before = [child.pid for child in children(process)]
        os.kill(process.pid, signal.SIGSTOP)
        await asyncio.sleep(6)  # three times what a host is given
        os.kill(process.pid, signal.SIGCONT)
        await run_some(address)
        process.send_signal(signal.SIGTERM)
        code, errors = await ended(process)
    assert code == 0, errors
    assert before
    assert "host_hangs" not in errors
    assert "host_ended" not in errors

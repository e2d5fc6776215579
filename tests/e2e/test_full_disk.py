"""A disk that takes nothing more: people and trainers are told, and everything goes on when there is room."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import psutil

from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.client import Rejection, RolloutClient
from gymd.errors import GymdError
from tests.fakes.gymctl import gymctl
from tests.fakes.process_mesh import ProcessMesh

TASKS = 120
TEXT = "x" * 20_000
ROOM_BYTES = 500_000


def submissions() -> list[TaskSubmission]:
    tasks = [TaskSubmission(task_id=f"t{number}") for number in range(TASKS)]
    for task in tasks:
        task.task.create_params.input_text = TEXT
    return tasks


async def test_a_full_disk_is_told_and_waited_out(tmp_path: Path) -> None:
    mesh = ProcessMesh(tmp_path)
    await mesh.start()
    try:
        assert mesh.process is not None
        daemon = psutil.Process(mesh.process.pid)
        before = daemon.rlimit(resource.RLIMIT_FSIZE)
        # No file of the daemon may grow beyond it: for SQLite the same as a disk without room.
        daemon.rlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, before[1]))
        seen: list[str] = []
        refused: list[GymdError] = []

        async def train(client: RolloutClient) -> None:
            async with client.session(credits=TASKS) as session:
                async for one in session.run(submissions()):
                    if isinstance(one, Rejection):
                        refused.append(one.error)
                    else:
                        seen.append(one.rollout.rollout_id)

        async with RolloutClient(mesh.address) as client:
            training = asyncio.create_task(train(client))
            async with asyncio.timeout(30):
                while not (condition := (await client.list_servers()).daemon.condition):
                    assert not training.done()
                    await asyncio.sleep(0.05)
            assert "make room: it goes on by itself" in condition
            [session] = await client.list_sessions()
            assert session.progress.condition == condition
            status = await gymctl("status", address=mesh.address)
            assert status.code == 1
            assert f"condition: {condition}" in status.out
            daemon.rlimit(resource.RLIMIT_FSIZE, before)
            await asyncio.wait_for(training, 30)
            assert not (await client.list_servers()).daemon.condition
    finally:
        await mesh.end()
    assert len(seen) == len(set(seen)) == TASKS - len(refused)
    assert all(error.reason_name == "STORAGE_FULL" for error in refused)


def test_up_says_why_there_is_not_even_a_log(tmp_path: Path) -> None:
    (tmp_path / "mesh.yaml").write_text("gymd: {listen: 127.0.0.1:0}\n")
    done = subprocess.run(
        [sys.executable, "-m", "gymctl", "up", "--detach", "--config", "mesh.yaml"],
        cwd=tmp_path,
        env={**os.environ, "GYMD_STATE_DIR": str(tmp_path / "state"), "NO_COLOR": "1"},
        # Files can be made, and nothing can be written into them: what a full disk does.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 1
    assert f"its log {tmp_path / 'state' / 'gymd.log'} cannot be written: File too large" in done.stderr
    assert "Make room on the disk" in done.stderr
    assert not done.stdout

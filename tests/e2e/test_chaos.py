"""Every part is killed at random, under load, for a minute: the account is exact all the same."""

import asyncio
import os
import random
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from pathlib import Path

import psutil
import pytest

from gymd.sdk.testing import eventually
from tests.fakes.process_mesh import ProcessMesh
from tests.fakes.trainer import stored

ROOT = Path(__file__).resolve().parents[2]
CHAOS_S = float(os.environ.get("GYMD_CHAOS_S", "60"))
EACH = 4
ENDLESS = 1_000_000


class Chaos:
    """A mesh, a trainer, and what was killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.mesh = ProcessMesh(folder)
        self.file = folder / "results"
        self.random = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.trainer: Process | None = None
        self._at_host_kill = -1

    async def start_trainer(self) -> None:
        # It waits for a daemon that is not there: the next kill may come while it is being started.
        self.trainer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.fakes.trainer"),
            *(self.mesh.address, str(self.file), str(ENDLESS), str(EACH)),
            stdin=DEVNULL,
            stdout=PIPE,
            cwd=ROOT,
        )

    async def kill_something(self) -> None:
        victim = self.random.choice(("daemon", "host", "trainer"))
        if victim == "daemon":
            await self.mesh.end()
            await self.mesh.start()
        elif victim == "host":
            assert self.mesh.process is not None
            hosts = psutil.Process(self.mesh.process.pid).children()
            found = len(stored(self.file)[1])
            # One that is being started is spared: after five deaths before it is ready it is given up.
            if not hosts or found == self._at_host_kill:
                return
            self._at_host_kill = found
            self.random.choice(hosts).kill()
        else:
            await self.end_trainer()
            await self.start_trainer()
        self.killed[victim] += 1

    async def end_trainer(self) -> None:
        assert self.trainer is not None
        if self.trainer.returncode is None:
            self.trainer.kill()
        await self.trainer.communicate()

    def results(self) -> int:
        assert self.trainer is not None
        assert self.trainer.returncode is None, "the trainer has ended by itself"
        return len(stored(self.file)[1])

    async def finish(self) -> str:
        """No more tasks; waits until the trainer has everything, and returns what it says."""
        self.file.with_suffix(".stop").touch()
        assert self.trainer is not None
        async with asyncio.timeout(60):
            said, _ = await self.trainer.communicate()
        return said.decode()


@pytest.mark.timeout(CHAOS_S + 150)
async def test_the_account_is_exact_whatever_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chaos = Chaos(tmp_path, seed)
    loop = asyncio.get_running_loop()
    try:
        await chaos.mesh.start()
        await chaos.start_trainer()
        end = loop.time() + CHAOS_S
        while loop.time() < end:
            await asyncio.sleep(chaos.random.uniform(0.2, 2.5))
            await chaos.kill_something()
        progress = chaos.results() + 1
        await eventually(lambda: chaos.results() >= progress, "results after the last kill", timeout=60)
        said = await chaos.finish()
    finally:
        await chaos.end_trainer()
        if chaos.mesh.process is not None and chaos.mesh.process.returncode is None:
            await chaos.mesh.end()
    numbers, names = zip(*stored(chaos.file)[1], strict=True)
    what = f"seed {seed}, killed {dict(chaos.killed)}"
    assert list(numbers) == list(range(1, len(numbers) + 1)), what
    tasks = Counter(name.rsplit("/")[0] for name in names)
    assert len(set(names)) == len(names), what
    assert set(tasks.values()) == {EACH}, what
    assert said == f"{len(tasks)} {len(names)}\n", what
    assert len(names) > CHAOS_S, what
    if CHAOS_S >= 30:
        assert set(chaos.killed) == {"daemon", "host", "trainer"}, what

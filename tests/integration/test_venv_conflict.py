"""Two environments whose pins exclude each other, in one mesh at the same time: `placement: venv`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.registry_service_pb2 import Placement
from gymapi.v1.rollout_pb2 import Outcome
from gymd.config import ServerSpec
from tests.fakes.mesh import running, task

VERSIONS = ("0.7.0", "0.8.0")
BUILD_S = 300.0
"""Two environments are built: seconds with a warm cache, minutes with an empty one on a busy machine."""

# math_verify is loaded where it is used, in a worker of the server's own Python.
ENVIRONMENT = '''
from importlib.metadata import version

from gymd.sdk import ResourcesServer, Reward, TaskView, shared_pool


def grade(expected: str, text: str) -> tuple[bool, str]:
    from math_verify import parse, verify

    return verify(parse(expected), parse(text)), version("math-verify")


class Sums(ResourcesServer):
    """Says by which math-verify it graded."""

    async def verify(self, task: TaskView, text: str) -> Reward:
        pair = (task.fields["expected_answer"], text)
        right, used = await shared_pool().run(grade, pair, timeout=120)
        return Reward(float(right), extras={"math_verify": used})
'''


def environment(folder: Path, name: str, pin: str) -> ServerSpec:
    """An environment in a folder of its own, with its pin beside it."""
    home = folder / name
    home.mkdir()
    (home / "server.py").write_text(ENVIRONMENT)
    (home / "requirements.txt").write_text(f"math-verify=={pin}\n")
    return ServerSpec(
        name=name,
        kind="resources",
        implementation=name,
        entrypoint=f"{home}/server.py:Sums",
        placement="venv",
    )


def agent(name: str) -> ServerSpec:
    """The agent that works in an environment."""
    peers: dict[str, Any] = {"model_server": {"name": "policy"}, "resources_server": {"name": name}}
    return ServerSpec(name=f"{name}_agent", kind="agent", implementation="simple_agent", config=peers)


def policy() -> ServerSpec:
    """Knows the answer."""
    rules = [{"when": {}, "text": r"It is $\frac{6}{4}$."}]
    return ServerSpec(name="policy", kind="model", implementation="scripted_model", config={"rules": rules})


async def installable(folder: Path) -> bool:
    """Whether both versions can be had: from uv's cache, or from a package index."""
    for number, version in enumerate(VERSIONS):
        target = ["--dry-run", "--target", str(folder / str(number)), f"math-verify=={version}"]
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", *target]
        if await (await asyncio.create_subprocess_exec(*command)).wait():
            return False
    return True


@pytest.mark.timeout(600)
async def test_conflicting_pins_run_at_the_same_time(tmp_path: Path) -> None:
    if not await installable(tmp_path):
        pytest.skip(f"math-verify {' and '.join(VERSIONS)} cannot be had: no package index and no cache")
    old, new = (environment(tmp_path, f"sums{number}", pin) for number, pin in enumerate(VERSIONS))
    servers = (old, new, agent(old.name), agent(new.name), policy())
    async with running(tmp_path / "state", *servers, ready=False) as mesh:
        async with asyncio.timeout(BUILD_S):
            assert await mesh.daemon.wait_ready() == []
        placed = {one.name: (one.placement, one.pid) for one in await mesh.servers()}
        assert {placed[one.name][0] for one in (old, new)} == {Placement.PLACEMENT_VENV}
        assert placed[old.name][1] != placed[new.name][1]
        stream = await mesh.stream().open()
        tasks = []
        for one in (old, new):
            submission = task(one.name, "What is 3/2 written with the denominator 4?")
            submission.task.agent = f"{one.name}_agent"
            submission.task.fields_json = json.dumps({"expected_answer": "$1.5$"})
            tasks.append(submission)
        await stream.submit(*tasks)
        found = {rollout.task_id: rollout for rollout in await stream.until(2)}
        await stream.finish()
    for one, version in zip((old, new), VERSIONS, strict=True):
        rollout = found[one.name]
        assert (rollout.outcome, rollout.reward.value) == (Outcome.OUTCOME_COMPLETED, 1.0)
        assert json.loads(rollout.reward.extras_json) == {"math_verify": version}

"""docker, podman and apptainer by stand-ins on PATH, and what is said where there is no runtime."""

import asyncio
import contextlib
import copy
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gymd.errors import GymdError, error
from gymd.sdk.sandbox import Sandbox
from gymd.sdk.testing import RunningServer, eventually, expect_error, start_server
from gymservers.resources.swe.instance import Instance
from gymservers.resources.swe.server import SoftwareEngineering

HERE = Path(__file__).parent
ROW = json.loads((HERE.parent / "data/example.jsonl").read_text().splitlines()[0])
GOLD = f"git apply - <<'END_OF_TEXT'\n{ROW['patch']}\nEND_OF_TEXT"
IMAGE = "tiny/slugs:latest"


@dataclass
class StandIn:
    """A docker that a test watches."""

    state: Path

    def calls(self, command: str = "") -> list[list[str]]:
        log = self.state / "log.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        calls = [json.loads(line) for line in lines]
        return [call for call in calls if not command or call[0] == command]

    def containers(self) -> list[str]:
        return os.listdir(self.state / "containers")

    def set(self, name: str) -> Path:
        path = self.state / name
        path.touch()
        return path


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A repository as an image, and docker and podman on PATH."""
    state = tmp_path / "state"
    image = state / "images" / "tiny_slugs_latest"
    (state / "containers").mkdir(parents=True)
    for name, content in ROW["files"].items():
        (image / name).parent.mkdir(parents=True, exist_ok=True)
        (image / name).write_text(content)
    git = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    for command in ([*git, "init", "-q"], [*git, "add", "-A"], [*git, "commit", "-qm", "start"]):
        subprocess.run(command, cwd=image, check=True)
    text = f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "stand_in_docker.py"}" "$@"\n'
    for name in ("docker", "podman"):
        program(tmp_path / "bin", name, text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN_STATE", str(state))
    return StandIn(state)


@contextlib.asynccontextmanager
async def serving(**config: Any) -> AsyncIterator[RunningServer]:
    async with start_server(SoftwareEngineering, {"runtime": "docker"} | config) as server:
        yield server


def row(**fields: Any) -> Any:
    return copy.deepcopy(ROW) | {"files": {}, "image": IMAGE} | fields


def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: Any) -> Sandbox:
        raise error("SERVER_NOT_READY", "untrusted code cannot be isolated here (no namespaces)")

    monkeypatch.setattr(Sandbox, "open", refused)


@pytest.mark.parametrize("runtime", ["docker", "podman", "auto"])
async def test_a_rollout(stand_in: StandIn, runtime: str) -> None:
    async with serving(runtime=runtime) as server:
        async with await server.seed(row()) as session:
            answer = await session.call("bash", command="git status --short; cat slugs/text.py; exit 4")
            assert "<returncode>4</returncode>" in answer.output
            assert "def slugify" in answer.output
            await session.call("bash", command=GOLD)
            reward = await session.verify()
            assert (reward.value, reward.extras["verdict"]) == (1.0, "resolved")
            assert len(stand_in.containers()) == 1  # the evaluation's is gone, the session's is not
        assert stand_in.containers() == []
    runs = stand_in.calls("run")
    assert len(runs) == 2
    assert runs[0][runs[0].index("--name") + 1] != runs[1][runs[1].index("--name") + 1]


async def test_arguments(stand_in: StandIn) -> None:
    config = {"memory_mb": 512, "cpus": 1.5, "processes": 99, "file_mb": 3, "container_lifetime_s": 77}
    serve = serving(**config, environment={"CI": "1"}, pull=False)
    async with serve as server, await server.seed(row()) as session:
        await session.call("bash", command="echo --privileged")
    (run,) = stand_in.calls("run")
    pairs = set(itertools.pairwise(run))
    wanted = {
        ("--network", "none"),
        ("--memory", "512m"),
        ("--memory-swap", "512m"),
        ("--cpus", "1.5"),
        ("--pids-limit", "99"),
        ("--ulimit", f"fsize={3 << 20}"),
        ("--security-opt", "no-new-privileges"),
        ("--cap-drop", "ALL"),
        ("--pull", "never"),
        ("--workdir", "/testbed"),
        ("--entrypoint", "bash"),
        ("--env", "CI=1"),
        ("--env", "BASH_ENV=/root/.bashrc"),
        (IMAGE, "-c"),
    }
    assert wanted <= pairs
    assert {"--rm", "--detach"} <= set(run)
    assert not {"--privileged", "--volume", "--mount", "--pid", "--user"} & set(run)
    assert "77" in run[-1]  # it ends by itself
    label = run[run.index("--label") + 1]
    assert label.startswith(f"gymd.swe.owner={socket.gethostname()}.{os.getpid()}.")
    name = run[run.index("--name") + 1]
    for call in stand_in.calls("exec"):
        assert call[:5] == ["exec", "--interactive", "--workdir", "/testbed", name]
        # What the model wrote goes by the input: it can be no option, and has any length.
        assert "echo --privileged" not in call
    assert stand_in.calls("rm") == [["rm", "--force", name]]


@pytest.mark.parametrize(
    ("fields", "config", "image"),
    [
        (
            {"image": None, "instance_id": "Django__django-11099"},
            {},
            "swebench/sweb.eval.x86_64.django_1776_django-11099:latest",
        ),
        (
            {"image": None, "instance_id": "getmoto__moto-1", "subset": "gym"},
            {},
            "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-1:latest",
        ),
        (
            {"image": None, "instance_id": "a__b-1"},
            {"image_template": "mirror.example/x-{docker_id}:2"},
            "mirror.example/x-a_1776_b-1:2",
        ),
        ({"image": "mine:3"}, {}, "mine:3"),
        ({"image": "mine:3"}, {"image_template": "mirror.example/{image}"}, "mirror.example/mine:3"),
    ],
)
async def test_names_of_images(stand_in: StandIn, fields: Any, config: Any, image: str) -> None:
    async with serving(**config) as server:
        failure = await expect_error("SERVER_CODE_FAILED", server.seed(row(**fields)), "an unknown image")
    assert image in failure.message
    assert image in stand_in.calls("run")[0]
    assert stand_in.calls("rm")  # half a start is removed, too


async def test_a_command_that_hangs_is_killed_inside(stand_in: StandIn) -> None:
    async with serving(step_timeout=0.7) as server, await server.seed(row()) as session:
        answer = await session.call("bash", command="echo begun; sleep 1000")
        assert "<returncode>-1</returncode>" in answer.output
        assert "did not end within 0.7 s" in answer.output
        assert stand_in.calls("exec")[-1][-1] == "kill -KILL -1"
        assert "still here" in (await session.call("bash", command="echo still here")).output


async def test_cancelling_kills_and_removes(stand_in: StandIn) -> None:
    async with serving() as server:
        session = await server.seed(row())
        (name,) = stand_in.containers()
        call = asyncio.ensure_future(session.call("bash", command="touch begun; sleep 1000"))
        begun = stand_in.state / "containers" / name / "testbed" / "begun"
        await eventually(begun.exists, "the command began", timeout=20)
        call.cancel()
        await asyncio.wait([call])
        await session.close()
        await eventually(lambda: not stand_in.containers(), "the container is removed", timeout=20)


async def test_cancelling_while_a_container_starts(stand_in: StandIn) -> None:
    slow = stand_in.set("slow")
    async with serving() as server:
        seeding = asyncio.ensure_future(server.seed(row()))
        await eventually((stand_in.state / "starting").exists, "the container is being started", timeout=20)
        seeding.cancel()
        await asyncio.wait([seeding])
        slow.unlink()  # only now the engine is done
        await eventually(lambda: stand_in.calls("rm"), "the container is removed", timeout=20)
    assert stand_in.containers() == []


async def test_stopping_removes_what_is_open(stand_in: StandIn) -> None:
    async with serving() as server:
        await server.seed(row())
        await server.seed(row())
        assert len(stand_in.containers()) == 2
    assert stand_in.containers() == []


async def test_containers_of_a_killed_server_are_removed_by_the_next(stand_in: StandIn) -> None:
    script = (
        "import asyncio, json, os, signal, sys\n"
        "from gymd.sdk.testing import start_server\n"
        "from gymservers.resources.swe.server import SoftwareEngineering\n"
        "async def main():\n"
        "    async with start_server(SoftwareEngineering, {'runtime': 'docker'}) as server:\n"
        "        await server.seed(json.loads(sys.argv[1]))\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, json.dumps(row()))
    assert await process.wait() == -signal.SIGKILL
    assert len(stand_in.containers()) == 1
    async with serving() as server:
        assert stand_in.containers() == []
        await server.seed(row())
        async with serving():  # a second server beside it leaves the first one's alone
            assert len(stand_in.containers()) == 1


async def test_a_container_that_is_gone_is_no_zero(stand_in: StandIn) -> None:
    async with serving() as server:
        session = await server.seed(row())
        (name,) = stand_in.containers()
        shutil.rmtree(stand_in.state / "containers" / name)
        failure = await expect_error("SESSION_LOST", session.call("bash", command="ls"), "no container")
        assert "start the rollout again" in failure.message
        await expect_error("SESSION_LOST", session.verify(), "no container")
        await session.close()


async def test_a_failed_evaluation_is_no_zero(stand_in: StandIn) -> None:
    async with serving() as server, await server.seed(row()) as session:
        await session.call("bash", command=GOLD)
        image = stand_in.state / "images" / "tiny_slugs_latest"
        image.rename(image.with_name("gone"))
        failure = await expect_error("SERVER_CODE_FAILED", session.verify(), "no image for the evaluation")
    assert "did not start a container" in failure.message


async def test_an_image_without_a_repository(stand_in: StandIn) -> None:
    shutil.rmtree(stand_in.state / "images" / "tiny_slugs_latest" / ".git")
    async with serving() as server:
        failure = await expect_error("SERVER_CODE_FAILED", server.seed(row()), "no repository")
    assert "repository" in failure.message
    assert stand_in.containers() == []


# ---- starting without a runtime


@pytest.mark.parametrize(
    ("runtime", "texts"),
    [
        (
            "auto",
            ["Looked for docker, podman, apptainer and bubblewrap", "no namespaces", "Install one of them"],
        ),
        ("docker", ["docker is not installed", "set another `runtime`"]),
        ("podman", ["podman is not installed"]),
        ("apptainer", ["neither apptainer nor singularity is installed"]),
        ("singularity", ["neither apptainer nor singularity is installed"]),
        ("bubblewrap", ["no namespaces"]),
    ],
)
async def test_no_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, texts: list[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    no_sandbox(monkeypatch)
    starting = start_server(SoftwareEngineering, {"runtime": runtime})
    failure = await expect_error("SERVER_NOT_READY", starting.__aenter__(), "starting without a runtime")
    assert "no container runtime works here" in failure.message
    for text in texts:
        assert text in failure.message


async def test_an_engine_without_its_service_is_passed_over(stand_in: StandIn) -> None:
    stand_in.set("no_daemon")
    starting = start_server(SoftwareEngineering, {"runtime": "docker"})
    failure = await expect_error("SERVER_NOT_READY", starting.__aenter__(), "starting without the daemon")
    assert "Cannot connect to the Docker daemon" in failure.message
    assert "Start its service" in failure.message
    try:
        Sandbox.open()
    except GymdError as why:
        pytest.skip(str(why))
    async with serving(runtime="auto") as server:
        assert server.server.labels()["runtime"] == "bubblewrap"


async def test_labels_name_both_runtimes(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    no_sandbox(monkeypatch)
    async with serving() as server:
        labels = server.server.labels()
        failure = await expect_error("SERVER_NOT_READY", server.seed(ROW), "a row with files")
    assert labels["runtime"] == "docker"
    assert labels["isolation"].startswith("docker 99.1: no network")
    assert "not possible here" in labels["rows_with_files"]
    assert "Give the row an `image`" in failure.message


# ---- apptainer

APPTAINER = """#!/bin/bash
case $1 in
--version) echo apptainer version 9.9 ;;
build)
    echo "$@" >> "$STAND_IN_STATE/apptainer.log"
    [ "$4" != docker://bad:1 ] && cp -r "$STAND_IN_STATE/images/tiny_slugs_latest" "$3" ;;
exec)
    echo "$@" | head -n 1 >> "$STAND_IN_STATE/apptainer.log"
    while [ "${1#-}" != "$1" ] || [ "$1" = exec ]; do
        case $1 in --network|--pwd|--env) shift ;; esac
        shift
    done
    cd "$1" && shift && exec "$@" ;;
esac
"""


async def test_apptainer(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program(tmp_path / "bin", "apptainer", APPTAINER)
    (tmp_path / "slugs.sif").touch()
    config = {"cache_dir_template": f"{tmp_path}/{{instance_id}}.sif", "memory_mb": 1000, "file_mb": 5}
    (tmp_path / f"{ROW['instance_id']}.sif").touch()

    def left() -> list[Path]:
        return list(tmp_path.glob("gymd-swe-*"))

    async with serving(runtime="apptainer", **config) as server:
        async with await server.seed(row()) as session:
            await session.call("bash", command=GOLD)
            assert len(left()) == 1
            limits = (await session.call("bash", command="ulimit -v; ulimit -f")).output
            assert f"{1000 << 10}\n{5 << 10}" in limits
            assert (await session.verify()).value == 1.0
        assert not left()
        await expect_error(
            "SERVER_NOT_READY", server.seed(row(instance_id="other-1")), "an image file that is not there"
        )
    calls = (stand_in.state / "apptainer.log").read_text()
    assert f"{ROW['instance_id']}.sif" in calls
    for flag in ("--containall", "--cleanenv", "--network none", "--pwd /testbed"):
        assert flag in calls
    async with serving(runtime="singularity") as server:
        await expect_error("SERVER_CODE_FAILED", server.seed(row(image="bad:1")), "a build that fails")
    assert "docker://bad:1" in (stand_in.state / "apptainer.log").read_text()
    assert not left()


def test_images_of_gym_and_bench_have_different_names() -> None:
    names = {
        Instance(instance_id="A__b-1", subset=subset).values()["image"] for subset in ("gym", "verified")
    }
    assert len(names) == 2

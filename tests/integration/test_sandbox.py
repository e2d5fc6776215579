"""The sandbox does what it says: files, streams, limits, endings, many jobs at once. Real processes."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gymd.errors import GymdError
from gymd.sdk.sandbox import Limits, Sandbox, SandboxResult
from gymd.sdk.testing import expect_error

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux")

QUICK = Limits(cpu_s=5, wall_s=10, memory_mb=256, processes=16, file_mb=8)


@pytest.fixture(scope="module")
def box() -> Sandbox:
    try:
        return Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A folder that users other than root can reach too."""
    folder = tempfile.mkdtemp()
    yield Path(folder)
    shutil.rmtree(folder)


async def python(box: Sandbox, code: str, limits: Limits = QUICK, **options: object) -> SandboxResult:
    """Runs some lines of Python."""
    return await box.run(["python3", "-c", code], limits=limits, **options)  # type: ignore[arg-type]


async def printed(box: Sandbox, code: str, **options: object) -> str:
    result = await python(box, code, **options)  # type: ignore[arg-type]
    assert result.exit_code == 0, result
    return result.stdout.decode().strip()


async def test_streams_and_files(box: Sandbox) -> None:
    code = b"import sys\nprint(sys.stdin.read() + open('data/a.txt').read())\nprint('so', file=sys.stderr)"
    files = {"main.py": code, "data/a.txt": b" file", "data/deep/b.bin": bytes(range(256))}
    result = await box.run(["python3", "main.py"], files=files, stdin=b"input", limits=QUICK)
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"input file\n", b"so\n")
    assert (result.signal, result.timed_out, result.out_of_memory, result.output_truncated) == (None,) + (
        False,
    ) * 3
    assert 0 < result.wall_s < QUICK.wall_s


@pytest.mark.parametrize(
    ("command", "exit_code", "signal"),
    [
        ("exit 0", 0, None),
        ("exit 3", 3, None),
        ("kill -TERM $$", 143, 15),
        ("kill -SEGV $$", 139, 11),
        ("no-such-program", 127, None),
    ],
)
async def test_how_it_ended(box: Sandbox, command: str, exit_code: int, signal: int | None) -> None:
    result = await box.run(["sh", "-c", command], limits=QUICK)
    assert (result.exit_code, result.signal) == (exit_code, signal)
    assert b"Terminated" not in result.stderr  # the shell of the sandbox keeps to itself


async def test_a_command_that_is_not_there(box: Sandbox) -> None:
    result = await box.run(["no-such-program"], limits=QUICK)
    assert result.exit_code == 127
    assert b"no-such-program" in result.stderr


async def test_input_that_nobody_reads(box: Sandbox) -> None:
    result = await box.run(["true"], stdin=b"x" * 5_000_000, limits=QUICK)
    assert result.exit_code == 0


async def test_environment_is_clean(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "xyz")
    text = await printed(box, "import os; print(sorted(os.environ), os.environ['EXTRA'])", env={"EXTRA": "1"})
    assert "SECRET" not in text
    assert text.startswith("['EXTRA', 'HOME', 'LANG'")
    assert text.endswith("1")


async def test_the_interpreter_has_no_packages(box: Sandbox) -> None:
    code = "import importlib.util as u; print([n for n in ('gymd', 'pytest', 'pip') if u.find_spec(n)])"
    assert await printed(box, code) == "[]"
    result = await box.run([box.python, "-c", "import ssl, sqlite3, ctypes, decimal"], limits=QUICK)
    assert result.exit_code == 0, result.stderr


async def test_32_jobs_at_once(box: Sandbox) -> None:
    jobs = [printed(box, f"open('x', 'x').write('{n}'); print(open('x').read())") for n in range(32)]
    assert await asyncio.gather(*jobs) == [str(n) for n in range(32)]


async def test_many_files_and_few_descriptors(box: Sandbox) -> None:
    files = {f"{n}/{n}": b"%d" % n for n in range(200)}
    code = "import glob; print(sum(int(open(name).read()) for name in glob.glob('*/*')))"
    limits = Limits(open_files=8, processes=4)
    assert (await python(box, code, limits, files=files)).stdout == b"19900\n"


async def test_a_server_that_is_killed_takes_its_jobs_along(box: Sandbox) -> None:
    """Nobody is left who could clean up."""
    marker = "1234567.125"
    code = f"""if True:
        import asyncio
        from gymd.sdk.sandbox import Sandbox
        asyncio.run(Sandbox.open().run(["sleep", "{marker}"]))
    """
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    await started(marker)
    server.kill()
    await server.wait()
    async with asyncio.timeout(10):
        while running(marker):  # noqa: ASYNC110 - nobody is left who could tell
            await asyncio.sleep(0.01)


async def test_nothing_is_left(box: Sandbox) -> None:
    await python(box, "pass")
    before = set(os.listdir("/proc/self/fd"))
    await asyncio.gather(*(python(box, "pass") for _ in range(4)))
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    own = f"gymd-sandbox-{os.getpid()}-"
    assert not [
        name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders if name.startswith(own)
    ]


async def test_workspace_is_kept(box: Sandbox, workspace: Path) -> None:
    (workspace / "given.txt").write_text("given")
    code = "open('made.txt', 'w').write(open('given.txt').read() + open('new/file').read())"
    result = await python(box, code, workspace=workspace, files={"new/file": b" and new"})
    assert result.exit_code == 0, result.stderr
    assert (workspace / "made.txt").read_text() == "given and new"
    assert os.stat(workspace / "made.txt").st_uid != 0, "a job must not be root of this machine"
    assert await printed(box, "print(open('made.txt').read())", workspace=workspace) == "given and new"


async def test_further_folders_are_shown_read_only(box: Sandbox, workspace: Path) -> None:
    os.chmod(workspace, 0o755)
    (workspace / "note").write_text("seen")
    path = repr(str(workspace / "note"))
    assert await printed(box, f"print(open({path}).read())", read_only=[workspace]) == "seen"
    result = await python(box, f"open({path}, 'w')", read_only=[workspace])
    assert b"Read-only file system" in result.stderr


def image_of(folder: Path, *programs: str) -> None:
    """Unpacks a small image: some programs of this machine with their libraries."""
    for program in programs:
        path = shutil.which(program)
        assert path is not None
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout.split()
        for source in [path, *(word for word in listed if word.startswith("/"))]:
            target = folder / ("bin/" + program if source == path else source.lstrip("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    (folder / "etc").mkdir()
    (folder / "etc" / "name").write_text("image")
    (folder / "entry").symlink_to("etc/name")


async def test_an_image_as_root(box: Sandbox, tmp_path: Path) -> None:
    image_of(tmp_path, "sh", "cat", "ls")
    result = await box.run(["sh", "-c", "cat /entry; ls /; ls /usr"], root=tmp_path, limits=QUICK)
    shown = result.stdout.decode().split()
    assert shown[0].startswith("image"), result
    assert {"entry", "proc", "workspace", "tmp"} < set(shown)
    assert "share" not in shown
    result = await box.run(["sh", "-c", "echo x > /etc/name"], root=tmp_path, limits=QUICK)
    assert result.exit_code != 0


async def test_the_working_folder_may_be_seen_elsewhere(
    box: Sandbox, tmp_path: Path, workspace: Path
) -> None:
    image = tmp_path / "image"
    image_of(image, "sh", "cat", "ls")
    for name in ("testbed", "workspace"):
        (image / name).mkdir()
        (image / name / "theirs").touch()
    (workspace / "ours").write_text("seen")
    script = ["sh", "-c", "ls /testbed; cat ours; ls /workspace; echo x > /testbed/ours"]
    result = await box.run(script, root=image, workspace=workspace, mount="/testbed", limits=QUICK)
    assert result.stdout.decode().split() == ["ours", "seentheirs"], result
    assert (workspace / "ours").read_text() == "x\n"
    # Without an image and without a folder to keep.
    result = await box.run(["sh", "-c", "pwd; cat a"], files={"a": b"b"}, mount="/here", limits=QUICK)
    assert result.stdout == b"/here\nb"


@pytest.mark.parametrize("mount", ["", "/", "here", "/a/b", "/..", "/usr", "/tmp", "/proc", "/shown"])
async def test_places_where_no_working_folder_can_be(box: Sandbox, mount: str) -> None:
    shown = ["/opt"] if mount == "/shown" else []
    call = box.run(["true"], mount="/opt" if shown else mount, read_only=shown, limits=QUICK)
    failure = await expect_error("INVALID_REQUEST", call, "no place for a working folder")
    assert "as /testbed" in failure.message


async def test_an_image_without_a_shell(box: Sandbox, tmp_path: Path) -> None:
    failure = await expect_error("INVALID_REQUEST", box.run(["sh"], root=tmp_path), "an empty image")
    assert "/bin/sh" in str(failure)


async def test_a_sandbox_that_breaks_is_no_result_of_the_job(box: Sandbox, tmp_path: Path) -> None:
    image_of(tmp_path, "sh")
    (tmp_path / "usr").mkdir()  # shown read-only: no room for a folder that it lacks
    call = box.run(["sh", "-c", "true"], root=tmp_path, read_only=["/usr/share"], limits=QUICK)
    failure = await expect_error("SERVER_CODE_FAILED", call, "a folder that has no place in the image")
    assert "did not start" in str(failure)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "", "a\0b"])
async def test_file_names_stay_inside(box: Sandbox, name: str) -> None:
    await expect_error("INVALID_REQUEST", box.run(["true"], files={name: b""}), name)


async def test_too_many_files_are_refused(box: Sandbox) -> None:
    await expect_error(
        "INVALID_REQUEST", box.run(["true"], files={f"{n}": b"" for n in range(300)}), "300 files"
    )
    large = {"x": b"\0" * (QUICK.file_mb << 20), "y": b"1"}
    await expect_error("INVALID_REQUEST", box.run(["true"], files=large, limits=QUICK), "large files")
    await expect_error("INVALID_REQUEST", box.run(["true"], workspace="/no/such/folder"), "no folder")


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="wall_s"):
        Limits(wall_s=0)
    with pytest.raises(ValueError, match="cpu_s"):
        Limits(cpu_s=float("nan"))


async def test_streaming_as_process_1(box: Sandbox) -> None:
    code = "import os\nfor line in iter(input, ''): print(os.getpid(), line.upper(), flush=True)"
    async with await box.start(["python3", "-c", code], limits=QUICK, init=False) as process:
        for word in ("one", "two"):
            process.stdin.write(f"{word}\n".encode())
            assert await process.stdout.readline() == f"1 {word.upper()}\n".encode()
        process.stdin.write(b"\n")
        assert await process.stdout.read() == b""
        assert (await process.wait()).exit_code == 0


async def test_leaving_the_block_kills(box: Sandbox) -> None:
    marker = "1234567.25"
    async with await box.start(["sleep", marker], limits=QUICK) as process:
        await started(marker)
        process.stdin.close()
    assert not running(marker)


async def test_cancelling_kills(box: Sandbox) -> None:
    marker = "1234567.5"
    task = asyncio.create_task(box.run(["sleep", marker], limits=QUICK))
    await started(marker)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running(marker)


async def test_cancelling_at_any_moment_leaves_nothing(box: Sandbox) -> None:
    marker = "1234567.75"
    for delay_ms in range(0, 40, 3):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_ms / 1000):
                await box.run(["sleep", marker], limits=QUICK)
    assert not bwraps()
    assert not running(marker)


def running(marker: str) -> list[str]:
    """Processes of this machine whose command line holds a word of ours."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                # A sandbox is there while its first process is; bwrap outside names the command too.
                if marker in words and not words[0].endswith("bwrap"):
                    found.append(f"{entry.name}: {' '.join(words)}")
    return found


def bwraps() -> list[str]:
    """Our children that are bwrap."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in children if b"bwrap" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def started(marker: str) -> None:
    async with asyncio.timeout(10):
        while not running(marker):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)

"""Hostile jobs: what they try, and that it comes to nothing. Real processes, real sockets, real files."""

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gymd.errors import GymdError
from gymd.sdk.sandbox import Limits, Sandbox, SandboxResult, bubblewrap
from gymd.sdk.testing import expect_error

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux")

SMALL = Limits(cpu_s=5, wall_s=10, memory_mb=128, processes=12, file_mb=8, output_bytes=10_000)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def box() -> Sandbox:
    try:
        return Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))


@pytest.fixture(params=["cgroup", "watched"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Memory limited by the kernel where it can be, and watched as elsewhere."""
    if request.param == "watched":
        monkeypatch.setattr(bubblewrap, "make_cgroup", lambda limits, tasks: None)
    return request.param


async def python(box: Sandbox, code: str, limits: Limits = SMALL, **options: object) -> SandboxResult:
    return await box.run(["python3", "-I", "-S", "-c", code], limits=limits, **options)  # type: ignore[arg-type]


def alive(marker: str) -> list[str]:
    """Processes of this machine whose command line or name holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


# Processes.


async def test_forks_without_end(box: Sandbox) -> None:
    """A bomb of the usual kind: the number of its processes is bounded, and nothing outlives it."""
    code = """if True:
        import os, time  # bomb-4711
        count = 1
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(60)
            except BlockingIOError:
                break
            count += 1
        print(count, flush=True)
        while True:
            try:
                os.fork()
            except BlockingIOError:
                pass
    """
    result = await python(box, code, Limits(cpu_s=5, wall_s=1, processes=12, memory_mb=256))
    assert result.timed_out
    assert int(result.stdout.split()[0]) == 12, "the number of processes that it got"
    assert not alive("bomb-4711")


async def test_shell_bomb(box: Sandbox) -> None:
    limits = Limits(cpu_s=2, wall_s=1, processes=12, memory_mb=256)
    result = await box.run(["sh", "-c", "b() { b | b & }; b; sleep 60 # bomb-4712"], limits=limits)
    assert result.exit_code != 0
    assert not alive("bomb-4712")


async def test_threads_count_too(box: Sandbox) -> None:
    code = """if True:
        import threading, time
        for n in range(1000):
            try:
                threading.Thread(target=time.sleep, args=(0.2,)).start()
            except RuntimeError:
                print(n)
                break
    """
    result = await python(box, code, Limits(processes=12, memory_mb=512, stack_mb=8))
    assert int(result.stdout) <= 11


async def test_a_daemon_does_not_outlive_the_job(box: Sandbox) -> None:
    code = """if True:
        import os, sys, time  # daemon-4713
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for fd in range(3): os.close(fd)
                time.sleep(600)
            os._exit(0)
        os.wait()
        print("left")
    """
    result = await python(box, code)
    assert (result.exit_code, result.stdout) == (0, b"left\n")
    assert result.wall_s < 5
    assert not alive("daemon-4713")


async def test_signals_ignored(box: Sandbox) -> None:
    code = """if True:
        import signal, time
        for n in set(signal.valid_signals()) - {9, 19}:
            try:
                signal.signal(n, signal.SIG_IGN)
            except OSError:
                pass
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True: time.sleep(1)
    """
    result = await python(box, code, Limits(wall_s=0.5))
    assert (result.timed_out, result.signal) == (True, 9)


async def test_sleeps_past_the_deadline(box: Sandbox) -> None:
    result = await python(box, "import time; print('here', flush=True); time.sleep(60)", Limits(wall_s=0.5))
    assert (result.timed_out, result.stdout) == (True, b"here\n")
    assert 0.5 <= result.wall_s < 5


async def test_computes_past_its_limit(box: Sandbox) -> None:
    result = await python(box, "while True: pass", Limits(cpu_s=1, wall_s=30))
    assert result.timed_out
    assert result.wall_s < 20


async def test_cannot_stop_or_kill_its_keeper(box: Sandbox) -> None:
    code = "import os\nfor n in (9, 15, 19, 2): os.kill(1, n)\nprint('still here')"
    assert (await python(box, code)).stdout == b"still here\n"


async def test_sees_no_process_of_the_host(box: Sandbox) -> None:
    code = f"""if True:
        import os
        print(sorted(int(n) for n in os.listdir("/proc") if n.isdigit())[-1] < 50)
        try: os.kill({os.getpid()}, 0)
        except ProcessLookupError: print("none")
    """
    assert (await python(box, code)).stdout == b"True\nnone\n"


# Memory.


async def test_eats_memory(box: Sandbox, memory: str) -> None:
    result = await python(box, "x = bytearray(1 << 30)")
    assert result.exit_code == 1
    assert b"MemoryError" in result.stderr


async def test_eats_memory_with_many_processes(box: Sandbox, memory: str) -> None:
    """Each of them stays below the limit; together they do not."""
    code = """if True:
        import os, time
        for _ in range(8):
            if os.fork() == 0:
                x = bytearray(50 << 20)
                time.sleep(60)
        while True: time.sleep(0.1)
    """
    result = await python(box, code)
    assert result.out_of_memory
    assert result.exit_code != 0


@pytest.mark.parametrize(
    "hoard",
    [
        "keep.append(mmap.mmap(-1, 4 << 20)); keep[-1].write(bytes(4 << 20))",  # shared, and nobody's own
        "open(f'/dev/shm/{n}', 'wb').write(bytes(4 << 20))",
        "open(f'/tmp/{n}', 'wb').write(bytes(4 << 20))",
        "open(f'/workspace/{n}', 'wb').write(bytes(4 << 20))",
        "[open(f'/tmp/{n}-{m}', 'w').close() for m in range(1000)]",
        "os.memfd_create('x')",
        "ctypes.memset(libc.shmat(libc.shmget(0, 4 << 20, 0o1600), 0, 0), 1, 4 << 20)",
    ],
)
async def test_hides_memory(box: Sandbox, memory: str, hoard: str) -> None:
    """Memory in places that are nobody's resident set ends the job, or is refused to it."""
    code = f"""if True:
        import ctypes, mmap, os
        libc = ctypes.CDLL(None)
        libc.shmat.restype = ctypes.c_void_p
        keep = []
        for n in range(1000):
            {hoard}
    """
    result = await python(
        box, code, Limits(cpu_s=4, wall_s=4, memory_mb=40, file_mb=64, address_space_mb=8000)
    )
    assert result.exit_code != 0
    refused = any(word in result.stderr for word in (b"No space", b"Cannot allocate", b"not implemented"))
    assert refused or result.out_of_memory or result.timed_out, result


async def test_memory_shared_by_forks_counts_once(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "make_cgroup", lambda limits, tasks: None)
    code = """if True:
        import os, time
        x = bytearray(os.urandom(1 << 20)) * 60
        for _ in range(5):
            if os.fork() == 0:
                time.sleep(0.5); os._exit(0)
        for _ in range(5): os.wait()
    """
    result = await python(box, code)
    assert (result.exit_code, result.out_of_memory) == (0, False)


# Output and files.


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_prints_without_end(box: Sandbox, stream: str) -> None:
    result = await python(box, f"import sys\nwhile True: sys.{stream}.write('x' * 1000)")
    assert result.output_truncated
    assert len(getattr(result, stream)) == SMALL.output_bytes
    assert result.wall_s < 8


async def test_prints_on_both_streams(box: Sandbox) -> None:
    code = "import os\nfor n in range(99): os.write(1, b'o' * 100); os.write(2, b'e' * 100)"
    result = await python(box, code)
    assert (len(result.stdout), len(result.stderr), result.output_truncated) == (9900, 9900, False)


async def test_writes_a_huge_file(box: Sandbox) -> None:
    code = "f = open('x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()"
    result = await python(box, code)
    assert b"File too large" in result.stderr or b"No space left" in result.stderr


async def test_writes_nowhere_else(box: Sandbox) -> None:
    code = """if True:
        import os
        library = os.path.dirname(os.__file__)
        for folder in ("/", "/dev", "/etc", "/proc", "/usr", "/usr/bin", "/root", "/home", library):
            try: open(folder + "/x-4714", "w"); print("wrote", folder)
            except OSError: pass
            try: os.mkdir(folder + "/y-4714"); print("made", folder)
            except OSError: pass
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj"):
            try: open(path, "w").write("1"); print("wrote", path)
            except OSError: pass
    """
    assert (await python(box, code)).stdout == b""


async def test_reads_nothing_outside(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    paths = [
        secret,
        ROOT / "pyproject.toml",
        ROOT / "gymd" / "__init__.py",
        Path.home() / ".bashrc",
        "/etc/shadow",
    ]
    paths += [
        f"/proc/{os.getpid()}/environ",
        "/proc/1/root/etc/shadow",
        "/proc/kcore",
        "/dev/vda",
        "/dev/sda",
    ]
    paths += [f"/proc/1/cwd/../..{secret}", "/var/log", "/sys/kernel", "/run"]
    code = f"""if True:
        import os
        for path in {[str(path) for path in paths]}:
            try: print(path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(100))
            except OSError: pass
    """
    result = await python(box, code)
    assert (result.stdout, result.stderr) == (b"", b"")


async def test_links_in_the_workspace_lead_nowhere(box: Sandbox, tmp_path: Path) -> None:
    """A job plants links; the next job's files do not go where they point."""
    folder = Path(tempfile.mkdtemp())
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    code = f"""if True:
        import os
        os.symlink({str(victim)!r}, "main.py")
        os.symlink({str(tmp_path)!r}, "data")
        os.symlink("/etc", "etc")
        os.mkdir("folder")
    """
    try:
        assert (await python(box, code, workspace=folder)).exit_code == 0
        result = await python(
            box, "print(open('main.py').read())", workspace=folder, files={"main.py": b"new"}
        )
        assert result.stdout == b"new\n"
        assert not (folder / "main.py").is_symlink()
        for name in ("data/victim", "etc/x", "folder"):
            call = python(box, "pass", workspace=folder, files={name: b"gotcha"})
            await expect_error("INVALID_REQUEST", call, name)
        assert victim.read_text() == "untouched"
        assert os.listdir(tmp_path) == ["victim"]
        assert (
            b"nogroup"
            not in (await python(box, "print(open('data/victim').read())", workspace=folder)).stdout
        )
    finally:
        shutil.rmtree(folder)


# Network.


@pytest.fixture
def listener() -> Iterator[tuple[int, str]]:
    """A TCP port and an abstract UNIX address on which somebody listens, and counts who comes."""
    name = f"\0gymd-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(name)
        unix.listen()
        yield tcp.getsockname()[1], name


async def test_opens_sockets(box: Sandbox, listener: tuple[int, str]) -> None:
    port, name = listener
    code = f"""if True:
        import socket, ctypes
        def attempt(*address, family=socket.AF_INET, kind=socket.SOCK_STREAM):
            try:
                socket.socket(family, kind).connect(*address)
                print("connected", family, address)
            except OSError as failure:
                pass
        attempt(("127.0.0.1", {port}))
        attempt(("192.0.2.1", 80))
        attempt(("192.0.2.1", 53), kind=socket.SOCK_DGRAM)
        attempt({name!r}, family=socket.AF_UNIX)
        attempt("/run/dbus/system_bus_socket", family=socket.AF_UNIX)
        for family in (16, 17, 31, 38, 40):  # netlink, packet, bluetooth, alg, vsock
            try: socket.socket(family, socket.SOCK_RAW); print("opened", family)
            except OSError: pass
        try: socket.getaddrinfo("example.com", 80); print("resolved")
        except OSError: pass
    """
    with socket.create_connection(("127.0.0.1", port)):  # the listener is there
        result = await python(box, code, Limits(wall_s=10))
    assert (result.exit_code, result.stdout) == (0, b""), result


async def test_its_own_loopback_works(box: Sandbox) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    )
    assert (await python(box, code)).exit_code == 0


# Privileges and system calls.


async def test_has_no_privileges(box: Sandbox) -> None:
    fields = "('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')"
    code = f"""if True:
        import os
        lines = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
        print(*(int(lines[name], 16) for name in {fields}), os.getresuid(), os.getgroups())
    """
    result = await python(box, code)
    assert result.stdout == b"0 0 0 0 0 1 2 (65534, 65534, 65534) [65534]\n" or (
        result.stdout == b"0 0 0 0 0 1 2 (65534, 65534, 65534) []\n"
    ), result


CALLS = {
    "ptrace(0, 0, 0, 0)": 1,
    "unshare(0x10000000)": 1,
    "setns(0, 0)": 1,
    "mount(b'x', b'/tmp', b'tmpfs', 0, 0)": 1,
    "umount2(b'/tmp', 0)": 1,
    "chroot(b'/tmp')": 1,
    "personality(0x0040000)": 1,
    "ioctl(0, 0x5412, b'x')": 1,  # TIOCSTI
    "prlimit(1, 0, ctypes.byref(ctypes.c_uint64()), 0)": 1,
    "process_vm_readv(1, 0, 0, 0, 0, 0)": 1,
    "syscall(435, 0, 0)": 38,  # clone3, by the number that all machines share
    "syscall(425, 1, 0)": 38,  # io_uring_setup
    "syscall(438, 1, 0, 0)": 1,  # pidfd_getfd
    "setuid(0)": 1,
    "getpid()": 0,
}


async def test_system_calls_are_refused(box: Sandbox) -> None:
    code = f"""if True:
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        for call in {list(CALLS)}:
            ctypes.set_errno(0)
            eval("libc." + call)
            print(ctypes.get_errno())
    """
    result = await python(box, code)
    numbers = list(map(int, result.stdout.split()))
    found = dict(zip(CALLS, numbers, strict=True))
    # Becoming root has no meaning in the namespace of an ordinary server: there is no such user at all.
    found["setuid(0)"] = 1 if found["setuid(0)"] == 22 else found["setuid(0)"]
    assert found == CALLS


async def test_other_jobs_are_out_of_reach(box: Sandbox) -> None:
    """Two jobs at once: no common processes, files or sockets."""
    first = """if True:
        import socket
        s = socket.socket(1); s.bind("\\0meet"); s.listen()
        open("/tmp/x", "w"); print("ready", flush=True); input()
    """
    second = """if True:
        import os, socket
        try: socket.socket(1).connect("\\0meet"); print("met")
        except OSError: pass
        print(os.path.exists("/tmp/x"), len([n for n in os.listdir("/proc") if n.isdigit()]))
    """
    async with await box.start(["python3", "-c", first], limits=SMALL) as other:
        assert await other.stdout.readline() == b"ready\n"
        assert (await python(box, second)).stdout == b"False 2\n"

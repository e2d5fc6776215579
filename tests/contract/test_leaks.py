"""The leak checks find leaks: an inner pytest runs tests that leave things behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.sources import ROOT

# name -> (test source, what the error must say; "" means the test passes)
CASES = {
    "child": (
        """
        def test(kept):
            kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        """,
        "process ",
    ),
    "orphan": (
        """
        def test():
            inner = "import subprocess, sys; subprocess.Popen(['sleep', '20'])"
            subprocess.run([sys.executable, "-c", inner], check=True)
        """,
        "sleep 20",
    ),
    "waited_child": (
        """
        def test():
            subprocess.run([sys.executable, "-c", ""], check=True)
        """,
        "",
    ),
    "thread": (
        """
        def test(kept):
            kept.append(threading.Event())
            threading.Thread(target=kept[0].wait, name="forgotten", daemon=True).start()
        """,
        "thread forgotten",
    ),
    "socket": (
        """
        def test(kept):
            kept.append(socket.create_server(("127.0.0.1", 0)))
        """,
        "socket listening on 127.0.0.1:",
    ),
    "task": (
        """
        async def test(kept):
            kept.append(asyncio.create_task(asyncio.Event().wait(), name="forgotten"))
        """,
        "task forgotten",
    ),
    "channel": (
        """
        async def test(kept):
            kept.append(grpc.aio.insecure_channel("127.0.0.1:1"))
        """,
        "channel to 127.0.0.1:1 is not closed",
    ),
    "closed_channel": (
        """
        async def test():
            async with grpc.aio.insecure_channel("127.0.0.1:1"):
                await asyncio.to_thread(int)
        """,
        "",
    ),
    "fixture": (
        """
        @pytest.fixture(scope="module")
        def server():
            with socket.create_server(("127.0.0.1", 0)) as server:
                process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
                yield server
                process.communicate(b"\\n")

        def test(server):
            pass

        def test_again(server):
            pass
        """,
        "",
    ),
    "session": (
        """
        async def test(kept):
            from gymapi.v1.resources_service_pb2 import SeedSessionRequest
            from gymd.sdk import ResourcesServer

            class Server(ResourcesServer):
                async def verify(self):
                    return 1.0

            servicer = ResourcesServicer(Server("x", Server.Config(), None))
            kept.append(servicer)
            await servicer.SeedSession(SeedSessionRequest(session_id="forgotten"), None)
            servicer._sweeper.cancel()
        """,
        "session forgotten is open",
    ),
}

HEAD = """
import asyncio, socket, subprocess, sys, threading
import grpc, psutil, pytest
import tests.leaks
from tests.leaks import *
from gymd.sdk.resources import ResourcesServicer

tests.leaks.GRACE_S = 0.5

@pytest.fixture(scope="module")
def kept():
    # Lives longer than the test, as a leaked thing does, and cleans up before the session ends.
    things = []
    yield things
    for thing in things:
        if isinstance(thing, subprocess.Popen):
            thing.communicate(b"\\n")
        elif hasattr(thing, "close") and not hasattr(thing, "get_state"):
            thing.close()
        elif isinstance(thing, threading.Event):
            thing.set()

@pytest.fixture(scope="session", autouse=True)
def orphans(no_leaked_processes):
    yield
    for process in tests.leaks.tagged_processes(tests.leaks.SESSION_TAG):
        process.kill()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the inner pytest wrote about all cases."""
    folder: Path = tmp_path_factory.mktemp("leaks")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    for name, (body, _) in CASES.items():
        lines = body.splitlines()
        indent = len(lines[1]) - len(lines[1].lstrip())
        source = "\n".join(line[indent:] for line in lines)
        (folder / f"test_{name}.py").write_text(
            f"{HEAD}\n{source}\n".replace("def test(", f"def test_{name}(")
        )
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", [name for name, (_, text) in CASES.items() if text])
def test_a_leak_is_an_error(report: str, name: str) -> None:
    _, _, after = report.partition(f" ERROR at teardown of test_{name} ")
    said = after.partition("left behind:\n")[2].partition("\n__")[0].partition("\n==")[0]
    assert CASES[name][1] in said, report


@pytest.mark.parametrize("name", [name for name, (_, text) in CASES.items() if not text])
def test_a_clean_test_passes(report: str, name: str) -> None:
    lines = [line for line in report.splitlines() if f"test_{name}.py" in line]
    assert any(line.startswith("PASSED") for line in lines), report
    assert not any(line.startswith(("ERROR", "FAILED")) for line in lines), report

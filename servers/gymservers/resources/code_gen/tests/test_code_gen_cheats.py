"""Programs that want the reward without solving the problem, or to do harm: all of them get 0.0."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gymd.errors import GymdError
from gymd.sdk.sandbox import Sandbox
from gymd.sdk.testing import RunningServer, start_server
from gymservers.resources.code_gen import runner
from gymservers.resources.code_gen.server import CodeGen

SECRET = "8461-answer-that-cannot-be-guessed"
CONFIG = {
    "num_processes": 16,
    "unit_test_timeout_secs": 3,
    "memory_mb": 300,
    "max_processes": 16,
    "packages": [],
}


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    try:
        Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))
    async with start_server(CodeGen, CONFIG, transport="in-process") as running:
        yield running


def row(function: str | None = None) -> dict[str, Any]:
    output = f'"{SECRET}"' if function else SECRET
    tests = {"inputs": ["1", "2"], "outputs": [output] * 2, "fn_name": function}
    return {"responses_create_params": {"input": ""}, "verifier_metadata": {"unit_tests": tests}}


def forged(output: str) -> str:
    """What the runner writes when both tests have ended well: who gets that onto its stdout has won."""
    return repr((runner.FRAME.pack(runner.DONE, 0.01, len(output), 0) + output.encode()) * 2)


FORGED = forged(SECRET)


# What a program of a cheat does when it is executed.
CHEATS = {
    "looks for the answers in all files": """
        import os
        for folder in ("/", "/usr", "/proc"):
            for path, _, names in os.walk(folder):
                if path.count("/") > 3: continue
                for name in names:
                    if name.endswith((".json", ".jsonl", ".txt", ".py", "environ", "cmdline", "mem")):
                        try: text = open(os.path.join(path, name), errors="ignore").read(100_000)
                        except OSError: continue
                        if "8461-" in text and path != "/proc/%d" % os.getpid():
                            print(text[text.index("8461-"):][:34]); raise SystemExit
    """,
    "looks for the answers in memory": """
        import gc, sys
        for thing in gc.get_objects():
            if isinstance(thing, dict):
                for value in list(thing.values()):
                    if isinstance(value, (str, bytes)) and "8461-" in str(value)[:1000] and len(value) < 40:
                        print(value); raise SystemExit
        frame = sys._getframe()
        while frame:
            for value in list(frame.f_locals.values()):
                if "8461-" in repr(vars(value) if hasattr(value, "__dict__") else value)[:5000]: print(value)
            frame = frame.f_back
    """,
    "ends early, as if all were well": "import os; os._exit(0)",
    "ends early in another way": "import sys; sys.exit(0)",
    "ends the runner": """
        import os, signal
        for number in range(1, 65):
            if number in (17, 18, 23, 28): continue
            try: os.kill(os.getppid(), number)
            except OSError: pass
            try: os.kill(1, number)
            except OSError: pass
    """,
    "writes what the runner writes": f"""
        import os
        for fd in range(64):
            try: os.write(fd, {FORGED})
            except OSError: pass
        os._exit(0)
    """,
    "writes to the descriptors of its parents": f"""
        import os
        for pid in [p for p in os.listdir("/proc") if p.isdigit() and p != str(os.getpid())]:
            for fd in range(64):
                path = f"/proc/{{pid}}/fd/{{fd}}"
                try: open(path, "wb", buffering=0).write({FORGED})
                except OSError: pass
        os._exit(0)
    """,
    "writes to the memory of its parents": """
        import os
        for pid in (1, os.getppid()):
            maps = open(f"/proc/{pid}/maps").read()
            memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
            print("in")
    """,
    "debugs its parent": """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.ptrace(16, 1, 0, 0) == 0, ctypes.get_errno()
    """,
    "takes the runner's descriptors": """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        handle = os.pidfd_open(1)
        assert libc.syscall(438, handle, 1, 0) >= 0, ctypes.get_errno()
    """,
    "limits the runner": """
        import resource
        resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))
    """,
    "patches what it finds": """
        import builtins, json, os, sys, time, struct
        json.dumps = lambda *a, **k: '"8461"'
        time.monotonic = lambda: 0.0
        os.fork = os.waitpid = os._exit = os.write = lambda *a: 0
        builtins.len = builtins.print = lambda *a: 34
        sys.modules.clear()
    """,
    "patches the runner itself": """
        import sys
        frame = sys._getframe()
        while frame:
            for name, value in list(frame.f_globals.items()):
                if name in ("_outcome", "_wait"): frame.f_globals[name] = lambda *a: 0
                if name == "_content": frame.f_globals[name] = lambda *a: b"8461"
            frame = frame.f_back
    """,
    "forks children that answer later": f"""
        import os, time
        if os.fork() == 0:
            os.setsid()
            for _ in range(20):
                time.sleep(0.05)
                for fd in range(64):
                    try: os.write(fd, {FORGED})
                    except OSError: pass
    """,
    "says that something else failed": "raise SystemError('the sandbox is broken, no reward please')",
    "prints without end": "while True: print('x' * 10_000)",
    "forks without end": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "eats memory": "x = [0]\nwhile True: x += x",
    "eats memory with many": """
        import os, time
        for _ in range(10):
            if os.fork() == 0: break
        x = bytearray(60 << 20); time.sleep(9)
    """,
    "fills the disk": "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "recurses": """
        import sys
        sys.setrecursionlimit(1 << 30)
        class A:
            def __repr__(self): return repr(self)
        repr(A())
    """,
    "is nested too deeply": "(" * 5000 + ")" * 5000,
    "takes long to compile": "x = " + "+".join(["1"] * 20_000) + "\nprint(x)",
}  # fmt: skip


def program(text: str) -> str:
    lines = text.strip("\n").split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[margin:] if not line[:margin].strip() else line for line in lines)


def answer(code: str) -> str:
    return f"```python\n{code}\n```"


async def test_scripts_that_cheat(server: RunningServer) -> None:
    calls = (server.verify(row(), answer(program(code))) for code in CHEATS.values())
    rewards = await asyncio.gather(*calls)
    earned = {name: reward for name, reward in zip(CHEATS, rewards, strict=True) if reward.value != 0.0}
    assert not earned
    for name, reward in zip(CHEATS, rewards, strict=True):
        assert True not in reward.extras["result"], name
        assert "in\n" not in str(reward.extras["metadata"].get("output")), name


async def test_functions_that_cheat(server: RunningServer) -> None:
    """The same, when the function is called and when the module is loaded."""
    codes = []
    for text in CHEATS.values():
        code = program(text).replace(FORGED, forged(f'"{SECRET}"'))
        body = "\n".join("    " + line for line in code.split("\n"))
        codes += [f"def solve(x):\n{body}\n    return x", f"def solve(x): return x\n{code}"]
    rewards = await asyncio.gather(*(server.verify(row("solve"), answer(code)) for code in codes))
    assert [code for code, reward in zip(codes, rewards, strict=True) if reward.value != 0.0] == []


# What a function may return that is not what it seems.
LIARS = {
    "equals everything": "class A:\n    __eq__ = lambda s, o: True\ndef solve(x): return A()",
    "a text that equals everything": """
        class A(str): __eq__ = lambda s, o: True
        def solve(x): return A("no")
    """,
    "a list that equals everything": """
        class A(list): __eq__ = lambda s, o: True
        def solve(x): return A([1])
    """,
    "a number that is any": """
        class A(float): __float__ = lambda s: 8461.0
        def solve(x): return A(1)
    """,
    "says that it is numpy's": """
        class A: item = lambda s: "no"
        A.__module__ = "numpy"
        def solve(x): return A()
    """,
    "says that it is a Fraction": """
        class Fraction: __str__ = lambda s: "1e999999999"
        Fraction.__module__ = "fractions"
        def solve(x): return Fraction()
    """,
    "says that it is a Fraction of nothing": """
        class Fraction: __str__ = lambda s: "1/0"
        Fraction.__module__ = "fractions"
        def solve(x): return Fraction()
    """,
    "says that it is a Decimal": """
        class Decimal: __str__ = lambda s: "sNaN"
        Decimal.__module__ = "decimal"
        def solve(x): return Decimal()
    """,
    "endless": "def solve(x):\n    while True: yield x",
    "contains itself": "def solve(x):\n    a = []; a.append(a); return a",
    "writes its own answer": """
        import os
        def solve(x):
            os.write(4, (6).to_bytes(8, "big") + b"\\0[1, 2"); os._exit(0)
    """,
    "writes an answer without end": """
        import os
        def solve(x):
            os.write(4, (1 << 60).to_bytes(8, "big"))
            while True: os.write(4, b"x" * 9999)
    """,
    "writes many answers": """
        import os
        for _ in range(5): os.write(4, (3).to_bytes(8, "big") + b'\\0""')
        def solve(x): return x
    """,
    "closes its descriptors": "import os\ndef solve(x):\n    os.closerange(0, 100); return x",
    "nested too deeply": "def solve(x):\n    for _ in range(900): x = [x]\n    return x",
    "a huge integer": "def solve(x): return 1 << (1 << 22)",
}


async def test_values_that_lie(server: RunningServer) -> None:
    rewards = await asyncio.gather(
        *(server.verify(row("solve"), answer(program(code))) for code in LIARS.values())
    )
    earned = {name: reward.extras for name, reward in zip(LIARS, rewards, strict=True) if reward.value != 0.0}
    assert not earned


async def test_programs_reach_nothing_outside(server: RunningServer) -> None:
    """What a program reports as its output is what it could do; it must be nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"""
            import os, socket
            done = []
            address = ("127.0.0.1", {listener.getsockname()[1]})
            try: socket.create_connection(address, 1); done.append("network")
            except OSError: pass
            for path in ({__file__!r}, "/etc/shadow", "/root/.bashrc"):
                try: open(path).read(); done.append(path)
                except OSError: pass
            try: os.kill({os.getpid()}, 0); done.append("process")
            except OSError: pass
            print(done, [name for name in os.environ if "GYMD" in name])
        """
        tests = {"inputs": [""], "outputs": ["[] []"]}
        task = {"responses_create_params": {"input": ""}, "verifier_metadata": {"unit_tests": tests}}
        reward = await server.verify(task, answer(program(code)))
    assert reward.value == 1.0, reward.extras


async def test_a_run_that_is_killed_as_a_whole_is_no_error(server: RunningServer) -> None:
    code = """
        import os, time
        for _ in range(9):
            if os.fork() == 0: break
        x = bytearray(90 << 20); time.sleep(2)
    """
    reward = await server.verify(row(), answer(program(code)))
    assert (reward.value, reward.extras["result"]) == (0.0, [-1, -1])
    assert reward.extras["metadata"] == {"error_code": -1, "error_message": "Out of memory"}


async def test_cancelling_a_verification_ends_its_program(server: RunningServer) -> None:
    places = server.server._places  # type: ignore[attr-defined]
    task = asyncio.create_task(server.verify(row(), answer("import time; time.sleep(60)")))
    async with asyncio.timeout(10):
        while places._value == 16:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises((asyncio.CancelledError, GymdError)):
        await task
    assert places._value == 16

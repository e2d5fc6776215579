"""How `gymctl env test` runs the tests of environments, and ends what it started."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from gymctl.env.child import run_lines
from gymctl.env.environment import Environment
from gymctl.env.runs import _counted, _requirements
from tests.fakes.environments import make_environment
from tests.fakes.gymctl import gymctl, start_gymctl

LIMIT_S = 80.0

# Says that it runs, with a child of its own, and stays.
HANGING = """
import os, socket, subprocess, sys, time

def test_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with socket.socket(socket.AF_UNIX) as parent:
        parent.connect({path!r})
        parent.sendall(f"{{os.getpid()}} {{child.pid}}\\n".encode())
        time.sleep(600)
"""


def add_test(environment: Environment, source: str) -> None:
    environment.path("tests/test_more.py").write_text(source)


@asynccontextmanager
async def hanging(environment: Environment, folder: Path) -> AsyncIterator[asyncio.Future[list[int]]]:
    """Adds a test that never ends; yields the ids of its two processes as soon as it runs."""
    pids: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pids.set_result([int(word) for word in (await reader.readline()).split()])
        writer.close()

    path = str(folder / "s")
    add_test(environment, HANGING.format(path=path))
    async with await asyncio.start_unix_server(take, path):
        yield pids


async def all_gone(pids: list[int]) -> None:
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, left = await asyncio.to_thread(psutil.wait_procs, processes, 10)
    assert not left


# ---- one child


async def run(code: str, timeout: float = LIMIT_S) -> tuple[int | None, list[str]]:
    lines: list[str] = []
    command = [sys.executable, "-c", code]
    return await run_lines(command, cwd=Path.cwd(), timeout=timeout, take=lines.append), lines


async def test_lines_of_both_streams_and_the_exit_code() -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr, flush=True); sys.exit(3)"
    assert await run(code) == (3, ["out", "err"])


async def test_a_line_without_end_and_one_of_megabytes() -> None:
    status, lines = await run("print('x' * 3_000_000); print('end', end='')")
    assert status == 0
    assert sum(len(line) for line in lines[:-1]) == 3_000_000
    assert lines[-1] == "end"


async def test_a_command_that_does_not_end_is_killed() -> None:
    code = "import signal, time; signal.signal(15, lambda *_: exit(9)); print(1, flush=True); time.sleep(600)"
    assert (await run(code, timeout=1.0))[0] is None


async def test_who_keeps_the_pipe_open_does_not_keep_us(tmp_path: Path) -> None:
    """A process that left the group lives on, and is not waited for."""
    code = (
        "import subprocess, sys; sleep = [sys.executable, '-c', 'import time; time.sleep(600)'];"
        "print(subprocess.Popen(sleep, start_new_session=True).pid)"
    )
    status, (pid,) = await asyncio.wait_for(run(code), LIMIT_S)
    assert status == 0
    os.kill(int(pid), signal.SIGKILL)


# ---- pytest


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        (["...", "3 passed in 0.10s"], {"passed": 3}),
        (
            ["1 failed, 2 passed, 1 skipped, 1 error in 2s"],
            {"failed": 1, "passed": 2, "skipped": 1, "errors": 1},
        ),
        (["2 passed", "1 failed, 1 passed, 3 warnings in 1s"], {"failed": 1, "passed": 1}),
        (["no tests ran in 0.01s"], {}),
        ([], {}),
    ],
)
def test_counts_of_the_closing_line(output: list[str], counts: dict[str, int]) -> None:
    assert _counted(output) == counts


async def test_a_failing_test_is_shown(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    wrong = "def test_wrong():\n    assert 6 * 7 == 41\n"
    skipped = "def test_skipped():\n    import pytest\n    pytest.skip('no swebench here')\n"
    add_test(environment, wrong + skipped)
    done = await gymctl("env", "test", "shop_prices", "--here", cwd=tmp_path)
    assert done.code == 1
    heading, row = done.out.splitlines()
    assert heading.split() == ["ENVIRONMENT", "RESULT", "TESTS", "SECONDS", "CHECKS"]
    assert row.split()[:2] == ["shop_prices", "failed"]
    assert "1 failed, 15 passed, 1 skipped" in row
    assert re.search(r"^shop_prices: skipped \[1\] .*: no swebench here$", done.err, re.MULTILINE)
    assert "assert (6 * 7) == 41" in done.err
    assert "gymctl env examples shop_prices" in done.err  # that file was not made
    assert "1 of 1 failed: shop_prices" in done.err


async def test_several_at_a_time_and_each_told(tmp_path: Path) -> None:
    for name in ("one_shop", "two_shops"):
        make_environment(tmp_path, name)
    done = await gymctl(
        *("env", "test", "one_shop", "two_shops", "./one_shop", "--here", "--no-tests", "--jobs", 2),
        *("-o", "json"),
        cwd=tmp_path,
    )
    assert done.code == 1
    assert [one["environment"] for one in done.json] == ["one_shop", "two_shops"]
    for one in done.json:
        assert one["tests"] is None
        bad = {check["name"]: check["problems"] for check in one["checks"] if not check["ok"]}
        assert set(bad) == {"metrics", "rollouts"}, bad


async def test_code_that_does_not_load_is_a_problem_of_the_environment(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    environment.path("server.py").write_text("import surely_not_there\n")
    done = await gymctl("env", "test", "shop_prices", "--here", "--no-tests", "-o", "json", cwd=tmp_path)
    (result,) = done.json
    config = next(check for check in result["checks"] if check["name"] == "config")
    assert "surely_not_there" in "".join(config["problems"])


async def test_tests_that_hang_are_killed_after_their_time(tmp_path: Path) -> None:
    add_test(make_environment(tmp_path), "import time\ntime.sleep(600)\n")
    done = await gymctl("env", "test", "shop_prices", "--here", "--timeout", 2, "-o", "json", cwd=tmp_path)
    assert done.code == 1
    assert done.json[0]["tests"]["exit_code"] is None
    assert "did not end within 2 s" in done.json[0]["tests"]["output"][-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_children(tmp_path: Path, number: signal.Signals) -> None:
    environment = make_environment(tmp_path)
    async with hanging(environment, tmp_path) as pids:
        process = await start_gymctl("env", "test", "shop_prices", "--here", cwd=tmp_path)
        children = await asyncio.wait_for(pids, LIMIT_S)
        process.send_signal(number)
        out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
        assert process.returncode == 1
        assert out == b""
        assert err.decode().splitlines()[-1] == "Stopped."
        await all_gone(children)


@pytest.mark.parametrize("arguments", [(), ("mcqa", "--all")])
async def test_either_names_or_all(arguments: tuple[str, ...]) -> None:
    done = await gymctl("env", "test", *arguments)
    assert done.code == 2
    assert "--all" in done.err


# ---- what the Python environment holds


def test_requirements_of_server_and_tests(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    assert _requirements(environment, with_runner=True).text == ""  # pytest is here already
    environment.path("requirements.txt").write_text("# why\nsympy>=1.12  # algebra\n")
    environment.path("tests/requirements.txt").write_text("oracle==1.0\n")
    assert _requirements(environment, with_runner=True).text == "sympy>=1.12\noracle==1.0"
    assert _requirements(environment, with_runner=False).text == "sympy>=1.12"
    assert _requirements(environment, with_runner=True).folder == str(environment.folder)


def test_pytest_is_installed_where_gymd_came_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gymctl.env.runs.requirements_met", lambda requirements: False)
    text = _requirements(make_environment(tmp_path), with_runner=True).text
    assert [line.split(">")[0] for line in text.splitlines()] == [
        "pytest",
        "pytest-asyncio",
        "pytest-timeout",
    ]

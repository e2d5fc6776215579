"""Rewards, tools and sessions, over repositories that the rows bring along, by bubblewrap."""

import asyncio
import copy
import json
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Coroutine, Iterable
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.responses_pb2 import Tool
from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED, OUTCOME_TRUNCATED_TURNS
from gymd.convert import tool_to_json
from gymd.errors import GymdError
from gymd.sdk import Reward
from gymd.sdk.sandbox import Sandbox
from gymd.sdk.testing import (
    Attempt,
    RunningServer,
    Transport,
    check_resources_server,
    eventually,
    expect_error,
    start_server,
)
from gymservers.resources.swe.server import SoftwareEngineering

HERE = Path(__file__).parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data/example.jsonl").read_text().splitlines()]
SLUGS, SPANS, NUMERALS = EXAMPLES[0], EXAMPLES[1], EXAMPLES[2]
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat"

try:
    Sandbox.open()
except GymdError as why:
    pytest.skip(f"no sandbox: {why}", allow_module_level=True)


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with start_server(SoftwareEngineering, {"runtime": "bubblewrap"}) as running:
        yield running


def heredoc(text: str) -> str:
    return f"<<'END_OF_TEXT'\n{text}\nEND_OF_TEXT"


def apply(patch: str) -> str:
    return f"git apply - {heredoc(patch)}"


async def attempted(
    server: RunningServer, row: Any, *commands: str, outcome: int = OUTCOME_COMPLETED
) -> Reward:
    async with await server.seed(row) as session:
        for command in commands:
            await session.call("bash", command=command)
        return await session.verify(outcome=outcome)


async def together(attempts: Iterable[Coroutine[Any, Any, Reward]]) -> list[Reward]:
    """Some at a time: each has containers of its own, and no call has long."""
    places = asyncio.Semaphore(4)

    async def one(attempt: Coroutine[Any, Any, Reward]) -> Reward:
        async with places:
            return await attempt

    return await asyncio.gather(*map(one, attempts))


def verdict(reward: Reward) -> tuple[float, str]:
    assert reward.extras["resolved"] is (reward.value == 1.0)
    return reward.value, reward.extras["verdict"]


def changed(row: Any, **fields: Any) -> Any:
    return copy.deepcopy(row) | fields


GOLD = apply(SLUGS["patch"])


def write(path: str, text: str) -> str:
    return f"cat > {path} {heredoc(text)}"


def add(path: str, text: str) -> str:
    return f"cat >> {path} {heredoc(text)}"


WRONG = write("slugs/text.py", 'def slugify(title):\n    return title.lower().replace(" ", "_")')
# Joins runs of signs, but leaves dashes at the ends.
HALF = write("slugs/text.py", 'import re\ndef slugify(t):\n    return re.sub("[^a-z0-9]+", "-", t.lower())')
BREAKS = write("slugs/text.py", 'def slugify(title):\n    return "tea-toast" if "T" in title else "tea"')
PASSING_TESTS = """
import unittest
class SlugifyTest(unittest.TestCase):
    def test_run_of_signs(self): pass
    def test_ends(self): pass
    def test_lower_case(self): pass
    def test_space(self): pass
"""
PRINT_RESULTS = """
import os, sys
for name in ("run_of_signs", "ends", "lower_case", "space"):
    print(f"test_{name} (tests.test_text.SlugifyTest.test_{name}) ... ok", file=sys.stderr, flush=True)
"""
PRINT_MARKS = 'print(">>>>> Start Test Output\\n>>>>> End Test Output", flush=True)'
INIT, TESTS = "slugs/__init__.py", "tests/test_text.py"

# What the policy does, the reward, and the verdict.
CASES: dict[str, tuple[list[str], float, str]] = {
    "nothing": ([], 0.0, "no_patch"),
    "only looks": (["ls", "cat slugs/text.py"], 0.0, "no_patch"),
    "gold, left in the tree": ([GOLD], 1.0, "resolved"),
    "gold, committed": ([GOLD, "git -c user.name=a -c user.email=b commit -qam done"], 1.0, "resolved"),
    "gold, staged": ([GOLD, "git add -A"], 1.0, "resolved"),
    "gold, handed in": ([GOLD, "git diff > patch.txt", f"{SUBMIT} patch.txt"], 1.0, "resolved"),
    "gold, but handed in nothing": ([GOLD, f"{SUBMIT} /dev/null"], 0.0, "no_patch"),
    "handed in nonsense": ([GOLD, "echo hello > p", f"{SUBMIT} p"], 0.0, "patch_does_not_apply"),
    "handed in half a patch": (
        [GOLD, "git diff | head -n 7 > p", f"{SUBMIT} p"],
        0.0,
        "patch_does_not_apply",
    ),
    "handing in fails, so it is not": ([GOLD, f"{SUBMIT} no_such_file"], 1.0, "resolved"),
    "wrong": ([WRONG], 0.0, "unresolved"),
    "half": ([HALF], 0.0, "unresolved"),
    "repairs one, breaks another": ([BREAKS], 0.0, "unresolved"),
    "syntax error": (["echo '(' >> slugs/text.py"], 0.0, "unresolved"),
    "deletes the package": (["rm -r slugs"], 0.0, "unresolved"),
    "a new file only": (["touch new"], 0.0, "unresolved"),
    "caches only": (["mkdir __pycache__; touch __pycache__/a.pyc b.pyc"], 0.0, "no_patch"),
    "makes the tests pass by editing them": ([write(TESTS, PASSING_TESTS)], 0.0, "unresolved"),
    "deletes the tests": (["rm -r tests"], 0.0, "no_test_output"),
    "prints results": ([add(INIT, PRINT_RESULTS)], 0.0, "unresolved"),
    "prints results and fails": ([add(INIT, PRINT_RESULTS + "raise ImportError")], 0.0, "unresolved"),
    "prints results and leaves": ([add(INIT, PRINT_RESULTS + "os._exit(1)")], 0.0, "contradictory"),
    "prints the marks of the harness": ([add(INIT, PRINT_MARKS)], 0.0, "unresolved"),
    "gold that prints the marks": ([GOLD, add(INIT, PRINT_MARKS)], 1.0, "resolved"),
    "leaves before the tests": ([add(INIT, "import os\nos._exit(0)")], 0.0, "no_test_output"),
    "destroys git": ([GOLD, "rm -rf .git"], 0.0, "no_diff"),
    "destroys everything": (["rm -rf ./* .git"], 0.0, "no_diff"),
}


async def test_rewards(server: RunningServer) -> None:
    attempts = (attempted(server, SLUGS, *commands) for commands, _, _ in CASES.values())
    found = dict(zip(CASES, map(verdict, await together(attempts)), strict=True))
    assert found == {name: (value, expected) for name, (_, value, expected) in CASES.items()}


async def test_what_was_cut_off_was_not_handed_in(server: RunningServer) -> None:
    cut = await attempted(server, SLUGS, GOLD, outcome=OUTCOME_TRUNCATED_TURNS)
    assert verdict(cut) == (0.0, "no_patch")
    submitted = [GOLD, "git diff > p", f"{SUBMIT} p"]
    assert (await attempted(server, SLUGS, *submitted, outcome=OUTCOME_TRUNCATED_TURNS)).value == 1.0


async def test_the_report_names_the_tests(server: RunningServer) -> None:
    reward = await attempted(server, SLUGS, HALF)
    status = reward.extras["tests_status"]
    assert status["FAIL_TO_PASS"]["failure"] == ["tests.test_text.SlugifyTest.test_ends"]
    assert status["FAIL_TO_PASS"]["success"] == ["tests.test_text.SlugifyTest.test_run_of_signs"]
    assert len(status["PASS_TO_PASS"]["success"]) == 2
    assert reward.extras["patch"].startswith("diff --git a/slugs/text.py")


async def test_a_file_that_the_test_patch_adds_is_not_the_policys(server: RunningServer) -> None:
    """The reference lets this through: its test patch then fails to apply, and the forged file is run."""
    forged = """
import unittest
class LimitsTest(unittest.TestCase):
    def test_outside(self): pass
    def test_largest(self): pass
"""
    repaired = apply(NUMERALS["patch"])
    broken = "sed -i 's/1 <= number/0 <= number/' numerals/roman.py"
    reward = await attempted(server, NUMERALS, repaired, broken, write("tests/test_limits.py", forged))
    failed = reward.extras["tests_status"]["FAIL_TO_PASS"]["failure"]
    assert failed == ["tests.test_limits.LimitsTest.test_outside"]
    assert reward.value == 0.0


async def test_a_repair_that_never_ends_times_out() -> None:
    async with start_server(SoftwareEngineering, {"runtime": "bubblewrap", "eval_timeout": 1.5}) as server:
        endless = write("slugs/text.py", "def slugify(title):\n    while True: pass")
        assert verdict(await attempted(server, SLUGS, endless)) == (0.0, "timed_out")


async def test_a_repair_that_prints_without_end_is_killed() -> None:
    config = {"runtime": "bubblewrap", "output_bytes": 100_000, "memory_mb": 256}
    async with start_server(SoftwareEngineering, config) as server:
        prints = write("slugs/text.py", "while True: print('x' * 1000)")
        assert verdict(await attempted(server, SLUGS, prints)) == (0.0, "killed")
        eats = write("slugs/text.py", "x = [b'x' * 1000000 for _ in range(1000)]")
        assert (await attempted(server, SLUGS, eats)).value == 0.0


LISTS: list[tuple[dict[str, Any], float]] = [
    ({"PASS_TO_PASS": []}, 1.0),
    ({"FAIL_TO_PASS": []}, 1.0),
    ({"FAIL_TO_PASS": [], "PASS_TO_PASS": []}, 0.0),  # nothing was shown
    ({"FAIL_TO_PASS": json.dumps(SLUGS["FAIL_TO_PASS"]), "PASS_TO_PASS": "[]"}, 1.0),
    ({"FAIL_TO_PASS": ["tests.test_text.SlugifyTest.test_no_such"]}, 0.0),
    ({"unknown": 1, "hints_text": None, "created_at": 5}, 1.0),
]


async def test_lists_of_tests(server: RunningServer) -> None:
    rewards = await together(attempted(server, changed(SLUGS, **fields), GOLD) for fields, _ in LISTS)
    assert [reward.value for reward in rewards] == [value for _, value in LISTS]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"instance_id": "../x"}, "instance_id"),
        ({"instance_id": ""}, "instance_id"),
        ({"FAIL_TO_PASS": "not json"}, "FAIL_TO_PASS"),
        ({"FAIL_TO_PASS": 3}, "FAIL_TO_PASS"),
        ({"files": {"../x": ""}}, "relative path"),
        ({"files": {"/x": ""}}, "relative path"),
        ({"files": {".git/config": ""}}, "relative path"),
        ({"log_parser": "guess"}, "log_parser"),
        ({"image": "--privileged"}, "image"),
        ({"image": "a b"}, "image"),
    ],
)
async def test_a_row_that_is_wrong_is_refused(server: RunningServer, fields: Any, text: str) -> None:
    failure = await expect_error("INVALID_REQUEST", server.seed(changed(SLUGS, **fields)), "a wrong row")
    assert text in failure.message


async def test_an_environment_that_fails_is_no_reward(server: RunningServer) -> None:
    broken = changed(SLUGS, test_patch=SLUGS["test_patch"].replace("hot tea", "cold tea"))
    async with await server.seed(broken) as session:
        await session.call("bash", command=GOLD)
        failure = await expect_error(
            "SERVER_CODE_FAILED", session.verify(), "a test patch that does not apply"
        )
    assert "apply the test patch" in failure.message


async def test_rows_that_need_an_image_say_so(server: RunningServer) -> None:
    row = changed(SLUGS, files={})
    failure = await expect_error("SERVER_NOT_READY", server.seed(row), "a row without files or image")
    assert "install docker" in failure.message
    assert "image_dir" in failure.message


async def committed(place: Path) -> None:
    """Makes a repository of the row's files."""
    for name, content in SLUGS["files"].items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    command = "git init -q && git add -A && git -c user.name=a -c user.email=b commit -qm start"
    process = await asyncio.create_subprocess_shell(command, cwd=place)
    assert await process.wait() == 0


async def test_image_dir_names_a_repository(tmp_path: Path) -> None:
    place = tmp_path / SLUGS["instance_id"]
    await committed(place)
    config = {"runtime": "bubblewrap", "image_dir": f"{tmp_path}/{{instance_id}}"}
    async with start_server(SoftwareEngineering, config) as server:
        assert (await attempted(server, changed(SLUGS, files={}), GOLD)).value == 1.0
        failure = await expect_error(
            "SERVER_NOT_READY", server.seed(changed(SPANS, files={})), "a folder that is not there"
        )
        assert "correct image_dir" in failure.message
    assert not (place / "slugs" / "__pycache__").exists()  # it worked on a copy


def unpack(image: Path, *programs: str) -> None:
    """An image of some programs of this machine with their libraries."""
    for program in programs:
        path = shutil.which(program)
        assert path is not None
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout.split()
        for source in [path, *(word for word in listed if word.startswith("/"))]:
            target = image / (f"bin/{program}" if source == path else source.lstrip("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


@pytest.mark.parametrize("place", ["testbed", "workspace"])
async def test_image_dir_names_an_unpacked_image(tmp_path: Path, place: str) -> None:
    image = tmp_path / SLUGS["instance_id"]
    unpack(image, "sh", "bash", "cat", "git")
    await committed(image / place)
    if place == "workspace":  # an image that was put in order by hand
        (image / "testbed").symlink_to("/workspace")
    config = {"runtime": "bubblewrap", "image_dir": f"{tmp_path}/{{instance_id}}"}
    async with (
        start_server(SoftwareEngineering, config) as server,
        await server.seed(changed(SLUGS, files={})) as session,
    ):
        look = "pwd; git log --format=%s; cd /testbed && pwd -P; ls /usr"
        answer = await session.call("bash", command=look)
        assert answer.output.splitlines()[2:5] == [f"/{place}", "start", f"/{place}"]
        assert "command not found" in answer.output  # nothing of this machine is there
        await session.call("bash", command="echo changed > /testbed/made")
    assert not (image / place / "made").exists()


# ---- the tool


async def ran(server: RunningServer, *commands: str) -> list[str]:
    async with await server.seed(SLUGS) as session:
        return [(await session.call("bash", command=command)).output for command in commands]


async def test_bash(server: RunningServer) -> None:
    answers = await ran(
        server,
        "echo out; echo err >&2; exit 3",
        "cd slugs && x=1 && pwd",
        "pwd; echo ${x-unset}",
        "cat",  # there is no input
        f"echo {'a' * 200_000} | wc -c",  # longer than one argument of a program may be
        "cat <<'E'\n$HOME `x`\nE",
        "no_such_program",
        "echo ü $'\\xff'",
    )
    assert answers[0] == "<returncode>3</returncode>\n<output>\nout\nerr\n</output>"
    assert "/slugs" in answers[1]
    assert answers[2].splitlines()[2:4] == ["/workspace", "unset"]
    assert answers[3] == "<returncode>0</returncode>\n<output>\n\n</output>"
    assert "200001" in answers[4]
    assert "$HOME `x`" in answers[5]
    assert "<returncode>127</returncode>" in answers[6]
    assert "ü \ufffd" in answers[7]


async def test_long_output_is_cut_in_the_middle() -> None:
    async with start_server(SoftwareEngineering, {"runtime": "bubblewrap", "output_chars": 100}) as server:
        (answer,) = await ran(server, "seq 1 1000")
    assert "\n1\n2\n" in answer
    assert "999\n1000\n" in answer
    assert "3,793 characters are left out" in answer
    assert len(answer) < 300


async def test_a_command_is_killed_when_its_time_is_up() -> None:
    async with start_server(SoftwareEngineering, {"runtime": "bubblewrap", "step_timeout": 0.5}) as server:
        answers = await ran(server, "echo begun; trap '' TERM; sleep 100", "sleep 100 & echo next")
    assert answers[0].startswith(
        "<returncode>-1</returncode>\n<exception>The command did not end within 0.5 s"
    )
    assert "begun" in answers[0]
    assert "next" in answers[1]


async def test_a_command_that_fills_the_disk_is_killed() -> None:
    config = {"runtime": "bubblewrap", "disk_mb": 8, "file_mb": 4, "step_timeout": 30}
    async with start_server(SoftwareEngineering, config) as server:
        filling = "i=0; while true; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); sleep 0.02; done"
        answers = await ran(server, filling, "head -c 9000000 /dev/zero > one; ls -l one | wc -l")
    assert "more than 8 MiB" in answers[0]
    assert "File size limit" in answers[1] or "<returncode>0" in answers[1]


async def test_commands_are_isolated(server: RunningServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    answers = await ran(
        server,
        f"cat {shlex.quote(str(secret))}",
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 1), 1)'",
        "touch /usr/x || echo read-only",
        "ls /proc | grep -c '^[0-9]'",
        "env | cut -d= -f1 | sort | tr '\\n' ' '",
    )
    assert "s3cret" not in answers[0]
    assert "refused" in answers[1] or "unreachable" in answers[1]
    assert "read-only" in answers[2]
    assert int(answers[3].splitlines()[2]) < 10
    assert "TOKEN" not in answers[4]


async def test_after_handing_in_nothing_more_is_run(server: RunningServer) -> None:
    async with await server.seed(SLUGS) as session:
        await session.call("bash", command=f"{GOLD}\ngit diff > p")
        await session.call("bash", command=f"{SUBMIT} p")
        answer = await session.call("bash", command="git checkout .")
        assert answer.is_error
        assert "handed in already" in answer.output
        assert (await session.verify()).value == 1.0


async def test_commands_of_one_session_run_one_after_the_other(server: RunningServer) -> None:
    async with await server.seed(SLUGS) as session:
        call = "n=$(cat n 2>/dev/null || echo 0); sleep 0.02; echo $((n+1)) > n"
        await asyncio.gather(*(session.call("bash", command=call) for _ in range(5)))
        assert "\n5\n" in (await session.call("bash", command="cat n")).output


async def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def left() -> list[Path]:
        return list(tmp_path.iterdir())

    async with start_server(SoftwareEngineering, {"runtime": "bubblewrap"}) as server:
        session = await server.seed(SLUGS)
        assert len(left()) == 1
        await session.call("bash", command=f"{GOLD}\nmkdir -m 0 closed; sleep 100 & ln -s /etc link")
        assert (await session.verify()).value == 1.0
        assert len(left()) == 1  # the evaluation's is gone
        call = asyncio.ensure_future(session.call("bash", command="touch begun; sleep 100"))
        await eventually(lambda: (left()[0] / "begun").exists(), "the command began")
        call.cancel()
        await asyncio.wait([call])
        await session.close()
        assert not left()
        await server.seed(SPANS)  # left open: stopping closes it
    assert not left()


async def test_folders_of_a_killed_server_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"gymd-swe-0.{socket.gethostname()}.4194300.1" / "x").mkdir(parents=True)
    (tmp_path / "gymd-swe-0.another-machine.4194300.1").mkdir()
    async with start_server(SoftwareEngineering, {"runtime": "bubblewrap"}):
        assert os.listdir(tmp_path) == ["gymd-swe-0.another-machine.4194300.1"]


# ---- conformance


def right(row: Any) -> Attempt:
    return Attempt([("bash", {"command": apply(row["patch"])})], "Done.")


@pytest.mark.parametrize("transport", ["link", "in-process"])
@pytest.mark.timeout(300)
async def test_conformance(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    # Sessions with two containers each take a while on a busy machine.
    monkeypatch.setattr(RunningServer.call, "__defaults__", (200.0,))
    await check_resources_server(
        SoftwareEngineering,
        {"runtime": "bubblewrap"},
        rows=EXAMPLES[:1] if transport == "link" else EXAMPLES[2:3],
        sessions=16 if transport == "link" else 4,
        good=right,
        bad=Attempt([("bash", {"command": "cat README.md"})]),
        transport=transport,
    )


async def test_the_rows_can_be_solved(server: RunningServer) -> None:
    solved = await together(attempted(server, row, apply(row["patch"])) for row in EXAMPLES)
    assert [verdict(reward) for reward in solved] == [(1.0, "resolved")] * 5
    missed = await together(attempted(server, row, "echo >> README.md") for row in EXAMPLES)
    assert [verdict(reward) for reward in missed] == [(0.0, "unresolved")] * 5


async def test_the_rows_hold_the_tools_of_the_server(server: RunningServer) -> None:
    tools = [tool_to_json(Tool(function=tool)) for tool in await server.list_tools()]
    for row in EXAMPLES:
        assert row["responses_create_params"]["tools"] == tools
        assert len(row["files"]) >= 3


async def test_labels(server: RunningServer) -> None:
    labels = server.server.labels()
    assert labels["runtime"] == "bubblewrap"
    assert "no network" in labels["isolation"]

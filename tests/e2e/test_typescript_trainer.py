"""The TypeScript trainer, written from the contract and docs/protocol.md, keeps its promises."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from asyncio.subprocess import PIPE
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse, ParseDict
from google.protobuf.message import Message

from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED, Task
from gymapi.v1.rollout_service_pb2 import RolloutResult
from gymd.client.rows import make_task, parse_row
from gymd.sdk.testing import eventually
from tests.e2e.typescript import ROOT, WAIT_S, Program, built, run_daemon, running

# The first use of the fixture installs and compiles.
pytestmark = pytest.mark.timeout(600)

COUNTER = "example_session_state_mgmt"
ROWS = ROOT / "servers/gymservers/resources" / COUNTER / "data/example.jsonl"

# Reaches the expected number of the first row only.
RULES = [
    {"when": {"turn": 0}, "call": {"name": "increment_counter", "arguments": {"count": 7}}},
    {"text": "7"},
]
CONFIG = {
    "config_paths": [COUNTER],
    "policy_model": {"responses_api_models": {"scripted_model": {"rules": RULES, "latency": 0.02}}},
    "gymd": {"listen": "127.0.0.1:0", "pool_hosts": 1, "grace_s": 1},
}

# Reads a JSON list of files' texts; prints the tasks of each in protobuf's JSON, or why it is refused.
READ_FILES = """
import { toJson } from "@bufbuild/protobuf";
import { readFileSync } from "node:fs";
import { TaskSchema } from "./dist/gen/gymapi/v1/rollout_pb.js";
import { readRows } from "./dist/rows.js";
const read = (text) => {
  try {
    return readRows(text).map((task) => toJson(TaskSchema, task));
  } catch (problem) {
    return problem.message;
  }
};
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(read)));
"""

# Stores results whose text JSON.stringify leaves as it is, too long for one read; says what it reads.
STORE_AND_READ = """
import { create } from "@bufbuild/protobuf";
import { RolloutResultSchema } from "./dist/gen/gymapi/v1/rollout_service_pb.js";
import { Store } from "./dist/store.js";
const [results, state] = process.argv.slice(-2);
const text = "\\u2028\\u2029\\r\u00e9\\u{1f40e}".repeat(40_000);
const one = (n) => create(RolloutResultSchema, { sequence: BigInt(n), rollout: { terminationReason: text } });
const store = new Store(results, state, "run");
store.enter("s1");
store.append([one(1), one(2)]);
store.append([one(3)]);
store.close();
const found = [];
for await (const { sequence, rollout } of new Store(results, state, "run").results())
  found.push([Number(sequence), rollout.terminationReason === text]);
console.log(JSON.stringify(found));
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trainer, built."""
    return built("trainers/typescript", tmp_path_factory.mktemp("trainer"))


def trainer(
    folder: Path, address: str, output: Path, *options: str, rows: Path = ROWS, **how: Any
) -> contextlib.AbstractAsyncContextManager[Program]:
    """The trainer as a child process."""
    paths = ("--input", str(rows), "--output", str(output))
    return running("node", str(folder / "dist/main.js"), "--address", address, *paths, *options, **how)


async def lines(program: Program) -> list[str]:
    """Everything that it prints, to its end."""
    found = []
    while line := await program.line():
        found.append(line.rstrip("\n"))
    return found


def stored(output: Path) -> list[RolloutResult]:
    """The results in the trainer's file; a line that is being written does not count yet."""
    if not output.exists():
        return []
    return [Parse(line, RolloutResult()) for line in output.read_text().split("\n")[:-1]]


def check_all_are_there_once(output: Path, said: list[str], groups: int, size: int) -> None:
    """Every rollout is in the file once, every group was printed, the summary is exact, no state is left."""
    assert sorted(path.name for path in output.parent.glob("rollouts*")) == [output.name]
    results = stored(output)
    assert [result.sequence for result in results] == list(range(1, groups * size + 1))
    wanted = {f"t{number}/{index}" for number in range(1, groups + 1) for index in range(size)}
    assert {result.rollout.rollout_id for result in results} == wanted
    assert {result.rollout.outcome for result in results} == {OUTCOME_COMPLETED}

    summary = f"{groups} tasks accepted, 0 rejected, {groups * size} results (COMPLETED {groups * size})"
    assert said[-1] == f"summary: {summary}, 1 reconnects"
    assert sorted(line.split()[0] for line in said[:-1]) == sorted(f"g{n}" for n in range(1, groups + 1))
    assert "g1  rewards 1 1 1 1  mean 1.000  std 0.000" in said
    assert "g2  rewards 0 0 0 0  mean 0.000  std 0.000" in said


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_daemon_that_restarts_costs_nothing(folder: Path, tmp_path: Path, how: str) -> None:
    groups, size, output = 60, 4, tmp_path / "rollouts.jsonl"
    async with run_daemon(tmp_path, CONFIG, "--wait-ready") as daemon:
        address = (await daemon.said("ready"))["address"]
        options = ("--groups", str(groups), "--group-size", str(size), "--credits", "16")
        async with trainer(folder, address, output, *options) as program:
            await eventually(lambda: len(stored(output)) >= 40, "results", timeout=WAIT_S)
            await getattr(daemon, how)()
            before = len(stored(output))
            async with run_daemon(tmp_path, CONFIG, "--wait-ready", f"gymd.listen={address}") as again:
                await again.said("ready")
                said = await lines(program)
                assert await program.ended() == 0
                assert await again.stop() == 0

    assert 40 <= before < groups * size
    check_all_are_there_once(output, said, groups, size)


async def test_a_trainer_that_is_killed_goes_on(folder: Path, tmp_path: Path) -> None:
    groups, size, output = 60, 4, tmp_path / "rollouts.jsonl"
    options = ("--groups", str(groups), "--group-size", str(size), "--credits", "16")
    async with run_daemon(tmp_path, CONFIG, "--wait-ready") as daemon:
        address = (await daemon.said("ready"))["address"]
        for least in (20, 60):
            async with trainer(folder, address, output, *options) as program:
                await eventually(lambda: len(stored(output)) >= least, "results", timeout=WAIT_S)  # noqa: B023
                await program.kill()
            with output.open("a") as file:
                file.write('{"sequence": "100000", "rollout"')  # it died while it wrote
        before = len(stored(output))
        await daemon.kill()
    async with run_daemon(tmp_path, CONFIG, "--wait-ready", f"gymd.listen={address}") as again:
        await again.said("ready")
        async with trainer(folder, address, output, *options) as program:
            said = await lines(program)
            assert await program.ended() == 0
        assert await again.stop() == 0

    assert 60 <= before < groups * size
    check_all_are_there_once(output, said, groups, size)


async def test_a_session_that_cannot_go_on_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    output, state = tmp_path / "rollouts.jsonl", tmp_path / "run.state"
    options = ("--groups", "100000", "--state", str(state))

    async def refusal() -> str:
        """What a trainer says that cannot go on; it leaves everything as it is."""
        before = output.read_bytes(), state.read_bytes()
        async with trainer(folder, address, output, *options, stderr=PIPE) as program:
            assert await program.ended() == 2
            assert program.process.stderr is not None
            assert (output.read_bytes(), state.read_bytes()) == before
            return (await program.process.stderr.read()).decode()

    async with run_daemon(tmp_path, CONFIG, "--wait-ready", "gymd.durability=off") as daemon:
        address = (await daemon.said("ready"))["address"]
        async with trainer(folder, address, output, *options) as program:
            await eventually(lambda: len(stored(output)) >= 8, "results", timeout=WAIT_S)
            early = state.read_bytes()
            await eventually(lambda: len(stored(output)) >= 80, "more results", timeout=WAIT_S)
            await program.kill()
        latest = state.read_bytes()
        state.write_bytes(early)
        old = await refusal()
        state.write_bytes(latest)
        await daemon.kill()
    async with run_daemon(tmp_path, CONFIG, "--wait-ready", f"gymd.listen={address}") as stranger:
        await stranger.said("ready")
        gone = await refusal()
        assert await stranger.stop() == 0

    advice = f"To run all of them in a new session, move it away, remove {state}, and start again.\n"
    assert old.startswith("RESUME_POINT_GONE: results up to ")
    assert gone.startswith("SESSION_NOT_FOUND: there is no session ")
    for said in (old, gone):
        assert re.search(rf"\d+ of 100000 groups are complete in {re.escape(str(output))}\. ", said)
        assert said.endswith(advice)


def owners(state: Path) -> set[int]:
    """The processes that go by a state, or did when they were killed."""
    return {int(path.name.rpartition("-")[2]) for path in state.parent.glob(f"{state.name}.lock-*")}


async def test_one_trainer_at_a_time_goes_by_a_state(folder: Path, tmp_path: Path) -> None:
    output, state = tmp_path / "rollouts.jsonl", tmp_path / "run.state"
    options = ("--groups", "100000", "--state", str(state))
    async with run_daemon(tmp_path, CONFIG, "--wait-ready") as daemon:
        address = (await daemon.said("ready"))["address"]
        async with trainer(folder, address, output, *options) as first:
            await eventually(lambda: len(stored(output)) >= 8, "results", timeout=WAIT_S)
            async with trainer(folder, address, output, *options, stderr=PIPE) as second:
                assert await second.ended() == 2
                assert second.process.stderr is not None
                said = (await second.process.stderr.read()).decode()
            advice = f"end it, or choose another --state; if process {first.pid} is no trainer, remove "
            assert said == f"another trainer goes by {state}: {advice}{state}.lock-{first.pid}\n"
            assert owners(state) == {first.pid}
            before = len(stored(output))
            await eventually(lambda: len(stored(output)) >= before + 8, "more results", timeout=WAIT_S)
            await first.kill()
        assert owners(state) == {first.pid}
        async with trainer(folder, address, output, *options) as third:
            before = len(stored(output))
            await eventually(lambda: len(stored(output)) >= before + 8, "results", timeout=WAIT_S)
            assert owners(state) == {third.pid}
            assert await third.stop() == 1
        assert await daemon.stop() == 0
    assert not owners(state)
    results = stored(output)
    assert [result.sequence for result in results] == list(range(1, len(results) + 1))


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (None, "{output} exists, and no {output}.state to go on from: choose another --output"),
        ("{", "{output}.state is no state of this trainer: choose another --state"),
        (
            json.dumps({"run": "another", "sessionId": "s", "lastSequence": 0, "bytes": 0}),
            "{output}.state is of other rows or groups: give the same, or choose another --state",
        ),
    ],
    ids=["none", "broken", "foreign"],
)
def test_files_of_another_run_are_left_alone(
    folder: Path, tmp_path: Path, state: str | None, why: str
) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_text("precious\n")
    if state is not None:
        Path(f"{output}.state").write_text(state)
    command = ["node", folder / "dist/main.js", "--address", "127.0.0.1:1"]
    command += ["--input", ROWS, "--output", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (2, why.format(output=output) + "\n")
    assert output.read_text() == "precious\n"


async def test_one_refused_task_costs_only_itself(folder: Path, tmp_path: Path) -> None:
    first = json.loads(ROWS.read_text().splitlines()[0])
    strange = {**first, "agent_ref": {"type": "responses_api_agents", "name": "nobody"}}
    bad = {**first, "initial_count": "none"}
    rows, output = tmp_path / "rows.jsonl", tmp_path / "rollouts.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in (first, strange, bad)))
    async with run_daemon(tmp_path, CONFIG, "--wait-ready") as daemon:
        address = (await daemon.said("ready"))["address"]
        async with trainer(folder, address, output, "--group-size", "2", rows=rows) as program:
            said = await lines(program)
            assert await program.ended() == 1
        assert await daemon.stop() == 0
    assert [line for line in said if line.startswith("t2  rejected: SERVER_NOT_FOUND: ")]
    assert "g1  rewards 1 1  mean 1.000  std 0.000" in said
    assert "g3  rewards INVALID_TASK INVALID_TASK" in said
    assert said[-1].startswith("summary: 2 tasks accepted, 1 rejected, 4 results (")
    assert Counter(result.rollout.HasField("reward") for result in stored(output)) == {True: 2, False: 2}


async def test_an_interrupted_trainer_gives_its_session_up(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    async with run_daemon(tmp_path, CONFIG, "--wait-ready") as daemon:
        address = (await daemon.said("ready"))["address"]
        async with trainer(folder, address, output, "--groups", "100000") as program:
            await eventually(lambda: len(stored(output)) >= 8, "results", timeout=WAIT_S)
            assert await program.stop() == 1
        # Nothing of it is kept: the daemon has no session to wait for and leaves at once.
        assert await daemon.stop() == 0
    results = stored(output)
    assert [result.sequence for result in results] == list(range(1, len(results) + 1))


def test_rows_become_the_same_tasks_as_in_python(folder: Path) -> None:
    files = sorted((ROOT / "servers").rglob("data/example.jsonl"))
    rows = [line for file in files for line in file.read_text().splitlines() if line.strip()]
    rows.append(json.dumps({"responses_create_params": HARD_PARAMS, "expected": 12345678901234567890}))
    (tasks,) = read(folder, "\n".join(rows))
    assert len(tasks) == len(rows) > 20
    for row, task in zip(rows, tasks, strict=True):
        assert comparable(ParseDict(task, Task())) == comparable(make_task(parse_row(row))), row


def test_rows_that_do_not_fit_are_refused_with_their_line(folder: Path) -> None:
    refusals = {
        "colour": (1, "the contract has no such key in ResponseCreateParams"),
        "temperature": ("warm", "the value has not the form that ResponseCreateParams asks for"),
        "max_output_tokens": (1.5, "the value has not the form that ResponseCreateParams asks for"),
        "input": ([{"type": "song"}], 'the contract knows no Item of type "song"'),
        "include": ([1], "the value has not the type that the contract asks for"),
    }
    good = json.dumps({"responses_create_params": {"input": "hello"}})
    files = [
        f"{good}\n{json.dumps({'responses_create_params': {key: value}})}"
        for key, (value, _) in refusals.items()
    ]
    for said, (key, (value, why)) in zip(read(folder, *files), refusals.items(), strict=True):
        index = "[0]" if isinstance(value, list) else ""
        assert said == f"line 2: responses_create_params.{key}{index}: {why}"


# Every shape that the rules of responses.proto have: short and typed items, parts, raw JSON, unions, maps.
HARD_PARAMS = {
    "input": [
        {"role": "user", "content": "Grüße"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "ä\ud83d\ude00"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{not json"},
        {"type": "function_call_output", "call_id": "c1", "output": "no"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"id": "msg_1"},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {"maximum": 12345678901234567890}, "async": True},
        {"type": "custom", "name": "g"},
    ],
    "tool_choice": "required",
    "metadata": {"a": "b"},
    "reasoning": {"effort": "low"},
    "text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}}},
    "temperature": 1,
    "max_output_tokens": 4096,
    "instructions": None,
}


def read(folder: Path, *files: str) -> list[Any]:
    """What the trainer makes of files of rows."""
    command = ["node", "--input-type=module", "-e", READ_FILES]
    done = subprocess.run(
        command, cwd=folder, input=json.dumps(files), capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def comparable(task: Task) -> Task:
    """The task without the spelling of its JSON: no json_form, JSON texts written anew."""
    _spell(task)
    return task


def _spell(message: Message) -> None:
    for field, value in message.ListFields():
        if field.name == "json_form":
            message.ClearField("json_form")
        elif field.name.endswith("_json") and field.json_name != "arguments":
            setattr(message, field.name, json.dumps(json.loads(value), sort_keys=True))
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for child in value if field.is_repeated else [value]:
                _spell(child)


def test_stored_results_are_read_line_by_line(folder: Path, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("rollouts.jsonl", "state")]
    command = ["node", "--input-type=module", "-e", STORE_AND_READ, *paths]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout or done.stderr) == [[1, True], [2, True], [3, True]]

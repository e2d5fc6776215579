"""The package's loop over the mesh: how rollouts end, what the conversation holds, cancelling."""

import asyncio
import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.agent_service_pb2 import Deadlines
from gymapi.v1.rollout_pb2 import Outcome, Rollout
from gymd.errors import GymdError, error
from gymd.sdk import ResourcesServer, Reward, Session, tool
from gymd.sdk.sandbox import Sandbox
from gymd.sdk.testing import (
    FakeModel,
    RunningMesh,
    eventually,
    expect_error,
    function_call,
    make_response,
    reasoning,
    start_server,
    start_servers,
)
from gymservers.agents.mini_swe_agent.bridge import Bridge, Stopped
from gymservers.agents.mini_swe_agent.server import MiniSweAgent
from gymservers.resources.swe.server import SoftwareEngineering

HERE = Path(__file__).parent
ROW = {
    "responses_create_params": {"input": []},
    "problem_statement": "The door {{squeaks}}.",
    "patch": "a patch",
}
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("minisweagent") is None,
    reason="mini-swe-agent is not installed: see requirements.txt",
)


class Shell(ResourcesServer):
    """A tool bash that runs nothing."""

    async def start(self) -> None:
        self.commands: list[str] = []
        self.hang = asyncio.Event()

    @tool
    async def bash(self, command: str) -> str:
        """Run a command."""
        self.commands.append(command)
        if command == "hang":
            await self.hang.wait()
        if command == "break":
            raise error("SESSION_LOST", "the container is gone", session_id="x")
        shown = (
            "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\na patch"
            if command.startswith("echo COMPLETE")
            else command
        )
        code = 1 if "fails" in command else 0
        return f"<returncode>{code}</returncode>\n<output>\n{shown}\n</output>"

    async def verify(self, session: Session, outcome: int) -> Reward:
        return Reward(float(outcome))


def servers(script: Any, **config: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    agent = {"model_server": {"name": "model"}, "resources_server": {"name": "shell"}} | config
    return {"model": (FakeModel, {"script": script}), "shell": (Shell, {}), "agent": (MiniSweAgent, agent)}


async def run(
    script: Any, *, row: Any = ROW, options: Any = None, **config: Any
) -> tuple[Rollout, RunningMesh]:
    async with start_servers(servers(script, **config), transport="in-process") as mesh:
        rollout = await mesh.run_rollout("agent", row, **options or {})
        assert not mesh["shell"].open_sessions
        return rollout, mesh


def ended(rollout: Rollout) -> tuple[str, str]:
    return Outcome.Name(rollout.outcome).removeprefix("OUTCOME_"), rollout.termination_reason


def bash(command: str, call_id: str = "") -> Any:
    return function_call("bash", {"command": command}, call_id)


def kinds(rollout: Rollout) -> list[str]:
    return [item.WhichOneof("kind") or "" for item in rollout.response.output]


LOOK, DONE = make_response("I look.", bash("ls")), make_response(bash(SUBMIT))
TEXT = "I do not know."

ENDS: dict[str, tuple[list[Any], tuple[str, str], int]] = {
    "handed in": ([LOOK, DONE], ("COMPLETED", "submitted"), 2),
    "handed in at once": ([DONE], ("COMPLETED", "submitted"), 1),
    "a failed handing in goes on": (
        [make_response(bash(SUBMIT + " fails")), DONE],
        ("COMPLETED", "submitted"),
        2,
    ),
    "the limit of steps": ([LOOK, LOOK, LOOK], ("TRUNCATED_TURNS", "step_limit"), 3),
    "no calls": ([TEXT, TEXT], ("EMPTY", "collapse_limit"), 2),
    "nothing": ([make_response(), make_response(reasoning("hm"))], ("EMPTY", "collapse_limit"), 2),
    "no call, then one, then none": ([TEXT, LOOK, TEXT], ("TRUNCATED_TURNS", "step_limit"), 3),
    "another tool": (
        [make_response(function_call("python", {"code": "1"})), TEXT],
        ("EMPTY", "collapse_limit"),
        2,
    ),
    "broken arguments": (
        [make_response(function_call("bash", "{")), make_response(function_call("bash", '{"cmd": 1}'))],
        ("EMPTY", "collapse_limit"),
        2,
    ),
    "cut off": (
        [LOOK, make_response("I", incomplete="max_output_tokens")],
        ("TRUNCATED_TOKENS", "max_output_tokens"),
        2,
    ),
    "a cut-off call is not run": (
        [make_response(bash("ls"), incomplete="max_output_tokens")],
        ("TRUNCATED_TOKENS", "max_output_tokens"),
        1,
    ),
    "the model fails": ([LOOK, error("UPSTREAM_UNAVAILABLE", "down")], ("MODEL_FAILED", "error"), 1),
    "the container fails": ([make_response(bash("break"))], ("ENV_FAILED", "error"), 1),
}


@needs_package
@pytest.mark.parametrize("name", ENDS)
async def test_ends(name: str) -> None:
    script, end, calls = ENDS[name]
    rollout, _ = await run(script, step_limit=3, collapse_limit=2)
    assert (ended(rollout), rollout.model_call_count) == (end, calls)
    assert rollout.HasField("reward") is (end[1] != "error")


@needs_package
async def test_the_conversation_begins_with_the_packages_prompts() -> None:
    rollout, mesh = await run([LOOK, DONE])
    model: Any = mesh["model"].server
    first, second = (request.params for request in model.requests)
    system, user = (item.message for item in first.input_items.items)
    assert (system.role, user.role) == ("system", "user")
    assert "The door {{squeaks}}." in user.content_text  # a row's text is no template
    assert [tool.function.name for tool in first.tools] == ["bash"]
    assert "command" in first.tools[0].function.parameters_json
    assert [item.WhichOneof("kind") for item in second.input_items.items] == [
        *("message", "message"),
        *("message", "function_call", "function_call_output"),
    ]
    # What was asked stands in the request, what happened in the answer.
    assert kinds(rollout) == ["message", *("function_call", "function_call_output") * 2]


@needs_package
async def test_a_row_may_bring_its_own_prompt_and_tools() -> None:
    tools = [
        {
            "type": "function",
            "name": "bash",
            "description": "Mine.",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
                "additionalProperties": False,
            },
        }
    ]
    for given in ("Repair it.", [{"role": "user", "content": "Repair it."}]):
        row = ROW | {"responses_create_params": {"input": given, "tools": tools}}
        _, mesh = await run([TEXT, DONE], row=row)
        model: Any = mesh["model"].server
        first, second = (request.params for request in model.requests)
        texts = (
            [first.input_text]
            if first.input_text
            else [i.message.content_text for i in first.input_items.items]
        )
        assert texts == ["Repair it."]
        assert first.tools[0].function.description == "Mine."
        assert [item.message.role for item in second.input_items.items] == ["user", "assistant", "user"]


@needs_package
async def test_a_useless_answer_is_told_to_the_model() -> None:
    rollout, mesh = await run([TEXT, make_response(function_call("bash", "{")), DONE])
    assert ended(rollout) == ("COMPLETED", "submitted")
    model: Any = mesh["model"].server
    told = model.requests[1].params.input_items.items[-1].message
    assert told.role == "user"
    assert "no tool call" in told.content_text
    assert [item.WhichOneof("kind") for item in model.requests[2].params.input_items.items[-3:]] == [
        *("function_call", "function_call_output", "message"),
    ]
    assert rollout.response.output[1].message.role == "user"


@needs_package
async def test_calls_of_one_answer_run_one_after_the_other() -> None:
    script = [make_response(bash("a"), bash("b"), function_call("nothing", {})), DONE]
    rollout, mesh = await run(script)
    shell: Any = mesh["shell"].server
    assert shell.commands == ["a", "b", SUBMIT]
    assert rollout.tool_error_count == 1
    assert (
        len(
            {
                item.function_call_output.call_id
                for item in rollout.response.output
                if item.HasField("function_call_output")
            }
        )
        == 4
    )


@needs_package
async def test_nothing_is_run_after_handing_in() -> None:
    _, mesh = await run([make_response(bash(SUBMIT), bash("later"))])
    shell: Any = mesh["shell"].server
    assert shell.commands == [SUBMIT]


@needs_package
async def test_token_ids_are_recorded() -> None:
    script = [
        make_response(bash("ls"), tokens=([1, 2], [3, 4])),
        make_response(bash(SUBMIT), tokens=([1, 2, 3, 4, 5], [6])),
    ]
    rollout, mesh = await run(script, options={"return_tokens": True})
    model: Any = mesh["model"].server
    assert [request.return_tokens for request in model.requests] == [True, True]
    assert rollout.HasField("trajectory")


@needs_package
async def test_cancelling_ends_the_thread_and_closes_the_session() -> None:
    asked = asyncio.Event()

    async def never(_params: Any, _call: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with start_servers(servers(never), transport="in-process") as mesh:
        rollout = asyncio.ensure_future(mesh.run_rollout("agent", ROW))
        await asked.wait()
        assert any(thread.name.startswith("agent") for thread in threading.enumerate())
        rollout.cancel()
        with pytest.raises((asyncio.CancelledError, GymdError)):
            await rollout
        await eventually(lambda: not mesh["shell"].open_sessions, "the session is closed")
    await eventually(
        lambda: not any(thread.name.startswith("agent") for thread in threading.enumerate()),
        "the thread ended",
    )


@needs_package
async def test_a_deadline_ends_a_command_that_hangs() -> None:
    deadlines = Deadlines()
    deadlines.rollout.FromMilliseconds(500)
    rollout, mesh = await run([make_response(bash("hang"))], options={"deadlines": deadlines})
    assert ended(rollout) == ("TIMED_OUT", "deadline")
    assert not rollout.HasField("reward")
    shell: Any = mesh["shell"].server
    assert shell.commands == ["hang"]


@needs_package
async def test_many_rollouts_wait_for_their_threads() -> None:
    async def answer(params: Any, _call: Any) -> Any:
        await asyncio.sleep(0.01)
        return make_response(bash(SUBMIT)) if len(params.input_items.items) > 2 else make_response(bash("ls"))

    async with start_servers(servers(answer, concurrency=4), transport="in-process") as mesh:
        rows = [ROW | {"problem_statement": f"Report {number}."} for number in range(32)]
        rollouts = await asyncio.gather(*(mesh.run_rollout("agent", row) for row in rows))
        assert {ended(rollout) for rollout in rollouts} == {("COMPLETED", "submitted")}
        assert sum(thread.name.startswith("agent") for thread in threading.enumerate()) <= 4
        model: Any = mesh["model"].server
        asked = [request.params.input_items.items[1].message.content_text for request in model.requests]
        for number in range(32):  # nobody got the report of another
            assert sum(f"Report {number}." in text for text in asked) == 2


@needs_package
async def test_run_golden_hands_in_the_rows_patch() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-$HOME `id` 'END'\n+ü\n"
    rollout, mesh = await run([], row=ROW | {"patch": patch}, run_golden=True)
    assert ended(rollout) == ("COMPLETED", "golden")
    assert kinds(rollout) == ["function_call", "function_call_output"]
    shell: Any = mesh["shell"].server
    command = ("bash", "-c", shell.commands[0])
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert printed.decode() == f"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n{patch}"


@needs_package
@pytest.mark.parametrize(
    ("row", "config", "text"),
    [
        ({"responses_create_params": {"input": []}}, {}, "neither input nor problem_statement"),
        (ROW | {"patch": ""}, {"run_golden": True}, "no patch"),
    ],
)
async def test_rows_that_say_too_little(row: Any, config: Any, text: str) -> None:
    rollout, _ = await run([], row=row, **config)
    assert text in rollout.failure.status.message
    assert not rollout.HasField("reward")


@needs_package
async def test_own_prompts(tmp_path: Path) -> None:
    file = tmp_path / "prompts.yaml"
    texts = {"system_template": "S", "instance_template": "I: {{task}}"}
    file.write_text(json.dumps({"agent": texts, "model": {"format_error_template": "E: {{error}}"}}))
    _, mesh = await run([TEXT, DONE], mini_swe_config=str(file))
    model: Any = mesh["model"].server
    texts_asked = [item.message.content_text for item in model.requests[1].params.input_items.items]
    assert texts_asked[:2] == ["S", "I: The door {{squeaks}}."]
    assert texts_asked[-1] == "E: There is no tool call in your answer."


@needs_package
async def test_mistakes_in_the_configuration_are_told_at_start(tmp_path: Path) -> None:
    file = tmp_path / "prompts.yaml"
    file.write_text("agent: {}\n")
    agent = {"model_server": {"name": "m"}, "resources_server": {"name": "r"}}
    for path, text in ((str(file), "system_template"), (str(tmp_path / "no.yaml"), "no.yaml")):
        starting = start_server(MiniSweAgent, agent | {"mini_swe_config": path})
        with pytest.raises(GymdError, match=text):
            await starting.__aenter__()


async def test_without_the_package_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "minisweagent", None)
    agent = {"model_server": {"name": "m"}, "resources_server": {"name": "r"}}
    with pytest.raises(GymdError, match="pip install mini-swe-agent"):
        await start_server(MiniSweAgent, agent).__aenter__()


def test_deadlines_follow_the_containers_limits() -> None:
    block: dict[str, Any] = {"model_server": {"name": "m"}, "resources_server": {"name": "r"}}
    parsed: Any = MiniSweAgent.Config.parse(block)
    assert (parsed.tool_timeout_s, parsed.verify_timeout_s) == (660, 3660)
    parsed = MiniSweAgent.Config.parse(
        block | {"step_timeout": 30, "eval_timeout": 60, "verify_timeout_s": 7}
    )
    assert (parsed.tool_timeout_s, parsed.verify_timeout_s) == (90, 7)


async def test_a_stopped_bridge_refuses_calls() -> None:
    bridge = Bridge(asyncio.get_running_loop())

    async def one() -> int:
        return 1

    assert await asyncio.to_thread(bridge.call, one()) == 1
    bridge.stop()
    with pytest.raises(Stopped):
        await asyncio.to_thread(bridge.call, one())


async def test_another_resources_server_is_needed() -> None:
    starting = start_server(MiniSweAgent, {"model_server": {"name": "m"}})
    await expect_error("INVALID_REQUEST", starting.__aenter__(), "no resources_server")


# ---- with the environment itself


@needs_package
@pytest.mark.parametrize("golden", [True, False])
async def test_with_swe(golden: bool) -> None:
    try:
        Sandbox.open()
    except GymdError as why:
        pytest.skip(str(why))
    examples = HERE.parents[2] / "resources/swe/data/example.jsonl"
    row = json.loads(examples.read_text().splitlines()[0])
    patch = f"git apply - <<'END_OF_TEXT'\n{row['patch']}\nEND_OF_TEXT"
    script = [make_response(bash(patch)), make_response(bash("git diff > patch.txt")), DONE]
    config = {"model_server": {"name": "model"}, "resources_server": {"name": "swe"}, "run_golden": golden}
    environment = (SoftwareEngineering, {"runtime": "bubblewrap"})
    model = (FakeModel, {"script": [] if golden else script})
    running: Any = {"model": model, "swe": environment, "agent": (MiniSweAgent, config)}
    async with start_servers(running) as mesh:
        rollout = await mesh.run_rollout("agent", row)
        assert ended(rollout) == ("COMPLETED", "golden" if golden else "submitted")
        assert rollout.reward.value == 1.0
        assert not mesh["swe"].open_sessions

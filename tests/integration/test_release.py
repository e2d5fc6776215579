"""Released means released: a cancel on the stream ends whatever a rollout is using, each in its real form."""

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from gymapi.v1 import rollout_service_pb2 as pb
from gymapi.v1.rollout_pb2 import Outcome, Stage
from gymd.client.rows import make_task, parse_row
from gymd.config import ServerSpec
from gymd.errors import GymdError
from gymd.sdk.sandbox import Sandbox
from gymd.sdk.testing import eventually
from tests.fakes.mesh import running
from tests.fakes.openai_backend import Answer, Backend, Recorded, openai_backend, response_call, response_text

BOUND_S = 2.0
"""Each takes some milliseconds; this is for a machine that does much else."""
BENCH = '''
import asyncio

from gymd.sdk import ResourcesServer, tool


class Bench(ResourcesServer):
    @tool
    async def look(self) -> str:
        """Look."""
        print("looking", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            print("looks no more", flush=True)

    async def verify(self) -> float:
        return 1.0
'''
ROWS: dict[str, dict[str, Any]] = {
    "model": {},
    "tool": {},
    "sandbox": {"verifier_metadata": {"unit_tests": {"inputs": ["1"], "outputs": ["1"], "fn_name": None}}},
    "judge": {"question": "Who?", "expected_answer": "Nobody"},
}
"""Where each rollout hangs; the rest of its row."""
STAGES = {
    "model": Stage.STAGE_MODEL,
    "tool": Stage.STAGE_TOOL,
    "sandbox": Stage.STAGE_VERIFY,
    "judge": Stage.STAGE_VERIFY,
}


def endpoint(request: Recorded) -> Answer:
    """The policy answers as the task says; it hangs where that is `model`, and as the referee."""
    text = json.dumps(request.json["input"])
    if request.json["model"] == "referee" or "model" in text:
        return Answer(hang=True)
    if "tool" in text:
        return Answer(json=response_call("look"))
    return Answer(json=response_text("```python\nimport time\ntime.sleep(60)\n```"))


def servers(folder: Path, url: str) -> list[ServerSpec]:
    def model(name: str) -> ServerSpec:
        config = {"openai_base_url": url, "openai_api_key": "k", "openai_model": name}
        return ServerSpec(name=name, kind="model", implementation="openai_model", config=config)

    def agent(name: str, resources: str) -> ServerSpec:
        peers = {"model_server": {"name": "policy"}, "resources_server": {"name": resources}}
        return ServerSpec(name=name, kind="agent", implementation="simple_agent", config=peers)

    (folder / "bench.py").write_text(BENCH)
    judged = {"judge_model_server": {"name": "referee"}, "judge_responses_create_params": {"input": []}}
    return [
        model("policy"),
        model("referee"),
        ServerSpec(
            name="bench", kind="resources", implementation="bench", entrypoint=f"{folder}/bench.py:Bench"
        ),
        ServerSpec(
            name="code", kind="resources", implementation="code_gen", config={"unit_test_timeout_secs": 60}
        ),
        ServerSpec(name="short", kind="resources", implementation="equivalence_llm_judge", config=judged),
        *(agent("model", "bench"), agent("tool", "bench"), agent("sandbox", "code"), agent("judge", "short")),
    ]


def submissions() -> list[pb.TaskSubmission]:
    found = []
    for name, fields in ROWS.items():
        row = {"responses_create_params": {"input": name}, "agent_ref": {"name": name}, **fields}
        found.append(pb.TaskSubmission(task_id=name, task=make_task(parse_row(json.dumps(row)))))
    return found


def sandboxes() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE and "bwrap" in child.name()]


def both_hang(backend: Backend) -> bool:
    return backend.in_flight == 2


@pytest.mark.timeout(90)
async def test_a_cancel_ends_model_call_tool_sandbox_and_judge(tmp_path: Path) -> None:
    try:
        Sandbox.open()
    except GymdError as failure:
        pytest.skip(str(failure))
    async with openai_backend() as backend, running(tmp_path, *servers(tmp_path, backend.url)) as mesh:
        backend.default = endpoint
        stream = await mesh.stream().open()
        await stream.submit(*submissions())
        await mesh.logged("bench", "looking")
        await eventually(lambda: both_hang(backend) and sandboxes(), "all four hang", timeout=30)
        await stream.send(cancel=pb.CancelWork(all=True))
        rollouts = {rollout.task_id: rollout for rollout in await stream.until(4)}
        # What the results tell as released is gone by now.
        assert sandboxes() == []
        await mesh.logged("bench", "looks no more")
        await eventually(lambda: backend.in_flight == 0, "the endpoint sees it", timeout=5)
        await stream.finish()
    assert {name: rollout.failure.stage for name, rollout in rollouts.items()} == STAGES
    assert {rollout.outcome for rollout in rollouts.values()} == {Outcome.OUTCOME_CANCELLED}
    spans = [rollout.timing.release_duration.ToMilliseconds() / 1000 for rollout in rollouts.values()]
    assert max(spans) < BOUND_S

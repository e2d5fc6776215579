"""`gymctl rollouts export` of rollouts of a real environment: calls, results and rewards as they were."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gymctl import gymctl

CONFIG = """
config_paths: [example_session_state_mgmt]
policy_model:
  responses_api_models:
    scripted_model: {script: policy.py}
gymd: {listen: "127.0.0.1:0", pool_hosts: 1, grace_s: 0.2}
"""
# Every second rollout counts right.
POLICY = """
import itertools

rollouts = itertools.count()

def answer(request):
    if request.turn:
        return {"text": "Done."}
    call = {"name": "increment_counter", "arguments": {"count": 1 + next(rollouts) % 2}}
    return {"reasoning": "Let me count.", "text": "I count.", "call": call}
"""
TOOL = {
    "type": "function",
    "name": "increment_counter",
    "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
    "strict": False,
}
ROWS = [
    {
        "responses_create_params": {
            "input": f"Add 2 to {start}.",
            "tools": [TOOL],
            "instructions": "Be exact.",
        },
        "agent_ref": {"name": "example_session_state_mgmt_simple_agent"},
        "initial_count": start,
        "expected_count": start + 2,
    }
    for start in (0, 40)
]


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    (tmp_path / "mesh.yaml").write_text(CONFIG)
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    given = ("--input", "in.jsonl", "--output", "out.jsonl", "-c", "mesh.yaml", "--repeats", 4)
    done = await gymctl("rollouts", "collect", *given, "--concurrency", 1, cwd=tmp_path)
    assert done.code == 0, done.err
    return tmp_path


async def export(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = await gymctl("rollouts", "export", "out.jsonl", "--output", "rows.jsonl", *arguments, cwd=folder)
    assert done.code == 0, done.err
    return [json.loads(text) for text in (folder / "rows.jsonl").read_text().splitlines()]


def said(count: int, messages: list[dict[str, Any]], **more: Any) -> None:
    """What the policy and the environment said, word by word."""
    asked, answered, done = messages
    call_id = asked["tool_calls"][0]["id"]
    function = {"name": "increment_counter", "arguments": {"count": count}}
    call = {"id": call_id, "type": "function", "function": function}
    assert asked == {"role": "assistant", "content": "I count.", "tool_calls": [call], **more}
    assert json.loads(answered.pop("content")) == {"success": True}
    assert answered == {"role": "tool", "tool_call_id": call_id, "name": "increment_counter"}
    assert done == {"role": "assistant", "content": "Done."}


async def test_conversations_and_pairs(folder: Path) -> None:
    rows = await export(folder, "--to", "sft", "--min-reward", "1", "--reasoning")
    assert len(rows) == 4
    for row in rows:
        assert [message["role"] for message in row["messages"][:2]] == ["system", "user"]
        assert row["messages"][0]["content"] == "Be exact."
        said(2, row["messages"][2:], reasoning_content="Let me count.")
        assert row["tools"][0]["function"]["parameters"] == TOOL["parameters"]

    pairs = await export(folder, "--to", "dpo", "--overwrite")
    assert sorted(pair["prompt"][1]["content"] for pair in pairs) == ["Add 2 to 0.", "Add 2 to 40."]
    for pair in pairs:
        assert (pair["chosen_reward"], pair["rejected_reward"]) == (1.0, 0.0)
        said(2, pair["chosen"])
        said(1, pair["rejected"])

    assert len(await export(folder, "--to", "dpo", "--pairs", "all", "--overwrite")) == 8

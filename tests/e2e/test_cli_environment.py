"""The environment's own metrics of a collection, with the real daemon, mcqa and a scripted model."""

import json
from pathlib import Path
from typing import Any

from tests.fakes.gymctl import Outcome, gymctl

# An author's agent with labels of its own: those that lead to the resources server are there all the same.
AGENT = '''
from gymservers.agents.simple_agent.server import SimpleAgent


class Labelled(SimpleAgent):
    """Tells something about itself."""

    def labels(self) -> dict[str, str]:
        return {"colour": "green", "resources_server": "overwritten"}
'''

CONFIG = """
config_paths: [mcqa]
labelled_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: labelled.py:Labelled
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
policy_model:
  responses_api_models:
    scripted_model:
      script: answers.py
gymd: {listen: "127.0.0.1:0", pool_hosts: 1, grace_s: 0.2}
"""

# Two of three say A; which ones is counted per question.
ANSWERS = """
import collections
import itertools

_seen = collections.defaultdict(itertools.count)


def answer(request):
    number = next(_seen[request.user_text])
    return {"text": "\\\\boxed{B}" if number % 3 == 1 else "\\\\boxed{A}"}
"""


def prepare(folder: Path) -> None:
    for name, text in {"labelled.py": AGENT, "mesh.yaml": CONFIG, "answers.py": ANSWERS}.items():
        (folder / name).write_text(text)
    rows = [
        {
            "responses_create_params": {"input": f"Question {number}?"},
            "options": [{"A": "one"}, {"B": "other"}],
            "expected_answer": right,
            "agent_ref": {"name": agent},
        }
        for number, (right, agent) in enumerate(
            [("A", "mcqa_simple_agent"), ("B", "mcqa_simple_agent"), ("A", "labelled_agent")]
        )
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


async def collect(folder: Path, *arguments: object) -> Outcome:
    given = ("--input", "in.jsonl", "--output", "out.jsonl", "--concurrency", 1, *arguments)
    return await gymctl("rollouts", "collect", *given, cwd=folder)


def environment(done: Outcome, agent: str) -> Any:
    return done.json["metrics"]["agents"][agent]["environment_metrics"]


async def test_majority_of_mcqa(tmp_path: Path) -> None:
    prepare(tmp_path)
    started = await gymctl("up", "-c", "mesh.yaml", "--detach", cwd=tmp_path)
    assert started.code == 0, started.err
    try:
        done = await collect(tmp_path, "--repeats", 2, "-o", "json")
        assert done.code == 0, done.err
        assert "Warning" not in done.err
        found = environment(done, "mcqa_simple_agent")
        assert found["resources_server"] == "mcqa"
        assert found["metrics"]["count"] == 4
        assert found["metrics"]["majority@2/accuracy"] == 50.0  # ties
        assert found["key_metrics"][0] == "mean_reward"
        assert "majority@2/accuracy" in found["key_metrics"]

        described = await gymctl("servers", "describe", "labelled_agent", "-o", "json", cwd=tmp_path)
        labels = {"colour": "green", "resources_server": "mcqa", "model_server": "policy_model"}
        assert described.json[0]["labels"] == labels

        # The third of each decides; the first two are read from the output.
        done = await collect(tmp_path, "--repeats", 3, "--resume", "-o", "json")
        assert done.code == 0, done.err
        found = environment(done, "mcqa_simple_agent")
        assert found["metrics"]["count"] == 6
        assert found["metrics"]["majority@3/accuracy"] == 50.0  # right where A is, wrong where B is
        assert found["metrics"]["pass@3/accuracy"] == 100.0
        assert environment(done, "labelled_agent")["metrics"]["majority@3/accuracy"] == 100.0
        shown = await collect(tmp_path, "--repeats", 3, "--resume")
        assert "majority@3/accuracy" in shown.out
    finally:
        stopped = await gymctl("down", "--now", cwd=tmp_path)
    assert stopped.code == 0, stopped.err

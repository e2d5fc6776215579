"""Whole rollouts through a daemon: policy, environment and judge in processes of their own."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.rollout_pb2 import Outcome, Rollout, Stage
from gymapi.v1.rollout_service_pb2 import TaskSubmission
from gymd.config import ServerSpec
from gymd.convert import params_from_json
from gymd.errors import from_status_message
from tests.fakes.mesh import RunningMesh, running

pytestmark = pytest.mark.timeout(180)  # four processes start on a machine that may be busy

EQUAL, DIFFERENT = "[[A=B]]", "[[A!=B]]"
# The policy says what it is asked to say; the judge goes by the candidate.
POLICY = [{"when": {"match": "Say (.*)"}, "text": "{1}"}]
JUDGE = [
    {"when": {"contains": "<candidate_answer>\nParis"}, "text": f"The same: {EQUAL}"},
    {"when": {"contains": "<candidate_answer>\nmute"}, "text": "I would rather not say."},
    {"when": {"contains": "<candidate_answer>\nbusy"}, "error": "UPSTREAM_RATE_LIMITED"},
    {"when": {"contains": "<candidate_answer>\nslow"}, "hang": True},
    {"when": {}, "text": f"Not the same: {DIFFERENT}"},
]


def spec(name: str, kind: Any, implementation: str, **config: Any) -> ServerSpec:
    """A server in a process of its own."""
    return ServerSpec(name=name, kind=kind, implementation=implementation, placement="process", config=config)


def specs() -> list[ServerSpec]:
    judging: dict[str, Any] = {
        "judge_model_server": {"name": "judge"},
        "judge_backoff_s": 0.05,
        "judge_timeout_s": 3.0,
        "judge_attempts": 2,
    }
    peers: dict[str, Any] = {"model_server": {"name": "policy"}, "resources_server": {"name": "answers"}}
    return [
        spec("policy", "model", "scripted_model", rules=POLICY),
        spec("judge", "model", "scripted_model", rules=JUDGE),
        spec("answers", "resources", "equivalence_llm_judge", **judging),
        spec("agent", "agent", "simple_agent", **peers),
    ]


async def rollouts(mesh: RunningMesh, *answers: str) -> dict[str, Rollout]:
    """One rollout for each answer that the policy is to give."""
    stream = await mesh.stream().open(default_agent="agent")
    for answer in answers:
        submission = TaskSubmission(task_id=answer)
        submission.task.create_params.CopyFrom(
            params_from_json({"input": [{"role": "user", "content": f"Say {answer}"}]})
        )
        submission.task.fields_json = json.dumps({"expected_answer": "Paris."})
        await stream.submit(submission)
    found = {rollout.task_id: rollout for rollout in await stream.until(len(answers))}
    await stream.finish()
    return found


async def test_a_judge_in_another_process(tmp_path: Path) -> None:
    async with running(tmp_path, *specs()) as mesh:
        found = await rollouts(mesh, "Paris", "Rome", "mute", "busy", "slow")
        for answer, value, label in (("Paris", 1.0, EQUAL), ("Rome", 0.0, DIFFERENT)):
            rollout = found[answer]
            assert (rollout.outcome, rollout.reward.value) == (Outcome.OUTCOME_COMPLETED, value)
            (verdict,) = json.loads(rollout.reward.extras_json)["judge_evaluations"]
            assert (verdict["verdict_label"], verdict["answer"], verdict["attempts"]) == (label, answer, 1)
        for answer, cause in (
            ("mute", "OFF_FORMAT"),
            ("busy", "UPSTREAM_RATE_LIMITED"),
            ("slow", "DEADLINE_EXCEEDED"),
        ):
            rollout = found[answer]
            assert rollout.outcome == Outcome.OUTCOME_VERIFY_FAILED
            assert not rollout.HasField("reward")
            assert rollout.failure.stage == Stage.STAGE_VERIFY
            failure = from_status_message(rollout.failure.status)
            assert (failure.reason_name, failure.metadata["cause"]) == ("JUDGE_FAILED", cause)
            assert failure.metadata["attempts"] == "2"
        assert found["mute"].failure.status.metadata["answer"] == "I would rather not say."

        # Its process dies; the daemon starts another one, and nobody guesses in the meantime.
        (judge,) = await mesh.servers("judge")
        os.kill(judge.pid, signal.SIGKILL)
        await mesh.until(lambda servers: judge.pid not in {server.pid for server in servers})
        again = await rollouts(mesh, "Paris")
        assert again["Paris"].reward.value == 1.0
        (other,) = await mesh.servers("judge")
        assert other.pid != judge.pid

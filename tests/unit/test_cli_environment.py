"""The environments' own metrics: what they are asked, what becomes of the answer, what may go wrong."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymctl.collect import environment
from gymctl.collect.environment import ScoredRollouts, environment_metrics
from gymd.client import RolloutClient
from gymd.errors import LimitReached, NotFound, NotReady, Unimplemented, error
from tests.fakes.daemon import FakeDaemon, rollout, server
from tests.fakes.gymctl import Outcome, gymctl
from tests.fakes.resources import FakeResources

PEERS = {"resources_server": "quiz", "model_server": "m"}


@pytest.fixture
async def quiz() -> AsyncIterator[FakeResources]:
    async with FakeResources("quiz") as one:
        one.metrics = {"mean_reward": 0.5, "majority@2/accuracy": 50.0, "count": 6, "none": None}
        one.key_metrics = ["majority@2/accuracy", "mean_reward", "count", "none", "missing"]
        yield one


@pytest.fixture
async def daemon(quiz: FakeResources) -> AsyncIterator[FakeDaemon]:
    servers = [server("asker", labels=PEERS), server("silent"), quiz.registered()]
    async with FakeDaemon(servers) as one:
        yield one


def write_rows(folder: Path, *agents: str) -> None:
    rows = [
        {"id": n, "responses_create_params": {"input": "?"}, "agent_ref": {"name": agent}}
        for n, agent in enumerate(agents)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


async def collect(daemon: FakeDaemon, folder: Path, *arguments: object) -> Outcome:
    given = ("--input", "in.jsonl", "--output", "out.jsonl", *arguments)
    return await gymctl("rollouts", "collect", *given, address=daemon.address, cwd=folder)


def asked(request: Any) -> dict[tuple[str, int], Any]:
    return {(one.task_id, one.index): one.reward for one in request.rollouts}


async def test_the_resources_server_sees_every_scored_rollout(
    daemon: FakeDaemon, quiz: FakeResources, tmp_path: Path
) -> None:
    write_rows(tmp_path, "asker", "silent", "asker", "asker")
    extras = {"answer": "B", "id": "the verifier's"}

    def answer(one: Any, index: int) -> Any:
        reward = None if one.task_id == "3-0" else float(index)
        return rollout(one, index, reward=reward, extras=extras, components={"format": 1.0})

    daemon.answer = answer
    done = await collect(daemon, tmp_path, "--repeats", 2, "-o", "json")
    assert done.code == 0, done.err
    assert "Warning" not in done.err
    (request,) = quiz.requests
    rewards = asked(request)
    assert set(rewards) == {("0", 0), ("0", 1), ("2", 0), ("2", 1), ("3", 1)}  # 3-0 was not scored
    assert (rewards["2", 0].value, rewards["2", 1].value) == (0.0, 1.0)
    assert dict(rewards["2", 1].components) == {"format": 1.0}
    assert json.loads(rewards["2", 1].extras_json) == extras  # and nothing of the row's own
    agents = done.json["metrics"]["agents"]
    assert agents["asker"]["environment_metrics"] == {
        "resources_server": "quiz",
        "key_metrics": quiz.key_metrics,
        "metrics": quiz.metrics,
    }
    assert agents["silent"]["environment_metrics"] is None
    assert json.loads((tmp_path / "out_aggregate_metrics.json").read_text()) == done.json["metrics"]


async def test_a_resume_counts_what_the_output_holds(
    daemon: FakeDaemon, quiz: FakeResources, tmp_path: Path
) -> None:
    write_rows(tmp_path, "asker", "asker")
    daemon.answer = lambda one, index: rollout(one, index, extras={"answer": one.task_id})
    assert (await collect(daemon, tmp_path)).code == 0
    done = await collect(daemon, tmp_path, "--repeats", 2, "--resume")
    assert done.code == 0, done.err
    assert daemon.sessions[1].submitted == 2
    assert {key: json.loads(one.extras_json)["answer"] for key, one in asked(quiz.requests[1]).items()} == {
        (str(task), index): f"{task}-{index}" for task in range(2) for index in range(2)
    }


async def test_the_key_metrics_are_shown(daemon: FakeDaemon, tmp_path: Path) -> None:
    write_rows(tmp_path, "asker")
    done = await collect(daemon, tmp_path)
    assert done.code == 0
    table = [line.split() for line in done.out.splitlines()[-3:]]
    assert table == [
        ["AGENT", "ENVIRONMENT", "METRIC", "VALUE"],
        ["asker", "majority@2/accuracy", "50.000"],
        ["asker", "count", "6"],
    ]


@pytest.mark.parametrize(
    ("metrics", "failure", "said"),
    [
        (None, None, "quiz does not implement AggregateMetrics"),
        (
            {},
            error("SERVER_CODE_FAILED", "division\nby zero", server="quiz"),
            "quiz failed: division by zero",
        ),
        ("{oops", None, "quiz answered with no JSON"),
        ("[1]", None, "quiz answered with no JSON object"),
    ],
)
async def test_a_server_without_metrics_is_a_warning(
    daemon: FakeDaemon, quiz: FakeResources, tmp_path: Path, metrics: Any, failure: Any, said: str
) -> None:
    quiz.metrics, quiz.failure = metrics, failure
    write_rows(tmp_path, "asker")
    done = await collect(daemon, tmp_path, "-o", "json")
    assert done.code == 0, done.err
    warnings = [line for line in done.err.splitlines() if line.startswith("Warning: ")]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"Warning: no environment metrics of asker: {said}")
    assert done.json["metrics"]["agents"]["asker"]["environment_metrics"] is None


async def test_a_server_that_left_is_a_warning(daemon: FakeDaemon, tmp_path: Path) -> None:
    del daemon.servers[2]
    write_rows(tmp_path, "asker")
    done = await collect(daemon, tmp_path)
    assert done.code == 0
    assert "no environment metrics of asker: quiz failed: no resources server is called quiz" in done.err


async def test_a_run_cut_short_asks_nobody(daemon: FakeDaemon, quiz: FakeResources, tmp_path: Path) -> None:
    write_rows(tmp_path, *["asker"] * 300)
    daemon.die_after = 64
    done = await collect(daemon, tmp_path, "--concurrency", 32)
    assert done.code == 1
    assert "Warning: no environment metrics: the collection did not come to its end" in done.err
    assert not quiz.requests


@pytest.mark.parametrize(("name", "bound"), [("MAX_ROLLOUTS", 3), ("MAX_MIB", 0)])
def test_beyond_the_bounds_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, bound: int
) -> None:
    monkeypatch.setattr(environment, name, bound)
    scored = ScoredRollouts()
    for task in range(5):
        scored.add({"_ng_task_index": task, "reward": 1.0, "rollout": {"agent": "a"}})
    assert scored.is_full
    assert scored.agents() == []
    assert environment_metrics("nobody is asked", scored, stopped=False) == {}
    said = capsys.readouterr().err
    assert said.startswith("Warning: no environment metrics: the output has more than ")
    assert said.endswith("collect fewer rows (--limit) to get them\n")


async def test_the_client_knows_what_can_be_asked(daemon: FakeDaemon, quiz: FakeResources) -> None:
    scored = [ScoredRollout(task_id=str(n), index=0) for n in range(3)]
    async with RolloutClient(daemon.address) as client:
        answer = await client.aggregate_metrics("quiz", iter(scored))
        assert json.loads(answer.metrics_json) == quiz.metrics
        assert list(quiz.requests[0].rollouts) == scored
        with pytest.raises(NotFound, match="no resources server is called nobody"):
            await client.aggregate_metrics("nobody", [])
        daemon.servers[2].capabilities.max_message_bytes = 8
        with pytest.raises(LimitReached, match="quiz takes 8 in one message"):
            await client.aggregate_metrics("quiz", scored)
        daemon.servers[2].ClearField("capabilities")
        quiz.metrics = None
        with pytest.raises(Unimplemented):
            await client.aggregate_metrics("quiz", scored)
        daemon.servers[2].state = server("x", state="UNHEALTHY").state
        with pytest.raises(NotReady, match="quiz is unhealthy"):
            await client.aggregate_metrics("quiz", scored)
    assert len(quiz.requests) == 2

"""What a collection runs, and what it sums up."""

import math
from pathlib import Path

import click
import pytest

from gymctl.collect.metrics import Metrics, pass_at_k
from gymctl.collect.plan import DoneSet, jobs, nearest, parse_overrides
from gymctl.collect.source import Source, check_rows
from gymd.client.rows import parse_row

PARAMS = '"responses_create_params": {"input": "x"}'


def test_overrides_are_json_or_text() -> None:
    found = parse_overrides(["temperature=0.7", "model=m-1", "reasoning.effort=low", "stop=[1]", "t=a=b"])
    assert found == {
        "temperature": 0.7,
        "model": "m-1",
        "reasoning": {"effort": "low"},
        "stop": [1],
        "t": "a=b",
    }
    for bad in ("temperature", "=1"):
        with pytest.raises(click.BadParameter):
            parse_overrides([bad])
    with pytest.raises(click.BadParameter, match="before"):
        parse_overrides(["a=1", "a.b=2"])


def test_jobs_run_row_by_row_and_skip_what_is_done() -> None:
    rows = [parse_row(f"{{{PARAMS}}}") for _ in range(3)]
    done = DoneSet(2)
    assert done.add(0, 1)
    assert not done.add(0, 1)
    assert done.add(2, 0)
    assert [(job.task_index, job.index) for job in jobs(rows, 2, done)] == [(0, 0), (1, 0), (1, 1), (2, 1)]
    assert done.count == 2


def test_rows_may_bring_their_indices() -> None:
    rows = [parse_row(f'{{{PARAMS}, "_ng_task_index": 9, "_ng_rollout_index": {n}}}') for n in (4, 70_000)]
    done = DoneSet(1)
    assert done.add(9, 70_000)
    assert [(job.task_index, job.index, job.task_id) for job in jobs(rows, 1, done)] == [(9, 4, "9-4")]


def test_nearest() -> None:
    assert nearest("simpel_agent", ["simple_agent", "other"]) == "Did you mean simple_agent?"
    assert nearest("zzz", ["simple_agent"]) == "There are: simple_agent."
    assert nearest("zzz", []) == "There is none."


def check(path: Path, **fields: object) -> object:
    settings = {"limit": None, "default_agent": "", "agents": ["a"], "overrides": {}, **fields}
    source = Source(str(path))
    try:
        return check_rows(source, **settings)[0]
    finally:
        source.close()


def test_every_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    lines = [
        f'{{{PARAMS}, "agent_ref": {{"name": "a"}}}}',
        "",
        "{oops",
        f"{{{PARAMS}}}",
        f'{{{PARAMS}, "agent_ref": {{"name": "b"}}}}',
        '{"responses_create_params": {"input": "x", "temperature": 9}, "agent_ref": {"name": "a"}}',
    ]
    path.write_bytes(("\n".join(lines) + "\n").encode() + b'{"a": "\xff"}\n')
    found = check(path)
    assert found.row_count == 6
    assert found.problem_count == 5
    assert [problem.split(":")[1] for problem in found.problems] == ["3", "4", "5", "6", "7"]
    assert "name one with --agent" in found.problems[1]
    assert "no agent is called 'b'" in found.problems[2]
    assert "temperature" in found.problems[3]
    assert "UTF-8" in found.problems[4]


def test_only_the_first_mistakes_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("nope\n" * 500)
    found = check(path)
    assert (len(found.problems), found.problem_count) == (20, 500)
    assert check(path, limit=3).problem_count == 3


def test_a_default_agent_or_an_override_can_make_rows_right(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('\ufeff{"responses_create_params": {"input": "x", "temperature": 9}}\r\n')
    assert check(path, default_agent="a", overrides={"temperature": 1}).problem_count == 0
    assert check(path, default_agent="zz", overrides={"temperature": 1}).problem_count == 1


def test_own_indices_must_be_whole_and_unique(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    row = f'{{{PARAMS}, "agent_ref": {{"name": "a"}}'
    path.write_text(f'{row}, "_ng_task_index": 1}}\n{row}, "_ng_task_index": 1}}\n{row}}}\n')
    found = check(path)
    assert "occurs twice" in found.problems[0]
    assert "all rows or none" in found.problems[1]
    path.write_text(f'{row}, "_ng_rollout_index": 1}}\n')
    assert "without _ng_task_index" in check(path).problems[0]


def test_the_digest_knows_an_input_that_grew(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("a\nb\n")
    first = check(path).digest
    path.write_text("a\n\nb\nc\n")
    source = Source(str(path))
    _, earlier = check_rows(source, limit=None, default_agent="", agents=[], overrides={}, earlier_rows=2)
    source.close()
    assert earlier == first
    assert check(path).digest != first


def test_pass_at_k_is_the_unbiased_estimate() -> None:
    found = pass_at_k([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    assert found["pass@1"] == pytest.approx((1 / 4 + 2 / 4) / 2)
    assert found["pass@2"] == pytest.approx(((1 - 3 / 6) + (1 - 1 / 6)) / 2)
    assert found["pass@4"] == 1.0
    assert found["pass@1[avg-of-4]"] == pytest.approx(3 / 8)
    assert pass_at_k([]) == {}
    assert pass_at_k([[0.5, 0.75], [0.25, 0.0]])["pass@2"] == pytest.approx((0.75 + 0.25) / 2)
    assert set(pass_at_k([[1.0] * 40])) == {
        *(f"pass@{k}" for k in (1, 2, 4, 8, 16, 32, 40)),
        "pass@1[avg-of-40]",
    }


def test_metrics_per_agent() -> None:
    metrics = Metrics()
    for index, reward in enumerate((0.0, 1.0, 1.0)):
        metrics.add(
            {
                "_ng_task_index": 0,
                "_ng_rollout_index": index,
                "reward": reward,
                "reward_components": {"format": 1.0},
                "score": index,
                "response": {"usage": {"input_tokens": 10, "output_tokens": None}},
                "rollout": {
                    "agent": "a",
                    "outcome": "completed",
                    "timing": {"seconds": 0.5},
                    "model_calls": 2,
                },
            }
        )
    metrics.add({"agent_ref": {"name": "b"}, "rollout": {"outcome": "empty"}})
    agents = metrics.document()["agents"]
    assert agents["a"]["rollouts"] == 3
    assert agents["a"]["reward"]["mean"] == pytest.approx(2 / 3)
    assert agents["a"]["reward"]["std"] == pytest.approx(math.sqrt(1 / 3))
    assert agents["a"]["fields"]["score"]["median"] == 1
    assert agents["a"]["fields"]["usage/input_tokens"]["mean"] == 10
    assert "usage/output_tokens" not in agents["a"]["fields"]
    assert agents["a"]["fields"]["reward_components/format"]["max"] == 1
    assert agents["b"] == {
        "rollouts": 1,
        "outcomes": {"empty": 1},
        "scored_rollouts": 0,
        "scored_tasks": 0,
        "reward": None,
        "fields": {},
    }
    assert metrics.mean_reward == pytest.approx(2 / 3)


def test_metrics_without_groups_need_no_place_per_task() -> None:
    metrics = Metrics(grouped=False)
    for task in range(4):
        metrics.add({"_ng_task_index": task, "reward": float(task % 2), "agent_ref": {"name": "a"}})
    agent = metrics.document()["agents"]["a"]
    assert agent["pass@1"] == 0.5
    assert agent["scored_tasks"] == 4
    assert len(metrics._agents["a"].rewards) == 1

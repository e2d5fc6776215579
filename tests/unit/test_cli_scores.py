"""`gymctl rollouts profile` and `aggregate` on files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gymctl import gymctl


def line(task: int, index: int, reward: float | None, *, agent: str = "a", **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "responses_create_params": {"input": [{"role": "user", "content": f"Question {task}?"}]},
        "agent_ref": {"name": agent},
        "_ng_task_index": task,
        "_ng_rollout_index": index,
        "rollout": {"agent": agent, "outcome": "completed", "task_index": task},
        **more,
    }
    if reward is not None:
        made["reward"] = reward
    return made


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


class TestProfile:
    async def test_of_each_task(self, tmp_path: Path) -> None:
        rewards = {0: (0.0, 1.0, 1.0, 0.0), 1: (1.0,) * 4, 2: (0.0,) * 4}
        lines = [line(task, index, value) for task in rewards for index, value in enumerate(rewards[task])]
        write(tmp_path / "r.jsonl", *lines, line(2, 4, None))
        done = await gymctl("rollouts", "profile", "r.jsonl", "-o", "json", cwd=tmp_path)
        assert done.code == 0, done.err
        assert done.json["summary"] == {
            "tasks": 3,
            "scored_tasks": 3,
            "rollouts": 13,
            "unscored_rollouts": 1,
            "always_right": 1,
            "always_wrong": 1,
            "mixed": 1,
            "mean": 0.5,
        }
        assert [task["task_index"] for task in done.json["tasks"]] == [2, 0, 1]
        mixed = done.json["tasks"][1]
        assert {name: mixed[name] for name in ("mean", "min", "max", "median", "scored")} == {
            "mean": 0.5,
            "min": 0.0,
            "max": 1.0,
            "median": 0.5,
            "scored": 4,
        }
        assert mixed["std"] == pytest.approx(0.57735, abs=1e-5)
        assert mixed["pass@1"] == 0.5
        assert mixed["pass@2"] == pytest.approx(1 - 1 / 6)
        assert mixed["pass@4"] == 1.0
        assert mixed["question"] == "Question 0?"

    async def test_the_table_and_the_file(self, tmp_path: Path) -> None:
        write(tmp_path / "r.jsonl", *(line(task, 0, task / 10) for task in range(5)), line(5, 0, None))
        arguments = ("--sort", "mean", "--descending", "--limit", 2, "--output", "tasks.jsonl")
        done = await gymctl("rollouts", "profile", "r.jsonl", *arguments, cwd=tmp_path)
        assert done.code == 0, done.err
        assert "Question 4?" in done.out
        assert "Question 2?" not in done.out
        assert "... and 4 more tasks" in done.err
        tasks = [json.loads(text) for text in (tmp_path / "tasks.jsonl").read_text().splitlines()]
        assert [task["task_index"] for task in tasks] == [4, 3, 2, 1, 0, 5]
        assert tasks[-1]["mean"] is None

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ("{", "r.jsonl:2: no JSON"),
            ("[]", "r.jsonl:2: no JSON object"),
            ('{"reward": NaN}', "r.jsonl:2: no JSON"),
            ('{"_ng_task_index": "x"}', "r.jsonl:2: _ng_task_index is no whole number from 0"),
            ('{"agent_ref": "mcqa"}', "r.jsonl:2: agent_ref is no object"),
        ],
    )
    async def test_a_bad_line_is_named(self, tmp_path: Path, content: str, told: str) -> None:
        path = write(tmp_path / "r.jsonl", line(0, 0, 1.0))
        path.write_text(path.read_text() + content + "\n")
        done = await gymctl("rollouts", "profile", "r.jsonl", cwd=tmp_path)
        assert done.code == 1
        assert told in done.err

    async def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        done = await gymctl("rollouts", "profile", "nowhere.jsonl", cwd=tmp_path)
        assert (done.code, "there is no file nowhere.jsonl" in done.err) == (1, True)

    async def test_half_a_surrogate_pair_is_read(self, tmp_path: Path) -> None:
        params = {"input": [{"role": "user", "content": "\ud83d?"}]}
        write(tmp_path / "r.jsonl", line(0, 0, 1.0, responses_create_params=params))
        done = await gymctl("rollouts", "profile", "r.jsonl", "-o", "json", cwd=tmp_path)
        assert done.code == 0, done.err
        assert done.json["tasks"][0]["question"] == "??"


@pytest.mark.parametrize(
    ("command", "read", "output"),
    [
        ("profile", "r.jsonl", "r.jsonl"),
        ("aggregate", "r.jsonl", "r.jsonl"),
        ("reverify", "r_failures.jsonl", "r.jsonl"),  # its own failures would go there
    ],
)
async def test_what_is_read_is_not_written(tmp_path: Path, command: str, read: str, output: str) -> None:
    path = write(tmp_path / read, line(0, 0, 1.0))
    before = path.read_bytes()
    done = await gymctl("rollouts", command, read, "--output", output, cwd=tmp_path)
    assert (done.code, "one of the files to read" in done.err) == (1, True)
    assert path.read_bytes() == before


class TestAggregate:
    async def test_shards_of_one_collection(self, tmp_path: Path) -> None:
        write(tmp_path / "1.jsonl", line(0, 0, 1.0), line(0, 1, 0.0), line(1, 0, 1.0, agent="b"))
        write(tmp_path / "2.jsonl", line(0, 1, 0.0), line(2, 0, 0.5), line(2, 1, 0.0))
        given = ("1.jsonl", "2.jsonl", "--output", "m.json", "--merge", "all.jsonl", "-o", "json")
        done = await gymctl("rollouts", "aggregate", *given, cwd=tmp_path)
        assert done.code == 0, done.err
        assert (done.json["rollouts"], done.json["doubles"]) == (5, 1)
        agents = done.json["metrics"]["agents"]
        assert agents["a"]["reward"]["mean"] == 0.375
        assert (agents["a"]["scored_rollouts"], agents["a"]["scored_tasks"]) == (4, 2)
        assert agents["b"]["reward"]["mean"] == 1.0
        assert json.loads((tmp_path / "m.json").read_text())["agents"] == agents
        merged = [json.loads(text) for text in (tmp_path / "all.jsonl").read_text().splitlines()]
        assert [(one["_ng_task_index"], one["_ng_rollout_index"]) for one in merged] == [
            (0, 0),
            (0, 1),
            (1, 0),
            (2, 0),
            (2, 1),
        ]
        assert "No daemon runs" in done.err

    async def test_two_rollouts_with_one_name(self, tmp_path: Path) -> None:
        write(tmp_path / "1.jsonl", line(0, 0, 1.0))
        write(tmp_path / "2.jsonl", line(0, 0, 0.0), line(3, 0, 0.0))
        done = await gymctl("rollouts", "aggregate", "1.jsonl", "2.jsonl", cwd=tmp_path)
        assert done.code == 1
        assert "2.jsonl:1 and 1.jsonl:1 are both rollout 0 of task 0 (a)" in done.err
        assert "--separate" in done.err
        given = ("1.jsonl", "2.jsonl", "--separate", "--merge", "all.jsonl", "-o", "json")
        done = await gymctl("rollouts", "aggregate", *given, cwd=tmp_path)
        assert done.json["metrics"]["agents"]["a"]["scored_tasks"] == 3
        merged = [json.loads(text) for text in (tmp_path / "all.jsonl").read_text().splitlines()]
        assert [one["_ng_task_index"] for one in merged] == [0, 1, 4]
        assert [one["rollout"]["task_index"] for one in merged] == [0, 1, 4]

    async def test_nothing_is_overwritten_unasked(self, tmp_path: Path) -> None:
        write(tmp_path / "1.jsonl", line(0, 0, 1.0))
        (tmp_path / "all.jsonl").write_text("mine")
        done = await gymctl("rollouts", "aggregate", "1.jsonl", "--merge", "all.jsonl", cwd=tmp_path)
        assert (done.code, "--overwrite" in done.err) == (1, True)
        done = await gymctl(
            "rollouts", "aggregate", "1.jsonl", "--merge", "1.jsonl", "--overwrite", cwd=tmp_path
        )
        assert (done.code, "one of the files to read" in done.err) == (1, True)
        assert (tmp_path / "all.jsonl").read_text() == "mine"

"""What `gymctl env test` finds wrong in an environment's files: one mistake at a time in a sound one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gymctl.env.checks import check_environment, example_fields, resolve
from gymctl.env.environment import Environment, find_environment, read_environment
from gymctl.env.metrics import example_metrics
from gymctl.errors import CliError
from gymd.config import builtin_names
from gymd.sdk.describe import describe
from gymd.sdk.host import ServerBlock
from tests.fakes.environments import make_environment

CHECKS = ["files", "config", "data", "metrics", "rollouts", "conflicts", "readme"]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A sound environment, its example files included."""
    made = make_environment(tmp_path)
    rollouts = [
        {
            **row,
            "_ng_task_index": number,
            "_ng_rollout_index": 0,
            "response": {},
            "reward": 1.0,
            "rollout": {},
        }
        for number, row in enumerate(rows_of(made))
    ]
    write_lines(made.path("data/example_rollouts.jsonl"), rollouts)
    made.path("data/example_metrics.json").write_text(json.dumps(example_metrics(made, None)))
    return made


def rows_of(environment: Environment, name: str = "example") -> list[Any]:
    return [json.loads(line) for line in environment.path(f"data/{name}.jsonl").read_text().splitlines()]


def write_lines(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def problems(environment: Environment) -> dict[str, list[str]]:
    """The checks with problems."""
    environment = read_environment(environment.folder, agents=True)
    config, mistakes = resolve(environment)
    block = ServerBlock(
        environment.instance,
        environment.kind,
        environment.implementation,
        environment.entrypoint,
        dict(config),
    )
    found = check_environment(environment, describe(block, example_fields(environment)), mistakes)
    looks = CHECKS if environment.kind == "resources" else ["files", "config", "readme"]
    assert [check.name for check in found] == looks
    return {check.name: check.problems for check in found if check.problems}


def test_a_sound_environment_has_no_problem(environment: Environment) -> None:
    assert problems(environment) == {}


@pytest.mark.parametrize("name", ["README.md", "requirements.txt", "data/example_answers.yaml"])
def test_a_missing_file(environment: Environment, name: str) -> None:
    environment.path(name).unlink()
    assert problems(environment) == {"files": [f"{name} is missing"]}


def test_no_tests(environment: Environment) -> None:
    environment.path("tests/test_shop_prices.py").unlink()
    assert problems(environment) == {"files": ["tests/ has no test_*.py"]}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("      reward: 1.0 if", "      rewrd: 1.0 if", "shop_prices needs `reward`, in one line"),
        ("domain: other", "domain: ''", "needs `domain`"),
        (
            "name: shop_prices\n      model_server",
            "name: mcqa\n      model_server",
            "no agent names shop_prices",
        ),
        ("data/example.jsonl", "data/examples.jsonl", "a dataset of type example"),
        ("license: Apache 2.0", "num_repeats: 1", "the dataset 'example' needs `license`"),
        ("license: TBD", "license: Beerware", "Beerware"),
        ("verified: false", "verified: false\n      pricess: 1", "pricess: no such key"),
        ("server.py:Shop", "server.py:Stop", "has no class StopPricesEnvironment"),
    ],
)
def test_configuration(environment: Environment, old: str, new: str, problem: str) -> None:
    text = environment.config.read_text()
    assert old in text
    environment.config.write_text(text.replace(old, new))
    assert problem in "\n".join(problems(environment)["config"])


def test_answers_that_are_no_configuration(environment: Environment) -> None:
    environment.path("data/example_answers.yaml").write_text("policy_model: {responses_api_model: {}}\n")
    assert "policy_model" in "\n".join(problems(environment)["config"])


def edit_first(change: Callable[[Any], Any]) -> Callable[[list[Any]], None]:
    def edit(rows: list[Any]) -> None:
        change(rows[0])

    return edit


def params(row: Any) -> Any:
    return row["responses_create_params"]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda rows: rows.pop(), "data/example.jsonl has 4 rows; it must have 5"),
        (edit_first(lambda row: row.pop("expected_number")), "example.jsonl:1: the task's fields do not fit"),
        (edit_first(lambda row: params(row).pop("input")), "responses_create_params.input: missing"),
        (edit_first(lambda row: params(row).update(temprature=1)), "temprature: unknown parameter"),
        (edit_first(lambda row: row.update(agent_ref={"name": "x"})), "agent_ref is not for files"),
        (edit_first(lambda row: params(row).pop("tools")), "the server's tool get_price is missing"),
        (edit_first(lambda row: params(row).update(tools="x")), "the server's tool get_price is missing"),
        (
            edit_first(lambda row: params(row)["tools"].append({"type": "function", "name": "fly"})),
            "tools has 'fly', which the server does not have",
        ),
        (
            edit_first(lambda row: params(row)["tools"][0].update(description="Other.", strict=False)),
            "the tool get_price differs from the server's in description, strict",
        ),
    ],
)
def test_rows(environment: Environment, edit: Callable[[list[Any]], None], problem: str) -> None:
    rows = rows_of(environment)
    edit(rows)
    write_lines(environment.path("data/example.jsonl"), rows)
    assert problem in "\n".join(problems(environment)["data"])


def test_lines_that_are_no_rows(environment: Environment) -> None:
    path = environment.path("data/example.jsonl")
    path.write_text("\n{broken\n[]\n" + path.read_text())
    found = problems(environment)["data"]
    assert found[0] == "data/example.jsonl has 7 rows; it must have 5"
    assert "data/example.jsonl:2: the line is no valid JSON" in found[1]
    assert "data/example.jsonl:3: the line is no JSON object" in found[2]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda rows: rows.pop(), "has 4 rollouts of 5 rows"),
        (edit_first(lambda row: row.pop("reward")), "example_rollouts.jsonl:1: no reward"),
        (edit_first(lambda row: row.update(reward=None)), ":1: no reward"),
        (edit_first(lambda row: row.update(reward=True)), ":1: no reward"),
        (edit_first(lambda row: row.pop("response")), ":1: no response"),
        (edit_first(lambda row: row.update(_ng_task_index=1)), ":2: a second rollout of row 2"),
        (edit_first(lambda row: row.update(_ng_task_index=5)), ":1: _ng_task_index names no row"),
        (edit_first(lambda row: row.update(expected_number=8)), ":1: expected_number is not that of row 1"),
        (
            edit_first(lambda row: params(row)["tools"][0].update(strict=False)),
            ":1: responses_create_params is not that of row 1",
        ),
    ],
)
def test_rollouts(environment: Environment, edit: Callable[[list[Any]], None], problem: str) -> None:
    rollouts = rows_of(environment, "example_rollouts")
    edit(rollouts)
    write_lines(environment.path("data/example_rollouts.jsonl"), rollouts)
    found = problems(environment)
    assert list(found) == ["rollouts"]
    assert problem in "\n".join(found["rollouts"])
    assert "make it anew: gymctl env examples" in found["rollouts"][-1]


def test_a_verdict_may_hide_a_field_of_the_row(environment: Environment) -> None:
    """Extras of the verifier stand in a rollout under their own names, which the rollout says."""
    rollouts = rows_of(environment, "example_rollouts")
    for rollout in rollouts:
        rollout.update(
            expected_number="as the verifier read it", rollout={"reward_extras": ["expected_number"]}
        )
    write_lines(environment.path("data/example_rollouts.jsonl"), rollouts)
    assert problems(environment) == {}


def test_no_rollouts(environment: Environment) -> None:
    environment.path("data/example_rollouts.jsonl").unlink()
    (problem,) = problems(environment)["rollouts"]
    assert "gymctl env examples" in problem


def test_metrics(environment: Environment) -> None:
    path = environment.path("data/example_metrics.json")
    metrics = json.loads(path.read_text())
    assert (metrics["name"], metrics["Number of examples"]) == ("example", 5)
    # Counted with a tokenizer that is not at hand: nothing to compare with.
    path.write_text(json.dumps({**metrics, "Tokenizer": "x", "Input length in tokens": {"Average": 1.0}}))
    assert problems(environment) == {}
    metrics["expected_number"]["Max"] = 25
    path.write_text(json.dumps(metrics))
    found = problems(environment)["metrics"]
    assert found[0] == "data/example_metrics.json: expected_number.Max: was 25, is 24"
    assert "make it anew: gymctl env examples" in found[1]
    path.write_text("{")
    assert "the file is no JSON" in problems(environment)["metrics"][0]
    path.unlink()
    (problem,) = problems(environment)["metrics"]
    assert "gymctl env examples" in problem


def test_conflicts(environment: Environment) -> None:
    environment.path("data/example_metrics_conflict.json").touch()
    (problem,) = problems(environment)["conflicts"]
    assert problem.startswith("data/example_metrics_conflict.json")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("**What it teaches:**", "What it teaches:"),
        ("| Fields of a row", "| Rows"),
        ("| Tools", "| Instruments"),
        ("| Reward", "| Score"),
        ("| Configuration", "| Keys"),
        ("**Data and licence:**", "**Data:**"),
        ("## Differences from NeMo Gym", "## Differences"),
    ],
)
def test_readme(environment: Environment, old: str, new: str) -> None:
    path = environment.path("README.md")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    (problem,) = problems(environment)["readme"]
    assert "says nothing under" in problem
    # A heading of that name does as well.
    section = problem.split("`")[1]
    path.write_text(path.read_text() + f"\n### {section}\n")
    assert problems(environment) == {}


@pytest.mark.parametrize("name", ["mcqa", "example_session_state_mgmt"])
def test_built_in_environments_are_sound(name: str) -> None:
    assert problems(find_environment(name)) == {}


@pytest.mark.parametrize("name", builtin_names("agent"))
def test_the_agents(name: str) -> None:
    agent = find_environment(name, agents=True)
    assert (agent.kind, agent.is_builtin) == ("agent", True)
    assert problems(agent) == {}


def test_what_an_agent_must_bring(tmp_path: Path) -> None:
    folder = tmp_path / "simple_agent"
    shutil.copytree(find_environment("simple_agent", agents=True).folder, folder)
    (folder / "README.md").write_text("Loops.")
    (folder / "requirements.txt").unlink()
    agent = read_environment(folder, agents=True)
    assert problems(agent) == {
        "files": ["requirements.txt is missing"],
        "readme": [
            "README.md says nothing under `What it teaches`",
            "README.md says nothing under `Differences from NeMo Gym`",
        ],
    }
    with pytest.raises(CliError, match="describes no resources server"):
        read_environment(folder)

"""`gymctl env init`: what it writes, and which names it refuses."""

import ast
import json
from pathlib import Path

import pytest
import yaml

from gymctl.env import scaffold
from gymctl.env.environment import find_environment, read_environment
from gymctl.errors import CliError
from gymd.convert import validate_params
from tests.fakes.environments import make_environment
from tests.fakes.gymctl import gymctl


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("", "such as"),
        ("Weather", "Call it weather."),
        ("my-weather", "Call it my_weather."),
        ("../evil", "Call it evil."),
        ("a/b", "Call it a_b."),
        ("2fast", "such as"),
        ("_x", "Call it x."),
        ("wetter_für_alle", "Call it wetter_f_r_alle."),
        ("class", "such as"),
        ("x" * 49, "Call it"),
        ("mcqa", "gymctl env list"),
        ("simple_agent", "gymctl env list"),
        ("multineedle", "gymctl env list"),  # a name from before a rename
        ("verbose", "verbose_tasks"),  # a setting
        ("policy_model", "policy_model_tasks"),
    ],
)
def test_bad_names_are_refused_with_a_way_out(name: str, hint: str) -> None:
    with pytest.raises(CliError) as caught:
        scaffold.check_name(name)
    assert hint in caught.value.hint


async def test_the_command_says_what_to_run_next(tmp_path: Path) -> None:
    done = await gymctl("env", "init", "shop_prices", cwd=tmp_path)
    assert done.code == 0
    assert done.out == f"{tmp_path}/shop_prices\n"
    commands = [line.strip() for line in done.err.splitlines() if line.startswith("  ")]
    assert [command.split()[1:3] for command in commands] == [
        ["env", "examples"],
        ["env", "test"],
        ["rollouts", "collect"],
    ]
    assert "--config shop_prices/config.yaml" in commands[2]

    again = await gymctl("env", "init", "shop_prices", cwd=tmp_path)
    assert again.code == 1
    assert "exists already" in again.err
    other = await gymctl("env", "init", "shop_prices", "--dir", "sub/folder", "-o", "json", cwd=tmp_path)
    assert other.json["folder"] == f"{tmp_path}/sub/folder/shop_prices"
    assert (tmp_path / "sub/folder/shop_prices/server.py").is_file()


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    files = {path.relative_to(environment.folder).as_posix() for path in environment.folder.rglob("*.*")}
    assert files == {
        "server.py",
        "config.yaml",
        "requirements.txt",
        "README.md",
        "pytest.ini",
        "data/example.jsonl",
        "data/example_answers.yaml",
        "data/.gitignore",
        "tests/test_shop_prices.py",
    }
    assert not environment.is_builtin
    assert environment.agent == "shop_prices_simple_agent"
    assert environment.entrypoint == f"{environment.folder}/server.py:ShopPricesEnvironment"
    assert [dataset["name"] for dataset in environment.datasets] == ["train", "validation", "example"]
    assert environment.datasets[2]["jsonl_fpath"] == "data/example.jsonl"
    rows = [json.loads(line) for line in environment.path("data/example.jsonl").read_text().splitlines()]
    assert len(rows) == 5
    assert [problem for row in rows for problem in validate_params(row["responses_create_params"])] == []


def test_no_placeholder_is_left(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, "a1_b")
    for path in environment.folder.rglob("*.*"):
        assert "$" not in path.read_text(), path
    assert "class A1BEnvironment(" in environment.path("server.py").read_text()


def test_one_of_gymds_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout it becomes a package, is called by its name, and its paths start at the root."""
    own = tmp_path / "servers" / "gymservers" / "resources"
    own.mkdir(parents=True)
    monkeypatch.setattr(scaffold, "_checkout_folder", lambda: own)
    monkeypatch.chdir(tmp_path / "servers")
    planned = scaffold.plan("shop_prices")
    assert planned.builtin
    assert planned.folder == own / "shop_prices"
    assert planned.commands[:2] == ["gymctl env examples shop_prices", "gymctl env test shop_prices"]
    scaffold.create(planned)
    names = {path.name for path in planned.folder.iterdir()}
    assert {"__init__.py", "__main__.py"} <= names
    assert "pytest.ini" not in names
    for path in planned.folder.rglob("*.py"):
        ast.parse(path.read_text())
    test = (planned.folder / "tests" / "test_shop_prices.py").read_text()
    assert "from gymservers.resources.shop_prices.server import ShopPricesEnvironment\n" in test
    config = yaml.safe_load((planned.folder / "config.yaml").read_text())
    assert "entrypoint" not in config["shop_prices"]["resources_servers"]["shop_prices"]
    (dataset,) = [
        one
        for one in config["shop_prices_simple_agent"]["responses_api_agents"]["simple_agent"]["datasets"]
        if one["type"] == "example"
    ]
    assert dataset["jsonl_fpath"] == "servers/gymservers/resources/shop_prices/data/example.jsonl"


def test_elsewhere_the_current_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planned = scaffold.plan("shop_prices")
    assert (planned.folder, planned.builtin) == (tmp_path / "shop_prices", False)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match="cannot write"):
        scaffold.create(scaffold.plan("shop_prices", tmp_path / "file"))

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    planned = scaffold.plan("shop_prices", tmp_path)
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(CliError, match="No space left"):
        scaffold.create(planned)
    assert not planned.folder.exists()


def test_environments_are_found_by_name_and_by_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_environment(tmp_path)
    monkeypatch.chdir(tmp_path)
    for text in ("shop_prices", "./shop_prices", "shop_prices/config.yaml", str(made.folder)):
        assert find_environment(text).folder == made.folder, text
    assert find_environment("shop_prices").argument == "shop_prices"
    monkeypatch.chdir(made.folder)
    assert find_environment(".").argument == "."
    built_in = find_environment("mcqa")
    assert built_in.is_builtin
    assert (built_in.name, built_in.argument, built_in.entrypoint) == ("mcqa", "mcqa", "")
    assert find_environment("multineedle").name == "example_multi_step"
    with pytest.raises(CliError) as caught:
        find_environment("mqca")
    assert "Did you mean mcqa?" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "no YAML"),
        ("", "describes no resources server"),
        ("policy_model: {responses_api_models: {local_model: {}}}", "describes no resources server"),
    ],
)
def test_a_configuration_that_describes_no_environment(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(CliError, match=problem):
        read_environment(tmp_path)

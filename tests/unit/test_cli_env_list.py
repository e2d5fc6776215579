"""`gymctl env list`: the environments as their own files describe them, and the table in the README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gymctl.app import run
from gymctl.env.environment import read_environment
from gymctl.env.listing import MARKS, Listed, list_environments, markdown, update_file
from gymctl.errors import CliError
from gymd.config import builtin_names
from tests.contract.sources import ROOT
from tests.fakes.environments import make_environment
from tests.fakes.gymctl import gymctl

RENEW = "gymctl env list --update README.md"


@pytest.fixture(scope="module")
def listed() -> list[Listed]:
    return list_environments()


def test_the_table_in_the_readme_is_that_of_the_environments(listed: list[Listed]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for mark in MARKS:
        assert text.count(mark) == 1, f"README.md must have the line {mark} once; then run: {RENEW}"
    shown = text.partition(MARKS[0])[2].partition(MARKS[1])[0].strip()
    assert shown == markdown(listed).strip(), f"the table in README.md is out of date; run: {RENEW}"


def test_all_are_there_and_say_what_they_are(listed: list[Listed]) -> None:
    assert [one.environment.name for one in listed] == builtin_names("resources")
    for one in listed:
        name = one.environment.name
        assert not one.error, (name, one.error)
        for key in ("domain", "description", "value", "reward"):
            assert one.text(key), f"config.yaml of {name} has no `{key}`"
        assert one.licences, f"no dataset of {name} names its licence"


def test_facts_come_from_files_and_classes(listed: list[Listed]) -> None:
    documents: dict[str, Any] = {one.environment.name: one.document() for one in listed}
    counter = documents["example_session_state_mgmt"]
    assert counter["tools"] == ["increment_counter", "get_counter_value"]
    assert counter["agent"] == "example_session_state_mgmt_simple_agent"
    assert (counter["judge_models"], counter["sandbox"], counter["requirements"]) == ([], False, [])
    assert counter["requirements_met"] is True
    assert counter["datasets"] == [
        {
            "name": "example",
            "type": "example",
            "jsonl_fpath": "servers/gymservers/resources/example_session_state_mgmt/data/example.jsonl",
            "license": "Apache 2.0",
        }
    ]


def test_judge_sandbox_and_requirements(tmp_path: Path) -> None:
    made = make_environment(tmp_path)
    made.path("requirements.txt").write_text("surely-not-there==1.0\n")
    made.path("helper.py").write_text(
        "def f():\n    from gymd.sdk.sandbox import Sandbox\n    Sandbox.open()\n"
    )
    judge = "judge_model_server: {type: responses_api_models, name: my_judge}\n      verified: false"
    made.config.write_text(made.config.read_text().replace("verified: false", judge))
    document = Listed(read_environment(made.folder), [], "").document()
    assert document["judge_models"] == ["my_judge"]
    assert document["sandbox"] is True
    assert (document["requirements"], document["requirements_met"]) == (["surely-not-there==1.0"], False)


def test_a_cell_of_the_markdown_table_is_one_line(tmp_path: Path) -> None:
    made = make_environment(tmp_path)
    text = made.config.read_text().replace("reward: 1.0 if", "reward: a | b, 1.0 if")
    made.config.write_text(text.replace("domain: other", "domain:"))
    tools = ["a", "b", "c", "d"]
    table = markdown([Listed(read_environment(made.folder), tools, ""), Listed(made, tools[:2], "")])
    *_, first, second = table.splitlines()
    assert first.startswith("| [shop_prices](servers/gymservers/resources/shop_prices/README.md) | - | ")
    assert "| 4 tools | a \\| b, 1.0 if" in first
    assert "| `a`, `b` |" in second
    assert second.endswith("| Apache 2.0 |")  # the slots without data are TBD, which says nothing


def test_the_file_is_updated_between_the_marks(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    assert update_file(path, "| new |\n")
    assert path.read_text() == f"before\n{MARKS[0]}\n| new |\n{MARKS[1]}\nafter\n"
    assert not update_file(path, "| new |\n")
    path.write_text("no marks\n")
    with pytest.raises(CliError, match="no place for the table"):
        update_file(path, "| new |\n")


async def test_the_command() -> None:
    shown = await gymctl("env", "list")
    assert shown.code == 0, shown.err
    heading, *rows = shown.out.splitlines()
    assert heading.split()[:2] == ["NAME", "DOMAIN"]
    assert [row.split()[0] for row in rows] == builtin_names("resources")


def test_formats_and_files(
    listed: list[Listed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gymctl.env.listing.list_environments", lambda: listed)

    def env_list(*options: str) -> tuple[int, str, str]:
        return (run(["env", "list", *options]), *capsys.readouterr())

    code, documents, _ = env_list("-o", "json")
    assert code == 0
    assert {one["name"] for one in json.loads(documents)} == set(builtin_names("resources"))

    Path("X.md").write_text("".join(f"{mark}\n" for mark in MARKS))
    code, _, said = env_list("--update", "X.md")
    assert code == 0, said
    _, table, _ = env_list("-o", "markdown")
    assert Path("X.md").read_text() == f"{MARKS[0]}\n{table}{MARKS[1]}\n"
    code, _, said = env_list("--update", "Y.md")
    assert (code, "no file Y.md" in said) == (1, True)

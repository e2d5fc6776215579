"""From `gymctl env init` to scored rollouts and a sound environment, with nothing changed in between."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from tests.fakes.environments import make_environment
from tests.fakes.gymctl import gymctl

NAME = "shop_prices"
CONFIGS = ("--config", f"{NAME}/config.yaml", "--config", f"{NAME}/data/example_answers.yaml")
TIMEOUT_S = 100

pytestmark = pytest.mark.timeout(240)  # each step starts processes of its own


async def run_pytest(folder: Path) -> tuple[int | None, str]:
    """As an author does: in the folder, without gymctl."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": ""},
    )
    out, _ = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    return process.returncode, out.decode()


async def test_a_new_environment_works_at_once(tmp_path: Path) -> None:
    made = await gymctl("env", "init", NAME, cwd=tmp_path)
    assert made.code == 0, made.err

    code, output = await run_pytest(tmp_path / NAME)
    assert code == 0, output
    assert "15 passed" in output

    checked = await gymctl("config", "check", *CONFIGS, "-o", "json", cwd=tmp_path)
    assert checked.code == 0, checked.err
    assert [server["name"] for server in checked.json] == [NAME, f"{NAME}_simple_agent", "policy_model"]

    rows = f"{NAME}/data/example.jsonl"
    given = ("--input", rows, "--output", "rollouts.jsonl", "-o", "json")
    collected = await gymctl("rollouts", "collect", *CONFIGS, *given, cwd=tmp_path, GYMD_POOL_HOSTS="1")
    assert collected.code == 0, collected.err
    assert (collected.json["done"], collected.json["failed"]) == (5, 0)
    rollouts = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    assert [rollout["reward"] for rollout in rollouts] == [1.0] * 5
    assert all(rollout["rollout"]["tool_calls"] for rollout in rollouts)


async def test_its_examples_are_made_the_same_every_time_and_then_it_is_sound(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, NAME)
    command = ("env", "examples", NAME, "--tokenizer", "none", "-o", "json")
    written = await gymctl(*command, cwd=tmp_path)
    assert written.code == 0, written.err
    assert {Path(one["file"]).name: one["state"] for one in written.json} == {
        "example_rollouts.jsonl": "written",
        "example_metrics.json": "written",
    }
    assert written.json[0]["rewards"] == [1.0] * 5
    metrics = environment.path("data/example_metrics.json")
    sound = metrics.read_text()
    metrics.write_text("{}")
    again = await gymctl(*command, "--check", cwd=tmp_path)
    assert again.code == 1, again.out
    assert [one["state"] for one in again.json] == ["unchanged", "would change"]
    assert metrics.read_text() == "{}"
    metrics.write_text(sound)

    tested = await gymctl("env", "test", NAME, "-o", "json", cwd=tmp_path)
    assert tested.code == 0, tested.err
    (result,) = tested.json
    assert result["tests"]["passed"] == 15
    assert [check["ok"] for check in result["checks"]] == [True] * 7
    assert result["python"].startswith(str(tmp_path / "state" / "venvs"))


async def test_unscored_examples_are_not_kept(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, NAME)
    answers = environment.path("data/example_answers.yaml")
    answers.write_text(answers.read_text().replace("a dozen lemons", "a dozen pears"))
    done = await gymctl("env", "examples", NAME, "--tokenizer", "none", cwd=tmp_path)
    assert done.code == 1
    assert "no rule of the script applies" in done.err
    assert "nothing was written" in done.err
    assert not environment.path("data/example_rollouts.jsonl").exists()


def wheel(folder: Path, name: str) -> None:
    """Writes a wheel with one module that knows its name."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": f"NAME = {name!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


async def test_packages_of_the_server_and_of_its_tests_are_installed_for_the_tests(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, NAME)
    wheel(tmp_path, "serverlib")
    wheel(tmp_path, "oraclelib")
    environment.path("requirements.txt").write_text("--no-index\n--find-links ..\nserverlib==1.0\n")
    environment.path("tests/requirements.txt").write_text("oraclelib==1.0\n")
    source = environment.path("server.py")
    source.write_text(source.read_text().replace("import pydantic\n", "import pydantic\nimport serverlib\n"))
    environment.path("tests/test_oracle.py").write_text(
        "import oraclelib, sys\n\ndef test_it():\n    assert oraclelib.NAME in oraclelib.__file__\n"
        "    assert sys.prefix in oraclelib.__file__\n"
    )
    tested = await gymctl("env", "test", NAME, "-o", "json", cwd=tmp_path)
    (result,) = tested.json
    assert not result["error"], result["error"]
    assert result["tests"]["passed"] == 16, tested.err
    assert all(check["ok"] for check in result["checks"] if check["name"] in ("files", "config", "data"))

    environment.path("tests/requirements.txt").write_text("oraclelib==2.0\n")
    failed = await gymctl("env", "test", NAME, "-o", "json", cwd=tmp_path)
    assert failed.code == 1
    assert "oraclelib==2.0" in failed.json[0]["error"]

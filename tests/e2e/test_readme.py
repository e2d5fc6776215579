"""README.md tells the truth: its files and commands run, its options, defaults and links exist."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from gymd.config import DaemonSettings, builtin_names

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "docs/protocol.md", "protos/README.md")
TIMEOUT_S = 100
WAIT_S = 60.0

SCRIPTED = """
policy_model:
  responses_api_models:
    scripted_model:
      rules:
        - when: {tools: true, tool_outputs: 0}
          call: {name: get_weather}
        - text: It is cold.
"""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(mark: str = "") -> list[str]:
    """The fenced blocks of README.md; with a mark only those behind its comment."""
    comment = re.escape(f"<!-- {mark} -->\n") if mark else ""
    return re.findall(rf"{comment}```\w*\n(.*?)```", read("README.md"), re.S)


def commands() -> list[list[str]]:
    """Every gymctl and gymd command of the README, as words."""
    lines = [line for block in blocks() for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith(("gymctl ", "gymd "))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The README's own files, with a scripted model in place of the one that takes minutes."""
    text = read("README.md")
    for name, content in re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", text, re.S):
        (tmp_path / name).write_text(content)
    config = tmp_path / "weather.yaml"
    assert "[local_model]" in config.read_text()
    config.write_text(config.read_text().replace("[local_model]", "[scripted.yaml]"))
    (tmp_path / "scripted.yaml").write_text(SCRIPTED)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "GYMD_STATE_DIR": str(folder / "state"), "GYMD_POOL_HOSTS": "1"}


def test_the_new_environment_runs(folder: Path) -> None:
    for block in blocks("run"):
        done = subprocess.run(
            ["bash", "-euc", block],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, block + done.stdout + done.stderr
    rows = [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]
    assert [row["reward"] for row in rows] == [1.0] * 4
    assert (folder / "rollouts_aggregate_metrics.json").exists()


async def test_the_trainer_runs(folder: Path) -> None:
    options: dict[str, Any] = {"cwd": folder, "env": environment(folder), "stdout": asyncio.subprocess.PIPE}
    command = ["-m", "gymd", "-c", "weather.yaml", "gymd.listen=127.0.0.1:0", "--wait-ready"]
    daemon = await asyncio.create_subprocess_exec(sys.executable, *command, **options)
    try:
        assert daemon.stdout is not None
        async with asyncio.timeout(WAIT_S):
            address = json.loads(await daemon.stdout.readline())["address"]
            trainer = await asyncio.create_subprocess_exec(
                sys.executable, "train.py", address, "tasks.jsonl", **options
            )
            output, _ = await trainer.communicate()
        assert trainer.returncode == 0
        assert sorted(output.decode().splitlines()) == [f"0 {index} 1.0" for index in range(8)]
    finally:
        daemon.terminate()
        assert await daemon.wait() == 0


def test_every_command_and_option_exists() -> None:
    from gymctl.app import cli

    assert {tuple(words[:2]) for words in commands()} > {("gymctl", "quickstart"), ("gymctl", "up")}
    for words in commands():
        if words[0] != "gymctl":
            continue
        command: click.Command = cli
        rest = words[1:]
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), rest[0])
            assert found is not None, words
            command, rest = found, rest[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        used = {word for word in rest if re.match(r"--?[a-z]", word)}
        assert used <= known, (words, used - known)


def test_daemon_options_in_the_text_exist() -> None:
    command = [sys.executable, "-m", "gymd", "--help"]
    usage = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S).stdout
    for option in ("--log-file", "--wait-ready", "--allow-remote"):
        assert option in read("README.md")
        assert option in usage


def test_the_table_of_settings_is_complete_and_right() -> None:
    section = read("README.md").partition("## Configuration")[2].partition("\n## ")[0]
    rows: dict[str, str] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5 and cells[1].startswith("`"):
            names, values = re.findall(r"`(\w+)`", cells[1]), cells[2].replace("`", "").split(", ")
            rows |= dict(zip(names, values, strict=True))
    settings = DaemonSettings(state_dir=Path("~/.local/state/gymd"))
    assert rows.keys() == DaemonSettings.model_fields.keys()
    for name, said in rows.items():
        value = getattr(settings, name)
        if name not in ("deadlines", "unix_socket", "state_dir", "journal_dir"):
            assert str(value).removesuffix(".0") == said, name
    for name, value in settings.deadlines:
        assert f"`{name}` {value:.0f}" in section, name


def test_the_tables_of_servers_are_complete() -> None:
    section = read("README.md").partition("## Models")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, re.M)) == set(builtin_names("model"))
    there = read("README.md").partition("## Environments")[2].partition("## Models")[0]
    assert set(re.findall(r"^\| \[`?(\w+)", there, re.M)) >= set(builtin_names("resources"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_point_at_files(name: str) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", read(name)) if not link.startswith("http")]
    assert [link for link in links if not ((ROOT / name).parent / link).exists()] == []


def test_the_environment_is_twenty_lines_or_less() -> None:
    (source,) = blocks("file: weather.py")
    assert len(source.splitlines()) <= 20

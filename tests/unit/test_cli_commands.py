"""gymctl's other commands, its errors and its help."""

import asyncio
import json
import os
import re
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click
import pytest

from gymctl.app import cli
from gymctl.output import seconds
from gymctl.quickstart import _model_overrides
from gymctl.startup_view import _words_of
from gymctl.state import is_alive, is_daemon, read_daemon_file, state_dir
from gymd.config import load_config
from gymd.config.settings import default_state_dir
from tests.fakes.daemon import FakeDaemon, server
from tests.fakes.gymctl import gymctl


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    servers = [server("simple_agent", pid=7, restart_count=2), server("weather", "resources", "FAILED")]
    servers[1].condition = "cannot bind\nline two"
    async with FakeDaemon(servers, default_agent="simple_agent") as one:
        yield one


def commands(group: click.Group, path: str = "gymctl") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


@pytest.mark.parametrize(("path", "command"), list(commands(cli)), ids=lambda value: str(value)[:40])
def test_every_command_has_help_with_an_example(path: str, command: click.Command) -> None:
    assert command.help is not None
    assert "Example" in command.help
    assert path in command.help
    names = {option for parameter in command.params for option in parameter.opts}
    assert {"-o", "--format", "--debug"} <= names
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))


def groups(group: click.Group, path: str = "gymctl") -> Iterator[tuple[str, click.Group]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield f"{path} {name}", command
            yield from groups(command, f"{path} {name}")


@pytest.mark.parametrize(("path", "group"), list(groups(cli)), ids=lambda value: str(value)[:40])
def test_every_group_has_help_with_an_example_that_is_a_command(path: str, group: click.Group) -> None:
    assert group.help is not None
    (example,) = re.findall(rf"Example:\n +{path} (\S+)", group.help)
    assert example in group.commands


async def test_help_starts_quickly() -> None:
    took = []
    for _ in range(3):
        start = processor_seconds()
        assert (await gymctl("--help")).code == 0
        took.append(processor_seconds() - start)
    # 0.2 s alone. Not by the clock, which counts what the machine does beside it.
    assert min(took) < 1.0


def processor_seconds() -> float:
    """What the children that ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def test_nothing_heavy_is_loaded_for_help() -> None:
    heavy = ("grpc", "rich", "pydantic", "omegaconf", "asyncio")
    code = f"import sys, gymctl.app; print([name for name in {heavy} if name in sys.modules])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out.decode().strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["rolouts"], "Did you mean rollouts?"),
        (["servers", "lsit"], "Did you mean list?"),
        (["rollouts", "collect", "--inptu", "x"], "--input"),
        (["status", "-o", "yaml"], "table"),
        (["rollouts", "collect", "-o", "out.jsonl"], "--output out.jsonl"),
        (["up", "servers.yaml"], "--config servers.yaml"),
        (["config", "check", "servers.yaml"], "--config servers.yaml"),
        (["rollouts", "collect"], "--input"),
    ],
)
async def test_wrong_usage_ends_with_2_and_a_hint(arguments: list[str], hint: str) -> None:
    done = await gymctl(*arguments)
    assert done.code == 2
    assert hint in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


async def test_status(daemon: FakeDaemon) -> None:
    done = await gymctl("status", "-o", "json", address=daemon.address)
    assert done.code == 1  # weather is not ready
    assert done.json["daemon"]["default_agent"] == "simple_agent"
    assert done.json["servers"][0]["state"] == "ready"
    assert done.json["servers"][1]["condition"] == "cannot bind\nline two"
    done = await gymctl("status", "--address", daemon.address)
    assert "gymd 0.0.fake" in done.out
    assert "cannot bind" in done.out
    del daemon.servers[1]
    assert (await gymctl("--address", daemon.address, "status")).code == 0


async def test_servers(daemon: FakeDaemon) -> None:
    done = await gymctl("servers", "list", "--kind", "agent", "-o", "json", address=daemon.address)
    assert done.code == 0
    assert [one["name"] for one in done.json] == ["simple_agent"]
    assert done.json[0]["restart_count"] == 2
    done = await gymctl("servers", "list", address=daemon.address)
    assert done.out.splitlines()[1].split() == [
        "simple_agent",
        "agent",
        "ready",
        "shared",
        "-",
        "7",
        "2",
        "-",
    ]
    done = await gymctl("servers", "describe", "weather", address=daemon.address)
    assert "cannot bind" in done.out
    done = await gymctl("servers", "logs", "weather", "--lines", "2", address=daemon.address)
    assert done.out == "line 2\nline 3\n"
    done = await gymctl("servers", "restart", "weather", "-o", "json", address=daemon.address)
    assert done.json == {"restarted": ["weather", "neighbour"]}
    done = await gymctl("servers", "drain", "simple_agent", "-o", "json", address=daemon.address)
    assert done.json[0]["state"] == "draining"


async def test_unknown_servers_are_told_with_what_to_do(daemon: FakeDaemon) -> None:
    done = await gymctl("servers", "describe", "simpel_agent", address=daemon.address)
    assert done.code == 1
    assert "Did you mean simple_agent?" in done.err
    done = await gymctl("servers", "restart", "nobody", address=daemon.address)
    assert done.code == 1
    assert done.err.splitlines() == [
        "Error: no server is called nobody",
        "Next: See what is there: gymctl servers list",
    ]
    done = await gymctl("ask", "simpel_agent", "hello", address=daemon.address)
    assert done.code == 1
    assert "Did you mean simple_agent?" in done.err
    done = await gymctl("ask", "simple_agent", "hello", "--param", "temperature=9", address=daemon.address)
    assert done.code == 1
    assert "temperature" in done.err


async def test_no_daemon_is_told_with_what_to_do(daemon: FakeDaemon, tmp_path: Path) -> None:
    await daemon.kill()
    done = await gymctl("status", address=daemon.address)
    assert done.code == 1
    assert done.err.splitlines() == [
        f"Error: no daemon at {daemon.address}",
        "Next: Start one with `gymctl up`, or name another with --address.",
    ]
    done = await gymctl("servers", "list", cwd=tmp_path)
    assert done.code == 1
    assert "no daemon runs here" in done.err
    assert "gymctl up" in done.err
    done = await gymctl("down", cwd=tmp_path)
    assert done.code == 0
    assert "No daemon runs here" in done.err


async def test_down_touches_no_stranger(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "daemon.json").write_text(json.dumps({"address": "127.0.0.1:9", "pid": os.getpid()}))
    done = await gymctl("down", cwd=tmp_path)
    assert done.code == 1
    assert "is no gymd daemon" in done.err


async def test_debug_shows_the_traceback(daemon: FakeDaemon) -> None:
    await daemon.kill()
    done = await gymctl("status", "--debug", address=daemon.address)
    assert "Traceback" in done.err
    assert "Next:" in done.err


async def test_version_and_completion() -> None:
    done = await gymctl("version", "-o", "json")
    assert done.json["gymd"]
    assert done.json["python"]
    assert (await gymctl("--version")).out.startswith("gymctl ")
    for shell in ("bash", "zsh", "fish"):
        done = await gymctl("completion", shell)
        assert done.code == 0
        assert "_GYMCTL_COMPLETE" in done.out
    done = await gymctl(_GYMCTL_COMPLETE="bash_complete", COMP_WORDS="gymctl ser", COMP_CWORD="1")
    assert "servers" in done.out


async def test_config_mistakes_are_all_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "x:\n  responses_api_agents:\n    simple_agnet:\n"
        "      model_server: {type: responses_api_models, name: m}\n"
        "gymd:\n  log_level: loud\n"
    )
    done = await gymctl("config", "check", "-c", "a.yaml", cwd=tmp_path)
    assert done.code == 1
    assert "a.yaml" in done.err
    assert "simple_agnet" in done.err
    assert "log_level" in done.err
    assert done.out == ""


async def test_config_dump_masks_secrets(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("policy_api_key: secret-value\npolicy_model_name: m\n")
    done = await gymctl("config", "dump", "-c", "a.yaml", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "secret-value" not in done.out
    assert "policy_model_name: m" in done.out
    done = await gymctl("config", "dump", "-c", "a.yaml", "policy_model_name=n", "-o", "json", cwd=tmp_path)
    assert done.json["policy_model_name"] == "n"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"GYMD_STATE_DIR": "~/x"},
        {"XDG_STATE_HOME": "/somewhere"},
        {"XDG_STATE_HOME": "", "GYMD_STATE_DIR": ""},
    ],
)
def test_the_state_folder_is_the_daemons(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GYMD_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert state_dir() == default_state_dir()


def test_the_daemon_file(tmp_path: Path) -> None:
    assert read_daemon_file(tmp_path) is None
    path = tmp_path / "daemon.json"
    for damaged in ("", "[]", "{}", "{nope"):
        path.write_text(damaged)
        assert read_daemon_file(tmp_path) is None
    path.write_text('{"address": "127.0.0.1:1", "pid": 5, "start_time": "t", "config_files": ["a"]}')
    found = read_daemon_file(tmp_path)
    assert found is not None
    assert (found.address, found.pid, found.config_files) == ("127.0.0.1:1", 5, ["a"])


def test_processes_are_recognised() -> None:
    assert is_alive(os.getpid())
    assert not is_alive(0)
    assert not is_daemon(os.getpid())


@pytest.mark.parametrize(
    ("value", "text"), [(0.254, "0.25 s"), (12.4, "12 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_spans_for_people(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("2026-11-21 12:14:04,919 INFO gymd.server.m fetching: 66 of 98 MB", "fetching: 66 of 98 MB"),
        ("2026-11-21 12:14:04,919 INFO gymd.server.other loaded", ""),
        ('{"logger": "gymd.server.m", "event": "loaded"}', "loaded"),
        ('{"logger": "gymd.host", "event": "loaded"}', ""),
        ("gymd: started process 7", ""),
        ("7", ""),
    ],
)
def test_the_last_words_of_a_starting_server(line: str, words: str) -> None:
    assert _words_of(line, "gymd.server.m") == words


def test_quickstart_keeps_the_weights_in_the_usual_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYMD_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    loaded = load_config(["local_model"], [*_model_overrides("local"), "gymd.state_dir=/elsewhere"])
    assert loaded.server("policy_model").config["models_dir"] == str(tmp_path / "models")
    assert _model_overrides("scripted") == []

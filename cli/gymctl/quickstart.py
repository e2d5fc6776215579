"""`gymctl quickstart`: scored rollouts of a small model, with nothing configured."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from gymctl.errors import CliError
from gymctl.options import Settings, common
from gymctl.output import Column, console, make_table, note, show_json
from gymctl.state import state_dir

__all__ = ["quickstart"]

ENVIRONMENT = "example_single_tool_call"
ROWS = f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
OUTPUT = "weather_rollouts.jsonl"

_MODELS = {
    "local": "a small model (SmolLM2, 135 million parameters) inside the host process; fetched once, 98 MB",
    "scripted": "rules instead of a model; answers at once",
    "openai": "a Responses API endpoint, given by policy_base_url, policy_api_key and policy_model_name",
    "vllm": "a Chat Completions endpoint, given by the same three",
}


@click.command(short_help="Collect five rollouts of a small model, with nothing configured.")
@click.option(
    "--model",
    type=click.Choice(sorted(_MODELS)),
    default="local",
    show_default=True,
    help="; ".join(f"{name}: {text}" for name, text in _MODELS.items()) + ".",
)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@common
@click.pass_obj
def quickstart(settings: Settings, model: str, overrides: tuple[str, ...]) -> int:
    """Collect five rollouts of a weather environment with one tool, and leave nothing running.

    Starts a daemon with an agent, the environment and a model server, runs the five example tasks, writes
    weather_rollouts.jsonl into the current folder, shows the rollouts, and stops everything. Needs no key, no
    configuration and no model server. With -o json, one JSON document is printed.

    \b
    Examples:
      gymctl quickstart
      gymctl quickstart --model vllm policy_base_url=http://localhost:8000/v1 policy_model_name=my-model
    """
    target = Path(OUTPUT)
    _check_target(target)
    from gymctl.launch import running_daemon

    note(f"Starting gymd with the environment {ENVIRONMENT} and a model: {_MODELS[model]}.")
    with ExitStack() as stack:
        # A state folder of its own: a daemon that runs already is not disturbed.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gymd-quickstart-")))
        configs = [ENVIRONMENT, _model_config(model)]
        kept = [*_model_overrides(model), *overrides]
        address = stack.enter_context(running_daemon(configs, kept, folder=folder))
        code = _collect(address, target)
    lines = list(_lines(target))
    if settings.output_format == "json":
        show_json({"output": str(target), "rollouts": [_digest(line) for line in lines]})
    else:
        _print(lines)
    if code == 0:
        _print_next(target, lines[0]["rollout"]["agent"], model)
    return code


def _collect(address: str, target: Path) -> int:
    """Runs the example tasks; returns the exit code."""
    from gymctl.collect.command import collect_rows
    from gymctl.collect.plan import Plan
    from gymd.config import builtin_path

    rows = builtin_path(ROWS)
    if rows is None:
        raise CliError(f"the example tasks of {ENVIRONMENT} are missing", "Install gymd again.")
    return collect_rows(Plan(concurrency=8), address, source=rows, target=target)


def _model_config(model: str) -> str:
    """The configuration that makes a model the environment's policy_model."""
    if model == "scripted":
        return str(Path(__file__).with_name("scripted_weather.yaml"))
    return f"{model}_model"


def _model_overrides(model: str) -> list[str]:
    """Keeps the weights of the local model in the usual state folder, so that they are fetched once."""
    if model != "local":
        return []
    return [f"policy_model.responses_api_models.local_model.models_dir={state_dir() / 'models'}"]


def _check_target(target: Path) -> None:
    """Refuses to replace a file that this command did not write."""
    try:
        with target.open("rb") as file:
            first = json.loads(file.readline() or b'{"rollout": null}')
    except FileNotFoundError:
        return
    except ValueError:
        first = {}
    if not isinstance(first, dict) or "rollout" not in first:
        raise CliError(f"{target} exists and holds no rollouts", "Run this in another folder.")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        rows = [json.loads(line) for line in file]
    yield from sorted(rows, key=lambda row: row["_ng_task_index"])


def _digest(line: dict[str, Any]) -> dict[str, Any]:
    """One rollout in short."""
    from gymctl.ask import call_text, text_of

    output = (line.get("response") or {}).get("output") or []
    said = [text_of(item.get("content")) for item in output if item.get("type") == "message"]
    given = line["responses_create_params"].get("input")
    asked = [given] if isinstance(given, str) else [text_of(item.get("content")) for item in given or ()]
    return {
        "question": asked[-1] if asked else "",
        "tool_calls": [call_text(item) for item in output if item.get("type") == "function_call"],
        "answer": said[-1] if said else "",
        "reward": line.get("reward"),
        "seconds": line["rollout"]["timing"].get("seconds"),
    }


def _print(lines: list[dict[str, Any]]) -> None:
    columns: list[Column] = [
        ("QUESTION", "fold"),
        ("TOOL CALL", "fold"),
        ("ANSWER", "fold"),
        ("REWARD", "right"),
        ("SECONDS", "right"),
    ]
    rows = []
    for line in lines:
        short = _digest(line)
        reward, spent = short["reward"], short["seconds"]
        rows.append(
            (
                short["question"],
                "\n".join(short["tool_calls"]) or "-",
                short["answer"] or "-",
                "-" if reward is None else f"{reward:g}",
                "-" if spent is None else f"{spent:.2f}",
            )
        )
    console().print(make_table(columns, rows))


def _print_next(target: Path, agent: str, model: str) -> None:
    config = _model_config(model)
    note("")
    note(f"The rollouts are in {target}: the task, the whole conversation and the reward, one a line.")
    note("Next:")
    steps = {
        "keep the servers": f"gymctl up --config {ENVIRONMENT} --config {config} --detach",
        "talk to them": f'gymctl ask {agent} "What is the weather in Lisbon?"',
        "run your tasks": "gymctl rollouts collect --input tasks.jsonl --output rollouts.jsonl",
        "stop them": "gymctl down",
    }
    for what, step in steps.items():
        note(f"  {what:18}{step}")

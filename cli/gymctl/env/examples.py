"""`gymctl env examples`: the files that are made from the five example rows, the same on every machine."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymctl.collect.command import collect_rows
from gymctl.collect.files import write_atomically
from gymctl.collect.plan import Plan
from gymctl.env.environment import (
    EXAMPLE_ANSWERS,
    EXAMPLE_METRICS,
    EXAMPLE_ROLLOUTS,
    EXAMPLES,
    Environment,
)
from gymctl.env.metrics import example_metrics, metrics_differences
from gymctl.errors import CliError
from gymctl.launch import running_daemon
from gymctl.prepare.tokenizer import TokenizerFile
from gymctl.state import state_dir
from gymd.client.rows import dump_json

__all__ = ["ExampleFile", "make_examples"]

# One host and one rollout at a time: whatever counts calls counts them alike every time.
_OVERRIDES = ("gymd.pool_hosts=1",)
# What verifiers call the times that they measured.
_SPAN = re.compile(r"(?:^|_)(?:seconds|duration|elapsed|wall_s|cpu_s)$")


@dataclass(frozen=True)
class ExampleFile:
    """A file made from the example rows."""

    path: Path
    text: str
    is_current: bool
    """Whether the file on the disk says the same."""
    rewards: tuple[float, ...] = ()
    """Of the rollouts in it."""

    def write(self) -> None:
        """Writes it."""
        write_atomically(self.path, self.text)


def make_examples(environment: Environment, tokenizer: TokenizerFile | None) -> list[ExampleFile]:
    """Runs the example rows with the environment's scripted policy, and measures them; writes nothing yet.

    Args:
        tokenizer: counts the tokens of the metrics; None leaves them out.

    Raises:
        CliError: a file is missing, the servers cannot start, or a rollout has no reward.
    """
    for name in (EXAMPLES, EXAMPLE_ANSWERS):
        if not environment.path(name).is_file():
            hint = "`gymctl env init NAME` writes an environment with all of them."
            raise CliError(f"{environment.path(name)} is missing", hint)
    if not environment.agent:
        hint = "Add an agent whose resources_server is that server."
        raise CliError(f"{environment.config} has no agent for {environment.instance}", hint)
    metrics = _metrics(environment, tokenizer)  # first, for it tells of broken rows at once
    return [_rollouts(environment), metrics]


def _metrics(environment: Environment, tokenizer: TokenizerFile | None) -> ExampleFile:
    document = example_metrics(environment, tokenizer)
    try:
        current = not metrics_differences(environment, document)
    except FileNotFoundError:
        current = False
    text = json.dumps(document, indent=4, ensure_ascii=False) + "\n"
    return ExampleFile(environment.path(EXAMPLE_METRICS), text, current)


def _rollouts(environment: Environment) -> ExampleFile:
    with tempfile.TemporaryDirectory(prefix="gymd-examples-") as name:
        folder, target = Path(name), Path(name) / "rollouts.jsonl"
        _share_venvs(folder)
        configs = [str(environment.config), str(environment.path(EXAMPLE_ANSWERS))]
        with running_daemon(configs, _OVERRIDES, folder=folder) as address:
            plan = Plan(agent=environment.agent, concurrency=1)
            code = collect_rows(plan, address, source=environment.path(EXAMPLES), target=target)
        lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    unscored = [line["_ng_task_index"] + 1 for line in lines if line.get("reward") is None]
    if code or unscored:
        rows = f": row {', '.join(map(str, unscored))} has no reward" if unscored else ""
        raise CliError(
            f"{environment.name}: not every example row was scored{rows}; nothing was written",
            f"Correct {EXAMPLE_ANSWERS} or the environment.",
        )
    lines.sort(key=lambda line: line["_ng_task_index"])
    text = "".join(dump_json(_lasting(line)) + "\n" for line in lines)
    path = environment.path(EXAMPLE_ROLLOUTS)
    current = path.is_file() and path.read_text(encoding="utf-8") == text
    return ExampleFile(path, text, current, tuple(float(line["reward"]) for line in lines))


def _share_venvs(folder: Path) -> None:
    """Lets a daemon with a state folder of its own use the virtual environments that were built before."""
    usual = state_dir() / "venvs"
    usual.mkdir(parents=True, exist_ok=True)
    (folder / "venvs").symlink_to(usual, target_is_directory=True)


def _lasting(line: dict[str, Any]) -> dict[str, Any]:
    """A rollout without what differs from run to run: when it ran, and how long anything took."""
    facts = {key: value for key, value in line["rollout"].items() if key != "timing"}
    measured = set(facts.get("reward_extras", ()))
    kept = {
        key: _without_spans(value) if key in measured else value
        for key, value in line.items()
        if key not in measured or not _SPAN.search(key)
    }
    return {**kept, "rollout": facts}


def _without_spans(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_spans(part) for part in value]
    if isinstance(value, dict):
        return {key: _without_spans(part) for key, part in value.items() if not _SPAN.search(key)}
    return value

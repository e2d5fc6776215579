"""`gymctl rollouts profile`, `aggregate` and `reverify`: work on stored rollouts."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gymctl.errors import CliError
from gymctl.options import Group, Settings, address_option, common, config_option, file_option, spare_inputs

if TYPE_CHECKING:
    from gymctl.scores.aggregate import Shards
    from gymctl.scores.reverify import Reverified

__all__ = ["add_to"]

_FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
_SHOWN_TASKS = 20
_COLUMNS = ("mean", "std", "min", "max", "median", "rollouts", "task_index")


def add_to(group: Group) -> None:
    """Adds the commands to `gymctl rollouts`."""
    for command in (profile, aggregate, reverify):
        group.add_command(command)


@click.command(short_help="How hard each task is: mean, min, max, std, pass@k.")
@_FILES
@file_option("--output", "target", help_text="Write all tasks as JSONL.")
@click.option("--sort", type=click.Choice(_COLUMNS), default="mean", show_default=True, help="Order by this.")
@click.option("--descending", is_flag=True, help="Highest first.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=_SHOWN_TASKS, show_default=True, help="Tasks shown."
)
@common
@click.pass_obj
def profile(
    settings: Settings, files: tuple[Path, ...], target: Path | None, sort: str, descending: bool, limit: int
) -> None:
    """Show how hard each task is: mean, minimum, maximum and standard deviation of its rewards, and pass@k.

    Tasks whose rollouts are all right or all wrong teach a policy nothing; the summary counts them. With
    -o json, one document with the summary and all tasks is printed.

    \b
    Examples:
      gymctl rollouts profile rollouts.jsonl
      gymctl rollouts profile shard-*.jsonl --sort std --descending --output tasks.jsonl
    """
    from gymctl.collect.files import write_atomically
    from gymctl.output import Column, console, make_table, note, show_json
    from gymctl.scores.lines import require_files
    from gymctl.scores.profile import profile as read

    require_files(files)
    spare_inputs([target] if target else [], files, "--output")
    found = read(files)
    tasks = list(found.ordered(sort, descending=descending))
    if target is not None:
        write_atomically(target, "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks))
    summary = found.summary()
    if settings.output_format == "json":
        show_json({"summary": summary, "tasks": tasks})
        return
    columns: list[Column] = ["AGENT", ("TASK", "right"), ("ROLLOUTS", "right")]
    columns += [(name, "right") for name in ("MEAN", "MIN", "MAX", "STD", "PASS@K")]
    rows = [_task_row(task) for task in tasks[:limit]]
    console().print(make_table([*columns, "QUESTION"], rows))
    if len(tasks) > limit:
        note(f"... and {len(tasks) - limit:,} more tasks (--limit, --output FILE)")
    note(
        f"{summary['tasks']:,} tasks, {summary['rollouts']:,} rollouts: {summary['always_right']:,} always "
        f"right, {summary['always_wrong']:,} always wrong, {summary['mixed']:,} mixed; "
        f"mean {_number(summary['mean'])}"
    )


def _task_row(task: dict[str, Any]) -> tuple[Any, ...]:
    passes = [key for key in task if key.startswith("pass@") and "[" not in key]
    best = f"{passes[-1]} {task[passes[-1]]:.3f}" if passes else "-"
    numbers = [_number(task[name]) for name in ("mean", "min", "max", "std")]
    return (task["agent"], task["task_index"], task["rollouts"], *numbers, best, task["question"][:60])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


@click.command(short_help="Metrics over many files of rollouts.")
@_FILES
@file_option("--output", "target", help_text="Write the metrics as JSON.")
@file_option("--merge", "merged", help_text="Write all rollouts into one file as well.")
@click.option(
    "--separate",
    is_flag=True,
    help="The files are collections of their own: task 0 of one is not task 0 of another.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file given with --merge.")
@address_option
@common
@click.pass_obj
def aggregate(
    settings: Settings,
    files: tuple[Path, ...],
    target: Path | None,
    merged: Path | None,
    separate: bool,
    overwrite: bool,
) -> None:
    """Compute the metrics of a collection that lies in many files, as `collect` does for one.

    The same rollout in two files counts once. If a daemon runs that serves their environments, those add
    their own metrics, such as majority@k.

    \b
    Examples:
      gymctl rollouts aggregate shard-*.jsonl
      gymctl rollouts aggregate math.jsonl code.jsonl --separate --merge all.jsonl --output metrics.json
    """
    from gymctl.collect.environment import print_key_metrics
    from gymctl.collect.files import write_atomically
    from gymctl.output import Column, console, make_table, note, show_json
    from gymctl.scores.aggregate import aggregate as read
    from gymctl.scores.aggregate import means
    from gymctl.scores.lines import require_files

    require_files(files)
    spare_inputs([target] if target else [], files, "--output")
    if merged is not None:
        _check_target(merged, files, overwrite, "--merge")
    shards = read(files, separate=separate, merged=merged)
    document = shards.metrics.document()
    environments = _environments(settings, shards)
    for name, agent in document["agents"].items():
        agent["environment_metrics"] = environments.get(name)
    if target is not None:
        write_atomically(target, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    if settings.output_format == "json":
        facts = {"files": len(files), "rollouts": shards.lines, "doubles": shards.doubles}
        show_json({**facts, "metrics": document})
        return
    columns: list[Column] = ["AGENT", ("ROLLOUTS", "right"), ("TASKS", "right")]
    columns += [("MEAN REWARD", "right"), ("STD", "right"), "PASS@K"]
    rows = [(a, n, t, _number(mean), _number(std), best) for a, n, t, mean, std, best in means(document)]
    console().print(make_table(columns, rows))
    print_key_metrics(document["agents"])
    doubles = f", {shards.doubles:,} of them twice" if shards.doubles else ""
    note(f"{shards.lines + shards.doubles:,} rollouts in {len(files)} files{doubles}")


def _check_target(target: Path, files: Sequence[Path], overwrite: bool, option: str) -> None:
    """Makes sure that nothing is overwritten that somebody still needs."""
    if target.exists() and not overwrite:
        hint = f"Replace it with --overwrite, or give another {option} FILE."
        raise CliError(f"{target} exists already", hint)
    spare_inputs([target], files, option)


def _environments(settings: Settings, shards: Shards) -> dict[str, dict[str, Any]]:
    """The environments' own metrics; none, with a word about it, where no daemon runs."""
    from gymctl.collect.environment import environment_metrics
    from gymctl.options import daemon_address
    from gymctl.output import note

    try:
        address = daemon_address(settings)
    except CliError:
        note("No daemon runs, so the environments' own metrics are left out.")
        return {}
    return environment_metrics(address, shards.scored, stopped=False)


@click.command(short_help="Score stored rollouts again, without the model.")
@_FILES
@file_option(
    "--output",
    "target",
    required=True,
    help_text="The rollouts with their new rewards. Beside it: _failures.jsonl.",
)
@file_option(
    "-i",
    "--input",
    "source",
    help_text="The tasks of the rollouts, where those were changed or hide members of the row.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 4096),
    default=64,
    show_default=True,
    help="Verifications at a time.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds for each.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output.")
@config_option("If no daemon runs, start one with this configuration. Repeatable.")
@address_option
@common
@click.pass_obj
def reverify(
    settings: Settings,
    files: tuple[Path, ...],
    target: Path,
    source: Path | None,
    concurrency: int,
    timeout: float,
    overwrite: bool,
    configs: tuple[str, ...],
) -> int:
    """Verify stored rollouts again, as after a change of a verifier, and write them with their new rewards.

    No model is asked, but for judges. Rollouts that had failed in the verifier can be given too: those that
    it scores now go to the output. What fails again goes to _failures.jsonl, and the exit code is then 1.

    \b
    Examples:
      gymctl rollouts reverify rollouts.jsonl --output again.jsonl --config mcqa --config vllm_model
      gymctl rollouts reverify rollouts.jsonl rollouts_failures.jsonl --output again.jsonl --input tasks.jsonl
    """
    from gymctl.collect.files import Paths
    from gymctl.scores.command import reverify_command
    from gymctl.scores.lines import require_files

    read = [*files, *([source] if source else [])]
    require_files(read)
    _check_target(target, read, overwrite, "--output")
    spare_inputs([Paths(target).failures], read, "--output")
    result = reverify_command(
        settings, files, target, source=source, concurrency=concurrency, timeout=timeout, configs=configs
    )
    _tell(settings, result, target)
    return 1 if result.failed else 0


def _tell(settings: Settings, result: Reverified, target: Path) -> None:
    from gymctl.collect.files import Paths
    from gymctl.output import note, show_json

    before = statistics.fmean(result.before) if result.before else None
    after = statistics.fmean(result.after) if result.after else None
    failures = str(Paths(target).failures) if result.failed else None
    if settings.output_format == "json":
        show_json(
            {
                "output": str(target),
                "failures": failures,
                "verified": result.lines,
                "changed": result.changed,
                "failed": result.failed,
                "skipped": result.skipped,
                "failure_reasons": dict(result.reasons.most_common()),
                "mean_before": before,
                "mean_after": after,
            }
        )
        return
    note(
        f"{result.lines:,} rollouts verified again, {result.changed:,} rewards changed; "
        f"mean {_number(before)} before, {_number(after)} now; in {target}"
    )
    if result.skipped:
        note(f"{result.skipped:,} lines hold no response: there is nothing to verify in them.")
    for reason, count in result.reasons.most_common(5):
        note(f"{count:,} x {reason}: {result.examples[reason]}")
    if failures:
        note(f"The {result.failed:,} that failed are in {failures}.")

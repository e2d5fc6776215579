"""`gymctl rollouts`: run tasks and keep what comes back."""

from __future__ import annotations

from pathlib import Path

import click

from gymctl.errors import CliError
from gymctl.export.command import export
from gymctl.options import (
    Group,
    Settings,
    address_option,
    check_overrides,
    common,
    overrides_argument,
    spare_inputs,
)
from gymctl.rollouts_scores import add_to
from gymctl.rollouts_view import view

__all__ = ["rollouts"]


@click.group(cls=Group)
def rollouts() -> None:
    """Run tasks and collect their scored rollouts.

    \b
    Example:
      gymctl rollouts collect --input tasks.jsonl --output rollouts.jsonl
    """


@rollouts.command(short_help="Run every task of a JSONL file and write the rollouts.")
@click.option("-i", "--input", "source", required=True, metavar="FILE", help="Tasks as JSONL; - reads stdin.")
@click.option(
    "--output",
    "target",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Rollouts as JSONL. Beside it: _failures.jsonl, _aggregate_metrics.json, .meta.json.",
)
@click.option("--agent", default="", metavar="NAME", help="Agent for rows without agent_ref.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N rows.")
@click.option(
    "--repeats", type=click.IntRange(1, 65_536), default=1, show_default=True, help="Rollouts of each row."
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Most rollouts in flight; the memory needed grows with it, not with the input.",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a create param of every row, such as temperature=0.7 or reasoning.effort=low. Repeatable.",
)
@click.option("--resume", is_flag=True, help="Continue: skip what the output holds, try failures again.")
@click.option("--overwrite", is_flag=True, help="Start anew, even if the output exists.")
@click.option("--return-tokens", is_flag=True, help="Ask for token ids and logprobs.")
@click.option("--keep-going", is_flag=True, help="Go on even if the first 100 rollouts all fail.")
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="If no daemon runs, start one with this configuration for the duration. Repeatable.",
)
@overrides_argument
@address_option
@common
@click.pass_obj
def collect(
    settings: Settings,
    source: str,
    target: Path,
    agent: str,
    limit: int | None,
    repeats: int,
    concurrency: int,
    params: tuple[str, ...],
    resume: bool,
    overwrite: bool,
    return_tokens: bool,
    keep_going: bool,
    configs: tuple[str, ...],
    overrides: tuple[str, ...],
) -> int:
    """Run every task of a JSONL file and write the scored rollouts.

    The whole input is checked first: every mistake is named with its line before anything is spent. Lines
    are written as rollouts complete. Ctrl-C keeps what is done; --resume continues there. Rollouts without a
    result go to a file of their own. At the end the environments add their own metrics, such as majority@k,
    if there are at most 100,000 scored rollouts. Exits with 0 if every rollout is in the output, else with 1.
    With -o json, one JSON document with counts and metrics is printed at the end. KEY=VALUE changes a setting
    of the configuration given with --config.

    \b
    Examples:
      gymctl rollouts collect --input tasks.jsonl --output rollouts.jsonl
      gymctl rollouts collect --input tasks.jsonl --output rollouts.jsonl --repeats 8 --param temperature=0.7
      gymctl rollouts collect --input tasks.jsonl --output rollouts.jsonl --resume
      head -5 tasks.jsonl | gymctl rollouts collect --input - --output five.jsonl --config servers.yaml
      gymctl rollouts collect --input tasks.jsonl --output out.jsonl --config mcqa.yaml gymd.pool_hosts=2
    """
    check_overrides(overrides)
    if overrides and not configs:
        raise click.UsageError(f"{overrides[0]} is a setting of a configuration: name it with --config")
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other.")
    if source != "-" and not Path(source).is_file():
        raise CliError(f"there is no file {source}", "Check the path given with --input.")
    if target.exists() and target.stat().st_size and not (resume or overwrite):
        raise CliError(
            f"{target} exists already", "Continue it with --resume, or start anew with --overwrite."
        )

    # Here, so that the mistakes above are told at once.
    from gymctl.collect.command import collect_command
    from gymctl.collect.files import Paths
    from gymctl.collect.plan import Plan, parse_overrides

    if source != "-":
        spare_inputs(Paths(target).all, [Path(source)], "--output")
    plan = Plan(
        agent=agent,
        limit=limit,
        repeats=repeats,
        concurrency=concurrency,
        overrides=parse_overrides(params),
        return_tokens=return_tokens,
        keep_going=keep_going,
    )
    mesh = (configs, overrides)
    return collect_command(settings, plan, source=source, target=target, resume=resume, mesh=mesh)


rollouts.add_command(view)
add_to(rollouts)
rollouts.add_command(export)

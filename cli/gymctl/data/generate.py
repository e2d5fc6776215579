"""`gymctl data generate`: make tasks by seed."""

from __future__ import annotations

from pathlib import Path

import click

from gymctl.errors import CliError
from gymctl.options import Settings, common

__all__ = ["generate"]


@click.command(short_help="Make tasks by seed, with an environment that can.")
@click.argument("environment", metavar="ENVIRONMENT")
@click.option("--size", type=click.IntRange(min=1), metavar="N", help="How many tasks.  [default: 500]")
@click.option("--seed", type=int, metavar="N", help="The same seed gives the same file.  [default: 42]")
@click.option(
    "--set",
    "settings_",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the environment: JSON or text; dots lead into objects. Repeatable.",
)
@click.option(
    "--options",
    "options_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Options of the environment as YAML or JSON; --set, --size and --seed come after it.",
)
@click.option("--agent", default="", metavar="NAME", help="Agent that the tasks name in agent_ref.")
@click.option("--output", "target", metavar="FILE", help="Tasks as JSONL; - writes them to stdout.")
@click.option("--overwrite", is_flag=True, help="Start anew, even if the output exists.")
@click.option("--describe", is_flag=True, help="Show the environment's options instead.")
@common
@click.pass_obj
def generate(
    settings: Settings,
    environment: str,
    size: int | None,
    seed: int | None,
    settings_: tuple[str, ...],
    options_file: Path | None,
    agent: str,
    target: str | None,
    overwrite: bool,
    describe: bool,
) -> None:
    """Make tasks with an environment that has a generator, such as reasoning_gym.

    ENVIRONMENT is a name, or a folder with a generate.py. The same options and seed give the same file, byte
    for byte. Its rows can be run at once: gymctl rollouts collect --input FILE. If the environment needs
    packages that are not installed here, it runs in a virtual environment of its own, built the first time.
    The file appears when it is complete. With -o json, one JSON document with counts and a SHA-256 is
    printed.

    \b
    Examples:
      gymctl data generate reasoning_gym --describe
      gymctl data generate reasoning_gym --size 100 --seed 7 --set task=basic_arithmetic,chain_sum \\
          --output tasks.jsonl
      gymctl data generate reasoning_gym --set category=games --set weights.sudoku=3 --output games.jsonl
      gymctl data generate reasoning_gym --set task=maze --set config.maze.min_grid_size=9 --output -
      gymctl data generate reasoning_gym --options mix.yaml --agent reasoning_gym_simple_agent \\
          --output mix.jsonl
    """
    if not describe:
        _check_target(settings, target, overwrite)

    # Here, so that the mistakes above are told at once.
    from gymctl.collect.plan import parse_overrides
    from gymctl.generate.command import describe_options, generate_tasks
    from gymctl.generate.options import read_options

    if describe:
        describe_options(settings, environment)
        return
    assert target is not None
    options = read_options(options_file, parse_overrides(settings_), {"size": size, "seed": seed})
    generate_tasks(settings, environment, options, agent=agent, target=target)


def _check_target(settings: Settings, target: str | None, overwrite: bool) -> None:
    if not target:
        raise click.UsageError("Say where the tasks go: --output FILE, or --output - for stdout.")
    if target == "-":
        if settings.output_format == "json":
            raise click.UsageError("-o json needs --output FILE: with --output - the tasks go to stdout.")
        return
    if Path(target).exists() and not overwrite:
        raise CliError(f"{target} exists already", "Name another file, or write it anew with --overwrite.")

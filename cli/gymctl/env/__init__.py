"""`gymctl env`: start a new environment, make its example files, test it, and list those that there are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gymctl.errors import CliError
from gymctl.options import FormatChoice, Group, Settings, common
from gymctl.output import note, show, show_json

if TYPE_CHECKING:
    from gymctl.env.environment import Environment

__all__ = ["env"]

# Each of them starts servers of its own.
_DEFAULT_JOBS = max(1, min(4, (os.cpu_count() or 1) // 2))


@click.group(cls=Group, short_help="Make environments, test them, list them.")
def env() -> None:
    """Make environments, test them, list them.

    \b
    Example:
      gymctl env init weather_reports
    """


@env.command(short_help="Write a new environment that runs.")
@click.argument("name")
@click.option(
    "--dir",
    "parent",
    metavar="PATH",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to make it in.  [default: the current one; in a checkout of gymd its own environments']",
)
@common
@click.pass_obj
def init(settings: Settings, name: str, parent: Path | None) -> None:
    """Write a new environment: a folder NAME with a server, tests, data and a README, all of which work.

    It has one typed tool, a verifier, a configuration with an agent and places for datasets, five example
    tasks, a scripted policy that solves them, and tests. Change what is there into what you want.

    \b
    Examples:
      gymctl env init weather_reports
      gymctl env init weather_reports --dir ~/environments
    """
    from gymctl.env.scaffold import create, plan

    scaffold = plan(name, parent)
    files = create(scaffold)
    if settings.output_format == "json":
        show_json(
            {
                "name": scaffold.name,
                "folder": str(scaffold.folder),
                "files": [str(path.relative_to(scaffold.folder)) for path in files],
                "next": scaffold.commands,
            }
        )
        return
    click.echo(str(scaffold.folder))
    note(f"Wrote {len(files)} files. Begin with server.py, data/example.jsonl and README.md. Next:")
    for command in scaffold.commands:
        note(f"  {command}")


@env.command(short_help="Run the example tasks and keep their rollouts.")
@click.argument("environments", nargs=-1, metavar="[NAME|PATH]...")
@click.option("--all", "every", is_flag=True, help="All built-in environments.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option(
    "--tokenizer",
    metavar="PATH",
    help="A tokenizer.json, or its folder, to count the tokens of the metrics with; `none` counts none.  "
    "[default: that of the embedded model, SmolLM2]",
)
@common
@click.pass_obj
def examples(
    settings: Settings, environments: tuple[str, ...], every: bool, check: bool, tokenizer: str | None
) -> int:
    """Run the five example tasks of an environment and keep what comes of them beside them.

    Starts a daemon with the environment's config.yaml and its data/example_answers.yaml, a configuration
    whose policy_model is scripted and solves the five rows of data/example.jsonl. Writes
    data/example_rollouts.jsonl and data/example_metrics.json, without anything that differs from run to run.
    Run it again after a change of the rows, the tools or the reward; `gymctl env test` says when they do not
    fit any more. The metrics are those of `gymctl data prepare --mode example_validation`.

    \b
    Examples:
      gymctl env examples mcqa
      gymctl env examples ./weather_reports --tokenizer none
      gymctl env examples --all --check --tokenizer none
    """
    from gymctl.env.examples import make_examples
    from gymctl.prepare.tokenizer import find_tokenizer

    document, stale = [], 0
    chosen, all_read = _chosen(environments, every)
    counter = find_tokenizer(tokenizer)
    for environment in chosen:
        for file in make_examples(environment, counter):
            current = file.is_current
            stale += not current
            if not current and not check:
                file.write()
            state = "unchanged" if current else "would change" if check else "written"
            document.append(
                {
                    "environment": environment.name,
                    "file": str(file.path),
                    "state": state,
                    "rewards": list(file.rewards),
                }
            )
    rows = [
        (one["environment"], one["file"], one["state"], ", ".join(f"{reward:g}" for reward in one["rewards"]))
        for one in document
    ]
    show(settings.output_format, document, ["ENVIRONMENT", ("FILE", "fold"), "STATE", "REWARDS"], rows)
    return 1 if not all_read or (check and stale) else 0


@env.command(short_help="Run the tests of environments and check their files.")
@click.argument("environments", nargs=-1, metavar="[NAME|PATH]...")
@click.option("--all", "every", is_flag=True, help="All built-in environments and agents.")
@click.option("--here", is_flag=True, help="In gymctl's own Python environment; builds none.")
@click.option("--no-tests", is_flag=True, help="Only the checks.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=_DEFAULT_JOBS,
    metavar="N",
    help="Environments at a time.  [default: half of the cores, at most 4]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest that the tests of one environment may take.",
)
@common
@click.pass_obj
def test(
    settings: Settings,
    environments: tuple[str, ...],
    every: bool,
    here: bool,
    no_tests: bool,
    jobs: int,
    timeout: float,
) -> int:
    """Run the tests of environments, each in a Python environment of its own, and check their files.

    The Python environment is built by uv and kept, as for `placement: venv`: it sees gymd's packages behind
    its own, which are those of requirements.txt, of tests/requirements.txt if there is one, and pytest.
    Checked are the configuration and its metadata, the five example rows and their tools,
    example_metrics.json, example_rollouts.jsonl, that no *conflict* file is left, and that the README has its
    sections. Agents are tested as well; they have no rows to check. Tests that were skipped are listed, with
    the reason. Exits with 1 if anything failed.

    \b
    Examples:
      gymctl env test mcqa
      gymctl env test mini_swe_agent
      gymctl env test ./weather_reports --no-tests
      gymctl env test --all --jobs 2
    """
    from gymctl.env.report import test_command
    from gymctl.env.runs import Options

    chosen, all_read = _chosen(environments, every, agents=True)
    options = Options(here=here, tests=not no_tests, jobs=jobs, timeout_s=timeout)
    code = test_command(settings, chosen, options)
    return code if all_read else 1


@env.command("list", short_help="List the built-in environments.")
@click.option(
    "-o",
    "--format",
    "output_format",
    type=FormatChoice(["table", "json", "markdown"]),
    default="table",
    help="How to print the list on stdout.  [default: table]",
)
@click.option(
    "--update",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Put the markdown table between the marks in this file instead, such as README.md.",
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.pass_obj
def list_(settings: Settings, output_format: str, update: Path | None, debug: bool) -> None:
    """List the built-in environments, from their own files and classes.

    JUDGE names the model servers that a verifier asks, SANDBOX says whether untrusted code runs in one, NEEDS
    which packages gymd itself does not bring; a server whose packages are not here gets an environment of its
    own. -o markdown prints the table of the README.

    \b
    Examples:
      gymctl env list
      gymctl env list -o json
      gymctl env list --update README.md
    """
    from gymctl.env import listing

    settings.debug |= debug
    found = listing.list_environments()
    if update is not None:
        if not update.is_file():
            raise CliError(f"there is no file {update}", "Check the path given with --update.")
        changed = listing.update_file(update, listing.markdown(found))
        note(f"{update}: {'the table is new' if changed else 'nothing to change'}")
    elif output_format == "markdown":
        click.echo(listing.markdown(found), nl=False)
    else:
        rows = [listing.table_row(one) for one in found]
        show(output_format, [one.document() for one in found], listing.COLUMNS, rows)


def _chosen(names: tuple[str, ...], every: bool, *, agents: bool = False) -> tuple[list[Environment], bool]:
    """The environments that were asked for, each once, and whether all of them could be read."""
    from gymctl.env.environment import builtin_folders, find_environment, read_environment

    if bool(names) == every:
        raise click.UsageError("Name environments, or give --all." if not every else "--all leaves no names.")
    if not every:
        found = [find_environment(name, agents=agents) for name in names]
        return list({environment.folder: environment for environment in found}.values()), True
    found, folders = [], builtin_folders(agents=agents)
    for folder in folders:
        try:
            found.append(read_environment(folder, agents=agents))
        except CliError as problem:  # the others are looked at all the same
            problem.show()
    return found, len(found) == len(folders)

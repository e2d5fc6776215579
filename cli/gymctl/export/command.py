"""`gymctl rollouts export`: stored rollouts as data for supervised and preference training."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gymctl.errors import CliError
from gymctl.options import Settings, common, spare_inputs

if TYPE_CHECKING:
    from gymctl.export.rows import Export

__all__ = ["export"]

# As they stand in the files; those of rollouts without a response are not there.
_OUTCOMES = ("completed", "truncated_tokens", "truncated_turns", "partial", "empty")
_SHOWN_REASONS = 5


@click.command(short_help="Make SFT or DPO training data of rollouts.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "form",
    required=True,
    type=click.Choice(["sft", "dpo"]),
    help="sft: rows {messages, tools}. dpo: rows {prompt, chosen, rejected, tools}.",
)
@click.option(
    "--output",
    "target",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The rows as JSONL.",
)
@click.option(
    "--min-reward", type=float, metavar="X", help="Least reward of a row; of the chosen one in a pair."
)
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    type=click.Choice([*_OUTCOMES, "any"]),
    default=["completed"],
    show_default=True,
    help="How a rollout may have ended. Repeatable.",
)
@click.option(
    "--pairs",
    type=click.Choice(["best-worst", "all"]),
    default="best-worst",
    show_default=True,
    help="dpo: one pair of each task, or every two rollouts of it whose rewards differ.",
)
@click.option(
    "--min-gap",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="X",
    help="dpo: least difference of the rewards of a pair. Equal rewards never make one.",
)
@click.option("--reasoning", is_flag=True, help="Keep reasoning, as reasoning_content of the messages.")
@click.option(
    "--tool-json",
    type=click.Choice(["object", "text"]),
    default="object",
    show_default=True,
    help="Tools and the arguments of calls as JSON objects, or as texts of JSON.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output.")
@common
@click.pass_obj
def export(
    settings: Settings,
    files: tuple[Path, ...],
    form: str,
    target: Path,
    min_reward: float | None,
    outcomes: tuple[str, ...],
    pairs: str,
    min_gap: float,
    reasoning: bool,
    tool_json: str,
    overwrite: bool,
) -> None:
    """Make training data of what `gymctl rollouts collect` wrote: conversations, or pairs of them.

    Messages are those of the chat API, with tool calls and tool results; nothing is cut. Rollouts that chat
    messages cannot express, and those whose verifier said that nobody should learn from them (use_for_loss),
    are left out and counted. A pair holds two rollouts of one task, the better one as
    `chosen`; rollouts without a reward make none. The output appears when it is whole. Exits with 1, and
    writes nothing, if no row comes of it. With -o json, the counts are printed as one JSON document.

    \b
    Examples:
      gymctl rollouts export rollouts.jsonl --to sft --min-reward 1 --output sft.jsonl
      gymctl rollouts export shard-*.jsonl --to dpo --pairs all --min-gap 0.5 --output dpo.jsonl
    """
    # Here, so that --help needs none of it.
    from gymctl.export.pairs import preferences
    from gymctl.export.rows import Choice, Export, supervised
    from gymctl.scores.lines import require_files

    require_files(files)
    if target.exists() and not overwrite:
        raise CliError(f"{target} exists already", "Replace it with --overwrite, or give another --output.")
    spare_inputs([target], files, "--output")
    choice = Choice(
        outcomes=frozenset() if "any" in outcomes else frozenset(outcomes),
        min_reward=min_reward,
        min_gap=min_gap,
        every_pair=pairs == "all",
        reasoning=reasoning,
        as_text=tool_json == "text",
    )
    found = Export()
    rows = supervised(files, choice, found) if form == "sft" else preferences(files, choice, found)
    _write(target, rows, found, form)
    _tell(settings, found, form, target)


def _write(target: Path, rows: Iterable[dict[str, Any]], found: Export, form: str) -> None:
    """Writes the rows; a reader sees the old content or the whole new one, also after Ctrl-C.

    Raises:
        CliError: there are no rows, or the file cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            for row in rows:
                file.write(_line(row))
        if not found.rows:
            raise _nothing(found, form)
        temporary.replace(target)
    except OSError as problem:
        raise CliError(
            f"cannot write {target}: {problem.strerror}", "Check the folder and its free space."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _line(row: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be written
        return (json.dumps(row, separators=(",", ":")) + "\n").encode()


def _nothing(found: Export, form: str) -> CliError:
    """Says why no row came of the files."""
    if not found.rollouts:
        return CliError("the files hold no rollouts", "Collect some: gymctl rollouts collect --help")
    details = [f"{count:,} rollouts: {why}" for why, count in found.left_out.most_common(_SHOWN_REASONS)]
    if form == "sft":
        hint = "Ask for less: --min-reward, --outcome any. Which rewards there are: gymctl rollouts profile"
        return CliError(f"none of the {found.rollouts:,} rollouts can be used", hint, details)
    details += [f"{count:,} tasks: {why}" for why, count in found.without_pairs.most_common(_SHOWN_REASONS)]
    hint = "A pair needs two rollouts of one task with different rewards: collect with --repeats 4 or more."
    return CliError(f"no pair in {found.rollouts:,} rollouts of {found.tasks:,} tasks", hint, details)


def _tell(settings: Settings, found: Export, form: str, target: Path) -> None:
    from gymctl.output import note, show_json

    pairs = {"tasks": found.tasks, "tasks_without_pairs": dict(found.without_pairs.most_common())}
    if settings.output_format == "json":
        show_json(
            {
                "output": str(target),
                "form": form,
                "rollouts": found.rollouts,
                "rows": found.rows,
                "left_out": dict(found.left_out.most_common()),
                **(pairs if form == "dpo" else {}),
            }
        )
        return
    what = "conversations" if form == "sft" else f"pairs of {found.tasks:,} tasks"
    note(f"{found.rows:,} {what} from {found.rollouts:,} rollouts; in {target}")
    for why, count in found.left_out.most_common(_SHOWN_REASONS):
        note(f"Left out {count:,} x {why}.")
    for why, count in found.without_pairs.most_common(_SHOWN_REASONS):
        note(f"Tasks without a pair {count:,} x {why}.")

"""`gymctl data prepare`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gymctl.options import Settings, check_overrides, common, config_option, overrides_argument

__all__ = ["prepare"]

# With these a million rows take less than 300 MB: each has the tokenizer and what it remembers.
_MOST_WORKERS = 3


def _workers() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST_WORKERS)


@click.command(short_help="Check and measure datasets, and make train.jsonl and validation.jsonl of them.")
@config_option("Configuration. Repeatable.", required=True)
@click.option(
    "--mode",
    required=True,
    type=click.Choice(["train_preparation", "example_validation"]),
    help="Which datasets: those of type train, validation and benchmark, or those of type example.",
)
@click.option(
    "--output-dir",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the prepared files go: <type>.jsonl and <type>_metrics.json.",
)
@click.option(
    "--tokenizer",
    metavar="PATH",
    help="A tokenizer.json, or its folder, to count tokens with; `none` counts none.  "
    "[default: that of the embedded model, SmolLM2]",
)
@click.option("--shuffle", is_flag=True, help="Put the rows of train.jsonl into random order.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same order.")
@click.option(
    "--blend",
    multiple=True,
    metavar="NAME=WEIGHT",
    help="Shares of the train datasets in train.jsonl. Repeatable; see above.",
)
@click.option(
    "--overwrite-metrics", is_flag=True, help="Accept metrics that differ from those written before."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help=f"Processes that check and measure, of about 70 MB.  [default: the cores, at most {_MOST_WORKERS}]",
)
@overrides_argument
@common
@click.pass_obj
def prepare(
    settings: Settings,
    configs: tuple[str, ...],
    mode: str,
    output_dir: Path,
    tokenizer: str | None,
    shuffle: bool,
    seed: int,
    blend: tuple[str, ...],
    overwrite_metrics: bool,
    workers: int | None,
    overrides: tuple[str, ...],
) -> int:
    """Check and measure datasets, and make train.jsonl and validation.jsonl of them.

    The datasets are those that the agents of the configuration list; models need not be configured. Missing
    files are named before anything is read. Then every row is checked against the Responses schema: what is
    wrong is named with file, lines and reason, and nothing is written. The metrics of each dataset go into
    <file>_metrics.json beside it. If that is there and says something else, the new one is kept in
    <file>_metrics_conflict.json and the command fails. The rows of all datasets of a type, each with the
    agent_ref of its agent and else byte for byte as they are, go into <type>.jsonl.

    start_idx and end_idx of a dataset cut its rows; with num_repeats each row is written so often, aabbcc.

    --blend mixes the train datasets by weight: `--blend math=3 --blend code=1` gives three rows of math for
    one of code, exactly. train.jsonl is as large as it can be without using a row twice, so the dataset that
    runs out first decides. Without --shuffle the first rows of each are taken and spread evenly, with it rows
    by chance. A dataset is named by its name, its agent's, or agent/name. Give every train dataset a weight;
    0 leaves it out.

    Memory does not grow with the files, except by 8 bytes for each different input, message, and value of a
    text field. Exits with 0 if all is well, else with 1.

    \b
    Examples:
      gymctl data prepare -c mcqa --mode example_validation --output-dir prepared
      gymctl data prepare -c servers.yaml --mode train_preparation --output-dir prepared --shuffle --seed 7
      gymctl data prepare -c servers.yaml --mode train_preparation --output-dir prepared \\
          --blend math=2 --blend code=1 --tokenizer models/qwen/tokenizer.json
    """
    if mode != "train_preparation" and (shuffle or blend):
        raise click.UsageError("--shuffle and --blend are for --mode train_preparation.")
    check_overrides(overrides)

    # Here, so that the mistakes above are told at once.
    from gymctl.prepare.command import Options, prepare_command

    options = Options(
        configs=configs,
        overrides=overrides,
        mode=mode,
        output_dir=output_dir,
        tokenizer=tokenizer,
        workers=workers or _workers(),
        shuffle=shuffle,
        seed=seed,
        blend=blend,
        overwrite_metrics=overwrite_metrics,
    )
    return prepare_command(options, settings.output_format)

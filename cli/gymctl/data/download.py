"""`gymctl data download`."""

from __future__ import annotations

from pathlib import Path

import click

from gymctl.options import (
    Settings,
    check_overrides,
    common,
    config_option,
    file_option,
    overrides_argument,
)
from gymctl.transfer.arguments import STORAGE_NAMES, registry_options

__all__ = ["download"]

_TYPES = ("train", "validation", "example", "benchmark")


@click.command(short_help="Fetch datasets from Hugging Face or an MLflow or GitLab registry.")
@config_option("Configuration whose missing datasets are fetched. Repeatable.")
@click.option(
    "--type", "types", multiple=True, type=click.Choice(_TYPES), help="Only of this type. Repeatable."
)
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="Only this dataset of the configuration."
)
@click.option(
    "--storage",
    type=click.Choice(STORAGE_NAMES),
    help="Where a single file is; with -c, which source to prefer if a dataset names two.",
)
@click.option("--repo", metavar="ORG/NAME", help="Hugging Face: the dataset's repository.")
@click.option("--revision", metavar="REV", help="Hugging Face: branch, tag or commit.  [default: main]")
@registry_options
@click.option("--file", metavar="PATH", help="Path of the file in the repository or version.")
@file_option("--output", help_text="Where it goes.")
@click.option("--overwrite", is_flag=True, help="Fetch what is there already as well.")
@click.option("--dry-run", is_flag=True, help="Look everything up, and fetch nothing.")
@overrides_argument
@common
@click.pass_obj
def download(
    settings: Settings,
    configs: tuple[str, ...],
    types: tuple[str, ...],
    names: tuple[str, ...],
    storage: str | None,
    repo: str | None,
    revision: str | None,
    dataset: str | None,
    version: str | None,
    file: str | None,
    output: Path | None,
    overwrite: bool,
    dry_run: bool,
    overrides: tuple[str, ...],
) -> int:
    """Fetch datasets from Hugging Face, or from a model registry of MLflow or GitLab.

    With -c every dataset of the agents is fetched whose file is missing and that has a source; it goes where
    its jsonl_fpath says, and `gymctl data prepare` finds it there. Without -c name one file and --output.

    A file gets its name when it is whole and its checksum is right. Interrupted, the command continues where
    it stopped when it is run again (where the store gives a checksum).

    env.yaml holds the settings: hf_token and hf_endpoint, mlflow_tracking_uri and mlflow_tracking_token. What
    is not there comes from the environment: HF_TOKEN, HF_ENDPOINT, MLFLOW_TRACKING_URI,
    MLFLOW_TRACKING_TOKEN.

    \b
    Examples:
      gymctl data download -c workplace_assistant
      gymctl data download --repo nvidia/HelpSteer3 --file train.jsonl --output data/train.jsonl
      gymctl data download --storage gitlab --dataset multineedle --version 0.0.1 \\
          --file multineedle_benchmark.jsonl --output data/multineedle_benchmark.jsonl
    """
    check_overrides(overrides)
    # Here, so that mistakes on the command line are told at once.
    from gymctl.transfer.download import Download, download_command
    from gymctl.transfer.plan import HUB, REGISTRY, STORAGES
    from gymd.config import GitlabSource, HuggingfaceSource

    single = {"--repo": repo, "--dataset": dataset, "--version": version, "--file": file, "--output": output}
    given = [name for name, value in {**single, "--revision": revision}.items() if value]
    if configs:
        if given:
            raise click.UsageError(f"{given[0]} is for a single file, without -c.")
        return download_command(
            Download(configs, overrides, types, names, storage, overwrite=overwrite, dry_run=dry_run),
            settings.output_format,
        )
    if types or names:
        raise click.UsageError("--type and --name choose among the datasets of a configuration: add -c.")
    if not given:
        raise click.UsageError("Say what to fetch: -c FILE, or --repo ORG/NAME --file PATH --output FILE.")
    store = STORAGES[storage] if storage else (HUB if repo else REGISTRY)
    wanted = ["--repo"] if store == HUB else ["--dataset", "--version"]
    wanted += ["--file", "--output"]
    if missing := [name for name in wanted if not single[name]]:
        raise click.UsageError(f"Missing: {', '.join(missing)}.")
    usable = [*wanted, "--revision"] if store == HUB else wanted
    if extra := [name for name in given if name not in usable]:
        raise click.UsageError(f"{extra[0]} is not for this storage.")
    source: HuggingfaceSource | GitlabSource
    if store == HUB:
        source = HuggingfaceSource(repo_id=repo or "", artifact_fpath=file)
    else:
        source = GitlabSource(dataset_name=dataset or "", version=version or "", artifact_fpath=file or "")
    options = Download(
        overrides=overrides,
        source=source,
        revision=revision,
        output=output,
        overwrite=overwrite,
        dry_run=dry_run,
    )
    return download_command(options, settings.output_format)

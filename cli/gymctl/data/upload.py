"""`gymctl data upload`."""

from __future__ import annotations

from pathlib import Path

import click

from gymctl.options import Settings, check_overrides, common, config_option, overrides_argument
from gymctl.transfer.arguments import STORAGE_NAMES, registry_options

__all__ = ["upload"]

_HUB_ONLY = ("--repo", "--name", "--revision", "--create-pr", "--message", "--collection", "--public")
_REGISTRY_ONLY = ("--dataset", "--version", "--overwrite")


@click.command(short_help="Put a dataset on Hugging Face or into an MLflow or GitLab registry.")
@click.option(
    "--file",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file with the rows, as JSON lines.",
)
@click.option(
    "--storage",
    type=click.Choice(STORAGE_NAMES),
    default="huggingface",
    show_default=True,
    help="Where to.",
)
@config_option("Configuration of the resources server that gives the repository its name. Repeatable.")
@click.option("--split", metavar="SPLIT", help="Name the file after its split: train becomes train.jsonl.")
@click.option("--path-in-repo", metavar="PATH", help="Path of the file there.  [default: its name here]")
@click.option("--repo", metavar="ORG/NAME", help="Hugging Face: the repository, instead of the name by -c.")
@click.option(
    "--name", metavar="NAME", help="Hugging Face: last part of the name by -c.  [default: the server's]"
)
@click.option("--revision", metavar="BRANCH", help="Hugging Face: the branch.  [default: main]")
@click.option("--create-pr", is_flag=True, help="Hugging Face: propose the file in a pull request.")
@click.option("--message", metavar="TEXT", help="Hugging Face: what the commit is called.")
@click.option(
    "--private/--public",
    default=True,
    help="Hugging Face: who sees a repository that is made.  [default: private]",
)
@click.option(
    "--collection", metavar="SLUG", help="Hugging Face: collection to put it into.  [default: env.yaml's]"
)
@click.option("--no-collection", is_flag=True, help="Hugging Face: put it into no collection.")
@registry_options
@click.option("--overwrite", is_flag=True, help="MLflow: replace a file that the version has already.")
@click.option("--dry-run", is_flag=True, help="Check the file and say where it would go.")
@overrides_argument
@common
@click.pass_obj
def upload(
    settings: Settings,
    file: Path,
    storage: str,
    configs: tuple[str, ...],
    split: str | None,
    path_in_repo: str | None,
    repo: str | None,
    name: str | None,
    revision: str | None,
    create_pr: bool,
    message: str | None,
    private: bool,
    collection: str | None,
    no_collection: bool,
    dataset: str | None,
    version: str | None,
    overwrite: bool,
    dry_run: bool,
    overrides: tuple[str, ...],
) -> int:
    """Put a dataset on Hugging Face, or into a model registry of MLflow or GitLab.

    Every line of the file is read first: what is no JSON object stops the command.

    Hugging Face: the repository is made if it is missing, private unless --public is given. Its name is
    --repo, or as in NeMo Gym hf_organization/hf_dataset_prefix-domain-name: the first two from env.yaml, the
    domain of the resources server of -c, and --name or the server's name. With hf_collection_name and
    hf_collection_slug in env.yaml it is put into that collection.

    MLflow, GitLab: a dataset is a registered model, and --version one of its versions; both are made if
    missing. A version keeps its files: raise --version to change one.

    Tokens and addresses: see `gymctl data download --help`.

    \b
    Examples:
      gymctl data upload --file data/train.jsonl -c mcqa --split train
      gymctl data upload --file data/train.jsonl --repo my-org/my-dataset --create-pr
      gymctl data upload --storage gitlab --dataset multineedle --version 0.0.1 --file data/multineedle.jsonl
    """
    check_overrides(overrides)
    # Here, so that mistakes on the command line are told at once.
    from gymctl.transfer.plan import HUB, STORAGES
    from gymctl.transfer.upload import Upload, upload_command

    store = STORAGES[storage]
    given = {
        "--repo": repo,
        "--name": name,
        "--revision": revision,
        "--create-pr": create_pr,
        "--message": message,
        "--collection": collection,
        "--public": not private,
        "--dataset": dataset,
        "--version": version,
        "--overwrite": overwrite,
    }
    others = _REGISTRY_ONLY if store == HUB else _HUB_ONLY
    if extra := [option for option in others if given[option]]:
        raise click.UsageError(f"{extra[0]} is not for --storage {storage}.")
    missing = [option for option in ("--dataset", "--version") if store != HUB and not given[option]]
    if missing:
        raise click.UsageError(f"Missing: {', '.join(missing)}.")
    if split and path_in_repo:
        raise click.UsageError("--split and --path-in-repo both name the file: give one.")
    if create_pr and revision:
        raise click.UsageError("--create-pr proposes the file for main: leave out --revision.")
    options = Upload(
        file=file,
        storage=store,
        configs=configs,
        overrides=overrides,
        path=_path_there(f"{split}{file.suffix}" if split else path_in_repo),
        repo=repo or "",
        name=name or "",
        revision=revision,
        private=private,
        create_pr=create_pr,
        message=message or "",
        collection="" if no_collection else collection,
        dataset=dataset or "",
        version=version or "",
        overwrite=overwrite,
        dry_run=dry_run,
    )
    return upload_command(options, settings.output_format)


def _path_there(path: str | None) -> str:
    if not path:
        return ""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise click.UsageError(f"{path!r} is no path of a file in a repository.")
    return path

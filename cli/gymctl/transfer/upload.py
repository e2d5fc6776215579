"""`gymctl data upload` from beginning to end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymctl.errors import CliError
from gymctl.output import note, seconds, show
from gymctl.transfer.access import Access, find_access, load_values
from gymctl.transfer.fetch import hash_file
from gymctl.transfer.hub import Hub, HubUpload
from gymctl.transfer.plan import HUB, repo_name
from gymctl.transfer.progress import size_text
from gymctl.transfer.registry import Registry, RegistryUpload
from gymctl.transfer.rows import check_rows
from gymd.config import GymConfig

__all__ = ["Upload", "upload_command"]


@dataclass(frozen=True)
class Upload:
    """What was asked for on the command line."""

    file: Path
    storage: str = HUB
    configs: Sequence[str] = ()
    overrides: Sequence[str] = ()
    path: str = ""
    """Of the file in the repository; empty: its name here."""
    repo: str = ""
    name: str = ""
    revision: str | None = None
    private: bool = True
    create_pr: bool = False
    message: str = ""
    collection: str | None = None
    """None: the one of env.yaml; empty: none."""
    dataset: str = ""
    version: str = ""
    overwrite: bool = False
    dry_run: bool = False


def upload_command(options: Upload, output_format: str) -> int:
    """Runs the command; returns its exit code."""
    start = time.monotonic()
    config = load_values(options.configs, options.overrides)
    access = find_access(config.raw)
    checked = check_rows(options.file)
    if checked.problem:
        raise CliError(f"{options.file} is no dataset of JSON lines: {checked.problem}", "Correct the file.")
    if checked.tasks < checked.rows:
        without = checked.rows - checked.tasks
        note(f"{without:,} of {checked.rows:,} rows have no responses_create_params: they are no tasks.")
    size, digest = hash_file(options.file)
    document: dict[str, Any] = {
        "file": str(options.file),
        "storage": options.storage,
        "rows": checked.rows,
        "bytes": size,
        "sha256": digest,
    }
    place = _hub_upload(options, access, config) if options.storage == HUB else _registry(options, digest)
    where = place.repo if isinstance(place, HubUpload) else f"{place.dataset} {place.version}"
    if options.dry_run:
        document |= {"state": "would upload", "path": place.path}
        document |= _target(place)
    else:
        if size > 1_000_000:
            note(f"uploading {options.file.name} ({size_text(size)}) to {where}")
        if isinstance(place, HubUpload):
            document |= {"state": "uploaded", **Hub(access).upload(place)}
        else:
            document |= {"state": "uploaded", **Registry(access).upload(place)}
    row = (options.file, document["state"], f"{checked.rows:,}", size_text(size), f"{where}: {place.path}")
    show(output_format, document, ("FILE", "STATE", ("ROWS", "right"), ("SIZE", "right"), "TO"), [row])
    if not options.dry_run:
        if url := document.get("url"):
            note(f"See it at {url}")
        note(f"Uploaded ({seconds(time.monotonic() - start)})")
    return 0


def _target(place: HubUpload | RegistryUpload) -> dict[str, Any]:
    if isinstance(place, RegistryUpload):
        return {"dataset": place.dataset, "version": place.version}
    return {
        "repo": place.repo,
        "private": place.private,
        "create_pr": place.create_pr,
        "collection": place.collection or None,
    }


def _hub_upload(options: Upload, access: Access, config: GymConfig) -> HubUpload:
    repo = options.repo or _repo_of(options, access, config)
    collection = options.collection
    if collection is None:
        # A file that is only proposed is not yet there to be shown.
        collection = "" if options.create_pr else _collection_of(access)
    return HubUpload(
        file=options.file,
        repo=repo,
        path=options.path or options.file.name,
        revision=options.revision,
        private=options.private,
        create_pr=options.create_pr,
        message=options.message,
        collection=collection,
    )


def _repo_of(options: Upload, access: Access, config: GymConfig) -> str:
    """The name that NeMo Gym gives to a dataset of a resources server."""
    servers = [server for server in config.servers if server.kind == "resources"]
    if len(servers) > 1:
        names = ", ".join(server.name for server in servers)
        raise CliError(
            f"the configuration has several resources servers: {names}", "Name the repository with --repo."
        )
    if not servers:
        raise CliError(
            "nothing names the repository",
            "Name it with --repo ORG/NAME, or the configuration of its resources server with -c.",
        )
    domain = str(servers[0].config.get("domain") or "")
    name = options.name or servers[0].implementation
    return repo_name(access.hf_organization, access.hf_dataset_prefix, domain, name)


def _collection_of(access: Access) -> str:
    """The slug of env.yaml's collection: organisation/name-id, as the hub writes it."""
    if not (access.hf_collection_name and access.hf_collection_slug):
        return ""
    if not access.hf_organization:
        raise CliError(
            "nothing says whose the collection is", "Set hf_organization in env.yaml, or --no-collection."
        )
    name = access.hf_collection_name.lower().replace(" ", "-")
    return f"{access.hf_organization}/{name}-{access.hf_collection_slug}"


def _registry(options: Upload, digest: str) -> RegistryUpload:
    return RegistryUpload(
        file=options.file,
        dataset=options.dataset,
        version=options.version,
        path=options.path or options.file.name,
        sha256=digest,
        overwrite=options.overwrite,
    )

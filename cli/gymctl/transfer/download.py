"""`gymctl data download` from beginning to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymctl.errors import CliError
from gymctl.output import note, seconds, show
from gymctl.transfer.access import Access, find_access, load_values
from gymctl.transfer.fetch import HttpFailure, Remote, Unreachable, fetch, hash_file
from gymctl.transfer.hub import Hub, choose_file
from gymctl.transfer.plan import STORAGES, Wanted, choose_wanted
from gymctl.transfer.progress import size_text
from gymctl.transfer.registry import Registry
from gymctl.transfer.rows import check_rows
from gymd.config import GitlabSource, HuggingfaceSource

__all__ = ["Download", "download_command"]

# Enough to tell a dataset from something else.
_CHECKED_ROWS = 100


@dataclass(frozen=True)
class Download:
    """What was asked for on the command line."""

    configs: Sequence[str] = ()
    overrides: Sequence[str] = ()
    types: Sequence[str] = ()
    names: Sequence[str] = ()
    storage: str | None = None
    source: GitlabSource | HuggingfaceSource | None = None
    """One file, asked for by itself."""
    revision: str | None = None
    output: Path | None = None
    overwrite: bool = False
    dry_run: bool = False


@dataclass
class _Done:
    """What became of a dataset."""

    wanted: Wanted
    state: str
    size: int | None = None
    sha256: str = ""
    revision: str = ""
    file: str = ""
    """The file's path in its source."""
    problem: CliError | None = None
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        source = self.wanted.source.model_dump(mode="json") if self.wanted.source else None
        if source and self.file:
            source["artifact_fpath"] = self.file
        return {
            "agent": self.wanted.agent or None,
            "name": self.wanted.name,
            "type": self.wanted.type or None,
            "file": str(self.wanted.path),
            "source": source,
            "state": self.state,
            "bytes": self.size,
            "sha256": self.sha256 or None,
            "revision": self.revision or None,
            "seconds": round(self.seconds, 3),
            "error": self.problem.message if self.problem else None,
        }


class _Stores:
    """The stores, each made when it is first needed: importing their clients takes seconds."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._hub: Hub | None = None
        self._registry: Registry | None = None

    @property
    def hub(self) -> Hub:
        self._hub = self._hub or Hub(self._access)
        return self._hub

    @property
    def registry(self) -> Registry:
        self._registry = self._registry or Registry(self._access)
        return self._registry

    def locate(self, wanted: Wanted, revision: str | None) -> tuple[Remote, str]:
        """Where a dataset's file is, and its path in the source."""
        source = wanted.source
        if isinstance(source, HuggingfaceSource):
            path = source.artifact_fpath
            if path is None:
                path = choose_file(self.hub.files(source.repo_id, revision), wanted.type, source.repo_id)
            return self.hub.locate(source.repo_id, path, revision), path
        assert source is not None
        path = source.artifact_fpath
        return self.registry.locate(source.dataset_name, source.version, path), path

    def explain(self, problem: Exception, wanted: Wanted) -> CliError | None:
        store = self.hub if isinstance(wanted.source, HuggingfaceSource) else self.registry
        return store.explain(problem, wanted.origin)


def download_command(options: Download, output_format: str) -> int:
    """Runs the command; returns its exit code."""
    start = time.monotonic()
    config = load_values(options.configs, options.overrides)
    stores = _Stores(find_access(config.raw))
    if options.source is not None and options.output is not None:
        path = options.output.expanduser().absolute()
        wanted = [Wanted("", path.name, "", path, path.exists(), options.source)]
        if path.exists() and not options.overwrite:
            raise CliError(f"{options.output} is there already", "Replace it with --overwrite.")
    else:
        storage = STORAGES[options.storage] if options.storage else None
        wanted = choose_wanted(config, options.types, options.names, storage)
    done = [_one(stores, one, options) for one in wanted]
    _show(done, output_format)
    failed = [one for one in done if one.problem]
    if failed:
        raise _failure(failed)
    fetched = [one for one in done if one.state == "downloaded"]
    if fetched:
        total = size_text(sum(one.size or 0 for one in fetched))
        files = "1 file" if len(fetched) == 1 else f"{len(fetched)} files"
        note(f"{files}, {total}, downloaded ({seconds(time.monotonic() - start)})")
    elif not options.dry_run:
        note("Nothing to download; --overwrite fetches what is there again.")
    return 0


def _one(stores: _Stores, wanted: Wanted, options: Download) -> _Done:
    """Fetches one dataset, if it has to be; a failure of one must not cost the others."""
    if wanted.is_there and not (options.overwrite and wanted.source):
        return _Done(wanted, "there")
    if wanted.source is None:
        # Whoever makes the file knows how; the others of the configuration can be fetched all the same.
        return _Done(wanted, "no source")
    start = time.monotonic()
    try:
        found = _fetch(stores, wanted, options)
    except CliError as problem:
        found = _Done(wanted, "failed", problem=problem)
    found.seconds = time.monotonic() - start
    return found


def _fetch(stores: _Stores, wanted: Wanted, options: Download) -> _Done:
    remote, path = stores.locate(wanted, options.revision)
    done = _Done(wanted, "would download", remote.size, revision=remote.revision, file=path)
    if options.dry_run:
        return done
    if wanted.is_there and _is_same(remote, wanted.path):
        done.state, done.sha256 = "unchanged", hash_file(wanted.path)[1]
        return done
    is_rows = bool(wanted.agent) or wanted.path.suffix == ".jsonl"

    def accept(part: Path) -> None:
        if is_rows and (problem := check_rows(part, _CHECKED_ROWS).problem):
            hint = "Check that the source names the right file."
            raise CliError(f"{wanted.origin} is no dataset of JSON lines: {problem}", hint)

    try:
        done.size, done.sha256 = asyncio.run(fetch(remote, wanted.path, accept))
    except (HttpFailure, Unreachable) as problem:
        told = stores.explain(problem, wanted)
        assert told is not None
        raise told from None
    done.state = "downloaded"
    return done


def _is_same(remote: Remote, path: Path) -> bool:
    """Whether the file that is there is the one that would be fetched."""
    if remote.checksum is None or remote.checksum.kind != "sha256" or remote.size != path.stat().st_size:
        return False
    return hash_file(path)[1] == remote.checksum.value


def _show(done: Sequence[_Done], output_format: str) -> None:
    rows = [
        (
            one.wanted.label,
            one.state,
            size_text(one.size) if one.size is not None else "",
            _shown(one.wanted.path),
            one.wanted.origin,
        )
        for one in done
    ]
    columns = ("DATASET", "STATE", ("SIZE", "right"), ("FILE", "fold"), ("SOURCE", "fold"))
    show(output_format, {"datasets": [one.document() for one in done]}, columns, rows)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _failure(failed: Sequence[_Done]) -> CliError:
    if len(failed) == 1 and failed[0].problem:
        return failed[0].problem
    details = []
    for one in failed:
        assert one.problem is not None
        details += [f"{one.wanted.label}: {one.problem.message}", f"  {one.problem.hint}"]
    return CliError(
        f"{len(failed)} datasets could not be downloaded",
        "Correct these and run it again: what is there stays.",
        details,
    )

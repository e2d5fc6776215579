"""Dataset repositories of Hugging Face: where a file is, how to upload one, what its failures mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from gymctl.errors import CliError
from gymctl.transfer.access import Access
from gymctl.transfer.clients import is_unreachable, nearest, need, patient
from gymctl.transfer.fetch import Checksum, HttpFailure, Remote, Unreachable

__all__ = ["Hub", "HubUpload", "choose_file"]

Result = TypeVar("Result")

_MAIN = "main"
_TYPE = "dataset"
_SHA1_LENGTH, _SHA256_LENGTH = 40, 64
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_MOST_NAMES = 200
# What the split of a type of dataset is called by others.
_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "benchmark": ("benchmark", "test"),
    "example": ("example", "examples"),
}


@dataclass(frozen=True)
class HubUpload:
    """What is to be uploaded, and where to."""

    file: Path
    repo: str
    path: str
    revision: str | None = None
    """The branch; absent: main."""
    private: bool = True
    """For a repository that has to be made."""
    create_pr: bool = False
    message: str = ""
    collection: str = ""
    """Slug of a collection that the repository is put into."""


class Hub:
    """Hugging Face, or what answers like it at another address.

    Raises:
        CliError: huggingface_hub is not installed; from its methods: with the reason and what to do.
    """

    def __init__(self, access: Access) -> None:
        need("huggingface_hub", "huggingface_hub")
        from huggingface_hub import HfApi, constants, get_token
        from huggingface_hub.utils import disable_progress_bars

        if not sys.stderr.isatty():
            disable_progress_bars()
        # Also what `hf auth login` stored.
        self._access = access if access.hf_token else replace(access, hf_token=get_token() or "")
        self._endpoint = access.hf_endpoint or constants.ENDPOINT
        self._token: str | bool = self._access.hf_token or False
        self._api = HfApi(endpoint=self._endpoint, token=self._token, library_name="gymd")

    # ---- downloading

    def locate(self, repo: str, path: str, revision: str | None = None) -> Remote:
        """Finds a file of a repository, pinned to the commit that it is of now."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        def url(commit: str) -> str:
            return hf_hub_url(repo, path, repo_type=_TYPE, revision=commit, endpoint=self._endpoint)

        found = self._call(
            lambda: get_hf_file_metadata(
                url(revision or _MAIN), token=self._token, endpoint=self._endpoint, library_name="gymd"
            ),
            f"{repo}: {path}",
            repo,
            path,
            revision,
        )
        if not found.commit_hash:
            raise CliError(
                f"{self._endpoint} does not answer as a hub does (no commit)",
                "Check hf_endpoint in env.yaml and HF_ENDPOINT.",
            )
        headers = {"Authorization": f"Bearer {self._access.hf_token}"} if self._access.hf_token else {}
        return Remote(
            url=url(found.commit_hash),
            name=PurePosixPath(path).name,
            size=found.size,
            checksum=_checksum(found.etag),
            headers=headers,
            revision=found.commit_hash,
        )

    def files(self, repo: str, revision: str | None = None) -> list[str]:
        """The paths of all files of a repository."""
        return self._call(lambda: self._list(repo, revision), repo, repo, None, revision)

    def _list(self, repo: str, revision: str | None) -> list[str]:
        return list(self._api.list_repo_files(repo, repo_type=_TYPE, revision=revision))

    # ---- uploading

    def upload(self, upload: HubUpload) -> dict[str, Any]:
        """Uploads a file, making the repository where it is missing; returns where it is now."""
        repo, what = upload.repo, f"{upload.repo}: {upload.path}"
        if not self._access.hf_token:
            raise _no_token(f"uploading to {repo} needs a token")
        self._once(lambda: self._make(upload), repo, repo)
        commit = self._once(
            lambda: self._api.upload_file(
                path_or_fileobj=upload.file,
                path_in_repo=upload.path,
                repo_id=repo,
                repo_type=_TYPE,
                revision=upload.revision,
                create_pr=upload.create_pr,
                commit_message=upload.message or f"Upload {upload.path}",
            ),
            what,
            repo,
        )
        if upload.collection:
            self._collect(upload)
        return {
            "repo": repo,
            "path": upload.path,
            "commit": commit.oid,
            "url": commit.pr_url or f"{self._endpoint}/datasets/{repo}",
            "pull_request": commit.pr_url,
            "collection": upload.collection or None,
        }

    def _make(self, upload: HubUpload) -> None:
        """Makes the repository if it is missing; who only proposes a file need not be allowed to."""
        from huggingface_hub import errors

        try:
            self._api.repo_info(upload.repo, repo_type=_TYPE)
        except errors.GatedRepoError:
            raise
        except errors.RepositoryNotFoundError as problem:
            if problem.response.status_code == 401:
                raise
            self._api.create_repo(upload.repo, repo_type=_TYPE, private=upload.private, exist_ok=True)

    def _collect(self, upload: HubUpload) -> None:
        slug = upload.collection
        try:
            self._api.add_collection_item(slug, item_id=upload.repo, item_type="dataset", exists_ok=True)
        except Exception as problem:
            told = self._explain(problem, f"the collection {slug}")
            if told is None:
                raise
            if getattr(getattr(problem, "response", None), "status_code", 0) == 404:
                told = CliError(
                    f"there is no collection {slug}",
                    "Check hf_collection_name and hf_collection_slug in env.yaml, or --collection.",
                )
            message = f"{upload.path} was uploaded, but not put into the collection: {told.message}"
            raise CliError(message, told.hint) from None

    # ---- failures

    def explain(self, problem: Exception, what: str) -> CliError | None:
        """What a failure of `fetch` means here; None: it is none of the hub's."""
        return self._explain(problem, what)

    def _once(self, call: Callable[[], Result], what: str, repo: str) -> Result:
        try:
            return call()
        except Exception as problem:
            told = self._not_found(problem, repo, None, None) or self._explain(problem, what)
            if told is None:
                raise
            raise told from None

    def _call(
        self, call: Callable[[], Result], what: str, repo: str, path: str | None, revision: str | None
    ) -> Result:
        try:
            return patient(call, _is_passing)
        except Exception as problem:
            told = self._not_found(problem, repo, path, revision) or self._explain(problem, what)
            if told is None:
                raise
            raise told from None

    def _not_found(
        self, problem: Exception, repo: str, path: str | None, revision: str | None
    ) -> CliError | None:
        """What is not there, with the nearest names."""
        from huggingface_hub import errors

        if isinstance(problem, errors.EntryNotFoundError):
            hint = nearest(path or "", self._names(lambda: self._list(repo, revision)), "It has")
            return CliError(f"{repo} has no file {path}", hint or "Check the name of the file.")
        if isinstance(problem, errors.RevisionNotFoundError):
            hint = nearest(revision or "", self._names(lambda: self._revisions(repo)), "It has")
            return CliError(f"{repo} has no revision {revision or _MAIN}", hint or "Check --revision.")
        if isinstance(problem, errors.GatedRepoError):
            return CliError(
                f"{repo} is only for those whom its owners let in",
                f"Ask for access at {self._endpoint}/datasets/{repo}, with the account of the token.",
            )
        if isinstance(problem, errors.RepositoryNotFoundError):
            if not self._access.hf_token:
                return _no_token(f"there is no dataset {repo}, or it is private")
            owner = repo.partition("/")[0]
            hint = nearest(repo, self._names(lambda: self._datasets(owner)), f"{owner} has")
            return CliError(
                f"there is no dataset {repo}, or the token may not see it", hint or "Check the name."
            )
        if isinstance(problem, errors.HFValidationError):
            return CliError(f"{repo!r} is no name of a repository", "Write organisation/name.")
        return None

    def _names(self, call: Callable[[], Sequence[str]]) -> Sequence[str]:
        """Names for a hint; if they cannot be had, none."""
        try:
            return call()
        except Exception:
            return []

    def _revisions(self, repo: str) -> list[str]:
        refs = self._api.list_repo_refs(repo, repo_type=_TYPE)
        return [ref.name for ref in (*refs.branches, *refs.tags)]

    def _datasets(self, owner: str) -> list[str]:
        return [found.id for found in self._api.list_datasets(author=owner, limit=_MOST_NAMES)]

    def _explain(self, problem: Exception, what: str) -> CliError | None:
        from huggingface_hub import errors

        plain = self._access.plain
        if isinstance(problem, RuntimeError) and isinstance(problem.__cause__, Exception):
            # The client wraps what goes wrong in its threads.
            problem = problem.__cause__
        if isinstance(problem, errors.OfflineModeIsEnabled):
            return CliError("HF_HUB_OFFLINE forbids asking the hub", "Unset HF_HUB_OFFLINE.")
        if isinstance(problem, HttpFailure):
            return self._status(problem.status, what, plain(problem))
        if isinstance(problem, errors.HfHubHTTPError):
            said = getattr(problem, "server_message", None) or str(problem).splitlines()[0]
            return self._status(problem.response.status_code, what, plain(said))
        if isinstance(problem, Unreachable) or is_unreachable(problem):
            return CliError(
                f"{plain(self._endpoint)} cannot be reached ({plain(problem)})",
                "Check the network, the proxy, and hf_endpoint in env.yaml; then run it again.",
            )
        if isinstance(problem, errors.FileMetadataError):
            return CliError(
                f"{plain(self._endpoint)} does not answer as a hub does",
                "Check hf_endpoint in env.yaml and HF_ENDPOINT.",
            )
        if isinstance(problem, ValueError | RuntimeError):
            return CliError(f"{what}: {plain(problem)}", "Correct it and run it again.")
        return None

    def _status(self, status: int, what: str, said: str) -> CliError:
        if status == 401 and not self._access.hf_token:
            return _no_token(f"{what}: the hub wants a token")
        if status == 401:
            return CliError(
                "the hub refused the token (401)", "Make a new one and set hf_token in env.yaml, or HF_TOKEN."
            )
        if status == 403:
            return CliError(
                f"the token may not do this with {what} (403: {said})",
                "Use a token that may (uploads: one that writes), or propose the file with --create-pr.",
            )
        if status == 404:
            return CliError(f"{what} is not there (404)", "Check the names.")
        if status == 429:
            return CliError("the hub answers no more for now: too many requests (429)", "Wait some minutes.")
        if status >= 500:
            return CliError(f"the hub has a failure of its own ({status})", "Run it again later.")
        return CliError(f"{what}: {said}", "Correct it and run it again.")


def choose_file(files: Sequence[str], type_: str, repo: str) -> str:
    """The file of a repository that holds the split of a type, where the configuration names none.

    Raises:
        CliError: there is none, or more than one.
    """
    splits = _SPLITS.get(type_, (type_,))
    rows = [path for path in files if path.endswith(".jsonl")]
    for split in splits:
        for exact in (f"{split}.jsonl", f"data/{split}.jsonl"):
            if exact in rows:
                return exact
    words = [path for path in rows if _words(path) & set(splits)]
    found = words or (rows if len(rows) == 1 else [])
    if len(found) == 1:
        return found[0]
    hint = "Name the file with artifact_fpath in the configuration."
    if len(found) > 1:
        raise CliError(f"{repo} has several files for {type_}: {', '.join(found[:8])}", hint)
    if rows:
        raise CliError(f"{repo} has no file for {type_}; it has {', '.join(rows[:8])}", hint)
    kinds = sorted({PurePosixPath(path).suffix for path in files if PurePosixPath(path).suffix})
    text = f"{repo} has no JSON lines (.jsonl)" + (f", only {', '.join(kinds[:8])}" if kinds else "")
    # A table has one type for each column: nested objects would come back with keys that they never had.
    raise CliError(text, "Fetch it with its own tools and write rows of JSON; tables would change them.")


def _words(path: str) -> set[str]:
    """The words of a path: data/math-train_v2.jsonl has data, math, train and v2."""
    text = path.removesuffix(".jsonl").lower()
    return set("".join(c if c.isalnum() else " " for c in text).split())


def _checksum(etag: str | None) -> Checksum | None:
    """Files in large storage are tagged with their SHA-256, the others with Git's SHA-1."""
    tag = (etag or "").strip('"').lower()
    if not tag or any(c not in "0123456789abcdef" for c in tag):
        return None
    if len(tag) == _SHA256_LENGTH:
        return Checksum("sha256", tag)
    return Checksum("git-sha1", tag) if len(tag) == _SHA1_LENGTH else None


def _is_passing(problem: Exception) -> bool:
    from huggingface_hub import errors

    if isinstance(problem, errors.OfflineModeIsEnabled):
        return False
    if isinstance(problem, errors.HfHubHTTPError):
        return problem.response.status_code in _PASSING
    return is_unreachable(problem)


def _no_token(what: str) -> CliError:
    return CliError(what, "Set hf_token in env.yaml, or the environment variable HF_TOKEN.")

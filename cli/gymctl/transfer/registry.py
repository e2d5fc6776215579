"""Model registries that speak MLflow's protocol, GitLab's among them, used as a store of datasets.

A dataset is a registered model, each of its versions a model version, and its files that version's artifacts.
GitLab knows versions of three numbers; it takes ours from the tag `gitlab.version`. MLflow counts versions
itself, so there the same tag tells which one is meant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from aiohttp import BasicAuth

from gymctl.errors import CliError
from gymctl.transfer.access import Access
from gymctl.transfer.clients import is_unreachable, nearest, need
from gymctl.transfer.fetch import Checksum, HttpFailure, Remote, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Registry", "RegistryUpload"]

Result = TypeVar("Result")

_VERSION_TAG = "gitlab.version"
_EXPERIMENT = "gymd-datasets"
_GITLAB_PATH = re.compile(r"/api/v\d+/projects/[^/]+/ml/mlflow$")
_MOST_NAMES = 200
_HTTP = ("http", "https")
# Of the client, unless somebody set them: it would ask for minutes, report home, and write to stdout.
_CLIENT_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


@dataclass(frozen=True)
class RegistryUpload:
    """What is to be uploaded, and where to."""

    file: Path
    dataset: str
    version: str
    path: str
    sha256: str
    overwrite: bool = False


class Registry:
    """A model registry.

    Raises:
        CliError: mlflow is not installed, or no address is set; from methods: the reason and what to do.
    """

    def __init__(self, access: Access) -> None:
        if not access.mlflow_tracking_uri:
            raise CliError(
                "the address of the registry is not set",
                "Set mlflow_tracking_uri in env.yaml, or the environment variable MLFLOW_TRACKING_URI.",
            )
        for name, value in _CLIENT_SETTINGS.items():
            os.environ.setdefault(name, value)
        if access.mlflow_tracking_token:
            # Its client takes the token from nowhere else.
            os.environ["MLFLOW_TRACKING_TOKEN"] = access.mlflow_tracking_token
        mlflow = need("mlflow", "mlflow-skinny")
        self._access = access
        self._uri = access.mlflow_tracking_uri
        self._client = mlflow.MlflowClient(tracking_uri=self._uri, registry_uri=self._uri)

    @property
    def is_gitlab(self) -> bool:
        """Whether it is GitLab's, which has versions of three numbers and no search for them."""
        return bool(_GITLAB_PATH.search(urlsplit(self._uri).path))

    # ---- downloading

    def locate(self, dataset: str, version: str, path: str) -> Remote:
        """Finds a file of a version of a dataset."""
        what = f"{dataset} {version}: {path}"
        with self._told(what):
            found = self._find(dataset, version)
            if found is None:
                raise CliError(f"{dataset} has no version {version}", self._version_hint(dataset, version))
            store = self._store(self._root(found))
            size = self._size_of(store, path, what)
        value = found.tags.get(_sum_tag(path), "")
        checksum = Checksum("sha256", value) if re.fullmatch(r"[0-9a-f]{64}", value) else None
        name = PurePosixPath(path).name
        revision = f"{version} (MLflow's {found.version})" if not self.is_gitlab else version
        if urlsplit(store.artifact_uri).scheme in _HTTP:
            url = f"{store.artifact_uri.rstrip('/')}/{quote(path)}"
            return Remote(url, name, size, checksum, self._headers(url), revision)
        copy = self._copier(store, path, what)
        return Remote(store.artifact_uri, name, size, checksum, {}, revision, copy)

    def _find(self, dataset: str, version: str) -> Any:
        """The model version; None: the dataset has none such.

        Raises:
            CliError: there is no such dataset.
        """
        from mlflow.exceptions import MlflowException

        try:
            # GitLab has no search; for MLflow this tells a missing dataset from a missing version.
            self._client.get_registered_model(dataset)
        except MlflowException as problem:
            if _status_of(problem) != 404:
                raise
            hint = nearest(dataset, self._datasets(), "It has") or "Check the name of the dataset."
            raise CliError(f"the registry has no dataset {dataset}", hint) from None
        if not self.is_gitlab:
            found = [one for one in self._versions(dataset) if one.tags.get(_VERSION_TAG) == version]
            return max(found, key=lambda one: int(one.version), default=None)
        try:
            return self._client.get_model_version(dataset, version)
        except MlflowException as problem:
            if _status_of(problem) == 404:
                return None
            raise

    def _versions(self, dataset: str) -> list[Any]:
        found: list[Any] = []
        token = None
        while True:
            page = self._client.search_model_versions(_named(dataset), page_token=token)
            found += page
            token = page.token
            if not token:
                return found

    def _version_hint(self, dataset: str, version: str) -> str:
        if self.is_gitlab:
            return "Check the version."
        tags = [one.tags.get(_VERSION_TAG, "") for one in self._versions(dataset)]
        known = nearest(version, filter(None, tags), "It has")
        return known or f"None of its versions has a tag {_VERSION_TAG}."

    def _datasets(self) -> list[str]:
        return [one.name for one in self._client.search_registered_models(max_results=_MOST_NAMES)]

    def _root(self, version: Any) -> str:
        """Where the artifacts of a version are."""
        if version.run_id:
            return str(self._client.get_run(version.run_id).info.artifact_uri)
        return str(version.source)

    def _store(self, root: str) -> Any:
        from mlflow.artifacts import get_artifact_repository

        return get_artifact_repository(root, tracking_uri=self._uri)

    def _size_of(self, store: Any, path: str, what: str) -> int | None:
        """The size of a file; None: the store does not tell.

        Raises:
            CliError: there is no such file.
        """
        if self.is_gitlab:
            return None
        folder = str(PurePosixPath(path).parent)
        listed = store.list_artifacts(None if folder == "." else folder)
        sizes = {one.path: one.file_size for one in listed if not one.is_dir}
        if path not in sizes:
            hint = nearest(path, sizes or [one.path for one in listed], "It has")
            raise CliError(f"{what} is not there", hint or "Check the path of the file.")
        size = sizes[path]
        return int(size) if size is not None else None

    def _headers(self, url: str) -> dict[str, str]:
        """The credentials as MLflow's client finds them, for the registry's own host only."""
        if urlsplit(url).netloc != urlsplit(self._uri).netloc:
            return {}
        from mlflow.utils.credentials import get_default_host_creds

        found = get_default_host_creds(self._uri)
        if found.username and found.password:
            return {"Authorization": BasicAuth(found.username, found.password).encode()}
        return {"Authorization": f"Bearer {found.token}"} if found.token else {}

    def _copier(self, store: Any, path: str, what: str) -> Callable[[Path], None]:
        """For artifacts in storage that only MLflow's client can read."""

        def copy(target: Path) -> None:
            with self._told(what), TemporaryDirectory(prefix=".fetch-", dir=target.parent) as folder:
                try:
                    Path(store.download_artifacts(path, folder)).replace(target)
                finally:
                    # Nobody else ends its threads.
                    store.thread_pool.shutdown()

        return copy

    # ---- uploading

    def upload(self, upload: RegistryUpload) -> dict[str, Any]:
        """Uploads a file into a version, making the dataset and the version where they are missing."""
        what = f"{upload.dataset} {upload.version}: {upload.path}"
        with self._told(what):
            self._make_dataset(upload.dataset)
            found = self._find(upload.dataset, upload.version)
            made = found is None
            if found is None and self.is_gitlab:
                found = self._make_version(upload, source=upload.version, run_id=None)
            if found is None:
                found = self._upload_into_run(upload)
            else:
                self._add_file(found, upload)
            self._note_sum(found, upload)
        return {
            "dataset": upload.dataset,
            "version": upload.version,
            "path": upload.path,
            "made_version": made,
            "registry": self._access.plain(self._uri),
        }

    def _make_dataset(self, dataset: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(dataset)
        except MlflowException as problem:
            if problem.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _make_version(self, upload: RegistryUpload, source: str, run_id: str | None) -> Any:
        return self._client.create_model_version(
            upload.dataset, source, run_id, tags={_VERSION_TAG: upload.version}, await_creation_for=0
        )

    def _upload_into_run(self, upload: RegistryUpload) -> Any:
        """MLflow: the file first, so that there is never a version without its file."""
        run = self._client.create_run(self._experiment(), run_name=f"{upload.dataset} {upload.version}")
        run_id, status = run.info.run_id, "FAILED"
        try:
            self._log_file(run_id, upload)
            version = self._make_version(upload, run.info.artifact_uri, run_id)
            status = "FINISHED"
        finally:
            self._client.set_terminated(run_id, status)
        return version

    def _experiment(self) -> str:
        if found := self._client.get_experiment_by_name(_EXPERIMENT):
            return str(found.experiment_id)
        return str(self._client.create_experiment(_EXPERIMENT))

    def _add_file(self, version: Any, upload: RegistryUpload) -> None:
        if not self.is_gitlab and not upload.overwrite and self._has_file(version, upload.path):
            text = f"{upload.dataset} {upload.version} has a file {upload.path} already"
            raise CliError(text, "Raise --version, or replace the file with --overwrite.")
        self._log_file(version.run_id, upload)

    def _has_file(self, version: Any, path: str) -> bool:
        folder = str(PurePosixPath(path).parent)
        listed = self._store(self._root(version)).list_artifacts(None if folder == "." else folder)
        return any(one.path == path for one in listed)

    def _log_file(self, run_id: str, upload: RegistryUpload) -> None:
        path = PurePosixPath(upload.path)
        folder = "" if str(path.parent) == "." else str(path.parent)
        with TemporaryDirectory(prefix="gymctl-") as temporary:
            # The client names the artifact after the file.
            named = Path(temporary) / path.name
            named.symlink_to(upload.file.resolve())
            self._client.log_artifact(run_id, str(named), folder)

    def _note_sum(self, version: Any, upload: RegistryUpload) -> None:
        if not self.is_gitlab:
            tag = _sum_tag(upload.path)
            self._client.set_model_version_tag(upload.dataset, version.version, tag, upload.sha256)

    # ---- failures

    def explain(self, problem: Exception, what: str) -> CliError | None:
        """What a failure means here; None: it is none of the registry's."""
        from mlflow.exceptions import MlflowException

        plain = self._access.plain
        if isinstance(problem, HttpFailure):
            return self._status(problem.status, what, plain(problem))
        if (response := getattr(problem, "response", None)) is not None:
            return self._status(response.status_code, what, plain(problem))
        if isinstance(problem, Unreachable) or is_unreachable(problem) or _is_unanswered(problem):
            return CliError(
                f"{plain(self._uri)} cannot be reached",
                "Check the network, the proxy, and mlflow_tracking_uri in env.yaml; then run it again.",
            )
        if isinstance(problem, MlflowException):
            return self._status(_status_of(problem), what, plain(problem.message))
        return None

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except CliError:
            raise
        except Exception as problem:
            told = self.explain(problem, what)
            if told is None:
                raise
            raise told from None

    def _status(self, status: int, what: str, said: str) -> CliError:
        if status == 401:
            had = "refused the token" if self._access.mlflow_tracking_token else "wants a token"
            return CliError(
                f"the registry {had} (401)",
                "Set mlflow_tracking_token in env.yaml, or MLFLOW_TRACKING_TOKEN (GitLab: scope api).",
            )
        if status == 403:
            return CliError(f"the token may not do this with {what} (403)", "Use one that may.")
        if status == 404:
            return CliError(
                f"{what} is not there (404)", "Check the names, and mlflow_tracking_uri in env.yaml."
            )
        if status >= 500:
            return CliError(
                f"the registry has a failure of its own ({status}: {said})", "Run it again later."
            )
        return CliError(f"{what}: {said}", "Correct it and run it again.")


def _named(dataset: str) -> str:
    if "'" in dataset:
        raise CliError(f"{dataset!r} is no name of a dataset", "Leave out the quotation mark.")
    return f"name='{dataset}'"


def _sum_tag(path: str) -> str:
    """The tag of a version that holds the SHA-256 of a file; other characters are not allowed in a tag."""
    return "sha256/" + re.sub(r"[^\w./ -]", "_", path, flags=re.ASCII)


def _status_of(problem: Any) -> int:
    """The HTTP status behind one of the client's exceptions."""
    said = getattr(problem, "json", None)
    if isinstance(said, dict) and "error_code" not in said:
        # GitLab refuses in a form of its own, which the client takes for a failure of the server.
        if found := re.search(r"\b(401|403|404)\b", str(said)):
            return int(found[0])
        if said.get("error") in ("invalid_token", "unauthorized"):
            return 401
        if said.get("error") == "insufficient_scope":
            return 403
    return int(problem.get_http_status_code())


def _is_unanswered(problem: Exception) -> bool:
    """MLflow wraps what its HTTP library says into an exception of its own."""
    text = str(problem)
    return "API request to" in text and "failed with exception" in text

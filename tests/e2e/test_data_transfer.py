"""Datasets in a real MLflow server and in a stand-in of GitLab's; downloads that people interrupt."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gymctl.app import run
from gymd.sdk.testing import eventually
from tests.fakes.gitlab import GITLAB_TOKEN, FakeGitlab, fake_gitlab
from tests.fakes.gymctl import gymctl, start_gymctl
from tests.fakes.hub import TOKEN as HUB_TOKEN
from tests.fakes.hub import fake_hub

# Starting MLflow takes half a minute of CPU, and building its environment as long again.
pytestmark = pytest.mark.timeout(400)

TOKEN = "registry-token-0123456789"
HERE = Path(__file__).resolve()

# MLflow's server without what it needs for models: 230 MB instead of 620.
SERVER_PACKAGES = ["mlflow-skinny==3.17.2", "Flask<4", "Flask-CORS<7", "graphene<4", "sqlalchemy<3"]
SERVER_PACKAGES += ["alembic<2", "huey<4", "pandas<4", "aiohttp<4"]
SERVER_ITSELF = ["mlflow==3.17.2", "mlflow-tracing==3.17.2"]

ROW = {"responses_create_params": {"input": [{"role": "user", "content": "Hi."}]}, "answer": "é"}
ROWS = (json.dumps(ROW) + "\n").encode() * 50
CONFIG = """
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
        - name: train
          type: train
          license: MIT
          jsonl_fpath: data/deep/train.jsonl
          gitlab_identifier: {dataset_name: by_config, version: 1.2.3, artifact_fpath: parts/train.jsonl}
mcqa:
  resources_servers:
    mcqa: {domain: knowledge}
"""


@dataclass
class Server:
    """A running registry."""

    url: str
    folder: Path

    def ask(self, path: str, body: dict[str, Any] | None = None, **query: str) -> Any:
        """Asks without any client of ours."""
        url = f"{self.url}/api/2.0/mlflow/{path}?{urllib.parse.urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
            return json.load(answer)


def server_python(cache: Path) -> Path:
    """The interpreter of an environment with MLflow's server; made once and kept in pytest's cache."""
    folder = cache / "venv"
    python = folder / "bin" / "python"
    wanted = "\n".join(SERVER_PACKAGES + SERVER_ITSELF)
    stamp = cache / "installed"
    if stamp.is_file() and stamp.read_text() == wanted and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = [sys.executable, "-m", "uv"]
    install = [*uv, "pip", "install", "--python", str(python)]
    for command in (
        [*uv, "venv", "--python", sys.executable, str(folder)],
        [*install, *SERVER_PACKAGES],
        [*install, "--no-deps", *SERVER_ITSELF],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"MLflow's server cannot be installed: {done.stderr.strip()[-300:]}")
    stamp.write_text(wanted)
    return python


@contextlib.contextmanager
def mlflow_server(python: Path, folder: Path) -> Iterator[Server]:
    """Runs MLflow's server on a free port; gives its address once it is up."""
    store = f"sqlite:///{folder}/registry.db"
    environment = {
        **os.environ,
        "TEST_REGISTRY_TOKEN": TOKEN,
        # What `mlflow server` tells the process that it starts.
        "_MLFLOW_SERVER_FILE_STORE": store,
        "_MLFLOW_SERVER_REGISTRY_STORE": store,
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(folder / "artifacts"),
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [str(python), "-m", "uvicorn", "--app-dir", str(HERE.parents[1] / "fakes"), "mlflow_app:app"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0", "--no-access-log"],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    log = []
    try:
        for line in process.stderr:
            log.append(line)
            if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                break
        else:
            pytest.fail("MLflow's server did not start:\n" + "".join(log[-20:]))
        yield Server(found[1], folder)
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="module")
def client() -> None:
    """MLflow's client, imported once: its dependencies warn about each other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("mlflow", reason="the extra `data` is not installed")


@pytest.fixture(scope="module")
def server(
    client: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    cache = request.config.cache
    assert cache is not None
    python = server_python(cache.mkdir("mlflow-server"))
    with mlflow_server(python, tmp_path_factory.mktemp("registry")) as found:
        # The database is made by the first question.
        found.ask("experiments/get-by-name", experiment_name="Default")
        yield found


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Desk:
    """A working directory with an env.yaml, and commands that are run there."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        (folder / "rows.jsonl").write_bytes(ROWS)

    def env(self, url: str, token: str) -> None:
        lines = f"mlflow_tracking_uri: {url}\n" + (f"mlflow_tracking_token: {token}\n" if token else "")
        (self.folder / "env.yaml").write_text(lines)

    def run(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = run(["data", *arguments])
        captured = self._capsys.readouterr()
        for secret in (TOKEN, GITLAB_TOKEN):
            assert secret not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    def put(self, dataset: str, version: str, *more: str, storage: str = "mlflow") -> Ran:
        place = ("--storage", storage, "--dataset", dataset, "--version", version)
        return self.run("upload", *place, "--file", "rows.jsonl", *more)

    def get(self, dataset: str, version: str, file: str, *more: str) -> Ran:
        place = ("--dataset", dataset, "--version", version, "--file", file)
        return self.run("download", *place, "--output", "got.jsonl", "--overwrite", *more)

    @property
    def got(self) -> bytes:
        return (self.folder / "got.jsonl").read_bytes()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gymctl.transfer.fetch._BACKOFF_S", 0.001)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"):
        # Set first, so that what the command sets is taken away again.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return Desk(tmp_path, capsys)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
class TestMlflow:
    @pytest.fixture(autouse=True)
    def mlflow_desk(self, desk: Desk, server: Server) -> Desk:
        desk.env(server.url, TOKEN)
        return desk

    def test_there_and_back(self, desk: Desk, server: Server) -> None:
        ran = desk.put("first", "0.0.1", "-o", "json")
        assert ran.code == 0, ran.err
        assert (ran.json["made_version"], ran.json["rows"]) == (True, 50)
        found = server.ask("model-versions/get", name="first", version="1")["model_version"]
        tags = {tag["key"]: tag["value"] for tag in found["tags"]}
        assert tags["gitlab.version"] == "0.0.1"
        assert tags["sha256/rows.jsonl"] == ran.json["sha256"]
        assert found["run_id"]
        ran = desk.get("first", "0.0.1", "rows.jsonl", "-o", "json")
        assert ran.code == 0, ran.err
        assert desk.got == ROWS
        (one,) = ran.json["datasets"]
        assert (one["state"], one["bytes"], one["sha256"]) == (
            "downloaded",
            len(ROWS),
            tags["sha256/rows.jsonl"],
        )

    def test_versions_and_their_files(self, desk: Desk) -> None:
        assert desk.put("many", "0.0.1").code == 0
        (desk.folder / "rows.jsonl").write_bytes(ROWS * 2)
        assert desk.put("many", "0.0.2", "--path-in-repo", "deep/er/a b.jsonl").code == 0
        ran = desk.put("many", "0.0.2", "--path-in-repo", "deep/er/a b.jsonl")
        assert (ran.code, "Raise --version" in ran.err) == (1, True)
        (desk.folder / "rows.jsonl").write_bytes(ROWS * 3)
        assert desk.put("many", "0.0.2", "--path-in-repo", "deep/er/a b.jsonl", "--overwrite").code == 0
        assert desk.put("many", "0.0.2", "--split", "validation").code == 0
        for version, file, count in (
            ("0.0.1", "rows.jsonl", 1),
            ("0.0.2", "deep/er/a b.jsonl", 3),
            ("0.0.2", "validation.jsonl", 3),
        ):
            assert desk.get("many", version, file).code == 0
            assert desk.got == ROWS * count

    def test_what_is_not_there_is_told_with_the_nearest(self, desk: Desk) -> None:
        assert desk.put("known", "0.0.1").code == 0
        for dataset, version, file, said, hint in (
            ("knwon", "0.0.1", "rows.jsonl", "has no dataset knwon", "Nearest: known."),
            ("known", "0.0.2", "rows.jsonl", "known has no version 0.0.2", "Nearest: 0.0.1."),
            ("known", "0.0.1", "row.jsonl", "known 0.0.1: row.jsonl is not there", "Nearest: rows.jsonl."),
        ):
            ran = desk.get(dataset, version, file)
            assert ran.code == 1
            assert said in ran.err
            assert hint in ran.err
        assert not (desk.folder / "got.jsonl").exists()

    @pytest.mark.parametrize(("token", "said"), [("", "wants a token"), ("wrong-token", "refused the token")])
    def test_without_the_token(self, desk: Desk, server: Server, token: str, said: str) -> None:
        desk.env(server.url, token)
        for ran in (desk.put("first", "9.9.9"), desk.get("first", "0.0.1", "rows.jsonl")):
            assert (ran.code, said in ran.err) == (1, True)
            assert "mlflow_tracking_token in env.yaml" in ran.err

    def test_by_configuration_and_prepared(self, desk: Desk) -> None:
        assert desk.put("by_config", "1.2.3", "--path-in-repo", "parts/train.jsonl").code == 0
        (desk.folder / "mesh.yaml").write_text(CONFIG)
        ran = desk.run("download", "-c", "mesh.yaml", "--dry-run", "-o", "json")
        assert ran.json["datasets"][0]["state"] == "would download"
        assert ran.json["datasets"][0]["bytes"] == len(ROWS)
        ran = desk.run("download", "-c", "mesh.yaml")
        assert (ran.code, "1 file, " in ran.err) == (0, True)
        prepare = ("-c", "mesh.yaml", "--mode", "train_preparation", "--tokenizer", "none")
        ran = desk.run("prepare", *prepare, "--output-dir", "out", "-o", "json")
        assert ran.code == 0, ran.err
        assert ran.json["files"][0]["rows"] == 50

    def test_a_wrong_byte_is_seen(self, desk: Desk, server: Server) -> None:
        assert desk.put("damaged", "0.0.1", "--path-in-repo", "damaged.jsonl").code == 0
        (stored,) = server.folder.rglob("damaged.jsonl")
        stored.write_bytes(ROWS.replace(b"Hi", b"Ho"))
        ran = desk.get("damaged", "0.0.1", "damaged.jsonl")
        assert (ran.code, "arrived damaged" in ran.err) == (1, True)
        assert not list(desk.folder.glob("*got.jsonl*"))

    def test_storage_that_only_the_client_can_read(self, desk: Desk, server: Server) -> None:
        """A server that lets its clients go to the storage themselves, as many do with S3."""
        place = desk.folder / "storage"
        made = server.ask("experiments/create", {"name": "direct", "artifact_location": place.as_uri()})
        started = server.ask("runs/create", {"experiment_id": made["experiment_id"]})["run"]["info"]
        stored = Path(urllib.parse.urlsplit(started["artifact_uri"]).path) / "rows.jsonl"
        stored.parent.mkdir(parents=True)
        stored.write_bytes(ROWS)
        server.ask("registered-models/create", {"name": "direct"})
        version = {"name": "direct", "source": started["artifact_uri"], "run_id": started["run_id"]}
        tags = [{"key": "gitlab.version", "value": "0.0.1"}]
        server.ask("model-versions/create", {**version, "tags": tags})
        ran = desk.get("direct", "0.0.1", "rows.jsonl")
        assert ran.code == 0, ran.err
        assert desk.got == ROWS
        assert stored.read_bytes() == ROWS

    async def test_as_a_process_with_the_environment_only(self, desk: Desk, server: Server) -> None:
        (desk.folder / "env.yaml").unlink()
        place = ("--storage", "mlflow", "--dataset", "process", "--version", "0.0.1")
        ran = await gymctl(
            *("data", "upload", *place, "--file", "rows.jsonl"),
            cwd=desk.folder,
            MLFLOW_TRACKING_URI=server.url,
            MLFLOW_TRACKING_TOKEN=TOKEN,
        )
        assert ran.code == 0, ran.err
        assert TOKEN not in ran.out + ran.err
        assert "process 0.0.1: rows.jsonl" in ran.out
        # Nothing of the client's own: no bars, no addresses of runs.
        assert len(ran.err.splitlines()) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.usefixtures("client")
class TestGitlab:
    @pytest.fixture
    def gitlab(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitlab]:
        with fake_gitlab() as gitlab:
            desk.env(gitlab.url, GITLAB_TOKEN)
            yield gitlab

    def test_there_and_back(self, desk: Desk, gitlab: FakeGitlab) -> None:
        for path in ("train.jsonl", "more/valid.jsonl"):
            ran = desk.put("multineedle", "0.0.1", "--path-in-repo", path, storage="gitlab")
            assert ran.code == 0, ran.err
        assert gitlab.models == {"multineedle": {"0.0.1": {"train.jsonl": ROWS, "more/valid.jsonl": ROWS}}}
        ran = desk.get("multineedle", "0.0.1", "more/valid.jsonl", "--storage", "gitlab")
        assert ran.code == 0, ran.err
        assert desk.got == ROWS

    def test_what_is_not_there(self, desk: Desk, gitlab: FakeGitlab) -> None:
        gitlab.models["multineedle"] = {"0.0.1": {}}
        for dataset, version, said in (
            ("multinedle", "0.0.1", "Nearest: multineedle."),
            ("multineedle", "0.0.2", "has no version 0.0.2"),
            ("multineedle", "0.0.1", "multineedle 0.0.1: x.jsonl is not there (404)"),
        ):
            ran = desk.get(dataset, version, "x.jsonl")
            assert ran.code == 1
            assert said in ran.err

    def test_refused(self, desk: Desk, gitlab: FakeGitlab) -> None:
        gitlab.scope = "read_api"
        ran = desk.put("multineedle", "0.0.1")
        assert (ran.code, "the token may not do this" in ran.err) == (1, True)
        desk.env(gitlab.url, "glpat-wrong")
        ran = desk.get("multineedle", "0.0.1", "x.jsonl")
        assert (ran.code, "refused the token (401)" in ran.err) == (1, True)

    def test_nobody_there(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        desk.env("http://127.0.0.1:9", "x")
        ran = desk.get("multineedle", "0.0.1", "x.jsonl")
        assert (ran.code, "http://127.0.0.1:9 cannot be reached" in ran.err) == (1, True)


def part_sizes(folder: Path) -> list[int]:
    """What has arrived of files that are not whole."""
    return [part.stat().st_size for part in folder.glob(".*.part")]


async def test_stopped_by_ctrl_c_it_goes_on_later(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="the extra `data` is not installed")
    rows = ROWS * 100
    with fake_hub() as hub:
        hub.add("org/set", train_jsonl=rows)
        # So much comes, and then nothing more.
        hub.cut_after, hub.stall = [50_000], True
        place = ("--repo", "org/set", "--file", "train.jsonl", "--output", "got.jsonl")
        variables = {"HF_TOKEN": HUB_TOKEN, "HF_ENDPOINT": hub.url}
        process = await start_gymctl("data", "download", *place, cwd=tmp_path, **variables)
        try:
            await hub.until_stalled()
            await eventually(lambda: any(part_sizes(tmp_path)), "a part of the file")
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert (process.returncode, err.decode().strip()) == (1, "Stopped.")
        (arrived,) = part_sizes(tmp_path)
        assert not (tmp_path / "got.jsonl").exists()
        hub.ranges.clear()
        ran = await gymctl("data", "download", *place, "-o", "json", cwd=tmp_path, **variables)
    assert ran.code == 0, ran.err
    assert hub.ranges == [f"bytes={arrived}-"]
    assert (tmp_path / "got.jsonl").read_bytes() == rows
    assert part_sizes(tmp_path) == []

"""`gymctl data download|upload` with Hugging Face, against a stand-in of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gymctl.app import run
from tests.fakes.hub import LFS_FROM, TOKEN, WRITER, FakeHub, Repo, commit_of, fake_hub

pytest.importorskip("huggingface_hub", reason="the extra `data` is not installed")

ROW = {"responses_create_params": {"input": [{"role": "user", "content": "Hi."}]}, "answer": "é"}
SMALL = (json.dumps(ROW) + "\n").encode()
LARGE = SMALL * (3 * LFS_FROM // len(SMALL) + 1)

CONFIG = """
questions:
  resources_servers:
    mcqa: {domain: Knowledge}
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: questions}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
"""


@pytest.fixture(scope="module")
def shared_hub() -> Iterator[FakeHub]:
    with fake_hub() as hub:
        yield hub


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

    def __init__(self, folder: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.hub = hub
        self._capsys = capsys
        self.env()

    def env(self, token: str = TOKEN, **values: str) -> None:
        """Writes env.yaml."""
        lines = {"hf_endpoint": self.hub.url, **({"hf_token": token} if token else {}), **values}
        (self.folder / "env.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))

    def config(self, *datasets: str) -> str:
        """Writes a configuration; returns its name."""
        (self.folder / "mesh.yaml").write_text(CONFIG + "".join(f"        - {one}\n" for one in datasets))
        return "mesh.yaml"

    def run(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = run(["data", *arguments])
        captured = self._capsys.readouterr()
        for text in (captured.out, captured.err):
            assert TOKEN not in text
            assert WRITER not in text
        return Ran(code, captured.out, captured.err)

    def get(self, repo: str, file: str, *more: str) -> Ran:
        return self.run("download", "--repo", repo, "--file", file, "--output", "got.jsonl", *more)

    def parts(self) -> list[Path]:
        return list(self.folder.rglob("*.part"))


@pytest.fixture
def desk(
    tmp_path: Path,
    shared_hub: FakeHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Desk:
    shared_hub.reset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gymctl.transfer.fetch._BACKOFF_S", 0.001)
    monkeypatch.setattr("gymctl.transfer.clients._PAUSES_S", (0.001, 0.001, 0.001))
    # Its own transfer protocol, which a stand-in cannot speak.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    # A thread that nobody ends.
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)
    for name in ("HF_TOKEN", "HF_ENDPOINT", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    return Desk(tmp_path, shared_hub, capsys)


class TestOneFile:
    @pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
    def test_comes_whole_and_checked(self, desk: Desk, data: bytes) -> None:
        repo = desk.hub.add("org/set", train_jsonl=data)
        ran = desk.get("org/set", "train.jsonl", "-o", "json")
        assert ran.code == 0
        assert (desk.folder / "got.jsonl").read_bytes() == data
        (found,) = ran.json["datasets"]
        assert found["state"] == "downloaded"
        assert found["bytes"] == len(data)
        assert found["revision"] == commit_of(repo.files)
        assert found["source"] == {
            "type": "huggingface",
            "repo_id": "org/set",
            "artifact_fpath": "train.jsonl",
        }
        assert desk.hub.leaked == [], "large storage is another host: it must not see the token"
        assert desk.parts() == []

    def test_a_revision(self, desk: Desk) -> None:
        repo = desk.hub.add("org/set", train_jsonl=b"{}\n")
        repo.revisions["v2"] = {"train.jsonl": SMALL}
        assert desk.get("org/set", "train.jsonl", "--revision", "v2").code == 0
        assert (desk.folder / "got.jsonl").read_bytes() == SMALL

    def test_is_not_replaced_unasked(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=SMALL)
        (desk.folder / "got.jsonl").write_text("mine")
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "is there already" in ran.err) == (1, True)
        assert (desk.folder / "got.jsonl").read_text() == "mine"
        assert desk.get("org/set", "train.jsonl", "--overwrite").code == 0
        assert (desk.folder / "got.jsonl").read_bytes() == SMALL

    def test_dry_run_fetches_nothing(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        ran = desk.get("org/set", "train.jsonl", "--dry-run", "-o", "json")
        assert ran.json["datasets"][0]["state"] == "would download"
        assert ran.json["datasets"][0]["bytes"] == len(LARGE)
        assert desk.hub.asked["GET file"] == 0
        assert not (desk.folder / "got.jsonl").exists()

    def test_the_environment_where_env_yaml_is_silent(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.hub.repos["org/set"] = Repo({"train.jsonl": SMALL}, private=True)
        (desk.folder / "env.yaml").unlink()
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_ENDPOINT", desk.hub.url)
        assert desk.get("org/set", "train.jsonl").code == 0

    def test_env_yaml_may_list_a_broken_mesh(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=SMALL)
        desk.env(config_paths="[absent.yaml]")
        assert desk.get("org/set", "train.jsonl").code == 0


class TestTroubleOnTheWay:
    def test_broken_off_it_goes_on_in_the_same_run(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        desk.hub.cut_after = [1000, 500]
        assert desk.get("org/set", "train.jsonl").code == 0
        assert (desk.folder / "got.jsonl").read_bytes() == LARGE
        assert desk.hub.ranges == ["bytes=1000-", "bytes=1500-"]

    def test_given_up_it_goes_on_in_the_next_run(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        desk.hub.cut_after = [1000] + [0] * 5
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "cannot be reached" in ran.err) == (1, True)
        assert not (desk.folder / "got.jsonl").exists()
        (part,) = desk.parts()
        assert part.read_bytes() == LARGE[:1000]
        desk.hub.ranges.clear()
        assert desk.get("org/set", "train.jsonl").code == 0
        assert desk.hub.ranges == ["bytes=1000-"]
        assert (desk.folder / "got.jsonl").read_bytes() == LARGE
        assert desk.parts() == []

    def test_a_part_of_another_content_is_not_used(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        desk.hub.cut_after = [1000] + [0] * 5
        assert desk.get("org/set", "train.jsonl").code == 1
        desk.hub.add("org/set", train_jsonl=LARGE + SMALL)
        desk.hub.ranges.clear()
        assert desk.get("org/set", "train.jsonl").code == 0
        assert desk.hub.ranges == []
        assert (desk.folder / "got.jsonl").read_bytes() == LARGE + SMALL
        assert desk.parts() == []

    def test_a_damaged_part_is_thrown_away(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        desk.hub.cut_after = [1000] + [0] * 5
        assert desk.get("org/set", "train.jsonl").code == 1
        (part,) = desk.parts()
        part.write_bytes(b"x" * 900)
        assert desk.get("org/set", "train.jsonl").code == 0
        assert (desk.folder / "got.jsonl").read_bytes() == LARGE

    def test_ranges_may_be_ignored(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        desk.hub.ignore_ranges = True
        desk.hub.cut_after = [1000]
        assert desk.get("org/set", "train.jsonl").code == 0
        assert (desk.folder / "got.jsonl").read_bytes() == LARGE

    @pytest.mark.parametrize("data", [SMALL, LARGE], ids=["git", "sha256"])
    def test_a_wrong_byte_is_seen(self, desk: Desk, data: bytes) -> None:
        desk.hub.add("org/set", train_jsonl=data)
        desk.hub.corrupt = True
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "arrived damaged" in ran.err) == (1, True)
        assert not (desk.folder / "got.jsonl").exists()
        assert desk.parts() == []

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_failures_that_pass(self, desk: Desk, status: int) -> None:
        desk.hub.add("org/set", train_jsonl=SMALL)
        desk.hub.failures = [status, status]
        assert desk.get("org/set", "train.jsonl").code == 0
        assert desk.hub.asked["HEAD file"] == 3

    def test_failures_that_stay(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=SMALL)
        desk.hub.failures = [500] * 50
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "a failure of its own (500)" in ran.err) == (1, True)
        assert desk.hub.asked["HEAD file"] == 4

    def test_failures_of_the_transfer_itself(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=SMALL)
        desk.hub.late_failures = [503, 429]
        assert desk.get("org/set", "train.jsonl").code == 0
        (desk.folder / "got.jsonl").unlink()
        desk.hub.late_failures = [500] * 50
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "a failure of its own (500)" in ran.err) == (1, True)
        desk.hub.late_failures = [403]
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "the token may not do this" in ran.err) == (1, True)

    def test_nobody_there(self, desk: Desk) -> None:
        desk.env(hf_endpoint="http://127.0.0.1:9")
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "127.0.0.1:9 cannot be reached" in ran.err) == (1, True)
        assert "hf_endpoint in env.yaml" in ran.err

    def test_no_room(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        usage = type("Usage", (), {"free": 100})()
        monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "has 100 bytes left" in ran.err) == (1, True)
        assert desk.parts() == []


class TestRefused:
    def test_a_private_one_without_a_token(self, desk: Desk) -> None:
        desk.hub.repos["org/set"] = Repo({"train.jsonl": SMALL}, private=True)
        desk.env(token="")
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "or it is private" in ran.err, "hf_token" in ran.err) == (1, True, True)

    def test_a_wrong_token(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=SMALL)
        desk.env(token="hf_wrong_0123456789")
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "refused the token (401)" in ran.err) == (1, True)
        assert "hf_wrong" not in ran.out + ran.err

    def test_a_gated_one(self, desk: Desk) -> None:
        desk.hub.repos["org/set"] = Repo({"train.jsonl": SMALL}, gated=True)
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, "Ask for access at" in ran.err) == (1, True)

    @pytest.mark.parametrize(
        ("repo", "file", "more", "said", "hint"),
        [
            ("org/sett", "train.jsonl", (), "there is no dataset org/sett", "Nearest: org/set."),
            ("org/set", "trian.jsonl", (), "org/set has no file trian.jsonl", "Nearest: train.jsonl."),
            ("org/set", "zzz", (), "has no file zzz", "It has: train.jsonl."),
            ("org/set", "train.jsonl", ("--revision", "v3"), "has no revision v3", "Nearest: v2."),
            ("a/b/c", "train.jsonl", (), "no name of a repository", "organisation/name"),
        ],
    )
    def test_what_is_not_there_is_told_with_the_nearest(
        self, desk: Desk, repo: str, file: str, more: tuple[str, ...], said: str, hint: str
    ) -> None:
        desk.hub.add("org/set", train_jsonl=SMALL).revisions["v2"] = {}
        ran = desk.get(repo, file, *more)
        assert ran.code == 1
        assert said in ran.err
        assert hint in ran.err

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"<!DOCTYPE html><html>log in</html>", "it is a web page"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS's pointer"),
            (b"PAR1\x00\x01", "it is a Parquet file"),
            (b"id,answer\n1,2\n", "line 1 is no JSON"),
            (b'{"a": 1}\n[1]\n', "line 2 is JSON, but no object"),
            (b"", "it has no rows"),
        ],
    )
    def test_what_is_no_dataset(self, desk: Desk, data: bytes, said: str) -> None:
        desk.hub.add("org/set", train_jsonl=data)
        ran = desk.get("org/set", "train.jsonl")
        assert (ran.code, said in ran.err) == (1, True)
        assert not (desk.folder / "got.jsonl").exists()
        assert desk.parts() == []

    def test_half_a_surrogate_pair_is_json(self, desk: Desk) -> None:
        row = b'{"responses_create_params": {"input": "x"}, "note": "\\ud83d"}\n'
        desk.hub.add("org/set", train_jsonl=row)
        ran = desk.get("org/set", "train.jsonl")
        assert ran.code == 0, ran.err
        assert (desk.folder / "got.jsonl").read_bytes() == row


class TestConfiguration:
    TRAIN = "{name: train, type: train, license: MIT, jsonl_fpath: data/train.jsonl, %s}"
    VALID = "{name: valid, type: validation, license: MIT, jsonl_fpath: data/valid.jsonl, %s}"
    OWN = "{name: own, type: example, jsonl_fpath: own.jsonl}"
    SOURCE = "source: {type: huggingface, repo_id: org/set}"

    def test_what_is_missing_is_fetched_and_prepare_finds_it(self, desk: Desk) -> None:
        desk.hub.repos["org/set"] = Repo({"data/train.jsonl": LARGE, "valid.jsonl": SMALL})
        (desk.folder / "own.jsonl").write_bytes(SMALL)
        old = "huggingface_identifier: {repo_id: org/set, artifact_fpath: valid.jsonl}"
        config = desk.config(self.TRAIN % self.SOURCE, self.VALID % old, self.OWN)
        ran = desk.run("download", "-c", config, "-o", "json")
        assert ran.code == 0
        states = {one["name"]: one["state"] for one in ran.json["datasets"]}
        assert states == {"train": "downloaded", "valid": "downloaded", "own": "there"}
        assert ran.json["datasets"][0]["source"]["artifact_fpath"] == "data/train.jsonl"
        prepare = ("prepare", "-c", config, "--mode", "train_preparation", "--tokenizer", "none")
        ran = desk.run(*prepare, "--output-dir", "out", "-o", "json")
        assert ran.code == 0
        assert [one["rows"] for one in ran.json["files"]] == [LARGE.count(b"\n"), 1]

    def test_again_there_is_nothing_to_do(self, desk: Desk) -> None:
        desk.hub.add("org/set", train_jsonl=LARGE)
        config = desk.config(self.TRAIN % self.SOURCE)
        assert desk.run("download", "-c", config).code == 0
        desk.hub.asked.clear()
        ran = desk.run("download", "-c", config)
        assert (ran.code, "Nothing to download" in ran.err) == (0, True)
        assert not desk.hub.asked
        ran = desk.run("download", "-c", config, "--overwrite", "-o", "json")
        assert ran.json["datasets"][0]["state"] == "unchanged"
        assert desk.hub.asked["GET blob"] == 0

    def test_one_that_fails_does_not_stop_the_others(self, desk: Desk) -> None:
        desk.hub.repos["org/set"] = Repo({"valid.jsonl": SMALL})
        config = desk.config(
            self.TRAIN % "source: {type: huggingface, repo_id: org/no}", self.VALID % self.SOURCE
        )
        ran = desk.run("download", "-c", config, "-o", "json")
        assert ran.code == 1
        assert [one["state"] for one in ran.json["datasets"]] == ["failed", "downloaded"]
        assert "there is no dataset org/no" in ran.json["datasets"][0]["error"]
        assert "there is no dataset org/no" in ran.err

    def test_those_without_a_source_are_told(self, desk: Desk) -> None:
        ran = desk.run("download", "-c", desk.config(self.OWN), "-o", "json")
        assert ran.json["datasets"][0]["state"] == "no source"

    def test_only_what_is_asked_for(self, desk: Desk) -> None:
        desk.hub.repos["org/set"] = Repo({"train.jsonl": SMALL, "valid.jsonl": SMALL})
        config = desk.config(self.TRAIN % self.SOURCE, self.VALID % self.SOURCE)
        for option in (("--type", "validation"), ("--name", "agent/valid")):
            ran = desk.run("download", "-c", config, *option, "--dry-run", "-o", "json")
            assert [one["name"] for one in ran.json["datasets"]] == ["valid"]
        ran = desk.run("download", "-c", config, "--name", "vaild")
        assert (ran.code, "agent/valid (validation)" in ran.err) == (1, True)

    def test_two_sources_for_one_file(self, desk: Desk) -> None:
        config = desk.config(
            self.TRAIN % self.SOURCE, self.TRAIN % "source: {type: huggingface, repo_id: org/other}"
        )
        ran = desk.run("download", "-c", config)
        assert (ran.code, "from different sources" in ran.err) == (1, True)


class TestUpload:
    @pytest.fixture(autouse=True)
    def may_write(self, desk: Desk) -> None:
        desk.env(WRITER)
        (desk.folder / "rows.jsonl").write_bytes(SMALL)

    # What the client's HTTP library thinks of how it is called.
    @pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")
    @pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
    def test_into_a_new_repository_which_is_private(self, desk: Desk, data: bytes) -> None:
        (desk.folder / "rows.jsonl").write_bytes(data)
        ran = desk.run("upload", "--file", "rows.jsonl", "--repo", "org/new", "-o", "json")
        assert ran.code == 0
        repo = desk.hub.repos["org/new"]
        assert repo.private
        assert repo.files == {"rows.jsonl": data}
        assert ran.json["state"] == "uploaded"
        assert ran.json["url"] == f"{desk.hub.url}/datasets/org/new"
        assert desk.hub.asked["PUT blob"] == (len(data) >= LFS_FROM)

    def test_public_and_under_another_name(self, desk: Desk) -> None:
        more = ("--public", "--split", "train", "--message", "First")
        assert desk.run("upload", "--file", "rows.jsonl", "--repo", "org/new", *more).code == 0
        repo = desk.hub.repos["org/new"]
        assert not repo.private
        assert repo.commits == [{"summary": "First", "description": "", "paths": ["train.jsonl"]}]

    def test_into_one_that_is_there(self, desk: Desk) -> None:
        repo = desk.hub.add("org/set", train_jsonl=SMALL)
        more = ("--path-in-repo", "data/valid.jsonl")
        assert desk.run("upload", "--file", "rows.jsonl", "--repo", "org/set", *more).code == 0
        assert sorted(repo.files) == ["data/valid.jsonl", "train.jsonl"]

    def test_the_name_that_nemo_gym_gives(self, desk: Desk) -> None:
        desk.env(WRITER, hf_organization="org", hf_dataset_prefix="Gym")
        config = desk.config(TestConfiguration.OWN)
        upload = ("upload", "--file", "rows.jsonl", "-c", config, "--dry-run", "-o", "json")
        assert desk.run(*upload).json["repo"] == "org/Gym-knowledge-mcqa"
        assert desk.run(*upload, "--name", "My set").json["repo"] == "org/Gym-knowledge-My-set"
        assert not desk.hub.repos

    def test_the_collection_of_env_yaml(self, desk: Desk) -> None:
        desk.hub.collections["org/gym-sets-0a1b"] = []
        desk.env(WRITER, hf_organization="org", hf_collection_name="Gym Sets", hf_collection_slug="0a1b")
        upload = ("upload", "--file", "rows.jsonl", "--repo", "org/new")
        for _ in range(2):  # it may be in there already
            assert desk.run(*upload).code == 0
        assert desk.hub.collections == {"org/gym-sets-0a1b": ["org/new"]}
        assert desk.run(*upload, "--no-collection", "-o", "json").json["collection"] is None
        ran = desk.run(*upload, "--collection", "org/absent-1")
        assert (ran.code, "was uploaded, but not put into the collection" in ran.err) == (1, True)

    def test_a_pull_request_needs_no_right_to_write(self, desk: Desk) -> None:
        desk.env(TOKEN)
        repo = desk.hub.add("org/set", train_jsonl=SMALL)
        upload = ("upload", "--file", "rows.jsonl", "--repo", "org/set")
        ran = desk.run(*upload)
        assert (ran.code, "--create-pr" in ran.err) == (1, True)
        ran = desk.run(*upload, "--create-pr", "-o", "json")
        assert ran.code == 0
        assert ran.json["pull_request"] == f"{desk.hub.url}/datasets/org/set/discussions/1"
        assert repo.pull_requests == [{"rows.jsonl": SMALL}]
        assert sorted(repo.files) == ["train.jsonl"]

    def test_without_a_token(self, desk: Desk) -> None:
        desk.env(token="")
        ran = desk.run("upload", "--file", "rows.jsonl", "--repo", "org/new")
        assert (ran.code, "needs a token" in ran.err) == (1, True)

    def test_with_a_wrong_one(self, desk: Desk) -> None:
        desk.env("hf_wrong_0123456789")
        ran = desk.run("upload", "--file", "rows.jsonl", "--repo", "org/new")
        assert (ran.code, "refused the token (401)" in ran.err) == (1, True)

    def test_no_rows_no_upload(self, desk: Desk) -> None:
        (desk.folder / "rows.jsonl").write_bytes(SMALL * 200 + b"{broken\n")
        ran = desk.run("upload", "--file", "rows.jsonl", "--repo", "org/new")
        assert (ran.code, "line 201 is no JSON" in ran.err) == (1, True)
        assert not desk.hub.repos

    def test_rows_that_are_no_tasks_are_told(self, desk: Desk) -> None:
        (desk.folder / "rows.jsonl").write_bytes(SMALL + b'{"reward": 1.0}\n')
        ran = desk.run("upload", "--file", "rows.jsonl", "--repo", "org/new")
        assert (ran.code, "1 of 2 rows have no responses_create_params" in ran.err) == (0, True)

    def test_nothing_names_the_repository(self, desk: Desk) -> None:
        ran = desk.run("upload", "--file", "rows.jsonl")
        assert (ran.code, "--repo ORG/NAME" in ran.err) == (1, True)
        ran = desk.run("upload", "--file", "rows.jsonl", "-c", desk.config(TestConfiguration.OWN))
        assert (ran.code, "Set hf_organization" in ran.err) == (1, True)


def test_the_package_is_optional(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    ran = desk.get("org/set", "train.jsonl")
    assert (ran.code, "pip install 'gymd[data]'" in ran.err) == (1, True)

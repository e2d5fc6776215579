"""What the transfer commands work out by themselves: names, files, sizes, settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest

from gymctl.app import run
from gymctl.errors import CliError
from gymctl.progress import ProgressLine
from gymctl.transfer.access import find_access
from gymctl.transfer.clients import nearest, patient
from gymctl.transfer.hub import choose_file
from gymctl.transfer.plan import repo_name
from gymctl.transfer.progress import ByteProgress, size_text
from gymctl.transfer.rows import check_rows


@pytest.mark.parametrize(
    ("files", "type_", "found"),
    [
        (["README.md", "train.jsonl", "validation.jsonl"], "train", "train.jsonl"),
        (["data/train.jsonl", "old/train.jsonl"], "train", "data/train.jsonl"),
        (["dev.jsonl", "train.jsonl"], "validation", "dev.jsonl"),
        (["math-val_v2.jsonl", "math-train_v2.jsonl"], "validation", "math-val_v2.jsonl"),
        (["multineedle_benchmark.jsonl", "x.jsonl"], "benchmark", "multineedle_benchmark.jsonl"),
        (["everything.jsonl"], "train", "everything.jsonl"),
        (["constrained.jsonl", "train.jsonl"], "train", "train.jsonl"),
    ],
)
def test_the_file_of_a_split(files: list[str], type_: str, found: str) -> None:
    assert choose_file(files, type_, "org/set") == found


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["a_train.jsonl", "b_train.jsonl"], "several files for train: a_train.jsonl, b_train.jsonl"),
        (["a.jsonl", "b.jsonl"], "no file for train; it has a.jsonl, b.jsonl"),
        (["data/train-0.parquet", "README.md"], "no JSON lines (.jsonl), only .md, .parquet"),
        ([], "no JSON lines"),
    ],
)
def test_no_file_of_a_split(files: list[str], said: str) -> None:
    with pytest.raises(CliError) as caught:
        choose_file(files, "train", "org/set")
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("NVIDIA", "NeMo-Gym", "Math", "dapo17k"), "NVIDIA/NeMo-Gym-math-dapo17k"),
        (("org", "", "instruction_following", "set"), "org/instruction_following-set"),
        (("org", "", "", "my set!"), "org/my-set"),
    ],
)
def test_the_name_of_a_repository(parts: tuple[str, str, str, str], name: str) -> None:
    assert repo_name(*parts) == name


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (3_400_000_000, "3.4 GB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


def test_progress_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = ByteProgress("downloading x", 4_000_000)
    for second, done in ((0, 1_000_000), (2, 1_500_000), (5, 2_000_000), (6, 4_000_000)):
        now[0] = float(second)
        progress.tell(done)
    progress.done()
    assert capsys.readouterr().err == "downloading x: 2.0 MB of 4.0 MB, 50 %, 200.0 kB/s\n"


def test_a_terminal_gets_one_line_that_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line = ProgressLine()
    line.clear()
    for moment in (0.1, 0.3, 0.4, 0.6):
        now[0] = moment
        line.tell(lambda spent: f"after {spent:.1f}")
    line.clear()
    assert capsys.readouterr().err == "\r\x1b[Kafter 0.3\r\x1b[Kafter 0.6\r\x1b[K"


class TestAccess:
    ENVIRONMENT: ClassVar = {"HF_TOKEN": "hf_environment", "MLFLOW_TRACKING_URI": "http://registry/"}

    def test_env_yaml_comes_before_the_environment(self) -> None:
        found = find_access({"hf_token": "hf_file", "hf_organization": "org"}, self.ENVIRONMENT)
        assert (found.hf_token, found.hf_organization) == ("hf_file", "org")
        assert found.mlflow_tracking_uri == "http://registry"

    def test_secrets_are_not_shown(self) -> None:
        found = find_access({"mlflow_tracking_token": "plain-words"}, self.ENVIRONMENT)
        assert "hf_environment" not in repr(found)
        assert "plain-words" not in repr(found)
        assert found.plain("got plain-words\x1b[31m\n and hf_environment") == "got ***[31m and ***"

    @pytest.mark.parametrize(
        "values", [{"hf_endpoint": "hub.local"}, {"hf_token": "a\nb"}, {"hf_token": ["x"]}, {"hf_token": "é"}]
    )
    def test_nonsense(self, values: dict[str, object]) -> None:
        with pytest.raises(CliError, match=r"must be a text|no token|no http"):
            find_access(values, {})


class TestRows:
    def test_counts(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.jsonl"
        path.write_text('{"responses_create_params": {}}\n\n{"a": 1}')
        found = check_rows(path)
        assert (found.rows, found.tasks, found.problem) == (2, 1, "")
        assert check_rows(path, 1).rows == 1

    @pytest.mark.parametrize("data", [b"\x1f\x8b\x08", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000])
    def test_what_is_none(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "rows.jsonl"
        path.write_bytes(data)
        assert check_rows(path).problem


def test_nearest_names() -> None:
    assert nearest("Trian.jsonl", ["train.jsonl", "README"], "It has") == "Nearest: train.jsonl."
    assert nearest("q", [str(n) for n in range(7)], "It has") == "It has: 0, 1, 2, 3, 4 and 2 more."
    assert nearest("q", [], "It has") == ""


def test_patience_is_only_for_what_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymctl.transfer.clients._PAUSES_S", (0.0, 0.0))
    calls: list[int] = []

    def fails() -> None:
        calls.append(1)
        raise ConnectionError("later")

    with pytest.raises(ConnectionError):
        patient(fails, lambda problem: True)
    assert len(calls) == 3
    with pytest.raises(ConnectionError):
        patient(fails, lambda problem: False)
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["download"], "Say what to fetch"),
        (["download", "mesh.yaml"], "is not KEY=VALUE. For a file write --config mesh.yaml"),
        (["download", "-c", "mesh.yaml", "--repo", "a/b"], "--repo is for a single file, without -c"),
        (["download", "--repo", "a/b"], "Missing: --file, --output."),
        (["download", "--dataset", "a", "--output", "x"], "Missing: --version, --file."),
        (["download", "--dataset", "a", "--version", "1.0"], "not three numbers"),
        (["download", "--repo", "a/b", "--name", "x"], "add -c"),
        (
            ["download", "--repo", "a/b", "--file", "f", "--output", "o", "--version", "0.0.1"],
            "--version is not for this storage",
        ),
        (["upload", "--repo", "a/b"], "Missing option '--file'"),
        (["upload", "--file", "f", "--dataset", "x"], "--dataset is not for --storage huggingface"),
        (
            ["upload", "--file", "f", "--storage", "mlflow", "--repo", "a/b"],
            "--repo is not for --storage mlflow",
        ),
        (["upload", "--file", "f", "--storage", "gitlab"], "Missing: --dataset, --version."),
        (["upload", "--file", "f", "--split", "a", "--path-in-repo", "b"], "give one"),
        (["upload", "--file", "f", "--path-in-repo", "../b"], "no path of a file"),
        (["upload", "--file", "f", "--create-pr", "--revision", "b"], "leave out --revision"),
    ],
)
def test_mistakes_on_the_command_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").touch()
    assert run(["data", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_registry_needs_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    before = dict(os.environ)
    arguments = ["--dataset", "a", "--version", "0.0.1", "--file", "f", "--output", "o"]
    assert run(["data", "download", *arguments]) == 1
    assert "Set mlflow_tracking_uri in env.yaml" in capsys.readouterr().err
    assert dict(os.environ) == before

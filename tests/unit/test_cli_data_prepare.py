"""`gymctl data prepare` as people run it: what it writes, what it refuses, and nothing left half done."""

import json
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gymctl.app import run
from gymctl.prepare import command, files
from gymctl.prepare.collate import write_rows
from tests.fakes.gymctl import Outcome

Prepare = Callable[..., Outcome]
MODEL = "policy_model: {responses_api_models: {vllm_model: {base_url: '${policy_base_url}', model: '???'}}}\n"


def agent(name: str, *datasets: str) -> str:
    blocks = "".join(f"        - {{{dataset}}}\n" for dataset in datasets)
    return (
        f"{name}:\n  responses_api_agents:\n    simple_agent:\n"
        "      resources_server: {type: resources_servers, name: mcqa}\n"
        "      model_server: {type: responses_api_models, name: policy_model}\n"
        f"      datasets:\n{blocks}"
    )


def dataset(name: str, type_: str = "train", more: str = "") -> str:
    return f"name: {name}, type: {type_}, jsonl_fpath: {name}.jsonl, license: MIT{more}"


def row(number: int, **more: Any) -> str:
    return json.dumps({"responses_create_params": {"input": f"Question {number}"}, "number": number, **more})


def write(path: Path, rows: Iterable[str]) -> None:
    path.write_text("".join(f"{one}\n" for one in rows))


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GYMD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def prepare(place: Path, capsys: pytest.CaptureFixture[str]) -> Prepare:
    """Runs the command in `place` on a configuration of these agents."""

    def call(*agents: str, mode: str = "train_preparation", options: Iterable[str] = ()) -> Outcome:
        # Models are neither there nor complete: nobody needs them for this.
        mcqa = "mcqa: {resources_servers: {mcqa: {domain: knowledge}}}\n"
        (place / "c.yaml").write_text("".join(agents) + mcqa + MODEL)
        arguments = ["data", "prepare", "-c", "c.yaml", "--mode", mode, "--output-dir", "out"]
        code = run([*arguments, "--tokenizer", "none", *options])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


def test_examples(prepare: Prepare, place: Path) -> None:
    write(place / "e.jsonl", [row(1, tag="a"), row(2, tag="a")])
    configuration = agent("player", dataset("e", "example"))
    first = prepare(configuration, mode="example_validation")
    assert first.code == 0, first.err
    assert "player/e" in first.out
    assert "e_metrics.json (written)" in first.out
    assert "2 rows written" in first.err
    lines = (place / "out" / "example.jsonl").read_text().splitlines()
    ending = ',"agent_ref":{"type":"responses_api_agents","name":"player"}}'
    assert lines == [row(1, tag="a")[:-1] + ending, row(2, tag="a")[:-1] + ending]
    metrics = json.loads((place / "e_metrics.json").read_text())
    assert (metrics["name"], metrics["type"], metrics["license"]) == ("e", "example", "MIT")
    assert metrics["Number of examples"] == 2
    assert metrics["tag"] == {"unique_count": 1, "total_count": 2}
    together = json.loads((place / "out" / "example_metrics.json").read_text())
    assert "name" not in together
    assert together["number"]["Average"] == 1.5
    again = prepare(configuration, mode="example_validation")
    assert again.code == 0
    assert "e_metrics.json (unchanged)" in again.out
    assert sorted(path.name for path in (place / "out").iterdir()) == [
        "example.jsonl",
        "example_metrics.json",
    ]


def test_every_type_with_slices_and_repeats(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", map(row, range(10)))
    write(
        place / "b.jsonl", [row(20), row(21, agent_ref={"name": "two"}), row(22, agent_ref={"name": "else"})]
    )
    write(place / "v.jsonl", [row(30)])
    write(place / "m.jsonl", [row(40)])
    done = prepare(
        agent(
            "one", dataset("a", more=", start_idx: 2, end_idx: 5, num_repeats: 2"), dataset("m", "benchmark")
        ),
        agent("two", dataset("b"), dataset("v", "validation"), dataset("x", "example")),
        options=["-o", "json"],
    )
    assert done.code == 0, done.err
    out = place / "out"
    assert numbers(out / "train.jsonl") == [2, 2, 3, 3, 4, 4, 20, 21, 22]
    assert numbers(out / "validation.jsonl") == [30]
    assert numbers(out / "benchmark.jsonl") == [40]
    agents = [
        json.loads(line)["agent_ref"]["name"] for line in (out / "train.jsonl").read_text().splitlines()
    ]
    assert agents == ["one"] * 6 + ["two"] * 3
    assert "1 rows of two/b named the agent else; they are given two." in done.err
    document = done.json
    assert [(one["name"], one["rows"], one["repeats"]) for one in document["datasets"]] == [
        ("a", 3, 2),
        ("m", 1, 1),
        ("b", 3, 1),
        ("v", 1, 1),
    ]
    files = {one["type"]: one for one in document["files"]}
    assert {name: one["rows"] for name, one in files.items()} == {"train": 9, "validation": 1, "benchmark": 1}
    assert files["train"]["bytes"] == (out / "train.jsonl").stat().st_size
    # The metrics are those of the file that was written, so repeats count.
    metrics = files["train"]["metrics"]
    assert metrics == json.loads((out / "train_metrics.json").read_text())
    assert metrics["Number of examples"] == 9
    assert metrics["Number of unique create params"] == 6
    assert metrics["number"]["Average"] == pytest.approx(sum([2, 2, 3, 3, 4, 4, 20, 21, 22]) / 9)
    assert document["datasets"][0]["metrics"]["Number of examples"] == 6
    assert document["problems"] == []


def test_missing_files_are_told_together(prepare: Prepare, place: Path) -> None:
    write(place / "here.jsonl", [row(1)])
    source = ", source: {type: huggingface, repo_id: some/where}"
    gone = prepare(agent("p", dataset("a"), dataset("here"), dataset("b", "validation", source)))
    assert gone.code == 1
    assert "2 datasets are missing; nothing was read" in gone.err
    assert "a.jsonl: train dataset p/a; it has no source" in gone.err
    assert "b.jsonl: validation dataset p/b; source: huggingface some/where" in gone.err
    assert "gymctl data download" in gone.err
    assert not (place / "out").exists()
    assert not (place / "here_metrics.json").exists()
    nowhere = prepare(agent("p", dataset("a")))
    assert "1 dataset is missing" in nowhere.err
    assert "relative to the working directory" in nowhere.err


def test_a_mode_without_datasets(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", [row(1)])
    done = prepare(agent("p", dataset("a")), mode="example_validation")
    assert done.code == 1
    assert "has no dataset of type example" in done.err
    assert "p/a (train)" in done.err
    assert "--mode train_preparation" in done.err


def test_rows_that_are_no_tasks_are_named_and_nothing_is_written(prepare: Prepare, place: Path) -> None:
    bad = json.dumps({"responses_create_params": {"input": "x", "temperature": 3}})
    write(place / "a.jsonl", [row(0), bad, bad, row(3), "{", row(5), bad, "", json.dumps({"a": 1})])
    write(place / "b.jsonl", [row(0), "[]"])
    (place / "empty.jsonl").write_text("\n \n")
    configuration = agent("p", dataset("a"), dataset("b", "validation"), dataset("empty"))
    done = prepare(configuration)
    assert done.code == 1
    assert done.out == ""
    told = done.err.splitlines()
    assert any("6 rows are no tasks; nothing was written" in line for line in told)
    assert "  a.jsonl: 5 rows are no tasks (of 8), lines 2-3, 5, 7, 9" in told
    assert "    2-3, 7: responses_create_params.temperature: must be 0 to 2, got 3" in told
    assert any(line.startswith("    5: the line is no valid JSON") for line in told)
    assert "    9: responses_create_params is missing" in told
    assert "  b.jsonl: 1 row is no task (of 2), lines 2" in told
    assert "  empty.jsonl: it has no rows" in told
    assert sorted(path.name for path in place.rglob("*.json*")) == ["a.jsonl", "b.jsonl", "empty.jsonl"]
    document = prepare(configuration, options=["-o", "json"]).json
    assert [one["lines"] for one in document["problems"]] == ["2-3, 5, 7, 9", "2"]
    assert document["problems"][0]["reasons"][0] == {
        "lines": "2-3, 7",
        "reason": "responses_create_params.temperature: must be 0 to 2, got 3",
    }
    assert document["empty"] == ["empty.jsonl"]


def test_line_numbers_of_a_slice_are_those_of_the_file(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", ["{", row(1), "", row(2), "{", "{"])
    done = prepare(agent("p", dataset("a", more=", start_idx: 1, end_idx: 4")))
    assert "a.jsonl: 1 row is no task (of 3), lines 5" in done.err


# ---- metrics that were there before


def test_other_metrics_are_a_conflict_until_they_are_accepted(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", [row(1), row(2)])
    write(place / "b.jsonl", [row(1)])
    configuration = agent("p", dataset("a"), dataset("b", "validation"))
    assert prepare(configuration).code == 0
    before = (place / "a_metrics.json").read_bytes()
    train = (place / "out" / "train.jsonl").read_bytes()
    write(place / "a.jsonl", [row(1), row(2), row(3, new="x")])
    refused = prepare(configuration)
    assert refused.code == 1
    assert "metrics are not what they were; no prepared file was written" in refused.err
    assert "Number of examples: was 2, is 3" in refused.err
    assert "--overwrite-metrics" in refused.err
    assert (place / "a_metrics.json").read_bytes() == before
    assert (place / "out" / "train.jsonl").read_bytes() == train
    conflict = place / "a_metrics_conflict.json"
    assert json.loads(conflict.read_text())["Number of examples"] == 3
    assert not (place / "b_metrics_conflict.json").exists()
    accepted = prepare(configuration, options=["--overwrite-metrics"])
    assert accepted.code == 0, accepted.err
    assert "a_metrics.json (overwritten)" in accepted.out
    assert json.loads((place / "a_metrics.json").read_text())["Number of examples"] == 3
    assert not conflict.exists()
    assert numbers(place / "out" / "train.jsonl") == [1, 2, 3]


def test_prepared_metrics_that_differ_are_a_conflict_as_well(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", [row(1)])
    configuration = agent("p", dataset("a"))
    (place / "out").mkdir()
    (place / "out" / "train_metrics.json").write_text('{"Number of examples": 7}')
    refused = prepare(configuration)
    assert refused.code == 1
    assert "out/train_metrics.json:" in refused.err
    assert sorted(path.name for path in (place / "out").iterdir()) == [
        "train_metrics.json",
        "train_metrics_conflict.json",
    ]
    assert prepare(configuration, options=["--overwrite-metrics"]).code == 0
    assert sorted(path.name for path in (place / "out").iterdir()) == ["train.jsonl", "train_metrics.json"]


def test_metrics_of_nemo_gym_are_understood(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", [row(1, score=1 / 3), row(2, score=1234.567)])
    block = {"Total # non-null values": 2, "Average": 617.45, "Min": 0.333, "Max": 1234.57}
    old = {
        "name": "another",
        "jsonl_fpath": "somewhere/a.jsonl",
        "gitlab_identifier": None,
        "Number of examples": 2,
        "Number of turns": {"Total # non-null values": 2, "Average": 1.0, "Median": 1.0},
        "score": {**block, "Standard deviation": 872.73, "Median": 617.45},
    }
    (place / "a_metrics.json").write_text(json.dumps(old))
    done = prepare(agent("p", dataset("a")))
    assert done.code == 0, done.err
    assert "a_metrics.json (unchanged)" in done.out
    # What NeMo Gym did not compute is added.
    assert json.loads((place / "a_metrics.json").read_text())["Number of unique create params"] == 2


@pytest.mark.parametrize(
    ("old", "says"),
    [
        ("{", "the file is no JSON"),
        ("[]", "'Number of examples' is missing"),
        ('{"Number of examples": 2, "number": {"Average": 1.51}}', "number.Average: was 1.51, is 1.5"),
        ('{"Number of examples": 2, "score": {"Average": 0.0006}}', "score.Average: was 0.0006, is 0.0"),
        ('{"Number of examples": 2, "type": {"unique_count": 3}}', "type: was {'unique_count': 3}, is train"),
        ('{"Number of examples": 2, "number": 3}', "number: was 3, is {"),
        ('{"Number of examples": 2, "Tokenizer": "other"}', "Tokenizer: was other, is gone"),
    ],
)
def test_differences_are_told(prepare: Prepare, place: Path, old: str, says: str) -> None:
    write(place / "a.jsonl", [row(1, score=0), row(2, score=0)])
    (place / "a_metrics.json").write_text(old)
    done = prepare(agent("p", dataset("a")))
    assert done.code == 1
    assert says in done.err


def test_datasets_of_one_file(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", map(row, range(4)))
    halves = [
        "name: first, type: train, jsonl_fpath: a.jsonl, license: MIT, end_idx: 2",
        "name: second, type: validation, jsonl_fpath: ./a.jsonl, license: MIT, start_idx: 2",
    ]
    assert prepare(agent("p", *halves)).code == 0
    assert {path.name for path in place.glob("*_metrics.json")} == {
        "a_first_metrics.json",
        "a_second_metrics.json",
    }
    assert numbers(place / "out" / "validation.jsonl") == [2, 3]


def test_agents_that_share_a_file(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", map(row, range(3)))
    configuration = (agent("p", dataset("a")), agent("q", dataset("a")))
    for _ in range(2):
        done = prepare(*configuration, options=["--overwrite-metrics"])
        assert done.code == 0, done.err
        assert numbers(place / "out" / "train.jsonl") == [0, 1, 2, 0, 1, 2]
        assert [path.name for path in place.glob("*_metrics.json")] == ["a_metrics.json"]


def test_metrics_of_a_folder_that_nobody_may_write_to(
    prepare: Prepare, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "data").mkdir()
    write(place / "data" / "a.jsonl", [row(1)])
    block = "name: a, type: train, jsonl_fpath: data/a.jsonl, license: MIT"
    access = files.os.access
    monkeypatch.setattr(files.os, "access", lambda path, mode: path != place / "data" and access(path, mode))
    done = prepare(agent("p", block))
    assert done.code == 0, done.err
    elsewhere = f"out/{place.name}_a_metrics.json"
    assert f"cannot be written to; the metrics are in {elsewhere}" in done.err
    assert (place / elsewhere).is_file()
    assert [path.name for path in (place / "data").iterdir()] == ["a.jsonl"]


# ---- order and shares


def test_a_shuffle_is_complete_and_repeatable(prepare: Prepare, place: Path) -> None:
    write(place / "a.jsonl", map(row, range(50)))
    write(place / "v.jsonl", map(row, range(5)))
    configuration = agent("p", dataset("a"), dataset("v", "validation"))
    orders = []
    for seed in ("1", "1", "2"):
        assert prepare(configuration, options=["--shuffle", "--seed", seed]).code == 0
        orders.append(numbers(place / "out" / "train.jsonl"))
        assert numbers(place / "out" / "validation.jsonl") == [0, 1, 2, 3, 4]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in (orders[0], orders[2], range(50))}) == 3
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(50))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_blend_has_exact_shares(prepare: Prepare, place: Path, shuffle: bool) -> None:
    write(place / "a.jsonl", (row(number, tag="a") for number in range(30)))
    write(place / "b.jsonl", (row(number, tag="b") for number in range(100, 110)))
    write(place / "c.jsonl", (row(number, tag="c") for number in range(200, 240)))
    options = ["--blend", "p/a=2", "--blend", "b=1", "--blend", "q=0", *(["--shuffle"] if shuffle else [])]
    done = prepare(
        agent("p", dataset("a"), dataset("b")), agent("q", dataset("c")), options=[*options, "-o", "json"]
    )
    assert done.code == 0, done.err
    found = numbers(place / "out" / "train.jsonl")
    from_a = [number for number in found if number < 100]
    assert (len(found), len(from_a), len(set(found))) == (30, 20, 30)
    if shuffle:
        assert sorted(from_a) != list(range(20))
    else:
        assert from_a == list(range(20))
        # Every third row is of b, all the way through.
        assert all(len([n for n in found[at : at + 3] if n >= 100]) == 1 for at in range(0, 30, 3))
    # The metrics are those of what was written.
    metrics = done.json["files"][0]["metrics"]
    assert metrics["Number of examples"] == 30
    assert metrics["tag"] == {"unique_count": 2, "total_count": 30}
    assert metrics["number"]["Average"] == pytest.approx(sum(found) / 30)


@pytest.mark.parametrize(
    ("blend", "says"),
    [
        (["p/a=1"], "no weight for p/b, q/a"),
        (["p/a=1", "b=1", "q/a=1", "zz=1"], "zz names none of the train datasets"),
        (["a=1", "b=1", "q=1"], "--blend a names a train dataset that is not alone"),
        (["p/a=x"], "is no name=weight"),
    ],
)
def test_blends_that_cannot_be(prepare: Prepare, place: Path, blend: list[str], says: str) -> None:
    write(place / "a.jsonl", [row(1)])
    write(place / "b.jsonl", [row(1)])
    options = [part for one in blend for part in ("--blend", one)]
    done = prepare(agent("p", dataset("a"), dataset("b")), agent("q", dataset("a")), options=options)
    assert done.code == 1
    assert says in done.err
    assert not (place / "out").exists()


def test_usage(prepare: Prepare, place: Path) -> None:
    write(place / "e.jsonl", [row(1)])
    configuration = agent("p", dataset("e", "example"))
    wrong = prepare(configuration, mode="example_validation", options=["--shuffle"])
    assert "--shuffle and --blend are for --mode train_preparation" in wrong.err
    other = prepare(configuration, mode="example_validation", options=["more.yaml"])
    assert "For a file write --config more.yaml" in other.err
    override = "p.responses_api_agents.simple_agent.datasets=[{name: x, type: example, jsonl_fpath: e.jsonl}]"
    assert prepare(configuration, mode="example_validation", options=[override]).code == 0


def test_a_mistake_in_a_dataset_block(prepare: Prepare) -> None:
    done = prepare(agent("p", "name: a, type: trian, jsonl_fpath: a.jsonl"))
    assert done.code == 1
    assert "datasets[0].type: 'trian' is no type of dataset." in done.err


# ---- nothing is left half done


def test_a_dataset_is_never_replaced(prepare: Prepare, place: Path) -> None:
    (place / "out").mkdir()
    write(place / "out" / "train.jsonl", [row(1)])
    block = "name: a, type: train, jsonl_fpath: out/../out/train.jsonl, license: MIT"
    done = prepare(agent("p", block))
    assert done.code == 1
    assert "would replace the dataset" in done.err
    assert numbers(place / "out" / "train.jsonl") == [1]


def test_an_interrupt_leaves_what_was_there(
    prepare: Prepare, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place / "a.jsonl", [row(1)])
    write(place / "v.jsonl", [row(2)])
    configuration = agent("p", dataset("a"), dataset("v", "validation"))
    assert prepare(configuration).code == 0
    before = {path: path.read_bytes() for path in (place / "out").iterdir()}

    def interrupted(path: Path, rows: Any, tell: Any) -> tuple[int, int]:
        done = write_rows(path, rows, tell)
        if "validation" in path.name:
            signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(command, "write_rows", interrupted)
    done = prepare(configuration, options=["--shuffle"])
    assert done.code == 1
    assert "Stopped." in done.err
    assert {path: path.read_bytes() for path in (place / "out").iterdir()} == before


def test_a_full_disk_is_told(place: Path) -> None:
    from gymctl.errors import CliError

    with pytest.raises(CliError) as caught:
        write_rows(Path("/dev/full"), (b"x" * 1000 for _ in range(5000)), lambda count: None)
    assert "No space left" in caught.value.message
    assert "Nothing that was there was changed" in caught.value.hint


def test_a_file_that_changes_meanwhile(
    prepare: Prepare, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place / "a.jsonl", [row(1)])

    def changing(path: Path, rows: Any, tell: Any) -> tuple[int, int]:
        write(place / "a.jsonl", [row(1), row(2)])
        return write_rows(path, rows, tell)

    monkeypatch.setattr(command, "write_rows", changing)
    done = prepare(agent("p", dataset("a")))
    assert done.code == 1
    assert "was changed while it was read" in done.err
    assert list((place / "out").iterdir()) == []

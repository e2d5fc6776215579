import os
import resource
from pathlib import Path

import pytest

from gymctl.collect.files import LineFile, Paths, Record, read_record, settle_failures, write_record
from gymctl.collect.plan import DoneSet
from gymctl.errors import CliError


def test_lines_are_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    file = LineFile(path)
    file.open(fresh=True)
    file.write(b'{"a":1}')
    assert path.read_bytes() == b'{"a":1}\n'
    file.write(b'{"a":2}')
    file.close()
    assert [line for _, line in file.lines()] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("before", "after", "removed"),
    [
        (b'{"a":1}\n{"a":2', b'{"a":1}\n', 6),
        (b'{"a":', b"", 5),
        (b'{"a":1}\n{"a":2}', b'{"a":1}\n{"a":2}\n', 0),
        (b'{"a":1}\n', b'{"a":1}\n', 0),
        (b'{"a":1}\n{"b":"' + b"x" * 200_000, b'{"a":1}\n', 200_006),
        (b"", b"", 0),
    ],
)
def test_a_torn_last_line_is_repaired(tmp_path: Path, before: bytes, after: bytes, removed: int) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(before)
    file = LineFile(path)
    assert file.open(fresh=False) == removed
    file.write(b'{"new":1}')
    file.close()
    assert path.read_bytes() == after + b'{"new":1}\n'


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"
    file = LineFile(path)
    file.open(fresh=True)
    file.write(b'{"a":1}')
    real = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if offset > 20:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:15], offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(CliError, match="No space left") as caught:
        file.write(b'{"b":"' + b"x" * 50 + b'"}')
    monkeypatch.undo()
    assert "--resume" in caught.value.hint
    assert path.read_bytes() == b'{"a":1}\n'
    file.write(b'{"a":2}')
    file.close()
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'


def test_an_unwritable_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"cannot write .*missing"):
        LineFile(tmp_path / "missing" / "out.jsonl").open(fresh=True)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text('{"a":1}\nnope\n{"a":2}\n')
    with pytest.raises(CliError, match=r"out\.jsonl:2: no JSON"):
        list(LineFile(path).lines())


def test_names_beside_the_output() -> None:
    paths = Paths(Path("dir/out.jsonl"))
    assert str(paths.failures) == "dir/out_failures.jsonl"
    assert str(paths.metrics) == "dir/out_aggregate_metrics.json"
    assert str(paths.record) == "dir/out.jsonl.meta.json"


def test_the_record_comes_back(tmp_path: Path) -> None:
    record = Record("in.jsonl", 3, "abc", "agent", {"temperature": 0.5})
    write_record(tmp_path / "meta", record)
    assert read_record(tmp_path / "meta") == record
    assert read_record(tmp_path / "none") is None
    (tmp_path / "meta").write_text("{}")
    with pytest.raises(CliError, match="damaged"):
        read_record(tmp_path / "meta")


def test_descriptors_are_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else resource.RLIM_INFINITY
    for _ in range(3):
        file = LineFile(tmp_path / "out.jsonl")
        file.open(fresh=False)
        file.close()
        file.close()
    if Path("/proc/self/fd").exists():
        assert len(os.listdir("/proc/self/fd")) == before


def test_settled_failures_are_the_last_of_what_is_not_done(tmp_path: Path) -> None:
    path = tmp_path / "failures.jsonl"
    file = LineFile(path)
    file.open(fresh=True)
    for task, text in ((1, "a"), (2, "b"), (1, "c"), (3, "d")):
        file.write(f'{{"_ng_task_index":{task},"_ng_rollout_index":0,"text":"{text}"}}'.encode())
    file.close()
    done = DoneSet(1)
    done.add(2, 0)
    settle_failures(path, done)
    assert [line["text"] for _, line in file.lines()] == ["c", "d"]
    done.add(1, 0)
    done.add(3, 0)
    settle_failures(path, done)
    assert os.listdir(tmp_path) == []
    settle_failures(path, done)

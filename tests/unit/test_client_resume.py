"""What a trainer notes in its resume file, and which results it may acknowledge."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from gymapi.v1.rollout_service_pb2 import RolloutResult
from gymd.client import resume
from gymd.client.resume import ResumeFile
from gymd.client.window import CreditWindow
from gymd.errors import AlreadyExists, InvalidRequest


def saw(notes: ResumeFile, *task_ids: str) -> None:
    for task_id in task_ids:
        result = RolloutResult(sequence=notes._last + 1)
        result.rollout.task_id = task_id
        notes.saw(result)


def test_acks_stop_before_the_first_unfinished_group(tmp_path: Path) -> None:
    notes = ResumeFile(tmp_path / "resume")
    notes.open()
    notes.begin("s1", "p")
    saw(notes, "p-0-0-aa", "p-0-1-bb", "p-0-1-bb", "p-0-2-cc")
    notes.finish(["p-0-1-bb"])
    assert notes.through == 0
    saw(notes, "p-0-0-aa")
    notes.finish(["p-0-0-aa"])
    assert notes.through == 3
    notes.leave("0", ["p-0-2-cc"])
    assert notes.through == 5
    saw(notes, "p-0-2-cc", "p-1-0-dd")  # the first comes late, nobody wants it
    notes.finish(["p-1-0-dd"])
    assert notes.through == 7
    notes.begin("s2", "p")  # numbers begin anew
    assert notes.through == 0
    saw(notes, "p-1-1-ee")
    notes.finish([])
    assert notes.through == 0
    notes.close()


def test_the_window_acknowledges_what_is_stored() -> None:
    window = CreditWindow(8)
    window.stored = 0
    for _ in range(5):
        window.submit(1)
        window.consume(0)
    assert window.next_ack(idle=True) is None
    window.stored = 3
    assert window.next_ack(idle=True) == 3
    assert window.next_ack(idle=True) is None
    window.stored = 9
    assert window.next_ack(idle=True) == 5
    window.reconnected()
    assert window.next_ack(idle=True) == 5


def test_a_line_that_was_cut_was_not_written(tmp_path: Path) -> None:
    path = tmp_path / "resume"
    first = ResumeFile(path)
    first.open()
    first.begin("s1", "p")
    first.finish(["p-0-0-aa"])
    first.close()
    with path.open("a") as out:
        out.write('{"done": ["p-0-1-')
    second = ResumeFile(path)
    second.open()
    assert (second.session_id, second.prefix) == ("s1", "p")
    assert second.is_done("p-0-0-aa")
    assert not second.is_done("p-0-1-bb")
    second.finish(["p-0-1-bb"])
    second.close()
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(InvalidRequest, match=r"no resume file of a trainer \(line 4\)"):
        ResumeFile(path).open()


def reopened(path: Path) -> ResumeFile:
    notes = ResumeFile(path)
    notes.open()
    return notes


def test_neither_file_nor_memory_grows_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "_LARGE", 4096)
    path, longest = tmp_path / "resume", 0
    notes = ResumeFile(path)
    notes.open()
    notes.begin("s1", "p")
    for step in range(5):
        for number in [1, 0, *range(2, 400)]:  # in the order in which they end
            saw(notes, f"p-step-{step}-{number}-c{number:07x}")
            notes.finish([f"p-step-{step}-{number}-c{number:07x}"])
            longest = max(longest, path.stat().st_size)
    notes.leave("left", ["p-left-1-aa"])
    assert longest < 2 * 4096
    assert sum(len(done.later) for done in notes._done.values()) == 1
    notes.close()
    assert [one.name for one in tmp_path.iterdir()] == ["resume"]

    again = reopened(path)
    assert (again.session_id, again.prefix, again.through) == ("s1", "p", 2000)
    for number in range(400):
        assert again.is_done(f"p-step-3-{number}-c{number:07x}")
    assert not again.is_done("p-step-3-400-c0000190")
    assert again.was_left("left")
    assert not again.was_left("step-3")
    assert (again.is_done("p-left-1-aa"), again.is_done("p-left-0-aa")) == (True, False)
    again.adopt(["p-step-4-7-c0000007", "p-step-4-400-dd", "of somebody else"])
    assert again.unclaimed("p-step-4-") == {"p-step-4-400"}
    again.close()


def test_a_task_that_is_not_the_same_is_found_among_those_that_are_only_counted(tmp_path: Path) -> None:
    path = tmp_path / "resume"
    notes = ResumeFile(path)
    notes.open()
    notes.begin("s1", "p")
    notes.finish([f"p-0-{number}-aa" for number in range(3)])
    notes.close()
    again = reopened(path)
    assert [again.is_done(f"p-0-{number}-aa") for number in range(4)] == [True, True, True, False]
    again.close()
    again = reopened(path)
    assert [again.is_done(one) for one in ("p-0-0-aa", "p-0-1-bb")] == [True, True]
    with pytest.raises(InvalidRequest, match=r"task 2 of iteration 0 \(or one before it\) is not the one"):
        again.is_done("p-0-2-aa")
    again.close()


def test_a_short_file_that_takes_the_place_of_a_long_one_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "_LARGE", 1)
    path = tmp_path / "resume"
    notes = ResumeFile(path)
    notes.open()
    notes.begin("s1", "p")
    with pytest.raises(AlreadyExists, match="another trainer goes by"):
        ResumeFile(path).open()
    notes.over = True
    notes.close()
    assert not path.exists()


def test_a_file_that_went_away_while_it_was_opened_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trainer was left in order at that very moment."""
    path = tmp_path / "resume"
    monkeypatch.setattr(fcntl, "flock", lambda file, how: path.unlink())
    with pytest.raises(AlreadyExists, match="another trainer goes by"):
        ResumeFile(path).open()


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: object, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(InvalidRequest, match=r"cannot be locked \(Function not impl.*: put it on a local"):
        ResumeFile(tmp_path / "resume").open()

"""What a trainer is done with, in a file, so that another process goes on where one was killed."""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import RolloutResult
from gymd.errors import GymdError, error

__all__ = ["ResumeFile", "place"]

_LARGE = 1 << 20
"""Bytes up to which the file only grows."""
_GROWTH = 4
"""A larger one is written anew when it has so many times its last length."""


def place(task_id: str) -> str:
    """Which task of which iteration an id names, whatever the task is: ids are `<place>-<checksum>`."""
    return task_id.rpartition("-")[0]


@dataclass
class _Done:
    """The tasks of an iteration that are done with. Those without a gap before them are only counted, so that
    a run of any length needs little memory."""

    count: int = 0
    """All tasks before this number are."""
    checksum: int = 0
    """Of the ids of those."""
    later: dict[int, str] = field(default_factory=dict)
    """Ids of others."""
    passed: int = 0
    passed_checksum: int = 0
    """How many tasks the present process passed over, and of their ids."""

    def __contains__(self, number: int) -> bool:
        return 0 <= number < self.count or number in self.later

    def add(self, number: int, task_id: str) -> None:
        if number >= self.count:
            self.later[number] = task_id
        while (known := self.later.pop(self.count, None)) is not None:
            self.checksum = zlib.crc32(known.encode(), self.checksum)
            self.count += 1

    def pass_over(self, number: int, task_id: str) -> bool:
        """Takes the tasks that are done once more, in their order; False: they are not the same."""
        if number in self.later:
            return self.later[number] == task_id
        if number == self.passed:
            self.passed += 1
            self.passed_checksum = zlib.crc32(task_id.encode(), self.passed_checksum)
        return self.passed < self.count or self.passed_checksum == self.checksum


class ResumeFile:
    """The session of a trainer and the groups that it is done with, a JSON object a line.

    A group is noted before its results are acknowledged, so the daemon still has all results of every other
    group. Acks are cumulative: only results before the first one of an unfinished group may be acknowledged.
    What is noted survives the end of the process; nothing is forced to the disk, so a machine that crashes
    may lose the last notes, whose groups then run anew. A file that has become long is replaced by a short
    one: a line for each iteration.

    Attributes:
        session_id: of the last session; "": there was none.
        prefix: begins the task ids of all its sessions.
        through: results up to this number may be acknowledged.
        over: set it when there is nothing to go on with.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.session_id = ""
        self.prefix = ""
        self.through = 0
        self.over = False
        self._done: dict[str, _Done] = {}  # by iteration
        self._left: set[str] = set()
        self._last = 0
        self._unclaimed: dict[str, str] = {}  # by place
        self._early: dict[str, list[Rollout]] = {}
        self._first: dict[str, int] = {}  # first result of each unfinished group, lowest number first
        self._file: BinaryIO | None = None
        self._size = 0
        self._limit = _LARGE

    def open(self) -> None:
        """Reads what an earlier process noted; a line that a kill has cut was not acted on yet.

        Raises:
            AlreadyExists: NAME_TAKEN, another process goes by this file now.
            InvalidRequest: it is no file of a trainer, or lies where files cannot be locked.
        """
        self._file = self.path.open("a+b")
        try:
            self._lock(self._file)
            self._read(self._file)
        except BaseException:
            self.close()
            raise

    def _lock(self, file: BinaryIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It may have been removed or replaced since it was opened: that trainer has only just gone.
            ours = os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except (BlockingIOError, FileNotFoundError):
            ours = False
        except OSError as problem:
            text = f"{self.path} cannot be locked ({problem.strerror}): put it on a local disk"
            raise error("INVALID_REQUEST", text, path=self.path) from None
        if not ours:
            text = f"another trainer goes by {self.path}: end it, or give this one a file of its own"
            raise error("NAME_TAKEN", text, path=self.path)

    def _read(self, file: BinaryIO) -> None:
        file.seek(0)
        data = file.read()
        self._size = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: self._size].splitlines(), 1):
            try:
                self._take_line(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                text = f"{self.path} is no resume file of a trainer (line {number}): give another path"
                raise error("INVALID_REQUEST", text, path=self.path, line=number) from None
        file.truncate(self._size)
        self._last = self.through
        self._shorten()

    def close(self) -> None:
        """Lets another process go on, or removes the file if the work is over."""
        if self._file is not None:
            if self.over:
                self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def begin(self, session_id: str, prefix: str) -> None:
        """Notes a new session, in which unfinished groups run anew."""
        self._first.clear()
        self._last = 0
        self._write({"session_id": session_id, "prefix": prefix})

    def skip_to(self, sequence: int) -> None:
        """Takes results up to this number as acknowledged, which the daemon says they are."""
        self.through = self._last = sequence

    def is_done(self, task_id: str) -> bool:
        """Whether nothing of a task is wanted any more; to be asked once for each, in order of their numbers.

        Raises:
            InvalidRequest: another task was in its place, or in that of one before it.
        """
        name, number = self._where(task_id)
        done = self._done.get(name)
        if done is None or number not in done:
            return False
        if not done.pass_over(number, task_id):
            raise self.other_tasks(place(task_id))
        return True

    def _where(self, task_id: str) -> tuple[str, int]:
        """Iteration and number of a task; -1 for one that no iteration handed in."""
        name, _, number = place(task_id).removeprefix(f"{self.prefix}-").rpartition("-")
        return name, int(number) if number.isdecimal() else -1

    def _unwanted(self, task_id: str) -> bool:
        name, number = self._where(task_id)
        return name in self._done and number in self._done[name]

    def other_tasks(self, where: str) -> GymdError:
        """The error for a place that has another task than it had, or none."""
        name, _, number = where.removeprefix(f"{self.prefix}-").rpartition("-")
        text = (
            f"task {number} of iteration {name} (or one before it) is not the one that an earlier process "
            "handed in: give groups() the same tasks in the same order, with the same n, or delete "
            f"{self.path} to begin anew"
        )
        return error("INVALID_REQUEST", text, task=number, iteration=name, path=self.path)

    def was_left(self, name: str) -> bool:
        """Whether an iteration was left before its end: then it hands in no further task."""
        return name in self._left

    def adopt(self, task_ids: Collection[str]) -> None:
        """Takes the tasks whose results come because an earlier process handed them in."""
        self._unclaimed = {place(one): one for one in task_ids if not self._unwanted(one)}

    @property
    def waiting(self) -> int:
        """How many adopted tasks no iteration has claimed."""
        return len(self._unclaimed)

    def unclaimed(self, begin: str) -> set[str]:
        """Places of the adopted tasks of an iteration; `begin`: with what their ids begin."""
        return {one for one in self._unclaimed if one.startswith(begin) and one[len(begin) :].isdecimal()}

    def claim(self, task_id: str) -> list[Rollout]:
        """Finds an adopted task again; returns those of its rollouts that came before.

        Raises:
            InvalidRequest: another task was in its place.
        """
        if self._unclaimed.pop(place(task_id), None) != task_id:
            raise self.other_tasks(place(task_id))
        return self._early.pop(task_id, [])

    def saw(self, result: RolloutResult) -> None:
        """Takes note of a result; keeps its rollout if the iteration that wants it has not begun yet."""
        self._last, task_id = result.sequence, result.rollout.task_id
        if not self._unwanted(task_id):
            self._first.setdefault(task_id, result.sequence)
        if place(task_id) in self._unclaimed:
            self._early.setdefault(task_id, []).append(result.rollout)

    def finish(self, task_ids: Collection[str]) -> None:
        """Notes groups that the trainer is done with."""
        self._note({"done": list(task_ids)}, task_ids)

    def leave(self, name: str, task_ids: Collection[str]) -> None:
        """Notes that an iteration was left, and which of its tasks were under way."""
        self._note({"left": name, "done": list(task_ids)}, task_ids)

    def _note(self, line: dict[str, Any], task_ids: Collection[str]) -> None:
        for task_id in task_ids:
            self._first.pop(task_id, None)
        line["through"] = next(iter(self._first.values())) - 1 if self._first else self._last
        self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            raise RuntimeError("nothing can be noted after the trainer was left: commit before")
        self._size += self._file.write(_encoded(line))
        self._file.flush()
        self._take_line(line)
        self._shorten()

    def _shorten(self) -> None:
        """Replaces a file that has become long."""
        if self._size < self._limit:
            return
        fresh = self.path.with_name(f"{self.path.name}.new").open("wb")
        try:
            fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)  # before anyone can find it
            fresh.writelines(_encoded(line) for line in self._lines())
            fresh.flush()
            os.fsync(fresh.fileno())  # or a machine that crashes could be left with neither file
            Path(fresh.name).replace(self.path)
        except BaseException:
            fresh.close()
            raise
        assert self._file is not None
        self._file.close()
        self._file, self._size = fresh, fresh.tell()
        self._limit = max(_LARGE, _GROWTH * self._size)

    def _lines(self) -> Iterator[dict[str, Any]]:
        """What a file that says all this holds."""
        yield {"session_id": self.session_id, "prefix": self.prefix}
        for name, done in self._done.items():
            yield {"iteration": name, "count": done.count, "checksum": done.checksum}
            if done.later:
                yield {"done": list(done.later.values()), "through": self.through}
        for name in self._left:
            yield {"left": name, "done": [], "through": self.through}
        yield {"done": [], "through": self.through}

    def _take_line(self, line: dict[str, Any]) -> None:
        if "session_id" in line:
            self.session_id, self.prefix = str(line["session_id"]), str(line["prefix"])
            self.through = 0
            return
        if "iteration" in line:
            count, checksum = int(line["count"]), int(line["checksum"])
            self._done[str(line["iteration"])] = _Done(count, checksum)
            return
        for task_id in line["done"]:
            name, number = self._where(task_id)
            self._done.setdefault(name, _Done()).add(number, task_id)
        self.through = int(line["through"])
        if "left" in line:
            self._left.add(line["left"])


def _encoded(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"

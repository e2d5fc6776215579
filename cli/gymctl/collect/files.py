"""The output files: appended line by line, never half-written, and known again by a resume."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymctl.collect.plan import DoneSet
from gymctl.errors import CliError
from gymd.client.rows import load_line

__all__ = [
    "LineFile",
    "Paths",
    "Record",
    "read_record",
    "settle_failures",
    "write_atomically",
    "write_record",
]

_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class Paths:
    """The files of one collection, all beside the output."""

    output: Path

    @property
    def failures(self) -> Path:
        """Rollouts without a result to keep."""
        return self._beside("_failures.jsonl")

    @property
    def metrics(self) -> Path:
        """The aggregate metrics."""
        return self._beside("_aggregate_metrics.json")

    @property
    def record(self) -> Path:
        """What the output was made from."""
        return self.output.with_name(self.output.name + ".meta.json")

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file that a collection writes."""
        return self.output, self.failures, self.metrics, self.record

    def _beside(self, ending: str) -> Path:
        stem = self.output.name.removesuffix(".jsonl")
        return self.output.with_name(stem + ending)


class LineFile:
    """A JSONL file that is appended to; every line is on its way to the disk when `write` returns.

    A line that cannot be written whole is taken back, so the file ends with a whole line as long as the
    process lives; what a kill leaves behind is repaired when the file is opened again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line_count = 0
        self._descriptor: int | None = None
        self._size = 0

    def open(self, *, fresh: bool) -> int:
        """Opens it, empty or to be continued; returns how many bytes of a torn last line were removed."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if fresh else 0)
            self._descriptor = os.open(self.path, flags, 0o644)
            return self._repair()
        except OSError as problem:
            raise self._failed(problem) from None

    def write(self, line: bytes) -> None:
        """Appends a line.

        Raises:
            CliError: the disk is full or the file cannot be written; it ends with its last whole line.
        """
        assert self._descriptor is not None, "write before open"
        data, sent = line + b"\n", 0
        try:
            while sent < len(data):
                sent += os.pwrite(self._descriptor, data[sent:] if sent else data, self._size + sent)
        except OSError as problem:
            try:
                os.ftruncate(self._descriptor, self._size)
            except OSError:
                pass  # a resume repairs what cannot be repaired now
            raise self._failed(problem) from None
        self._size += len(data)
        self.line_count += 1

    def close(self) -> None:
        """Closes it, after everything is on the disk."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.fsync(descriptor)
        except OSError as problem:
            if problem.errno not in (errno.EINVAL, errno.EROFS):  # no regular file
                raise self._failed(problem) from None
        finally:
            os.close(descriptor)

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the number (from 1) and the content of every line."""
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    content = load_line(line)
                except ValueError as problem:
                    hint = "Remove that line, or start anew with --overwrite."
                    raise CliError(f"{self.path}:{number}: no JSON ({problem})", hint) from None
                if isinstance(content, dict):
                    yield number, content

    def _repair(self) -> int:
        """Removes a torn last line, or ends a whole one that lacks its newline."""
        assert self._descriptor is not None
        size = self._size = os.fstat(self._descriptor).st_size
        if size == 0 or os.pread(self._descriptor, 1, size - 1) == b"\n":
            return 0
        start = size
        while start > 0:
            begin = max(0, start - _BLOCK_BYTES)
            found = os.pread(self._descriptor, start - begin, begin).rfind(b"\n")
            if found >= 0:
                start = begin + found + 1
                break
            start = begin
        tail = os.pread(self._descriptor, size - start, start)
        try:
            load_line(tail)
        except ValueError:
            os.ftruncate(self._descriptor, start)
            self._size = start
            return size - start
        os.pwrite(self._descriptor, b"\n", size)
        self._size = size + 1
        return 0

    def _failed(self, problem: OSError) -> CliError:
        hint = "Check the path and its permissions."
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Make room and run the same command with --resume: nothing that was written is lost."
        return CliError(f"cannot write {self.path}: {problem.strerror}", hint)


def settle_failures(path: Path, done: DoneSet) -> None:
    """Keeps of each rollout that is still not done the last failure; a file without any goes away."""
    if not path.exists():
        return
    file = LineFile(path)
    last: dict[tuple[int, int], int] = {}
    for number, line in file.lines():
        last[_key(line)] = number
    keep = {number for key, number in last.items() if key not in done}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with path.open("rb") as old, temporary.open("wb") as new:
            new.writelines(line for number, line in enumerate(old, start=1) if number in keep)
        if keep:
            temporary.replace(path)
        else:
            path.unlink()
    except OSError as problem:
        raise CliError(f"cannot write {path}: {problem.strerror}", "Make room on the disk.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _key(line: Mapping[str, Any]) -> tuple[int, int]:
    return int(line.get("_ng_task_index") or 0), int(line.get("_ng_rollout_index") or 0)


@dataclass(frozen=True)
class Record:
    """What an output was made from, so that a resume does not mix two things."""

    input: str
    rows: int
    digest: str
    agent: str
    overrides: Mapping[str, Any]


def write_record(path: Path, record: Record) -> None:
    """Writes it beside the output."""
    content = {
        "input": record.input,
        "rows": record.rows,
        "sha256": record.digest,
        "agent": record.agent,
        "params": dict(record.overrides),
    }
    write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_record(path: Path) -> Record | None:
    """Reads it; None: there is none."""
    try:
        content = json.loads(path.read_text())
        return Record(
            input=str(content["input"]),
            rows=int(content["rows"]),
            digest=str(content["sha256"]),
            agent=str(content["agent"]),
            overrides=dict(content["params"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as problem:
        hint = "Delete it to resume without the check, or start anew with --overwrite."
        raise CliError(f"{path} is damaged ({problem})", hint) from None


def write_atomically(path: Path, text: str) -> None:
    """Writes a whole file; a reader sees the old content or the new."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text)
        temporary.replace(path)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise CliError(
            f"cannot write {path}: {problem.strerror}", "Check the folder and its free space."
        ) from None

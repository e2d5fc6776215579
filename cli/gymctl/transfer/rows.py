"""Is a file JSON lines? Tells a dataset from a login page, a pointer of Git LFS, or a Parquet file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gymd.client.rows import load_line

__all__ = ["RowCheck", "check_rows"]

_GIT_LFS = b"version https://git-lfs.github.com/spec/"
_MOST_LINE_BYTES = 64 << 20


@dataclass
class RowCheck:
    """What the lines of a file turned out to be."""

    rows: int = 0
    """JSON objects."""
    tasks: int = 0
    """Of these, how many have responses_create_params."""
    problem: str = ""
    """What is wrong with the first line that is none; empty: all are."""


def check_rows(path: Path, most: int | None = None) -> RowCheck:
    """Reads the lines of a file, at most the first `most`, till one is no JSON object."""
    check = RowCheck()
    with path.open("rb") as file:
        number = 0
        while most is None or number < most:
            line = file.readline(_MOST_LINE_BYTES)
            if not line:
                break
            number += 1
            if number == 1 and (known := _known(line)):
                check.problem = known
                return check
            if not line.strip():
                continue
            try:
                value = load_line(line)
            except ValueError as error:
                check.problem = f"line {number} is no JSON ({getattr(error, 'msg', error)})"
                return check
            if not isinstance(value, dict):
                check.problem = f"line {number} is JSON, but no object"
                return check
            check.rows += 1
            check.tasks += "responses_create_params" in value
    if not check.rows:
        check.problem = "it has no rows"
    return check


def _known(line: bytes) -> str:
    """What a first line tells about a file of another kind."""
    start = line[:200].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if line.startswith(_GIT_LFS):
        return "it is only Git LFS's pointer to the file"
    if line.startswith(b"PAR1"):
        return "it is a Parquet file"
    if line.startswith(b"\x1f\x8b"):
        return "it is compressed (gzip)"
    if start.startswith((b"<!doctype", b"<html")):
        return "it is a web page"
    return ""

"""A reader process: parses lines for the server, one job at a time.

Jobs come as lines of JSON on stdin; each is answered on stdout by a head (JSON) and a body, after their two
lengths. The files are inherited as open descriptors. The process ends when stdin does.
"""

from __future__ import annotations

import gc
import math
import signal
import struct
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from gymctl.viewer.columns import Columns, Names
from gymctl.viewer.lines import Line, read_line, read_part
from gymctl.viewer.previews import dump_json, preview, shown_row
from gymctl.viewer.rows import MALFORMED, OVERSIZE, UNFINISHED, Facts, RowProblem, facts_of, parse

__all__ = ["LENGTHS", "main"]

LENGTHS = struct.Struct("<QQ")
"""Lengths of head and body."""

Answer = tuple[Mapping[str, Any], bytes]


def main() -> None:
    """Works until stdin ends."""
    # Ctrl-C reaches the whole group; the server is told and then closes our stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What JSON becomes has no cycles: looking for them would cost a tenth of the time.
    gc.disable()
    for line in sys.stdin.buffer:
        job = orjson.loads(line)
        try:
            head, body = JOBS[job.pop("do")](**job)
        except Exception as problem:
            head, body = {"error": f"{type(problem).__name__}: {problem}"}, b""
        packed = orjson.dumps(head)
        try:
            sys.stdout.buffer.writelines((LENGTHS.pack(len(packed), len(body)), packed, body))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            return


def index(fd: int, start: int, end: int) -> Answer:
    """The columns of the rows that begin in [start, end), lines numbered from 0."""
    part = read_part(fd, start, end)
    columns, agents, outcomes = Columns(), Names(), Names()
    lines, unfinished = 0, None
    for line in part.lines():
        lines += 1
        unfinished = None if line.finished else line.offset
        if not line.data or line.data.isspace():
            continue
        *numbers, agent, outcome, task, task_index, rollout_index = _facts(line)
        columns.append(
            (
                line.offset,
                line.length,
                line.number,
                *numbers,
                agents.number(agent),
                outcomes.number(outcome),
                task,
                task_index,
                rollout_index,
            )
        )
    head = {
        "lines": lines,
        "agents": agents.known,
        "outcomes": outcomes.known,
        "open": unfinished,
    }
    return head, b"".join(columns.dump())


def search(fd: int, start: int, end: int, needles: Sequence[str]) -> Answer:
    """Where the lines begin that hold one of the needles (hexadecimal, lower case)."""
    part = read_part(fd, start, end)
    data = part.data.lower()
    found: set[int] = set()
    for needle in map(bytes.fromhex, needles):
        at = data.find(needle)
        while at >= 0:
            found.add(part.first + data.rfind(b"\n", 0, at) + 1)
            newline = data.find(b"\n", at)
            at = data.find(needle, newline) if newline >= 0 else -1
    return {}, array("Q", sorted(found)).tobytes()


def previews(fd: int, rows: Sequence[tuple[int, int]]) -> Answer:
    """A line of text or two for each row (offset, length)."""
    return {}, dump_json([preview(read_line(fd, *row), row[1]) for row in rows])


def show(fd: int, offset: int, length: int) -> Answer:
    """One row as JSON, without its token ids."""
    return {}, shown_row(read_line(fd, offset, length), length)


JOBS: Mapping[str, Callable[..., Answer]] = {
    "index": index,
    "search": search,
    "previews": previews,
    "show": show,
}


def _facts(line: Line) -> Facts:
    if line.length > len(line.data):
        return _nothing(OVERSIZE)
    try:
        return facts_of(parse(line.data))
    except (RowProblem, RecursionError):
        return _nothing(MALFORMED if line.finished else MALFORMED | UNFINISHED)


def _nothing(flags: int) -> Facts:
    return flags, math.nan, math.nan, -1, -1, -1, -1, -1, 0, "", "", 0, -1, -1


if __name__ == "__main__":
    main()

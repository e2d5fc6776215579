"""A trainer of groups as a program: notes what it got and is done with, and goes on by its resume file.

    python -m tests.fakes.group_trainer ADDRESS FILE TASKS ROLLOUTS_EACH BATCH

FILE gets the lines `begin`, `got NUMBER DIGEST` for a group, and `done` before it says that it is done with
all groups so far: by asking for the next if BATCH is 1, else by `commit` after so many groups.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from gymd.client import Group
from gymd.client.sync import connect

__all__ = ["account"]


def account(file: Path) -> list[list[list[tuple[int, str]]]]:
    """What each process got: groups as number and digest, split where it was done with them."""
    processes = file.read_text().split("begin\n")[1:] if file.exists() else []
    return [[_groups(part) for part in one.split("done\n")] for one in processes]


def _groups(lines: str) -> list[tuple[int, str]]:
    found = [line.split(" ") for line in lines.split("\n")[:-1]]
    return [(int(number), digest) for _, number, digest in found]


def main(address: str, file: Path, count: int, each: int, batch: int) -> None:
    """Runs, or goes on."""
    rows = [json.dumps({"responses_create_params": {"input": f"hello {number}"}}) for number in range(count)]
    resume_file = file.with_suffix(".resume")
    with (
        file.open("a", buffering=1) as out,
        connect(address, resume_file=resume_file, auto_commit=batch == 1, credits=32) as gym,
    ):
        out.write("begin\n")
        since = 0
        for group in gym.groups(rows, n=each):
            out.write(f"got {group.number} {_digest(group)}\n")
            since += 1
            if since == batch:
                since = 0
                out.write("done\n")
                if batch > 1:
                    gym.commit()


def _digest(group: Group) -> str:
    assert [one.index for one in group.rollouts] == list(range(len(group.rollouts)))
    assert group.task.create_params.input_text == f"hello {group.number}"
    return hashlib.sha256(b"".join(one.SerializeToString() for one in group.rollouts)).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))

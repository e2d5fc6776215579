"""A trainer as a program: stores every result in a file before it asks for the next, and goes on from there.

    python -m tests.fakes.trainer ADDRESS FILE TASKS ROLLOUTS_EACH

It hands in no further task once there is a file FILE.stop. FILE holds a line per result (`sequence
rollout_id`); the first line is the session's id.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from gymapi.v1.rollout_service_pb2 import RolloutResult, TaskSubmission
from gymd.client import RolloutClient

__all__ = ["stored", "submissions"]


def submissions(count: int, each: int) -> Iterator[TaskSubmission]:
    """Tasks t0, t1, ... for the toy agent."""
    for number in range(count):
        one = TaskSubmission(task_id=f"t{number}", group_id=f"g{number}", rollout_count=each)
        one.task.create_params.input_text = "hello"
        yield one


def stored(file: Path) -> tuple[str, list[tuple[int, str]]]:
    """What a trainer wrote: its session, and number and id of each result."""
    lines = file.read_text().split("\n") if file.exists() else []
    whole = [line.split(" ", 1) for line in lines[1:-1]]  # a kill may have cut the last line
    return (lines[0] if len(lines) > 1 else ""), [(int(number), name) for number, name in whole]


async def main(address: str, file: Path, count: int, each: int) -> None:
    """Runs, or goes on."""
    session_id, results = stored(file)
    found = Counter(name.rsplit("/")[0] for _, name in results)
    stop = file.with_suffix(".stop")
    todo = (one for one in submissions(count, each) if found[one.task_id] < each and not stop.exists())
    async with RolloutClient(address, client_name="trainer", wait_for_daemon=30) as client:
        if session_id:
            session = client.resume(session_id, last_sequence=len(results), credits=32)
        else:
            session = client.session(credits=32, resume_window=60)
        async with session:
            with _rewritten(file, session.session_id, results) as out:
                async for result in session.run(todo):
                    assert isinstance(result, RolloutResult), result
                    out.write(f"{result.sequence} {result.rollout.rollout_id}\n")
                    out.flush()
    assert session.summary is not None
    sys.stdout.write(f"{session.summary.accepted_task_count} {session.summary.result_count}\n")


def _rewritten(file: Path, session_id: str, results: list[tuple[int, str]]) -> TextIO:
    """The file without a line that a kill has cut, open for more."""
    fresh = file.with_suffix(".new")
    out = fresh.open("w")
    out.write("".join(f"{line}\n" for line in [session_id, *(f"{n} {name}" for n, name in results)]))
    out.flush()
    fresh.replace(file)
    return out


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))

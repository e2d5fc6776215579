"""The input: a JSONL file or stdin, read row by row, and checked as a whole before anything is spent."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from gymctl.collect.plan import nearest
from gymd.client.rows import Row, RowError, parse_row
from gymd.convert import validate_params

__all__ = ["Check", "Source", "check_rows"]

# So many mistakes are shown; the rest is counted.
SHOWN_PROBLEMS = 20
_REPORT_EVERY_ROWS = 10_000


class Source:
    """The rows of an input, as often as they are asked for.

    Args:
        name: path of the file, or `-` for stdin (kept in an unnamed temporary file, to be read twice).
    """

    def __init__(self, name: str) -> None:
        self.name = "stdin" if name == "-" else name
        self._file: BinaryIO
        if name == "-":
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
            shutil.copyfileobj(sys.stdin.buffer, self._file)
        else:
            self._file = Path(name).open("rb")  # noqa: SIM115

    def close(self) -> None:
        """Closes the file; a temporary one vanishes."""
        self._file.close()

    def lines(self, limit: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yields the number in the file (from 1) and the bytes of every line that is not blank."""
        self._file.seek(0)
        count = 0
        for number, line in enumerate(self._file, start=1):
            stripped = line.strip()
            if number == 1:
                stripped = stripped.removeprefix(b"\xef\xbb\xbf")
            if not stripped:
                continue
            if limit is not None and count >= limit:
                return
            count += 1
            yield number, stripped

    def rows(self, limit: int | None = None) -> Iterator[Row]:
        """Yields the rows; for an input that was checked."""
        for _, line in self.lines(limit):
            yield parse_row(line.decode())


@dataclass
class Check:
    """What reading the whole input told."""

    row_count: int = 0
    digest: str = ""
    """SHA-256 over the rows: knows an input again, whatever its file is called."""
    names_indices: bool = False
    """The rows bring `_ng_task_index` themselves."""
    names_rollouts: bool = False
    """The rows bring `_ng_rollout_index` themselves: each is one rollout."""
    problems: list[str] = field(default_factory=list)
    """The first mistakes, each with file and line."""
    problem_count: int = 0
    agents: dict[str, int] = field(default_factory=dict)
    """Rows per agent."""


def check_rows(
    source: Source,
    *,
    limit: int | None,
    default_agent: str,
    agents: Sequence[str],
    overrides: Mapping[str, Any],
    earlier_rows: int = 0,
    tell: Callable[[int], None] = lambda count: None,
) -> tuple[Check, str]:
    """Reads and checks all rows in memory that does not grow with their number.

    Args:
        default_agent: runs rows without `agent_ref`; "" if there is none.
        agents: the agents that there are.
        overrides: members that replace those of the create params, as they will be at run time.
        earlier_rows: an earlier run took so many rows.
        tell: is told the number of rows now and then.

    Returns: the findings, and the digest over the first `earlier_rows` rows.
    """
    checker = _Checker(source.name, default_agent, agents, overrides)
    check, digest, earlier = checker.check, hashlib.sha256(), ""
    wanted = None if limit is None else max(limit, earlier_rows)
    for number, line in source.lines(wanted):
        if check.row_count == earlier_rows:
            earlier = digest.hexdigest()
        digest.update(line + b"\n")
        if limit is None or check.row_count < limit:
            checker.take(number, line)
        check.row_count += 1
        if check.row_count % _REPORT_EVERY_ROWS == 0:
            tell(check.row_count)
    check.digest = digest.hexdigest()
    return check, earlier or check.digest


class _Checker:
    def __init__(
        self, name: str, default_agent: str, agents: Sequence[str], overrides: Mapping[str, Any]
    ) -> None:
        self.check = Check()
        self._name = name
        self._default_agent = default_agent
        self._agents = agents
        self._overrides = overrides
        self._seen: set[tuple[int, int]] = set()  # only for rows that name their own indices

    def take(self, number: int, line: bytes) -> None:
        for problem in self._problems_of(line):
            self.check.problem_count += 1
            if len(self.check.problems) < SHOWN_PROBLEMS:
                self.check.problems.append(f"{self._name}:{number}: {problem}")

    def _problems_of(self, line: bytes) -> list[str]:
        try:
            row = parse_row(line.decode())
        except UnicodeDecodeError as problem:
            return [f"the line is no UTF-8 (byte {problem.start + 1})"]
        except RowError as problem:
            return [str(problem)]
        problems = self._agent_problems(row) + self._index_problems(row)
        params = {**row.params, **self._overrides} if self._overrides else row.params
        return problems + [f"responses_create_params.{text}" for text in validate_params(params)]

    def _agent_problems(self, row: Row) -> list[str]:
        agent = row.agent or self._default_agent
        if not agent:
            have = f" (there are {', '.join(self._agents)})" if self._agents else ""
            return [f"no agent_ref, and no default agent: name one with --agent{have}"]
        self.check.agents[agent] = self.check.agents.get(agent, 0) + 1
        if agent not in self._agents:
            return [f"no agent is called {agent!r}. {nearest(agent, self._agents)}"]
        return []

    def _index_problems(self, row: Row) -> list[str]:
        first = self.check.row_count == 0
        named = row.task_index is not None
        if first:
            self.check.names_indices = named
            self.check.names_rollouts = row.rollout_index is not None
        elif named != self.check.names_indices:
            return ["all rows or none must have _ng_task_index"]
        elif (row.rollout_index is not None) != self.check.names_rollouts:
            return ["all rows or none must have _ng_rollout_index"]
        if row.rollout_index is not None and not named:
            return ["_ng_rollout_index without _ng_task_index"]
        if row.task_index is not None:
            key = (row.task_index, row.rollout_index or 0)
            if key in self._seen:
                return [f"_ng_task_index {key[0]} with _ng_rollout_index {key[1]} occurs twice"]
            self._seen.add(key)
        return []

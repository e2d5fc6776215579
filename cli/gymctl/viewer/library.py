"""The files that are looked at, and every answer about them."""

from __future__ import annotations

import asyncio
import math
import os
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson

from gymctl.viewer.columns import Columns, Names
from gymctl.viewer.index import FileIndex
from gymctl.viewer.pool import Pool, ReaderError
from gymctl.viewer.query import Filter, RowId, make_id, select, sort_rows, split
from gymctl.viewer.rows import MALFORMED, OVERSIZE, RESPONSE, UNFINISHED
from gymctl.viewer.search import Search
from gymctl.viewer.stats import figures, histogram
from gymctl.viewer.tasks import TaskTable

__all__ = ["Library", "ListQuery", "Place"]

_LOOK_S = 0.5
_KEPT_SEARCHES = 3
_KEPT_LISTS = 6
_PREVIEW_BYTES = 4 << 20
"""How many bytes of rows one job previews; a page of large rows is shared among the processes."""

Result = TypeVar("Result")
Place = tuple[int, int]
"""File, and line in it."""


@dataclass(frozen=True)
class ListQuery:
    """Which rows, in which order."""

    wanted: Filter = field(default_factory=Filter)
    text: str = ""
    sort: str = "line"
    descending: bool = False


class Library:
    """Files, their index, and answers about them.

    Args:
        paths: JSONL files.
        kind: "tasks" or "rollouts", what somebody expects in them.
    """

    def __init__(self, paths: Sequence[Path], kind: str) -> None:
        self.paths = tuple(paths)
        self.kind = kind
        self.generation = 0
        """Grows when a file was replaced: rows are then others."""
        self.agents = Names()
        self.outcomes = Names()
        self.files: list[FileIndex] = []
        self._pool: Pool
        self._tasks: list[asyncio.Task[None]] = []
        self._reload: asyncio.Task[None] | None = None
        self._searches: OrderedDict[str, Search] = OrderedDict()
        self._lists: OrderedDict[Any, Any] = OrderedDict()

    def start(self) -> None:
        """Opens the files and begins to index them.

        Raises:
            OSError: a file cannot be opened.
        """
        self.agents, self.outcomes = Names(), Names()
        self.files = []
        try:
            for path in self.paths:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self.files.append(FileIndex(path, descriptor, self.agents, self.outcomes))
        except OSError:
            self._close_files()
            raise
        self._pool = Pool([file.descriptor for file in self.files])
        self._pool.start()
        self._tasks = [
            asyncio.create_task(file.run(self._pool, self._replaced), name=f"index {file.path.name}")
            for file in self.files
        ]

    async def close(self) -> None:
        """Stops everything."""
        if self._reload is not None:
            self._reload.cancel()
            await asyncio.gather(self._reload, return_exceptions=True)
        await self._stop()

    async def _stop(self) -> None:
        for search in self._searches.values():
            await search.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.close()
        self._close_files()
        self._searches.clear()
        self._lists.clear()

    def _close_files(self) -> None:
        for file in self.files:
            file.close()
        self.files = []

    def _replaced(self) -> None:
        """A file is another one now: begins anew."""
        if self._reload is None or self._reload.done():
            self._reload = asyncio.create_task(self._start_anew(), name="reload")

    async def _start_anew(self) -> None:
        await self._stop()
        self.generation += 1
        while True:
            try:
                self.start()
                return
            except OSError:  # being replaced: gone for a moment
                await asyncio.sleep(_LOOK_S)

    # ---- answers

    def state(self) -> dict[str, Any]:
        """How far the index is, and what there is to filter by."""
        files = [
            {
                "name": file.path.name,
                "path": str(file.path),
                "bytes": file.size,
                "indexed_bytes": file.position,
                "rows": len(file.columns),
                "malformed": file.malformed,
                "problem": file.problem,
            }
            for file in self.files
        ]
        return {
            "kind": "rollouts" if any(file.rollouts for file in self.files) else self.kind,
            "generation": self.generation,
            "version": self._version,
            "done": all(file.done for file in self.files),
            "rows": sum(len(file.columns) for file in self.files),
            "files": files,
            "agents": sorted(self.agents.known),
            "outcomes": sorted(self.outcomes.known),
        }

    async def page(self, query: ListQuery, start: int, count: int, around: Place | None) -> dict[str, Any]:
        """`count` rows from `start` on, or the page of a row, if it is in the list."""
        rows, progress = await self._rows(query)
        position = None
        if around is not None and (wanted := self._find(around)) is not None:
            position = await self._kept(("at", query, wanted), lambda: _position(rows, wanted))
            if position is not None:
                start = position - position % count
        shown = rows[start : start + count]
        previews = await self._previews(shown)
        return {
            "total": len(rows),
            "start": start,
            "position": position,
            "rows": [self._facts(row) | preview for row, preview in zip(shown, previews, strict=True)],
            **progress,
        }

    async def overview(self, query: ListQuery) -> dict[str, Any]:
        """Figures, histogram and pass@k of the rows of a query, whatever its order."""
        query = ListQuery(query.wanted, query.text)
        rows, progress = await self._rows(query)
        # The bars stay when one of them is chosen.
        every, _ = await self._rows(ListQuery(query.wanted.without_reward(), query.text))
        columns = self._columns

        def compute() -> dict[str, Any]:
            found = figures(columns, rows)
            return found | {
                "outcomes": _named(found["outcomes"], self.outcomes),
                "histogram": histogram(columns, every),
                "pass": TaskTable(columns, rows).pass_table(),
            }

        return await self._kept(("overview", query), compute) | progress

    async def tasks(self, query: ListQuery, start: int, count: int) -> dict[str, Any]:
        """Tasks of the rows of a query; its order is one of TASK_SORTS."""
        rows, progress = await self._rows(ListQuery(query.wanted, query.text))
        columns = self._columns

        def compute() -> tuple[TaskTable, array[int]]:
            table = TaskTable(columns, rows)
            return table, array("Q", table.order(query.sort, descending=query.descending))

        table, order = await self._kept(("tasks", query), compute)
        shown = order[start : start + count]
        firsts = [table.rows(task)[0] for task in shown]
        previews = await self._previews(firsts)
        return {
            "total": len(table),
            "start": start,
            "tasks": [
                self._facts(first) | {"task_text": preview.get("task", "")} | table.figures(task)
                for task, first, preview in zip(shown, firsts, previews, strict=True)
            ],
            **progress,
        }

    async def show(self, place: Place) -> bytes | None:
        """A row as JSON with its facts; None: there is no such row."""
        row = self._find(place)
        if row is None:
            return None
        number, at = split(row)
        file, generation = self.files[number], self.generation
        _, body = await self._pool.run(
            "show", fd=file.descriptor, offset=file.columns.offset[at], length=file.columns.length[at]
        )
        self._check(generation)
        return orjson.dumps({"facts": self._facts(row), "content": orjson.Fragment(body)})

    def raw(self, place: Place) -> tuple[int, int, int] | None:
        """Descriptor (to be closed), offset and length of a line; None: there is no such row."""
        row = self._find(place)
        if row is None:
            return None
        number, at = split(row)
        file = self.files[number]
        return os.dup(file.descriptor), file.columns.offset[at], file.columns.length[at]

    # ---- how

    @property
    def _columns(self) -> list[Columns]:
        return [file.columns for file in self.files]

    @property
    def _version(self) -> int:
        return sum(file.version for file in self.files)

    def _find(self, place: Place) -> RowId | None:
        number, line = place
        row = self.files[number].find(line) if 0 <= number < len(self.files) else None
        return None if row is None else make_id(number, row)

    async def _rows(self, query: ListQuery) -> tuple[array[int], dict[str, Any]]:
        """The rows of a query as far as it has been searched, and how far that is."""
        search = await self._search(query.text) if query.text else None
        found = [rows[:] for rows in search.rows] if search else None
        columns, progress = self._columns, self._progress(search)

        def compute() -> array[int]:
            rows = select(columns, query.wanted, found)
            return array("Q", sort_rows(columns, rows, query.sort, descending=query.descending))

        return await self._kept(("rows", query), compute), progress

    async def _search(self, text: str) -> Search:
        search = self._searches.pop(text, None) or Search(text, self.files, self._pool)
        self._searches[text] = search
        search.ask()
        while len(self._searches) > _KEPT_SEARCHES:
            _, oldest = self._searches.popitem(last=False)
            await oldest.close()
        return search

    async def _kept(self, key: tuple[Any, ...], compute: Callable[[], Result]) -> Result:
        """Computes in a thread, unless the same was asked before and nothing has changed since."""
        query, generation = key[1], self.generation
        search = self._searches.get(query.text)
        full = (generation, self._version, search.version if search else 0, key)
        if full not in self._lists:
            result = await asyncio.to_thread(compute)
            self._check(generation)
            self._lists[full] = result
            while len(self._lists) > _KEPT_LISTS:
                self._lists.popitem(last=False)
        self._lists.move_to_end(full)
        kept: Result = self._lists[full]
        return kept

    def _check(self, generation: int) -> None:
        """Ends an answer about rows that are no more."""
        if generation != self.generation:
            raise ReaderError("the file was replaced and is read anew")

    def _progress(self, search: Search | None) -> dict[str, Any]:
        """How far the answer reaches."""
        progress: dict[str, Any] = {"version": self._version, "generation": self.generation, "search": None}
        if search is not None:
            progress["search"] = {
                "done": search.done,
                "scanned_bytes": search.scanned_bytes,
                "bytes": sum(file.size for file in self.files),
                "problem": search.problem,
            }
        return progress

    async def _previews(self, rows: Sequence[RowId]) -> list[dict[str, str]]:
        jobs = []
        batch: list[tuple[int, int]] = []
        at_file, size = -1, 0

        def flush() -> None:
            if batch:
                jobs.append(self._pool.run("previews", fd=self.files[at_file].descriptor, rows=tuple(batch)))
                batch.clear()

        for row_id in rows:
            number, row = split(row_id)
            columns = self.files[number].columns
            if number != at_file or size > _PREVIEW_BYTES:
                flush()
                at_file, size = number, 0
            batch.append((columns.offset[row], columns.length[row]))
            size += columns.length[row]
        flush()
        generation = self.generation
        answers = await asyncio.gather(*jobs)
        self._check(generation)
        return [preview for _, body in answers for preview in orjson.loads(body)]

    def _facts(self, row_id: RowId) -> dict[str, Any]:
        """What the index knows of a row; what is not there is null."""
        number, row = split(row_id)
        columns = self.files[number].columns
        flags = columns.flags[row]
        return {
            "file": number,
            "line": columns.line[row],
            "bytes": columns.length[row],
            "agent": self.agents.known[columns.agent[row]],
            "outcome": self.outcomes.known[columns.outcome[row]],
            "reward": _or_none(columns.reward[row]),
            "seconds": _or_none(columns.seconds[row]),
            **{name: _or_none(getattr(columns, name)[row]) for name in _COUNTS},
            # As text: browsers round integers of 64 bits.
            "task_key": str(columns.task[row]),
            "has_response": bool(flags & RESPONSE),
            "unreadable": bool(flags & (MALFORMED | OVERSIZE)),
            "unfinished": bool(flags & UNFINISHED),
        }


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "turns",
    "tool_calls",
    "tool_errors",
    "tools",
    "task_index",
    "rollout_index",
)


def _or_none(value: float) -> float | None:
    """None for NaN and for the -1 of an unknown count."""
    return None if math.isnan(value) or (value == -1 and isinstance(value, int)) else value


def _position(rows: array[int], wanted: RowId) -> int | None:
    try:
        return rows.index(wanted)
    except ValueError:
        return None


def _named(counts: Mapping[int, int], names: Names) -> list[dict[str, Any]]:
    pairs = sorted(counts.items(), key=lambda pair: -pair[1])
    return [{"name": names.known[number], "count": count} for number, count in pairs]

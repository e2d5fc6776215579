"""The viewer's index over real reader processes: growth, replacement, search, pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from gymctl.viewer import index, library, pool, search
from gymctl.viewer.library import Library, ListQuery
from gymctl.viewer.pool import Pool, ReaderError
from gymctl.viewer.query import Filter
from tests.fakes.viewer_files import rollouts, write_files

LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_LOOK_S", 0.01)
    monkeypatch.setattr(library, "_LOOK_S", 0.01)


@contextlib.asynccontextmanager
async def opened(*paths: Path, kind: str = "rollouts") -> AsyncIterator[Library]:
    one = Library(paths, kind)
    one.start()
    try:
        yield one
    finally:
        await one.close()


async def until(library: Library, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Waits until the state is as wanted."""
    async with asyncio.timeout(LIMIT_S):
        while not wanted(state := library.state()):  # noqa: ASYNC110 - the page polls just so
            await asyncio.sleep(0.005)
    return state


async def indexed(library: Library, rows: int) -> dict[str, Any]:
    return await until(library, lambda state: state["done"] and state["rows"] == rows)


async def lines(library: Library, query: ListQuery | None = None) -> list[int]:
    page = await library.page(query or ListQuery(), 0, 500, None)
    return [row["line"] for row in page["rows"]]


async def searched(library: Library, query: ListQuery) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT_S):
        while True:
            page = await library.page(query, 0, 500, None)
            if page["search"]["done"]:
                return page
            await asyncio.sleep(0.005)


def dump(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


# ---- indexing


async def test_small_parts_give_the_same_index_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rollouts.jsonl"
    good, bad = write_files(path, 20, 4)
    failures = tmp_path / "rollouts_failures.jsonl"
    monkeypatch.setattr(index, "_FIRST_BYTES", 3000)
    monkeypatch.setattr(index, "PART_BYTES", 7001)
    async with opened(path, failures) as library:
        state = await indexed(library, good + bad)
        assert [file["rows"] for file in state["files"]] == [good, bad]
        assert state["kind"] == "rollouts"
        content = path.read_bytes()
        columns = library.files[0].columns
        assert list(columns.line) == list(range(1, good + 1))
        assert [
            content[offset : offset + length]
            for offset, length in zip(columns.offset, columns.length, strict=True)
        ] == content.splitlines()
        wanted = [json.loads(line) for line in content.splitlines()]
        assert list(columns.reward) == [row["reward"] for row in wanted]
        names = [library.agents.known[number] for number in columns.agent]
        assert names == [row["rollout"]["agent"] for row in wanted]


async def test_broken_lines_are_rows_too(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"reward": 1}\n\n{"reward": \n[3]\n{"reward": 2}\n\xff\xfe\n')
    async with opened(path) as library:
        state = await indexed(library, 5)
        assert state["files"][0]["malformed"] == 3
        assert await lines(library) == [1, 3, 4, 5, 6]
        page = await library.page(ListQuery(Filter(has=frozenset({"malformed"}))), 0, 10, None)
        assert [(row["line"], row["problem"]) for row in page["rows"]] == [
            (3, "no valid JSON: expecting value at column 12"),
            (4, "not a JSON object but a list"),
            (6, "not UTF-8: byte 1 of the line"),
        ]
        shown = json.loads(await library.show((0, 3)) or b"")
        assert shown["facts"]["unreadable"] is True
        assert "raw" in shown["content"]
        assert await library.show((0, 2)) is None  # blank
        assert await library.show((7, 1)) is None


async def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.touch()
    async with opened(path, kind="tasks") as library:
        state = await indexed(library, 0)
        assert state["kind"] == "tasks"
        assert (await library.overview(ListQuery()))["histogram"] == []
        assert (await library.tasks(ListQuery(sort="task"), 0, 10))["total"] == 0


# ---- growth


async def test_a_file_is_followed_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"reward": 1}))
    async with opened(path) as library:
        await indexed(library, 1)
        with path.open("ab", buffering=0) as file:
            file.write(dump({"reward": 0.5}, {"reward": 0.25}))
            await indexed(library, 3)
            file.write(b'{"reward": 0.1')
            state = await indexed(library, 4)
            assert state["files"][0]["malformed"] == 1
            page = await library.page(ListQuery(), 3, 1, None)
            assert page["rows"][0]["unfinished"] is True
            file.write(b'25}\n\n{"a": 1}')
            state = await indexed(library, 5)
            assert state["files"][0]["malformed"] == 0
            assert list(library.files[0].columns.reward[:4]) == [1, 0.5, 0.25, 0.125]
            file.write(b"\n" + dump({"reward": 7}))
            await indexed(library, 6)
        assert list(library.files[0].columns.line) == [1, 2, 3, 4, 6, 7]
        assert library.files[0].columns.reward[5] == 7


async def test_a_last_line_of_blanks_becomes_a_row(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"reward": 1}) + b"  ")
    async with opened(path) as library:
        await indexed(library, 1)
        with path.open("ab") as file:
            file.write(dump({"reward": 2}))
        await indexed(library, 2)
        assert await lines(library) == [1, 2]


@pytest.mark.parametrize("how", ["renamed", "truncated", "rewritten"])
async def test_a_replaced_file_is_read_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"reward": 1}, {"reward": 2}))
    async with opened(path) as library:
        await indexed(library, 2)
        if how == "renamed":
            other = tmp_path / "other"
            other.write_bytes(dump({"reward": 1}, {"reward": 2}, {"reward": 3}))
            other.replace(path)
            count = 3
        elif how == "truncated":
            path.write_bytes(dump({"reward": 9}))
            count = 1
        else:
            path.write_bytes(dump(*({"reward": 9, "n": number} for number in range(5))))
            count = 5
        state = await until(library, lambda state: state["generation"] == 1 and state["rows"] == count)
        assert len(await lines(library)) == count
        assert state["files"][0]["problem"] == ""


async def test_a_deleted_file_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"reward": 1}))
    async with opened(path) as library:
        await indexed(library, 1)
        with path.open("ab") as file:
            path.unlink()
            file.write(dump({"reward": 2}))
        await indexed(library, 2)
        assert await lines(library) == [1, 2]


# ---- pages


async def test_a_page_is_found_by_a_row(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump(*({"reward": number % 7} for number in range(250))))
    async with opened(path) as library:
        await indexed(library, 250)
        page = await library.page(ListQuery(), 0, 100, (0, 217))
        assert (page["start"], page["position"]) == (200, 216)
        assert page["rows"][16]["line"] == 217
        query = ListQuery(Filter(reward_min=6), sort="reward", descending=True)
        page = await library.page(query, 0, 10, (0, 217))  # its reward is 6
        assert page["total"] == 35
        assert 217 in [row["line"] for row in page["rows"]]
        page = await library.page(query, 0, 10, (0, 1))  # not in the list
        assert (page["start"], page["position"]) == (0, None)


async def test_previews_of_large_rows_are_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_PREVIEW_BYTES", 100)
    rows = [{"responses_create_params": {"input": f"task {number}"}} for number in range(30)]
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_bytes(dump(*rows[:20]))
    two.write_bytes(dump(*rows[20:]))
    async with opened(one, two) as opened_library:
        await indexed(opened_library, 30)
        page = await opened_library.page(ListQuery(), 0, 50, None)
        assert [row["task"] for row in page["rows"]] == [f"task {number}" for number in range(30)]


async def test_the_overview_and_the_tasks(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    good, bad = write_files(path, 20, 4)
    wanted = [row for row in rollouts(20, 4) if "failure" not in row]
    async with opened(path, tmp_path / "rollouts_failures.jsonl") as library:
        await indexed(library, good + bad)
        found = await library.overview(ListQuery())
        assert (found["rows"], found["scored"]) == (good + bad, good)
        assert sum(one["count"] for one in found["outcomes"]) == good + bad
        assert sum(bar["count"] for bar in found["histogram"]) == good
        assert found["pass"][0]["tasks"] == 20
        # The bars do not go away when one of them is chosen.
        narrow = await library.overview(ListQuery(Filter(reward_min=1.0)))
        assert narrow["histogram"] == found["histogram"]
        assert narrow["rows"] == sum(row["reward"] == 1.0 for row in wanted)
        tasks = await library.tasks(ListQuery(sort="mean", descending=True), 0, 5)
        assert tasks["total"] == 20
        means = [task["mean"] for task in tasks["tasks"]]
        assert means == sorted(means, reverse=True)
        key = int(tasks["tasks"][0]["task_key"])
        page = await library.page(ListQuery(Filter(task=key)), 0, 10, None)
        assert page["total"] == tasks["tasks"][0]["rollouts"] == 4


# ---- search


async def test_a_search_finds_rows_and_follows_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "PART_BYTES", 50)
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"a": "one"}, {"a": "two"}, {"a": "ONE", "reward": 1}) + b'{"a": "on')
    async with opened(path) as library:
        await indexed(library, 4)
        query = ListQuery(text="one")
        page = await searched(library, query)
        assert [row["line"] for row in page["rows"]] == [1, 3]
        assert page["search"]["scanned_bytes"] == path.stat().st_size
        scored = await searched(library, ListQuery(Filter(reward_min=1), text="one"))
        assert [row["line"] for row in scored["rows"]] == [3]
        with path.open("ab") as file:
            file.write(b'e"}\n' + dump({"a": "three"}, {"a": "none"}))
        await indexed(library, 6)
        page = await searched(library, query)
        assert [row["line"] for row in page["rows"]] == [1, 3, 4, 6]


async def test_a_match_in_an_unfinished_line_is_not_counted_twice(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"a": "x"}) + b'{"a": "one')
    async with opened(path) as library:
        await indexed(library, 2)
        assert (await searched(library, ListQuery(text="one")))["total"] == 1
        with path.open("ab") as file:
            file.write(b' more"}\n')
        await until(library, lambda state: state["files"][0]["malformed"] == 0)
        assert (await searched(library, ListQuery(text="one")))["total"] == 1


async def test_a_search_nobody_waits_for_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PART_BYTES", 64)
    monkeypatch.setattr(search, "_PATIENCE_S", -1.0)
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump(*({"a": number} for number in range(200))))
    async with opened(path) as library:
        await indexed(library, 200)
        page = await library.page(ListQuery(text="17"), 0, 10, None)
        assert page["search"]["done"] is False
        monkeypatch.setattr(search, "_PATIENCE_S", 5.0)
        assert (await searched(library, ListQuery(text="17")))["total"] == 12


async def test_old_searches_end(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump(*({"a": number} for number in range(50))))
    async with opened(path) as library:
        await indexed(library, 50)
        for number in range(8):
            await library.page(ListQuery(text=str(number)), 0, 10, None)
        assert len(library._searches) == 3


# ---- reader processes


async def test_a_killed_reader_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"reward": 1}))
    with path.open("rb") as file:
        readers = Pool([file.fileno()], size=1)
        readers.start()
        try:
            head, _ = await readers.run("index", fd=file.fileno(), start=0, end=10)
            assert head["lines"] == 1
            (child,) = psutil.Process().children()
            child.send_signal(signal.SIGKILL)
            head, _ = await readers.run("index", fd=file.fileno(), start=0, end=10)
            assert head["lines"] == 1
        finally:
            await readers.close()


async def test_a_job_that_fails_says_why_and_harms_no_other(tmp_path: Path) -> None:
    readers = Pool([], size=1)
    readers.start()
    try:
        with pytest.raises(ReaderError, match="OSError"):
            await readers.run("index", fd=999, start=0, end=10)
        with pytest.raises(ReaderError, match="KeyError"):
            await readers.run("nonsense")
    finally:
        await readers.close()
    with pytest.raises(ReaderError, match="closed"):
        await readers.run("index", fd=999, start=0, end=10)


async def test_readers_that_cannot_live_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.sys, "executable", "/bin/false")
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"reward": 1}))
    async with opened(path) as library:
        state = await until(library, lambda state: state["files"][0]["problem"])
        assert "a reader process ended with 1" in state["files"][0]["problem"]
        assert state["done"] is True


async def test_waiting_jobs_fail_when_the_pool_closes(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(dump({"reward": 1}))
    descriptor = os.open(path, os.O_RDONLY)
    readers = Pool([descriptor], size=1)
    readers.start()
    jobs = [asyncio.create_task(readers.run("index", fd=descriptor, start=0, end=9)) for _ in range(50)]
    await jobs[0]
    await readers.close()
    os.close(descriptor)
    ended = await asyncio.gather(*jobs, return_exceptions=True)
    assert all(isinstance(one, tuple | ReaderError) for one in ended)
    assert any(isinstance(one, ReaderError) for one in ended)

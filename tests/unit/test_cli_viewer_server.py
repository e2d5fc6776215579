"""The viewer's HTTP side and its commands."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gymctl.viewer.library import Library
from gymctl.viewer.server import make_app
from tests.fakes.gymctl import gymctl, start_gymctl
from tests.fakes.viewer_files import HOSTILE, rollouts, write_files

LIMIT_S = 60.0


class Client:
    """Asks a viewer."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def ask(self, path: str, **headers: str) -> tuple[int, Any, Any]:
        """Status, headers and body (JSON if it is)."""
        async with self._session.get(self.url + path, headers=headers) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, answer.headers, await (answer.json() if is_json else answer.text())

    async def get(self, path: str) -> Any:
        """The body of a success."""
        status, _, body = await self.ask(path)
        assert status == 200, body
        return body

    async def indexed(self) -> Any:
        """The state when all is indexed."""
        async with asyncio.timeout(LIMIT_S):
            while not (state := await self.get("/api/state"))["done"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return state


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rollouts, with failures beside."""
    path = tmp_path_factory.mktemp("viewer") / "rollouts.jsonl"
    write_files(path, 30, 4)
    return path


@pytest.fixture(scope="module")
def lines(path: Path) -> list[str]:
    """The lines of the rollouts."""
    return path.read_text().splitlines()


@pytest.fixture
async def client(path: Path) -> AsyncIterator[Client]:
    library = Library([path, path.with_name("rollouts_failures.jsonl")], "rollouts")
    library.start()
    runner = web.AppRunner(make_app(library, "127.0.0.1"), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        one = Client(session, f"http://127.0.0.1:{port}")
        await one.indexed()
        yield one
    await runner.cleanup()
    await library.close()


# ---- the API


async def test_rows_are_paged_filtered_and_sorted(client: Client) -> None:
    page = await client.get("/api/rows?count=7&start=7")
    assert (page["start"], len(page["rows"])) == (7, 7)
    assert [row["line"] for row in page["rows"]] == list(range(8, 15))
    agent = "math_with_judge_simple_agent"
    page = await client.get(f"/api/rows?agent={agent}&min=1&sort=duration&desc=1&count=500")
    assert {(row["agent"], row["reward"]) for row in page["rows"]} == {(agent, 1.0)}
    times = [row["seconds"] for row in page["rows"]]
    assert times == sorted(times, reverse=True)
    assert (await client.get("/api/rows?agent=nobody"))["total"] == 0
    assert (await client.get("/api/rows?outcome=truncated_tokens"))["total"] > 0
    assert (await client.get("/api/rows?file=1&has=failure"))["total"] > 0
    page = await client.get("/api/rows?start=100000")
    assert page["rows"] == []
    assert (await client.get("/api/rows?around=0:77&count=10"))["start"] == 70


async def test_a_row_its_raw_line_and_a_download(client: Client, lines: list[str]) -> None:
    line = lines[4]
    shown = await client.get("/api/rows/0:5")
    assert shown["content"]["row"]["reward"] == json.loads(line)["reward"] == shown["facts"]["reward"]
    assert await client.get("/api/rows/0:5/raw") == line
    assert await client.get("/api/rows/0:5/raw?limit=20") == line[:20]
    status, headers, _ = await client.ask("/api/rows/0:5/raw?download")
    assert (status, headers["Content-Disposition"]) == (200, 'attachment; filename="line-5.json"')
    assert headers["Content-Type"] == "text/plain; charset=utf-8"


WRONG = [
    ("/api/rows?sort=colour", 400, "known are line, reward"),
    ("/api/rows?has=wings", 400, "known are calls"),
    ("/api/rows?min=much", 400, "min=much is no number"),
    ("/api/rows?max=nan", 400, "no number"),
    ("/api/rows?start=-1", 400, "no whole number"),
    ("/api/rows?count=1e3", 400, "no whole number"),
    ("/api/rows?task=x", 400, "no key"),
    ("/api/rows?around=5", 400, "such as 0:12"),
    ("/api/rows?q=" + "x" * 501, 400, "too long"),
    ("/api/tasks?sort=line", 400, "known are task"),
    ("/api/rows/0:999999", 404, "no row on line 999999"),
    ("/api/rows/9:1/raw", 404, "no row"),
    ("/api/rows/..%2f..", 400, "no place"),
]


async def test_wrong_questions_are_told(client: Client) -> None:
    for path, status, words in WRONG:
        found, _, body = await client.ask(path)
        assert (found, words in body["error"]) == (status, True), (path, body)


async def test_tasks_and_overview(client: Client) -> None:
    tasks = await client.get("/api/tasks?sort=mean&count=3")
    assert (tasks["total"], len(tasks["tasks"])) == (30, 3)
    assert tasks["tasks"][0]["task_text"]
    key = tasks["tasks"][0]["task_key"]
    assert (await client.get(f"/api/rows?task={key}"))["total"] == 4
    overview = await client.get("/api/overview?q=review")
    assert overview["search"]["bytes"] > 0


# ---- security


async def test_the_page_runs_only_its_own_code(client: Client) -> None:
    status, headers, page = await client.ask("/")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|https?://", page)
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        assert (await client.ask(path))[0] == 200


async def test_the_sources_write_no_markup(client: Client) -> None:
    folder = files("gymctl.viewer") / "static"
    scripts = [one for one in folder.iterdir() if one.name.endswith(".js")]
    assert len(scripts) > 5
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", text
        )
        for name in re.findall(r'from "\./([^"]+)"', text):
            assert (await client.ask(f"/static/{name}"))[0] == 200, (script.name, name)


ORIGINS = [
    ({"Host": "127.0.0.1:9"}, 200),
    ({"Host": "localhost"}, 200),
    ({"Host": "[::1]:7860"}, 200),
    ({"Host": "evil.example"}, 403),
    ({"Host": "127.0.0.1.evil.example:80"}, 403),
    ({"Host": "10.0.0.1"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 200),
]


async def test_other_sites_get_nothing(client: Client) -> None:
    for headers, status in ORIGINS:
        assert (await client.ask("/api/state", **headers))[0] == status, headers


async def test_errors_too_have_the_headers(client: Client) -> None:
    for path in ("/nowhere", "/api/rows?sort=x", "/static/..%2fserver.py"):
        status, headers, _ = await client.ask(path)
        assert status in (400, 404)
        assert "default-src 'none'" in headers["Content-Security-Policy"]


# ---- the commands


async def read_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        return (await process.stdout.readline()).decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_view_serves_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    write_files(tmp_path / "r.jsonl", 5, 2)
    process = await start_gymctl(
        "rollouts", "view", "r.jsonl", "--port", 0, "--no-open", "-o", "json", cwd=tmp_path
    )
    told = json.loads(await read_line(process))
    assert told["files"] == ["r.jsonl", "r_failures.jsonl"]
    async with aiohttp.ClientSession() as session:
        state = await Client(session, told["url"].rstrip("/")).indexed()
    assert state["rows"] == 10
    process.send_signal(number)
    out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
    assert (process.returncode, out, err) == (0, b"", b"")


async def test_view_of_tasks_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"responses_create_params": {"input": "x"}}\n')
    process = await start_gymctl("data", "view", "t.jsonl", "--port", 0, "--no-open", cwd=tmp_path)
    url = (await read_line(process)).strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
    async with aiohttp.ClientSession() as session:
        assert (await Client(session, url.rstrip("/")).indexed())["kind"] == "tasks"
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
    assert process.returncode == 0
    assert "Showing t.jsonl. Press Ctrl-C to stop." in err.decode()


async def test_a_port_in_use_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("{}\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = await gymctl("data", "view", "t.jsonl", "--port", port, "--no-open", cwd=tmp_path)
    assert done.code == 1
    assert f"port {port} of 127.0.0.1 is in use" in done.err
    assert "--port 0" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.jsonl"], "there is no file missing.jsonl"),
        (["folder"], "folder is no regular file"),
        (["pipe"], "pipe is no regular file"),
        (["packed.jsonl"], "is compressed"),
        (["t.jsonl", "--host", "0.0.0.0"], "--allow-remote"),
        (["t.jsonl", "--host", "example.invalid", "--allow-remote"], "cannot listen on example.invalid"),
    ],
)
async def test_what_cannot_be_shown_is_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "t.jsonl").write_text("{}\n")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "packed.jsonl").write_bytes(b"\x1f\x8b\x08\x00")
    done = await gymctl("rollouts", "view", *arguments, "--port", 0, "--no-open", cwd=tmp_path)
    assert done.code == 1
    assert words in done.err
    assert "Next:" in done.err
    assert "Traceback" not in done.err


def test_the_files_of_the_tests_are_like_real_ones() -> None:
    rows = list(rollouts(60, 8))
    assert any("failure" in row for row in rows)
    assert any(HOSTILE in json.dumps(row).replace('\\"', '"') for row in rows)
    assert {row["rollout"]["outcome"] for row in rows} >= {"completed", "truncated_tokens", "model_failed"}

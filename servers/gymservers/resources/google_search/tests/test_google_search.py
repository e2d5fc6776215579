"""google_search: the reward table, the two backends over real sockets, and what a model may not reach."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gymapi.v1.responses_pb2 import Response
from gymd.errors import GymdError
from gymd.sdk.testing import (
    RunningServer,
    check_resources_server,
    expect_error,
    function_call,
    make_response,
    message,
    reasoning,
    start_server,
)
from gymservers.resources.google_search import web as web_backend
from gymservers.resources.google_search.server import GoogleSearch, shortened

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "google_search" / "example.jsonl"
KEYS = {"google_api_key": "secret-key", "google_cx": "engine"}

# What the model says, what is read, and the reward where B is expected. Edge cases first.
CASES: list[tuple[str, str | None, float]] = [
    ("", None, 0.0),
    ("B", None, 0.0),
    ("The answer is B.", None, 0.0),
    (r"\boxed", None, 0.0),
    (r"\boxed{B", None, 0.0),
    (r"boxed{B}", None, 0.0),
    (r"\boxed {B}", None, 0.0),
    (r"\boxed{}", "", 0.0),
    (r"\boxed{ B }", " B ", 0.0),
    (r"\boxed{b}", "b", 0.0),
    (r"\boxed{B.}", "B.", 0.0),
    (r"\boxed{\text{B}}", r"\text{B", 0.0),  # up to the first closing brace
    (r"\boxed{{B}}", "{B", 0.0),
    ("\\boxed{\nB\n}", "\nB\n", 0.0),
    (r"\boxed{A} or \boxed{B}", "A", 0.0),  # the first one counts
    (r"\boxed{B} or \boxed{A}", "B", 1.0),
    (r"\boxed{B}", "B", 1.0),
    (r"So it is $\boxed{B}$.", "B", 1.0),
    ("Long.\n\n" * 50 + r"\boxed{B}", "B", 1.0),
    (r"\\boxed{B}", "B", 1.0),
    (r"\boxed{Ｂ}", "Ｂ", 0.0),
]


@pytest.mark.parametrize(("text", "option", "reward"), CASES)
async def test_reward(text: str, option: str | None, reward: float) -> None:
    async with start_server(GoogleSearch) as server:
        found = await server.verify({"expected_answer": "B"}, text)
    assert (found.value, found.extras) == (reward, {"parsed_option": option})


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        (make_response(message(r"\boxed{B}"), message("Done.")), 0.0),  # the last message counts
        (make_response(message(r"\boxed{A}"), message(r"\boxed{B}")), 1.0),
        (make_response(message(r"\boxed{B}"), function_call("search", {"query": "x"})), 1.0),
        (make_response(reasoning(r"\boxed{B}"), message("Hm.")), 0.0),
        (make_response(function_call("search", {"query": "x"})), 0.0),
        (Response(), 0.0),
    ],
)
async def test_which_message_counts(response: Response, reward: float) -> None:
    async with start_server(GoogleSearch) as server:
        assert (await server.verify({"expected_answer": "B"}, response=response)).value == reward


async def test_boxes_that_are_never_closed_take_no_time() -> None:
    """A pattern would take an hour, on the event loop."""
    async with start_server(GoogleSearch) as server:
        found = await server.verify({"expected_answer": "B"}, "\\boxed{" * 300_000)
    assert found.extras == {"parsed_option": None}


async def test_real_rows() -> None:
    if not SHARED.is_file():
        pytest.skip("the shared example rows are not there")
    rows = [json.loads(line) for line in SHARED.read_text().splitlines()]
    async with start_server(GoogleSearch) as server:
        for row in rows:
            right = row["expected_answer"]
            assert (await server.verify(row, rf"\boxed{{{right}}}")).value == 1.0
            assert (await server.verify(row, rf"\boxed{{not {right}}}")).value == 0.0
        declared = {tool["name"]: tool["parameters"]["required"] for tool in _tools(rows[0])}
        assert declared == {"search": ["query"], "browse": ["url"]}


def _tools(row: dict[str, Any]) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = row["responses_create_params"]["tools"]
    return tools


async def test_conformance() -> None:
    good = {row["expected_answer"]: rf"\boxed{{{row['expected_answer']}}}" for row in EXAMPLES}
    await check_resources_server(
        GoogleSearch,
        rows=EXAMPLES,
        good=lambda row: good[row["expected_answer"]],
        bad=lambda row: "I do not know.",
    )


class TestDocuments:
    async def test_every_example_can_be_found_out(self) -> None:
        facts = [
            "tides of the harbour",
            "two\ntonnes",
            "rapeseed oil",
            "sluice at Kelder",
            "lost his left hand",
        ]
        async with start_server(GoogleSearch) as server:
            for row, fact in zip(EXAMPLES, facts, strict=True):
                async with await server.seed(row) as session:
                    question = row["responses_create_params"]["input"].partition("\n")[0]
                    found = json.loads(
                        (await session.call("search", query=question)).json()["search_results"]
                    )
                    assert 1 <= len(found) <= 10
                    pages = [await session.call("browse", url=hit["link"]) for hit in found[:3]]
                    text = " ".join(page.json()["page_content"] for page in pages)
                    assert " ".join(fact.split()) in " ".join(text.split())

    @pytest.mark.parametrize(
        "query",
        [
            '"',
            "NEAR(a b",
            "title:clock",
            "a AND OR",
            "clock*",
            "-clock",
            "'; DROP TABLE pages; --",
            "ü" * 2000,
        ],
    )
    async def test_no_query_is_a_syntax(self, query: str) -> None:
        async with start_server(GoogleSearch) as server, await server.seed(EXAMPLES[0]) as session:
            assert not (await session.call("search", query=query)).is_error

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "documents://",
            "documents://../server.py",
            "/etc/passwd",
            "file:///etc/passwd",
            "http://127.0.0.1/",
        ],
    )
    async def test_only_documents_can_be_read(self, url: str) -> None:
        async with start_server(GoogleSearch) as server, await server.seed(EXAMPLES[0]) as session:
            answer = await session.call("browse", url=url)
            assert answer.is_error
            assert "Use a link from the search results" in answer.output

    @pytest.mark.parametrize("query", ["", "   ", "x" * 3000])
    async def test_queries_that_are_refused(self, query: str) -> None:
        async with start_server(GoogleSearch) as server, await server.seed(EXAMPLES[0]) as session:
            assert (await session.call("search", query=query)).is_error

    async def test_a_folder_without_documents_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(GymdError) as caught:
            async with start_server(GoogleSearch, {"documents_dir": str(tmp_path)}):
                pass
        assert str(tmp_path) in caught.value.message

    async def test_64_searches_at_once(self) -> None:
        async with start_server(GoogleSearch) as server:
            sessions = [await server.seed(EXAMPLES[number % 5]) for number in range(64)]
            words = ["clock", "ferry", "avocets", "organ"]
            answers = await asyncio.gather(
                *(one.call("search", query=words[number % 4]) for number, one in enumerate(sessions))
            )
            assert all(
                words[number % 4][:4] in answer.output.lower() for number, answer in enumerate(answers)
            )
            for session in sessions:
                await session.close()


def test_long_pages_keep_their_ends() -> None:
    text = "word " * 10_000
    assert shortened(text) == text
    longer = "begin " + text + "end"
    cut = shortened(longer)
    assert cut.startswith("begin word")
    assert cut.endswith("word end")
    assert len(cut) == 10_000 + len("\n...\n")


@dataclass
class Net:
    """A search API and some pages, on loopback."""

    answers: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    async def search(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        status, body = self.answers.pop(0) if self.answers else (200, {"items": []})
        if body == "hang":
            await asyncio.Event().wait()
        if isinstance(body, str):
            return web.Response(status=status, text=body)
        return web.json_response(body, status=status)

    async def page(self, request: web.Request) -> web.StreamResponse:
        match request.match_info["name"]:
            case "article":
                text = "<p>The axolotl keeps its gills all its life, which few salamanders do.</p>" * 3
                html = (
                    f"<html><body><nav>Home Shop</nav><article><h1>Axolotl</h1>{text}</article></body></html>"
                )
                return web.Response(text=html, content_type="text/html")
            case "plain":
                return web.Response(text="just text")
            case "moved":
                raise web.HTTPFound("/page/plain")
            case "round":
                raise web.HTTPFound("/page/round")
            case "inside":
                raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")
            case "picture":
                return web.Response(body=b"\x89PNG", content_type="image/png")
            case "huge":
                return web.Response(body=b"x" * 20_000, content_type="text/html")
            case "empty":
                return web.Response(text="<html></html>", content_type="text/html")
            case "slow":
                await asyncio.Event().wait()
        raise web.HTTPNotFound


@asynccontextmanager
async def net() -> AsyncIterator[Net]:
    one = Net()
    app = web.Application()
    app.router.add_get("/search", one.search)
    app.router.add_get("/page/{name}", one.page)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    one.url = f"http://{host}:{port}"
    try:
        yield one
    finally:
        await runner.cleanup()


@asynccontextmanager
async def google(one: Net, **config: Any) -> AsyncIterator[RunningServer]:
    settings = {**KEYS, "search_url": f"{one.url}/search", "allow_private_addresses": True, **config}
    async with start_server(GoogleSearch, settings) as server:
        yield server


class TestGoogle:
    async def test_results_are_link_title_and_snippet(self) -> None:
        item = {
            "link": "https://a.example/",
            "title": "A",
            "snippet": "about a",
            "kind": "customsearch#result",
        }
        async with net() as one, google(one) as server, await server.seed(EXAMPLES[0]) as session:
            one.answers.append((200, {"items": [item]}))
            found = json.loads((await session.call("search", query="what is a")).json()["search_results"])
            assert found == [{"link": "https://a.example/", "title": "A", "snippet": "about a"}]
            assert one.asked == [{"key": "secret-key", "cx": "engine", "q": "what is a", "num": "10"}]

    async def test_what_passes_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(web_backend, "RETRY_BASE_S", 0.01)
        async with net() as one, google(one) as server, await server.seed(EXAMPLES[0]) as session:
            one.answers += [(503, "busy"), (429, "slow down"), (200, {})]
            assert json.loads((await session.call("search", query="x")).json()["search_results"]) == []
            assert len(one.asked) == 3

    @pytest.mark.parametrize(
        ("status", "body", "reason", "tries"),
        [
            (403, {"error": {"message": "API key not valid"}}, "UPSTREAM_AUTH", 1),
            (400, {"error": {"message": "bad cx"}}, "UPSTREAM_REJECTED", 1),
            (429, {"error": {"message": "quota"}}, "UPSTREAM_RATE_LIMITED", 3),
            (500, "oops", "UPSTREAM_UNAVAILABLE", 3),
            (200, "no json", "UPSTREAM_MALFORMED", 1),
            (200, {"items": "none"}, "UPSTREAM_MALFORMED", 1),
        ],
    )
    async def test_a_broken_search_engine_is_no_answer(
        self, status: int, body: Any, reason: str, tries: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It fails the rollout: a policy is not to be scored on a search that did not work."""
        monkeypatch.setattr(web_backend, "RETRY_BASE_S", 0.01)
        async with net() as one, google(one) as server, await server.seed(EXAMPLES[0]) as session:
            one.answers += [(status, body)] * 3
            failure = await expect_error(reason, session.call("search", query="x"), "a failed search")
            assert "secret-key" not in str(failure)
            assert len(one.asked) == tries

    async def test_a_search_that_hangs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(web_backend, "RETRY_BASE_S", 0.01)
        async with net() as one, google(one, request_timeout_s=0.1) as server:
            one.answers += [(200, "hang")] * 3
            async with await server.seed(EXAMPLES[0]) as session:
                await expect_error("UPSTREAM_UNAVAILABLE", session.call("search", query="x"), "a hung search")

    async def test_a_key_that_is_missing_is_told_at_the_start(self) -> None:
        with pytest.raises(GymdError) as caught:
            async with start_server(GoogleSearch, {"search_backend": "google"}):
                pass
        assert "env.yaml" in caught.value.message
        assert "search_backend: documents" in caught.value.message


class TestBrowse:
    async def test_the_article_without_the_navigation(self) -> None:
        pytest.importorskip("trafilatura", reason="needs the extra gymd[envs]")
        async with net() as one, google(one) as server, await server.seed(EXAMPLES[0]) as session:
            content = (await session.call("browse", url=f"{one.url}/page/article")).json()["page_content"]
            assert "keeps its gills" in content
            assert "Shop" not in content
            empty = await session.call("browse", url=f"{one.url}/page/empty")
            assert (empty.is_error, empty.output) == (True, "The page holds no readable text.")

    @pytest.mark.parametrize("name", ["plain", "moved"])
    async def test_plain_text_and_redirects(self, name: str) -> None:
        async with net() as one, google(one) as server, await server.seed(EXAMPLES[0]) as session:
            answer = await session.call("browse", url=f"{one.url}/page/{name}")
            assert answer.json() == {"page_content": "just text"}

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("missing", "HTTP status 404"),
            ("picture", "type image/png"),
            ("huge", "larger than 10000 bytes"),
            ("round", "redirects more than"),
            ("slow", "cannot be fetched"),
        ],
    )
    async def test_pages_that_cannot_be_read_are_told_to_the_model(self, name: str, told: str) -> None:
        limits = {"max_page_bytes": 10_000, "request_timeout_s": 0.5}
        async with net() as one, google(one, **limits) as server, await server.seed(EXAMPLES[0]) as session:
            answer = await session.call("browse", url=f"{one.url}/page/{name}")
            assert answer.is_error
            assert told in answer.output

    @pytest.mark.parametrize(
        "url",
        [
            "http://127.0.0.1:1/",
            "http://localhost:1/",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]:1/",
            "http://2130706433:1/",
            "http://10.0.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://0.0.0.0/",
            "file:///etc/passwd",
            "ftp://example.com/",
            "http://",
            "http://[bad",
            "http://example.com:99999/",
            "javascript:alert(1)",
        ],
    )
    async def test_a_model_does_not_reach_into_the_network(self, url: str) -> None:
        async with (
            net() as one,
            google(one, allow_private_addresses=False) as server,
            await server.seed(EXAMPLES[0]) as session,
        ):
            assert (await session.call("browse", url=url)).is_error

    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "１２７.0.0.1", "127。0。0。1", "①27.0.0.1", "127.1", "localhost"]
    )
    async def test_nor_by_another_way_to_write_it(self, host: str) -> None:
        """Here something listens: it must not be asked."""
        async with (
            net() as one,
            google(one, allow_private_addresses=False) as server,
            await server.seed(EXAMPLES[0]) as session,
        ):
            url = one.url.replace("127.0.0.1", host)
            answer = await session.call("browse", url=f"{url}/page/inside")
        assert answer.is_error
        assert any(why in answer.output for why in ("private address", "no public address", "not valid"))

    async def test_nor_by_a_redirect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        check = web_backend.WebBackend._check
        async with net() as one:
            # The first page stands for a public one.
            monkeypatch.setattr(
                web_backend.WebBackend,
                "_check",
                lambda self, url: None if str(url).startswith(one.url) else check(self, url),
            )
            async with (
                google(one, allow_private_addresses=False) as server,
                await server.seed(EXAMPLES[0]) as session,
            ):
                answer = await session.call("browse", url=f"{one.url}/page/inside")
        assert (answer.is_error, answer.output) == (True, "The url leads to a private address.")


async def test_labels_name_the_backend() -> None:
    async with start_server(GoogleSearch) as server:
        assert server.server.labels() == {"search_backend": "documents"}
    async with start_server(GoogleSearch, KEYS) as server:
        assert server.server.labels() == {"search_backend": "google"}

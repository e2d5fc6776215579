"""The HTTP side: the page's files and a JSON API for it. Reads only; nothing can be changed through it.

The files' content is not ours, so the page gets a strict Content-Security-Policy. Other sites get nothing:
a request must name this server as its host (a name that was bound to this address to get around the browser's
rules is refused), and there are no CORS headers.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from gymctl.viewer.library import Library, ListQuery, Place
from gymctl.viewer.pool import ReaderError
from gymctl.viewer.query import HAS, SORTS, Filter
from gymctl.viewer.search import LONGEST_TEXT
from gymctl.viewer.tasks import TASK_SORTS

__all__ = ["is_loopback", "make_app"]

STATIC = Path(__file__).with_name("static")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

MOST_ROWS = 500
_PLACE = re.compile(r"(\d{1,6}):(\d{1,15})")
_BLOCK_BYTES = 1 << 20

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(library: Library, host: str) -> web.Application:
    """The application that answers for a library.

    Args:
        library: what is shown; started already.
        host: the address that the server listens on.
    """
    app = web.Application(middlewares=[_guard(host), _errors])
    api = _Api(library)
    app.router.add_get("/", _static("index.html"))
    for path in sorted(STATIC.iterdir()):
        app.router.add_get(f"/static/{path.name}", _static(path.name))
    app.router.add_get("/api/state", api.state)
    app.router.add_get("/api/rows", api.rows)
    app.router.add_get("/api/overview", api.overview)
    app.router.add_get("/api/tasks", api.tasks)
    app.router.add_get(r"/api/rows/{place}", api.row)
    app.router.add_get(r"/api/rows/{place}/raw", api.raw)
    app.on_response_prepare.append(_add_headers)
    return app


class _Api:
    """The handlers under /api; parameters are those of `_list_query`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def state(self, request: web.Request) -> web.Response:
        return _json(self._library.state())

    async def rows(self, request: web.Request) -> web.Response:
        query = _list_query(request, self._library, ("line", *SORTS))
        around = _place(request.query["around"]) if request.query.get("around") else None
        return _json(await self._library.page(query, *_window(request), around))

    async def overview(self, request: web.Request) -> web.Response:
        return _json(await self._library.overview(_list_query(request, self._library, ("line",))))

    async def tasks(self, request: web.Request) -> web.Response:
        query = _list_query(request, self._library, TASK_SORTS)
        return _json(await self._library.tasks(query, *_window(request)))

    async def row(self, request: web.Request) -> web.Response:
        place = _place(request.match_info["place"])
        body = await self._library.show(place)
        if body is None:
            raise _no_row(place)
        return web.Response(body=body, content_type="application/json")

    async def raw(self, request: web.Request) -> web.StreamResponse:
        """The line as it is in the file; `limit` bytes of it, all by default."""
        place = _place(request.match_info["place"])
        limit = _number(request, "limit", 2**63)
        found = self._library.raw(place)
        if found is None:
            raise _no_row(place)
        descriptor, offset, length = found
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
            response.headers["X-Line-Bytes"] = str(length)
            if "download" in request.query:
                name = f"line-{place[1]}.json"
                response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
            await response.prepare(request)
            at, end = offset, offset + min(length, limit)
            while at < end:
                block = await asyncio.to_thread(os.pread, descriptor, min(_BLOCK_BYTES, end - at), at)
                if not block:
                    break
                await response.write(block)
                at += len(block)
            await response.write_eof()
            return response
        finally:
            os.close(descriptor)


# ---- parameters


def _list_query(request: web.Request, library: Library, sorts: tuple[str, ...]) -> ListQuery:
    """q, agent, outcome, file, task, min, max, has, sort, desc."""
    given = request.query
    text = given.get("q", "")
    if len(text) > LONGEST_TEXT:
        raise _bad(f"q is too long: at most {LONGEST_TEXT} characters")
    has = frozenset(filter(None, given.get("has", "").split(",")))
    if unknown := sorted(has - HAS.keys()):
        raise _bad(f"has={unknown[0]} is unknown; known are {', '.join(HAS)}")
    sort = given.get("sort", sorts[0])
    if sort not in sorts:
        raise _bad(f"sort={sort} is unknown; known are {', '.join(sorts)}")
    wanted = Filter(
        # A name that no row has selects no row.
        agent=_named(library.agents.find(given["agent"])) if "agent" in given else None,
        outcome=_named(library.outcomes.find(given["outcome"])) if "outcome" in given else None,
        file=_number(request, "file", None),
        task=_task(given["task"]) if "task" in given else None,
        reward_min=_real(request, "min"),
        reward_max=_real(request, "max"),
        has=has,
    )
    return ListQuery(wanted, text, sort, given.get("desc") == "1")


def _named(number: int | None) -> int:
    return -1 if number is None else number


def _window(request: web.Request) -> tuple[int, int]:
    return _number(request, "start", 0), max(1, min(_number(request, "count", 100), MOST_ROWS))


def _number(request: web.Request, name: str, default: Any) -> Any:
    text = request.query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,15}", text):
        raise _bad(f"{name}={text[:40]} is no whole number")
    return int(text)


def _task(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,20}", text):
        raise _bad(f"task={text[:40]} is no key of a task")
    return int(text)


def _real(request: web.Request, name: str) -> float | None:
    text = request.query.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise _bad(f"{name}={text[:40]} is no number")
    return value


def _place(text: str) -> Place:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise _bad(f"{text[:40]!r} is no place of a row: write FILE:LINE, such as 0:12")
    return int(found[1]), int(found[2])


# ---- answers


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


class _Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _bad(text: str) -> _Refusal:
    return _Refusal(400, text)


def _no_row(place: Place) -> _Refusal:
    return _Refusal(404, f"there is no row on line {place[1]} (yet)")


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except _Refusal as refusal:
        return _json({"error": str(refusal)}, refusal.status)
    except ReaderError as problem:
        return _json({"error": str(problem)}, 503)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _static(name: str) -> Handler:
    body, kind = (STATIC / name).read_bytes(), TYPES[Path(name).suffix]

    async def serve(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve


# ---- who may ask


def _guard(host: str) -> Any:
    """Refuses requests that another web site made a browser send."""
    names = {"localhost", host.lower()}
    wide = not is_loopback(host)
    if wide:
        names.add(socket.gethostname().lower())

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        name = _hostname(request.host)
        # No name can be bound to an address by somebody else if it is the address itself.
        if name not in names and not (is_loopback(name) or (wide and _is_address(name))):
            text = f"{name!r} is not this server; open it as {host if not wide else 'its IP address'}"
            return _json({"error": text}, 403)
        if (
            request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
            and request.path != "/"
        ):
            return _json({"error": "only the viewer's own page may ask"}, 403)
        return await handler(request)

    return guard


def _hostname(header: str) -> str:
    name = re.sub(r":\d+$", "", header.strip().lower())
    return name.removeprefix("[").removesuffix("]")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    """Whether an address or name stands for this machine only."""
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)

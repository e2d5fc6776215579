"""The web: Google's custom search API, and pages fetched from where the model says, within limits.

API: https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gymd.errors import GymdError, error
from gymd.sdk import ToolError, shared_pool
from gymservers.resources.google_search.backends import SearchResult
from gymservers.resources.google_search.page import extract

if TYPE_CHECKING:
    from gymservers.resources.google_search.server import GoogleSearchConfig

__all__ = ["DEFAULT_SEARCH_URL", "WebBackend"]

DEFAULT_SEARCH_URL = "https://www.googleapis.com/customsearch/v1"
ATTEMPTS = 3
RETRY_BASE_S = 0.5
MAX_REDIRECTS = 5
TEXT_TYPES = ("text/", "application/xhtml", "application/xml", "application/json")
AGENT = "Mozilla/5.0 (compatible; gymd)"


class WebBackend:
    """Searches with Google and reads pages.

    Args:
        config: keys and limits.
    """

    def __init__(self, config: GoogleSearchConfig) -> None:
        self._config = config

    async def start(self) -> None:
        """Opens the connections."""
        config = self._config
        self._places = asyncio.Semaphore(config.max_concurrent_requests)
        timeout = aiohttp.ClientTimeout(total=config.request_timeout_s)
        self._api = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        guard = None if config.allow_private_addresses else _PublicOnly()
        self._pages = aiohttp.ClientSession(
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(resolver=guard) if guard else None,
            headers={"User-Agent": AGENT, "Accept": "text/html,text/plain;q=0.9,*/*;q=0.1"},
        )

    async def close(self) -> None:
        """Closes them."""
        await self._api.close()
        await self._pages.close()

    # Searching.

    async def search(self, query: str, limit: int) -> list[SearchResult]:
        """Asks the API; 429, 5xx and lost connections are tried again a bounded number of times."""
        config = self._config
        values = {"key": config.google_api_key, "cx": config.google_cx, "q": query, "num": str(limit)}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return _hits(await self._ask(values))
            except GymdError as failure:
                if attempt == ATTEMPTS or failure.reason_name not in _RETRIED:
                    raise
                await asyncio.sleep(RETRY_BASE_S * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    async def _ask(self, values: dict[str, str]) -> Any:
        try:
            async with self._places, self._api.get(self._config.search_url, params=values) as answer:
                body = await self._body(answer)
        except ToolError as failure:  # no answer that a model could act on
            raise error("UPSTREAM_MALFORMED", f"the search API: {failure} Check search_url") from None
        except (aiohttp.ClientError, TimeoutError) as failure:
            why = type(failure).__name__
            text = f"the search API cannot be reached: {why}; check the network and search_url"
            raise error("UPSTREAM_UNAVAILABLE", text) from None
        if answer.status != 200:
            raise _refused(answer.status, body)
        try:
            return orjson.loads(body)
        except ValueError:
            text = "the search API answered something that is no JSON; check search_url"
            raise error("UPSTREAM_MALFORMED", text) from None

    # Browsing.

    async def page(self, url: str) -> str:
        """Fetches a page, follows redirects, and reads the text out of it."""
        try:
            async with self._places, asyncio.timeout(self._config.request_timeout_s):
                body, kind, final = await self._fetch(url)
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            why = str(failure) or type(failure).__name__
            raise ToolError(f"The page cannot be fetched: {why[:300]}") from None
        if kind == "text/plain" or kind.endswith("json"):
            return body.decode("utf-8", "replace")
        text = await self._extract(body, final)
        if text is None:
            raise ToolError("The page holds no readable text.")
        return text

    async def _extract(self, body: bytes, url: str) -> str | None:
        try:
            return await shared_pool().run(extract, (body, url), timeout=self._config.extract_timeout_s)
        except GymdError as failure:
            if failure.reason_name == "DEADLINE_EXCEEDED":
                raise ToolError("The page took too long to read.") from None
            raise

    async def _fetch(self, url: str) -> tuple[bytes, str, str]:
        for _ in range(MAX_REDIRECTS + 1):
            address = _parsed(url)
            self._check(address)
            async with self._pages.get(address, allow_redirects=False) as answer:
                target = answer.headers.get("Location")
                if answer.status in (301, 302, 303, 307, 308) and target:
                    url = urljoin(url, target)
                    continue
                if answer.status != 200:
                    raise ToolError(f"The page answered with HTTP status {answer.status}.")
                kind = answer.content_type.lower()
                if not kind.startswith(TEXT_TYPES):
                    raise ToolError(f"The page is of type {kind}, which cannot be read as text.")
                return await self._body(answer), kind, url
        raise ToolError(f"The page redirects more than {MAX_REDIRECTS} times.")

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        limit = self._config.max_page_bytes
        body = bytearray()
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > limit:
                raise ToolError(f"The page is larger than {limit} bytes.")
        return bytes(body)

    def _check(self, url: URL) -> None:
        """Refuses what is no public web address; names are checked again when they are resolved."""
        if url.scheme not in ("http", "https") or not url.raw_host:
            raise ToolError("The url must begin with http:// or https://.")
        if self._config.allow_private_addresses:
            return
        try:
            address = ipaddress.ip_address(url.raw_host)
        except ValueError:
            # A name; but for digits alone (`127.1`) some aiohttp asks no resolver.
            if url.raw_host.replace(".", "").isdigit():
                raise ToolError("The url is not valid.") from None
            return
        if not address.is_global:
            raise ToolError("The url leads to a private address.")


def _parsed(url: str) -> URL:
    """The address as it will be fetched: its digits may be written in other scripts, as in `１２７.0.0.1`."""
    try:
        return URL(url)
    except ValueError:
        raise ToolError("The url is not valid.") from None


class _PublicOnly(AbstractResolver):
    """Resolves names, but to public addresses only: a page must not lead into the network that gymd runs
    in."""

    def __init__(self) -> None:
        self._resolver = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        public = [one for one in found if ipaddress.ip_address(one["host"].partition("%")[0]).is_global]
        if not public:
            raise OSError(None, f"{host} has no public address")
        return public

    async def close(self) -> None:
        await self._resolver.close()


_RETRIED = frozenset({"UPSTREAM_UNAVAILABLE", "UPSTREAM_RATE_LIMITED"})


def _refused(status: int, body: bytes) -> GymdError:
    """The error for a status of the API. Its own text helps; it never repeats the key."""
    try:
        why = str(orjson.loads(body)["error"]["message"])[:300]
    except (ValueError, KeyError, TypeError):
        why = body[:300].decode("utf-8", "replace")
    if status == 429:
        text = f"the search API's quota is used up (HTTP 429): {why}"
        return error("UPSTREAM_RATE_LIMITED", text, upstream_status=status)
    if status in (401, 403):
        text = f"the search API refused the key (HTTP {status}): {why}; check google_api_key in env.yaml"
        return error("UPSTREAM_AUTH", text, upstream_status=status)
    if status >= 500:
        return error(
            "UPSTREAM_UNAVAILABLE", f"the search API failed (HTTP {status}): {why}", upstream_status=status
        )
    text = f"the search API refused the request (HTTP {status}): {why}; check google_cx in env.yaml"
    return error("UPSTREAM_REJECTED", text, upstream_status=status)


def _hits(answer: Any) -> list[SearchResult]:
    items = answer.get("items", []) if isinstance(answer, dict) else None
    if not isinstance(items, list):
        text = "the search API answered without a list of items; check search_url"
        raise error("UPSTREAM_MALFORMED", text)
    fields = ("link", "title", "snippet")
    return [
        SearchResult(*(str(item.get(name, "")) for name in fields))
        for item in items
        if isinstance(item, dict)
    ]

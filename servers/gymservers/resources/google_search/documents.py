"""A search engine over a folder of documents, without any network: SQLite's full-text index, ranked by
BM25."""

from __future__ import annotations

import asyncio
import html
import re
import sqlite3
from pathlib import Path

from gymd.errors import error
from gymd.sdk import ToolError
from gymservers.resources.google_search.backends import SearchResult

__all__ = ["SCHEME", "DocumentsBackend"]

SCHEME = "documents://"
SUFFIXES = frozenset({".md", ".txt", ".html", ".htm"})
MAX_BYTES = 512 * 1024 * 1024
"""Most text in one folder: the index is in memory."""
MAX_TERMS = 32
SNIPPET_WORDS = 40

_WORD = re.compile(r"\w+")
_TITLE = re.compile(r"<title[^>]*>([^<]*)</title>", re.IGNORECASE)
_HIDDEN = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")


class DocumentsBackend:
    """Documents by the path inside their folder, as `documents://animals/axolotl.md`.

    Args:
        folder: is read once, when the server starts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pages: dict[str, str] = {}

    async def start(self) -> None:
        """Reads the folder and builds the index; raises InvalidRequest when there is nothing to read."""
        self._index = await asyncio.to_thread(self._build)

    async def close(self) -> None:
        """Drops the index."""
        if hasattr(self, "_index"):
            self._index.close()

    def _build(self) -> sqlite3.Connection:
        files = sorted(path for path in self._folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        if not files:
            kinds = ", ".join(sorted(SUFFIXES))
            text = f"documents_dir {self._folder} holds no documents ({kinds}); name a folder that does"
            raise error("INVALID_REQUEST", text, field="documents_dir", path=self._folder)
        size = sum(path.stat().st_size for path in files)
        if size > MAX_BYTES:
            text = f"documents_dir {self._folder} holds {size} bytes; the limit is {MAX_BYTES}"
            raise error("INVALID_REQUEST", text, field="documents_dir", path=self._folder)
        # Searches run in threads, one at a time (see search).
        index = sqlite3.connect(":memory:", check_same_thread=False)
        index.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(link UNINDEXED, title, body, tokenize='porter unicode61')"
        )
        for path in files:
            link = SCHEME + path.relative_to(self._folder).as_posix()
            title, body = _read(path)
            self._pages[link] = body
            index.execute("INSERT INTO pages VALUES (?, ?, ?)", (link, title, body))
        self._lock = asyncio.Lock()
        return index

    async def search(self, query: str, limit: int) -> list[SearchResult]:
        """Documents that hold any of the words; the title counts more than the body."""
        # Quoted one by one: nothing of what the model wrote is an operator.
        words = _WORD.findall(query)[:MAX_TERMS]
        if not words:
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        async with self._lock:
            rows = await asyncio.to_thread(self._query, wanted, limit)
        return [SearchResult(link, title, " ".join(snippet.split())) for link, title, snippet in rows]

    def _query(self, wanted: str, limit: int) -> list[tuple[str, str, str]]:
        statement = (
            f"SELECT link, title, snippet(pages, 2, '', '', ' ... ', {SNIPPET_WORDS}) FROM pages "
            "WHERE pages MATCH ? ORDER BY bm25(pages, 0.0, 4.0, 1.0), link LIMIT ?"
        )
        return self._index.execute(statement, (wanted, limit)).fetchall()

    async def page(self, url: str) -> str:
        """The text of a document; only those that were read at the start are there."""
        body = self._pages.get(url)
        if body is None:
            raise ToolError(f"There is no page {url[:200]!r}. Use a link from the search results.")
        return body


def _read(path: Path) -> tuple[str, str]:
    """Title and text of a file."""
    raw = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix.lower() in (".html", ".htm"):
        found = _TITLE.search(raw)
        body = html.unescape(_TAG.sub(" ", _HIDDEN.sub(" ", _TITLE.sub(" ", raw))))
        return (html.unescape(found[1]).strip() if found else path.stem), re.sub(r"\s+", " ", body).strip()
    first = raw.strip().partition("\n")[0]
    return first.lstrip("# ").strip() or path.stem, raw.strip()

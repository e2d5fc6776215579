"""What a search backend offers; there are two, one for the web and one for a folder of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Backend", "SearchResult"]


@dataclass(frozen=True)
class SearchResult:
    """One hit."""

    link: str
    title: str
    snippet: str

    def as_json(self) -> dict[str, str]:
        """As the model reads it."""
        return {"link": self.link, "title": self.title, "snippet": self.snippet}


class Backend(Protocol):
    """Finds pages and reads them."""

    async def start(self) -> None:
        """Opens what it needs."""

    async def close(self) -> None:
        """Frees it."""

    async def search(self, query: str, limit: int) -> list[SearchResult]:
        """The best hits, best first.

        Raises:
            GymdError: the search engine itself failed: that is no answer a model could act on.
        """

    async def page(self, url: str) -> str:
        """The text of a page.

        Raises:
            ToolError: there is no such page, or it cannot be read; the model is told why.
        """

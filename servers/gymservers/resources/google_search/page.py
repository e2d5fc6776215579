"""Reads the text out of a page; runs in a worker process, because pages are hostile now and then."""

from __future__ import annotations

__all__ = ["extract"]


def extract(page: bytes, url: str) -> str | None:
    """The main text of an HTML page without navigation and advertisements; None: there is none."""
    import trafilatura  # here, so that only the workers load it

    found = trafilatura.extract(page, url=url, include_comments=False, include_tables=True)
    return found or None

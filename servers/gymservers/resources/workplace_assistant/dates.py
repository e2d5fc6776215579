"""Dates and times as the tools read them: ISO 8601, without time zones."""

from __future__ import annotations

from datetime import datetime

__all__ = ["NOW", "moment"]

NOW = "2023-11-30 23:59:00"
"""The time in every session."""


def moment(text: str) -> datetime | None:
    """A date, or a date and time, in ISO 8601; None if it is neither. A time zone is passed over."""
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=None)
    except ValueError:
        return None

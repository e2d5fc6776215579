"""How far the preparation is."""

from __future__ import annotations

from gymctl.progress import ProgressLine

__all__ = ["Progress"]


class Progress:
    """Tells about one step.

    Args:
        what: the step, such as `checking`.
        total: bytes of the whole; 0: unknown.
    """

    def __init__(self, what: str, total: int = 0) -> None:
        self._what = what
        self._total = total
        self._line = ProgressLine()

    def tell(self, rows: int, size: int = 0) -> None:
        """Shows how many rows, and bytes of the whole, are done, if it is time."""
        share = f", {100 * size / self._total:.0f} %" if self._total and size else ""
        self._line.tell(lambda spent: f"{self._what}: {rows:,} rows{share}, {rows / spent:,.0f}/s")

    def done(self) -> None:
        """Clears the line at a terminal."""
        self._line.clear()

"""The lines that are no tasks, in a form that stays small whatever a file holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gymctl.prepare.measure import ChunkReport

__all__ = ["FileProblems", "Lines"]

# Ranges kept for each reason; the lines beyond are counted.
_MOST_RANGES = 10_000
# Reasons kept for each file, and shown to people, with so many ranges each.
_MOST_REASONS = 200
_SHOWN_REASONS = 20
_SHOWN_RANGES = 20


class Lines:
    """Line numbers, added in rising order, as ranges."""

    def __init__(self) -> None:
        self.count = 0
        self._ranges: list[list[int]] = []
        self._uncounted = 0

    def add(self, numbers: Iterable[int]) -> None:
        """Adds lines."""
        ranges = self._ranges
        for number in numbers:
            self.count += 1
            if ranges and not self._uncounted and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            elif len(ranges) < _MOST_RANGES:
                ranges.append([number, number])
            else:
                self._uncounted += 1

    def text(self, most: int = _MOST_RANGES) -> str:
        """The ranges: `12, 15-18`, and how many lines are beyond."""
        shown = self._ranges[:most]
        parts = [str(first) if first == last else f"{first}-{last}" for first, last in shown]
        left = self.count - sum(last - first + 1 for first, last in shown)
        return ", ".join(parts) + (f" and {left:,} more" if left else "")


class FileProblems:
    """What is wrong in one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.bad = Lines()
        self._reasons: dict[str, Lines] = {}
        self._has_more = False

    def add(self, report: ChunkReport, first_line: int) -> None:
        """Adds the problems of a chunk that begins with line `first_line` of the file."""
        before = first_line - 1
        self.bad.add(before + number for number in report.bad_lines)
        for reason, numbers in report.reasons.items():
            if reason not in self._reasons and len(self._reasons) >= _MOST_REASONS:
                self._has_more = True
                continue
            self._reasons.setdefault(reason, Lines()).add(before + number for number in numbers)

    def lines(self, rows: int) -> list[str]:
        """For people: how many rows are affected, then each reason with its lines."""
        count = self.bad.count
        what = "1 row is no task" if count == 1 else f"{count:,} rows are no tasks"
        found = [f"{self.path}: {what} (of {rows:,}), lines {self.bad.text(_SHOWN_RANGES)}"]
        for reason, lines in list(self._reasons.items())[:_SHOWN_REASONS]:
            found.append(f"  {lines.text(_SHOWN_RANGES)}: {reason}")
        more = len(self._reasons) - _SHOWN_REASONS
        if more > 0 or self._has_more:
            found.append("  ... and other reasons; correct these first")
        return found

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "file": self.path,
            "rows": self.bad.count,
            "lines": self.bad.text(),
            "reasons": [{"lines": lines.text(), "reason": reason} for reason, lines in self._reasons.items()],
        }

"""How far a transfer is, and sizes for people."""

from __future__ import annotations

from gymctl.progress import ProgressLine

__all__ = ["ByteProgress", "size_text"]

_UNITS = ("kB", "MB", "GB", "TB")


def size_text(count: int) -> str:
    """A size for people: 12 bytes, 3.4 kB, 1.2 GB."""
    if count < 1000:
        return f"{count} byte" + ("" if count == 1 else "s")
    power = 1
    # 999.95 would be shown as 1000.0.
    while count / 1000**power >= 999.95 and power < len(_UNITS):
        power += 1
    return f"{count / 1000**power:.1f} {_UNITS[power - 1]}"


class ByteProgress:
    """Tells about one file.

    Args:
        what: the step, such as `downloading train.jsonl`.
        total: bytes of the whole; None: unknown.
    """

    def __init__(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = total
        self._line = ProgressLine()
        self._first: int | None = None

    def tell(self, done: int) -> None:
        """Shows how many bytes are there, if it is time."""
        if self._first is None:
            # What an earlier run left does not count for the speed.
            self._first = done
        first = self._first
        self._line.tell(lambda spent: self._text(done, round((done - first) / spent)))

    def _text(self, done: int, speed: int) -> str:
        share = f" of {size_text(self._total)}, {100 * done / self._total:.0f} %" if self._total else ""
        return f"{self._what}: {size_text(done)}{share}, {size_text(speed)}/s"

    def done(self) -> None:
        """Clears the line at a terminal."""
        self._line.clear()

"""The metrics files: compared with what was there, kept apart where they disagree, replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymctl.collect.files import write_atomically
from gymctl.output import note
from gymctl.prepare.compare import differences

__all__ = ["MetricsFile", "compare_metrics", "settle_metrics"]

_SHOWN_DIFFERENCES = 10


@dataclass
class MetricsFile:
    """Metrics, and how they stand to the file that they belong into."""

    path: Path
    content: Mapping[str, Any]
    is_new: bool
    differences: list[str]

    @property
    def conflict_path(self) -> Path:
        """Where they go instead if they disagree."""
        return self.path.with_name(f"{self.path.stem}_conflict.json")

    def lines(self) -> list[str]:
        """The disagreement, for people."""
        shown = self.differences[:_SHOWN_DIFFERENCES]
        more = len(self.differences) - len(shown)
        return [
            f"{self.path}:",
            *(f"  {difference}" for difference in shown),
            *([f"  ... and {more:,} more"] if more else []),
            f"  the new metrics are in {self.conflict_path}",
        ]


def compare_metrics(path: Path, content: Mapping[str, Any]) -> MetricsFile:
    """Looks at what is there; writes nothing."""
    try:
        old = json.loads(path.read_bytes())
    except FileNotFoundError:
        return MetricsFile(path, content, True, [])
    except ValueError:
        return MetricsFile(path, content, False, ["the file is no JSON"])
    return MetricsFile(path, content, False, differences(old, content))


def settle_metrics(file: MetricsFile, *, overwrite: bool, elsewhere: Path) -> str:
    """Writes metrics where they belong, or beside it if they disagree with what is there.

    Args:
        overwrite: replace what disagrees.
        elsewhere: the folder for metrics whose own folder must not be written to.

    Returns: what was done: `written`, `unchanged`, `overwritten` or `conflict`.

    Raises:
        CliError: the file cannot be written.
    """
    text = json.dumps(file.content, indent=4, ensure_ascii=False) + "\n"
    state = "written" if file.is_new else "unchanged"
    if file.differences:
        state = "overwritten" if overwrite else "conflict"
    if state == "conflict":
        write_atomically(_writable(file.conflict_path, elsewhere), text)
        return state
    # Nothing is written that is there already: shipped datasets may lie where nobody may write.
    if file.is_new or file.path.read_text(encoding="utf-8") != text:
        write_atomically(_writable(file.path, elsewhere), text)
    if os.access(file.path.parent, os.W_OK):
        file.conflict_path.unlink(missing_ok=True)
    return state


def _writable(path: Path, elsewhere: Path) -> Path:
    if os.access(path.parent, os.W_OK):
        return path
    other = elsewhere / f"{path.parent.parent.name}_{path.name}"
    note(f"{path.parent} cannot be written to; the metrics are in {other}")
    return other

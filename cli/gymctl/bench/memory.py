"""The memory of a daemon and its hosts, read from /proc."""

from __future__ import annotations

from pathlib import Path

from gymctl.bench.figures import Memory

__all__ = ["MemoryWatch", "pss_bytes", "tree"]

PROC = Path("/proc")


def tree(pid: int) -> list[int]:
    """A process and all below it; empty where /proc does not say."""
    parents: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            # The name in brackets may hold anything; the parent is the second field behind it.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
        parents.setdefault(parent, []).append(int(folder.name))
    found = [pid] if (PROC / str(pid)).exists() else []
    for member in found:
        found += parents.get(member, [])
    return found


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process; 0: it ended, or may not be looked at."""
    try:
        text = (PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


class MemoryWatch:
    """The peaks of a daemon's process tree; call `sample` now and then."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak = Memory()

    def sample(self) -> None:
        """Looks once. It takes some milliseconds a process: not for the event loop."""
        members = tree(self._pid)
        daemon = pss_bytes(self._pid)
        hosts = sum(pss_bytes(member) for member in members if member != self._pid)
        peak = self.peak
        peak.daemon, peak.hosts = max(peak.daemon, daemon), max(peak.hosts, hosts)
        peak.processes = max(peak.processes, len(members))

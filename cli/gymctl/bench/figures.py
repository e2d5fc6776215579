"""What a run is reported as: one document for programs, lines for people. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gymctl.bench.trainer import Trainer

__all__ = ["Memory", "Times", "document", "lines", "quantile", "quantile_of_counts"]

MIB = 1 << 20


@dataclass
class Times:
    """Where the trainer's time went, in seconds."""

    waiting: float = 0.0
    training: float = 0.0
    pausing: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.waiting + self.training + self.pausing


@dataclass
class Memory:
    """Peaks of the proportional set size, in bytes; 0: unknown."""

    daemon: int = 0
    hosts: int = 0
    processes: int = 0


def quantile(values: Sequence[float], part: float) -> float | None:
    """The value below which this share lies; `values` are sorted. None: there are none."""
    return values[min(len(values) - 1, int(part * len(values)))] if values else None


def quantile_of_counts(counts: Counter[int], part: float) -> int | None:
    """The same of whole numbers that are counted."""
    limit, seen = part * counts.total(), 0
    for value, count in sorted(counts.items()):
        seen += count
        if count and seen > limit:
            return value
    return max((value for value, count in counts.items() if count), default=None)


def document(trainer: Trainer, times: Times, memory: Memory | None) -> dict[str, Any]:
    """All figures of a run."""
    total, waits, stale = times.total, sorted(trainer.seconds), trainer.staleness
    used = stale.total()

    def per_second(count: int) -> float | None:
        return round(count / total, 3) if total else None

    def after(part: float) -> float | None:
        found = quantile(waits, part)
        return None if found is None else round(found, 4)

    return {
        "steps": trainer.step,
        "rollouts": {
            "planned": trainer.plan.rollouts,
            "returned": trainer.returned,
            "usable": trainer.usable,
            "lost": trainer.lost,
        },
        "outcomes": dict(trainer.outcomes),
        "failures": dict(trainer.failures),
        "rollouts_per_second": per_second(trainer.returned),
        "tokens_per_second": per_second(trainer.tokens),
        "groups_per_second": per_second(trainer.complete_groups),
        "generated_tokens": trainer.tokens,
        "latency_seconds": {"p50": after(0.5), "p90": after(0.9), "p99": after(0.99)},
        "trainer_seconds": {
            "total": round(total, 3),
            "waiting": round(times.waiting, 3),
            "training": round(times.training, 3),
            "updating": round(times.pausing, 3),
        },
        "idle_ratio": round(times.waiting / total, 4) if total else None,
        "staleness": {
            "mean": round(sum(age * count for age, count in stale.items()) / used, 4) if used else None,
            "p99": quantile_of_counts(stale, 0.99),
            "histogram": {str(age): count for age, count in sorted(stale.items())},
        },
        "peak_memory_bytes": None
        if memory is None
        else {"daemon": memory.daemon, "hosts": memory.hosts, "processes": memory.processes},
    }


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A document as names and values for people."""
    rollouts, waits, times = found["rollouts"], found["latency_seconds"], found["trainer_seconds"]
    yield "rollouts", f"{rollouts['usable']:,} of {rollouts['planned']:,}, {rollouts['lost']:,} lost"
    yield "rollouts/s", _number(found["rollouts_per_second"])
    yield "tokens/s", _number(found["tokens_per_second"])
    yield "groups/s", _number(found["groups_per_second"])
    yield "latency", ", ".join(f"{name} {_number(value, ' s')}" for name, value in waits.items())
    idle = found["idle_ratio"]
    parts = ", ".join(f"{name} {times[name]:.2f} s" for name in ("waiting", "training", "updating"))
    yield "trainer", f"{'-' if idle is None else f'{idle:.1%}'} idle ({parts})"
    stale = found["staleness"]
    if stale["mean"] is None:
        yield "staleness", "-"
    else:
        ages = ", ".join(f"{age}: {count:,}" for age, count in stale["histogram"].items())
        yield "staleness", f"mean {stale['mean']:.2f}, p99 {stale['p99']} updates ({ages})"
    memory = found["peak_memory_bytes"]
    if memory is None:
        yield "peak memory", "unknown: the daemon does not run on this machine"
    else:
        daemon, hosts = memory["daemon"] / MIB, memory["hosts"] / MIB
        count = memory["processes"] - 1
        word = "host" if count == 1 else "hosts"
        yield "peak memory", f"daemon {daemon:.0f} MiB, {count} {word} {hosts:.0f} MiB"
    failed = ", ".join(f"{name}: {count:,}" for name, count in found["failures"].items())
    yield "failures", failed or "none"


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    return (f"{value:,.2f}" if value < 100 else f"{value:,.0f}") + unit

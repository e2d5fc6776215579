"""What people see at the end: the datasets, and the files that were made of them."""

from __future__ import annotations

from typing import Any

from gymctl.output import Column, console, make_table
from gymctl.prepare.measure import TOKENS, TOOLS, TURNS, UNIQUE_MESSAGES, UNIQUE_PARAMS
from gymctl.prepare.metrics import EXAMPLES

__all__ = ["print_summary"]

_COLUMNS: list[Column] = [
    "DATASET",
    ("ROWS", "right"),
    ("TOOLS", "right"),
    ("TURNS", "right"),
    ("TOKENS", "right"),
    ("TOKENS MAX", "right"),
    ("TEMPERATURE", "right"),
    ("UNIQUE PARAMS", "right"),
    ("UNIQUE MESSAGES", "right"),
    "METRICS",
]


def print_summary(document: dict[str, Any]) -> None:
    """Writes the table to stdout; averages where the heading says nothing else."""
    rows = [
        (f"{one['agent']}/{one['name']}", *_cells(one["metrics"]), f"{one['metrics_file']} {_state(one)}")
        for one in document["datasets"]
    ]
    rows += [
        (one["file"], *_cells(one["metrics"]), f"{one['metrics_file']} {_state(one)}")
        for one in document["files"]
    ]
    console().print(make_table(_COLUMNS, rows))


def _state(one: dict[str, Any]) -> str:
    return f"({one['metrics_state']})"


def _cells(metrics: dict[str, Any]) -> tuple[str, ...]:
    tokens = metrics.get(TOKENS) or {}
    return (
        f"{metrics[EXAMPLES]:,}",
        _average(metrics[TOOLS]),
        _average(metrics[TURNS]),
        _average(tokens),
        f"{tokens['Max']:,}" if tokens else "-",
        _average(metrics["Temperature"]),
        f"{metrics[UNIQUE_PARAMS]:,}",
        f"{metrics[UNIQUE_MESSAGES]:,}",
    )


def _average(block: dict[str, Any]) -> str:
    if not block.get("Total # non-null values"):
        return "-"
    return f"{block['Average']:,.4g}" if block["Average"] < 1000 else f"{block['Average']:,.0f}"

"""Measures gymd on this machine: `python -m bench weather mcqa`; without names, everything."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from bench import cases, tokens

CASES = {**cases.CASES, **tokens.CASES}


def main() -> None:
    """Runs the cases and prints a table, or JSON lines with `-o json`."""
    parser = argparse.ArgumentParser(description="Measure gymd on this machine, on loopback, bounded.")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all but million")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each case (default 1)")
    parser.add_argument("--hosts", type=int, default=1, help="host processes in the pool (default 1)")
    parser.add_argument("--rows", type=int, default=200_000, help="of prepare and view (default 200,000)")
    parser.add_argument("--backend", default="", help="another backend program instead of bench.backend")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    for name in options.cases or [name for name in CASES if name != "million"]:
        for _ in range(options.repeat):
            figures = uvloop.run(CASES[name](options))
            rows.append((name, figures))
            show(name, figures, options.output)
    if options.output == "table":
        Console().print(table(rows))


def show(name: str, figures: dict[str, Any], output: str) -> None:
    """One case as soon as it is done."""
    line = json.dumps({"case": name, **figures})
    (sys.stdout if output == "json" else sys.stderr).write(line + "\n")


def table(rows: list[tuple[str, dict[str, Any]]]) -> Table:
    """All cases, one row each."""
    result = Table(title="gymd on this machine")
    result.add_column("case")
    result.add_column("figures")
    for name, figures in rows:
        result.add_row(name, ", ".join(f"{key} {value}" for key, value in figures.items()))
    return result


if __name__ == "__main__":
    main()

"""Makes the tasks and writes them; or shows what a generator offers."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gymctl.generate.child import Child
from gymctl.generate.generators import find_generator
from gymctl.generate.progress import make_reporter
from gymctl.options import Settings
from gymctl.output import console, make_table, note, seconds, show, show_json

__all__ = ["describe_options", "generate_tasks"]

Write = Callable[[bytes], Any]


def generate_tasks(
    settings: Settings, environment: str, options: Mapping[str, Any], *, agent: str, target: str
) -> None:
    """Makes tasks and writes them to a file, or to stdout for `-`.

    Raises:
        CliError: there is no such environment, it cannot make tasks, or not these.
    """
    generator = find_generator(environment)
    start = time.monotonic()
    digest = hashlib.sha256()
    with (
        Child(generator, {"options": options, "agent": agent}, debug=settings.debug) as child,
        _open(target) as write,
        make_reporter(options.get("size")) as progress,
    ):
        for line in child:
            write(line)
            digest.update(line)
            progress.advance()
    report = child.report
    spent = time.monotonic() - start
    if target != "-":
        _show(settings, generator.name, target, report, spent, digest.hexdigest())


@contextlib.contextmanager
def _open(target: str) -> Iterator[Write]:
    """Where the lines go. A file appears when it is complete, and not at all if something fails."""
    if target == "-":
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("wb") as file:
            yield file.write
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _show(
    settings: Settings, name: str, target: str, report: Mapping[str, Any], spent: float, sha256: str
) -> None:
    rows, counts = report["rows"], report["counts"]
    document = {
        "environment": name,
        "output": target,
        "rows": rows,
        "seed": report["seed"],
        "sha256": sha256,
        "seconds": round(spent, 3),
        "counts": counts,
    }
    if settings.output_format == "json":
        show_json(document)
        return
    if counts:
        heading = report["count_by"].rpartition(".")[2].upper()
        show("table", None, [heading, ("ROWS", "right")], counts.items())
    note(f"Wrote {rows:,} rows to {target} (seed {report['seed']}, {seconds(spent)}).")


def describe_options(settings: Settings, environment: str) -> None:
    """Shows the options of an environment's generator, and the values that it knows.

    Raises:
        CliError: there is no such environment, or it cannot make tasks.
    """
    generator = find_generator(environment)
    with Child(generator, {"describe": True}, debug=settings.debug) as child:
        for _ in child:
            pass
    if settings.output_format == "json":
        show_json({"environment": generator.name, **child.report})
        return
    rows = [(one["name"], _default(one["default"]), one["help"]) for one in child.report["options"]]
    out = console()
    out.print(make_table(["OPTION", "DEFAULT", ("MEANING", "fold")], rows))
    for name, values in child.report["choices"].items():
        out.print(f"\n[bold]{name}[/bold]: {', '.join(values)}", soft_wrap=False)


def _default(value: Any) -> str:
    return "-" if value in ("", None, [], {}) else str(value)

"""`gymctl env test`: one run from beginning to end, and what is told about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from gymctl.env.environment import Environment
from gymctl.env.progress import make_view
from gymctl.env.runs import Options, Result, run_environments
from gymctl.options import Settings
from gymctl.output import Column, note, seconds, show

__all__ = ["test_command"]

COLUMNS: list[Column] = ["ENVIRONMENT", "RESULT", "TESTS", ("SECONDS", "right"), ("CHECKS", "fold")]


def test_command(settings: Settings, environments: Sequence[Environment], options: Options) -> int:
    """Tests environments; returns the exit code."""
    try:
        with make_view(environments) as view:
            results = asyncio.run(run_environments(environments, options, view.tell, view.done))
    except asyncio.CancelledError:  # SIGTERM or SIGHUP
        raise click.Abort from None
    show(
        settings.output_format,
        [result.document() for result in results],
        COLUMNS,
        [_row(result) for result in results],
    )
    for result in results:
        for line in result.tests.skipped if result.tests is not None else ():
            note(f"{result.environment.name}: skipped {line}")
    failed = [result for result in results if not result.ok]
    for result in failed:
        _explain(result)
    if failed:
        note("")
        note(f"{len(failed)} of {len(results)} failed: {', '.join(one.environment.name for one in failed)}")
    return 1 if failed else 0


def _row(result: Result) -> tuple[str, ...]:
    tests = "-" if result.tests is None else result.tests.summary
    bad = [check.name for check in result.checks if check.problems]
    checks = f"{len(result.checks) - len(bad)} ok" if result.checks else "-"
    if bad:
        checks += f", {len(bad)} failed: {', '.join(bad)}"
    word = "ok" if result.ok else "failed"
    return result.environment.name, word, tests, f"{result.seconds:.1f}", checks


def _explain(result: Result) -> None:
    """Says on stderr what is wrong with an environment: what to mend, and the last lines of its tests."""
    name = result.environment.name
    note("")
    note(click.style(f"{name} ({result.environment.folder})", bold=True))
    if result.error:
        note(f"  {result.error}")
    for check in result.checks:
        for problem in check.problems:
            note(f"  {check.name}: {problem}")
    if result.tests is not None and not result.tests.passed:
        note(f"  tests: {result.tests.summary} after {seconds(result.tests.seconds)}; the last lines:")
        for line in result.tests.output:
            note(f"    {line}")

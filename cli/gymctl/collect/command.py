"""`gymctl rollouts collect` from beginning to end: check, run, write, sum up."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gymapi.v1.registry_service_pb2 import SERVER_KIND_AGENT
from gymctl.collect.environment import environment_metrics, print_key_metrics
from gymctl.collect.files import (
    LineFile,
    Paths,
    Record,
    read_record,
    settle_failures,
    write_atomically,
    write_record,
)
from gymctl.collect.metrics import Metrics
from gymctl.collect.plan import DoneSet, Plan, jobs
from gymctl.collect.run import Collection, Tally
from gymctl.collect.source import Check, Source, check_rows
from gymctl.errors import CliError, explain
from gymctl.options import ADDRESS_VARIABLE, Settings, daemon_address
from gymctl.output import Column, console, make_table, note, seconds, show_json
from gymd.client import RolloutClient
from gymd.errors import GymdError

__all__ = ["address_for", "collect_command", "collect_rows"]


@dataclass
class _Run:
    """One collection on its way."""

    plan: Plan
    paths: Paths
    source: Source
    resume: bool
    seconds: float = 0.0


def collect_command(
    settings: Settings,
    plan: Plan,
    *,
    source: str,
    target: Path,
    resume: bool,
    mesh: tuple[tuple[str, ...], tuple[str, ...]],
) -> int:
    """Runs the command; returns its exit code.

    Args:
        mesh: the configuration and settings of the daemon to start if none runs.
    """
    with ExitStack() as stack:
        rows = stack.enter_context(closing(_open(source)))
        address = address_for(settings, mesh[0], stack, mesh[1])
        run = _Run(plan, Paths(target), rows, resume)
        tally, stopped_by = asyncio.run(_collect(run, address))
        return _finish(run, address, tally, stopped_by, settings.output_format)


def collect_rows(plan: Plan, address: str, *, source: Path, target: Path) -> int:
    """Runs the tasks of a file anew and keeps only the output; returns the exit code."""
    with closing(Source(str(source))) as rows:
        run = _Run(plan, Paths(target), rows, resume=False)
        tally, stopped_by = asyncio.run(_collect(run, address))
    run.paths.record.unlink(missing_ok=True)
    if tally.done == tally.total and not stopped_by:
        return 0
    _print_shortfall(run, tally, stopped_by)
    return 1


def _open(source: str) -> Source:
    if source == "-" and sys.stdin.isatty():
        raise click.UsageError("--input - reads stdin, and nothing is piped into it.")
    return Source(source)


def address_for(
    settings: Settings, configs: tuple[str, ...], stack: ExitStack, overrides: tuple[str, ...] = ()
) -> str:
    """The daemon's address; starts one for the duration if none runs and a configuration is given."""
    import os

    from gymctl.state import is_daemon, read_daemon_file

    if not configs or settings.address or os.environ.get(ADDRESS_VARIABLE):
        return daemon_address(settings)
    found = read_daemon_file()
    if found and is_daemon(found.pid):
        note(f"A daemon runs at {found.address}; --config is not used.")
        return found.address
    from gymctl.launch import running_daemon

    return stack.enter_context(running_daemon(configs, overrides))


async def _collect(run: _Run, address: str) -> tuple[Tally, GymdError | None]:
    """Everything that needs the daemon; returns what came of it and what ended it early, if anything did."""
    async with RolloutClient(address, client_name="gymctl") as client:
        listed = await client.list_servers(kind=SERVER_KIND_AGENT)
        agents = sorted({server.name for server in listed.servers})
        check = _check(run, agents, listed.daemon.default_agent)
        with closing(LineFile(run.paths.output)) as output:
            tally, done = _begin(run, check, output)
            todo = jobs(run.source.rows(run.plan.limit), run.plan.repeats, done)
            collection = Collection(run.plan, tally, done, output, LineFile(run.paths.failures))
            start = time.monotonic()
            try:
                await collection.run(client, todo)
            except GymdError as problem:
                return tally, problem
            finally:
                run.seconds = time.monotonic() - start
                if run.resume:
                    settle_failures(run.paths.failures, done)
    return tally, None


def _begin(run: _Run, check: Check, output: LineFile) -> tuple[Tally, DoneSet]:
    """Opens the output and takes what an earlier run left, or clears it away."""
    plan, paths = run.plan, run.paths
    rows = _row_count(check, plan)
    # Without repeats the metrics of a million tasks need no place for each.
    metrics = Metrics(grouped=plan.repeats > 1 or check.names_indices or run.resume)
    tally = Tally(total=rows * (1 if check.names_rollouts else plan.repeats), metrics=metrics)
    done = DoneSet(plan.repeats)
    if removed := output.open(fresh=not run.resume):
        note(f"Removed a torn last line ({removed:,} bytes) from {paths.output}.")
    if run.resume:
        _load(output, done, tally, None if check.names_indices else (rows, plan.repeats))
    else:
        paths.failures.unlink(missing_ok=True)
        paths.metrics.unlink(missing_ok=True)
    overrides = dict(plan.overrides)
    write_record(paths.record, Record(run.source.name, check.row_count, check.digest, plan.agent, overrides))
    return tally, done


def _row_count(check: Check, plan: Plan) -> int:
    return check.row_count if plan.limit is None else min(check.row_count, plan.limit)


def _check(run: _Run, agents: list[str], default_agent: str) -> Check:
    """Reads the whole input; every mistake in it ends the command here."""
    plan = run.plan
    record = read_record(run.paths.record) if run.resume else None
    told = False

    def tell(count: int) -> None:
        nonlocal told
        told = True
        click.echo(f"\rchecking the input: {count:,} rows", nl=False, err=True)

    check, earlier = check_rows(
        run.source,
        limit=plan.limit,
        default_agent=plan.agent or default_agent,
        agents=agents,
        overrides=plan.overrides,
        earlier_rows=record.rows if record else 0,
        tell=tell if sys.stderr.isatty() else lambda count: None,
    )
    if told:
        click.echo("\r\x1b[K", nl=False, err=True)
    if check.problem_count:
        more = check.problem_count - len(check.problems)
        details = [*check.problems, *([f"... and {more:,} more"] if more else [])]
        count = "1 mistake" if check.problem_count == 1 else f"{check.problem_count:,} mistakes"
        raise CliError(f"{run.source.name} has {count}; nothing was run", "Correct the input.", details)
    if check.row_count == 0:
        raise CliError(f"{run.source.name} has no rows", "Check the path given with --input.")
    if check.names_rollouts and plan.repeats > 1:
        raise CliError(
            "the rows bring _ng_rollout_index, so each is one rollout", "Leave out --repeats, or those keys."
        )
    if record:
        _compare(record, earlier, run)
    return check


def _compare(record: Record, digest: str, run: _Run) -> None:
    """Refuses to mix two collections in one output."""
    plan, output = run.plan, run.paths.output
    differs = ""
    if digest != record.digest:
        differs = f"from another input ({record.input}, {record.rows:,} rows)"
    elif dict(plan.overrides) != dict(record.overrides):
        differs = f"with other params ({json.dumps(dict(record.overrides))})"
    elif plan.agent != record.agent:
        differs = f"with --agent {record.agent}" if record.agent else "without --agent"
    if differs:
        hint = "Resume with the same input and options, or write to another --output."
        raise CliError(f"{output} was made {differs}", hint)


def _load(output: LineFile, done: DoneSet, tally: Tally, scope: tuple[int, int] | None) -> None:
    """Takes what an earlier run wrote into the metrics, and into the counts what this run would do.

    Args:
        scope: rows and repeats of this run; None: the rows name their own indices.
    """
    for number, line in output.lines():
        task_index, index = line.get("_ng_task_index"), line.get("_ng_rollout_index")
        if not isinstance(task_index, int) or not isinstance(index, int):
            hint = "Only an output of this command can be resumed; write to another --output."
            raise CliError(f"{output.path}:{number}: no _ng_task_index and _ng_rollout_index", hint)
        if done.add(task_index, index):
            tally.done += scope is None or (task_index < scope[0] and index < scope[1])
            tally.keep(line)


# ---- the end


def _finish(run: _Run, address: str, tally: Tally, stopped_by: GymdError | None, output_format: str) -> int:
    """Writes the metrics, says how it went, returns the exit code."""
    document = tally.metrics.document()
    # Twice: what the environments compute may take its time, and ours must not be lost meanwhile.
    _write_metrics(run, document, {})
    stopped = tally.interrupted or tally.hopeless or stopped_by is not None
    if found := environment_metrics(address, tally.scored, stopped=stopped):
        _write_metrics(run, document, found)
    complete = tally.done == tally.total and not stopped_by
    if output_format == "json":
        show_json(_document(run, tally, complete, document))
    else:
        _print_summary(run, tally, document)
    if complete:
        return 0
    _print_shortfall(run, tally, stopped_by)
    return 1


def _write_metrics(run: _Run, document: dict[str, Any], environments: dict[str, dict[str, Any]]) -> None:
    for name, agent in document["agents"].items():
        agent["environment_metrics"] = environments.get(name)
    write_atomically(run.paths.metrics, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _document(run: _Run, tally: Tally, complete: bool, metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "output": str(run.paths.output),
        "failures": str(run.paths.failures) if tally.failed else None,
        "metrics_file": str(run.paths.metrics),
        "complete": complete,
        "total": tally.total,
        "done": tally.done,
        "failed": tally.failed,
        "not_run": tally.missing,
        "failure_reasons": dict(tally.reasons.most_common()),
        "seconds": round(run.seconds, 3),
        "metrics": metrics,
    }


def _print_summary(run: _Run, tally: Tally, document: dict[str, Any]) -> None:
    rows = []
    for name, agent in document["agents"].items():
        reward = agent["reward"] or {}
        best = [key for key in agent if key.startswith("pass@") and "[" not in key]
        shown = best[:1] + best[-1:] if len(best) > 1 else best
        rows.append(
            (
                name,
                agent["rollouts"],
                _number(reward.get("mean")),
                _number(reward.get("std")),
                "  ".join(f"{key} {agent[key]:.3f}" for key in shown) or "-",
                ", ".join(f"{count} {outcome}" for outcome, count in agent["outcomes"].items()),
            )
        )
    if rows:
        columns: list[Column] = [
            "AGENT",
            ("ROLLOUTS", "right"),
            ("MEAN REWARD", "right"),
            ("STD", "right"),
            "PASS@K",
            "OUTCOMES",
        ]
        console().print(make_table(columns, rows))
    print_key_metrics(document["agents"])
    note(f"{tally.done:,} of {tally.total:,} rollouts in {run.paths.output} ({seconds(run.seconds)})")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _print_shortfall(run: _Run, tally: Tally, stopped_by: GymdError | None) -> None:
    """Says on stderr what is missing, why, and how to go on."""
    details = [
        f"{count:,} x {reason}: {tally.examples[reason]}" for reason, count in tally.reasons.most_common(5)
    ]
    resume = "Run the same command with --resume to go on."
    if tally.interrupted:
        what = f"stopped; {tally.missing:,} of {tally.total:,} rollouts were not run"
    elif tally.hopeless:
        what = f"stopped: the first {tally.failed:,} rollouts all failed"
        resume = (
            "Correct the cause and run the same command with --resume (or --keep-going to run all the same)."
        )
    elif stopped_by is not None:
        shown = explain(stopped_by)
        what = f"{shown.message if shown else stopped_by}; {tally.missing:,} of {tally.total:,} were not run"
        resume = "Start the daemon again with `gymctl up`, then run the same command with --resume."
    else:
        what = f"{tally.failed:,} of {tally.total:,} rollouts failed; see {run.paths.failures}"
        resume = "Run the same command with --resume to try them again."
    CliError(what, resume, details).show()

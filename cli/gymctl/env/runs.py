"""`gymctl env test`: runs the tests of environments, each in a virtual environment of its own."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymctl.env.checks import Check, check_environment, example_fields, resolve
from gymctl.env.child import ChildFailed, describe_servers, run_lines
from gymctl.env.environment import Environment
from gymctl.state import state_dir
from gymd.venvs import Environments, Requirements, VenvError, normalise, requirements_met

__all__ = ["Options", "PytestRun", "Result", "run_environments"]

# What runs the tests; installed where gymctl's own environment lacks it (without gymd's `dev` extra).
_RUNNER = ("pytest>=8.3", "pytest-asyncio>=0.25", "pytest-timeout>=2.3")
# The built-in environments' tests are under the checkout's leak checks.
_RUNNER_OF_BUILTIN = ("psutil>=6.1",)
_OUTPUT_LINES = 60
_NO_TESTS = 5
"""pytest's exit code when it found none."""
_SKIPPED = "SKIPPED "
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")

Tell = Callable[[Environment, str], None]
"""Is told what happens to an environment, for people."""


@dataclass(frozen=True)
class Options:
    """How to test.

    Attributes:
        here: in gymctl's own Python environment instead of one of their own.
        tests: run pytest; else only the checks.
        jobs: environments at a time.
        timeout_s: longest that the tests of one environment may take.
    """

    here: bool = False
    tests: bool = True
    jobs: int = 1
    timeout_s: float = 900.0


@dataclass(frozen=True)
class PytestRun:
    """What pytest did."""

    code: int | None
    """Its exit code; None: it was killed because it did not end."""
    counts: dict[str, int]
    """By word: passed, failed, errors, skipped, xfailed, xpassed."""
    seconds: float
    output: list[str]
    """The last lines that it wrote."""
    skipped: list[str] = field(default_factory=list)
    """What it says of tests that it skipped: how many, where and why."""

    @property
    def passed(self) -> bool:
        """Whether there were tests, and none of them failed."""
        return self.code == 0

    @property
    def summary(self) -> str:
        """In a few words."""
        if self.code is None:
            return "did not end"
        if self.code == _NO_TESTS:
            return "no tests"
        counted = ", ".join(f"{count} {word}" for word, count in self.counts.items())
        return counted or f"exit code {self.code}"


@dataclass
class Result:
    """What came of one environment."""

    environment: Environment
    python: str = ""
    """The Python that ran the tests."""
    tests: PytestRun | None = None
    checks: list[Check] = field(default_factory=list)
    error: str = ""
    """Why it could not be tested at all."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything is in order."""
        sound = all(not check.problems for check in self.checks)
        return not self.error and sound and (self.tests is None or self.tests.passed)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        tests = None
        if self.tests is not None:
            tests = {
                **{
                    word: self.tests.counts.get(word, 0) for word in ("passed", "failed", "errors", "skipped")
                },
                "exit_code": self.tests.code,
                "seconds": round(self.tests.seconds, 3),
                "output": [] if self.tests.passed else self.tests.output,
                "skipped_because": self.tests.skipped,
            }
        return {
            "environment": self.environment.name,
            "folder": str(self.environment.folder),
            "ok": self.ok,
            "error": self.error or None,
            "python": self.python or None,
            "seconds": round(self.seconds, 3),
            "tests": tests,
            "checks": [
                {"name": check.name, "ok": not check.problems, "problems": check.problems}
                for check in self.checks
            ],
        }


async def run_environments(
    environments: Sequence[Environment], options: Options, tell: Tell, done: Callable[[Result], None]
) -> list[Result]:
    """Tests environments, a few at a time; whatever ends it early ends every process that it started.

    Args:
        tell: is told about progress.
        done: is told each result as it comes.
    """
    places = asyncio.Semaphore(options.jobs)
    _cancel_on_signals()

    async def one(environment: Environment) -> Result:
        async with places:
            result = await _test(environment, options, lambda text: tell(environment, text))
        done(result)
        return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(environment)) for environment in environments]
    return [task.result() for task in tasks]


def _cancel_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end this task; asyncio does so for Ctrl-C."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, task.cancel)


async def _test(environment: Environment, options: Options, tell: Callable[[str], None]) -> Result:
    result, start = Result(environment), time.monotonic()
    try:
        result.python = await _python(environment, options, tell)
        tell("checking its files")
        result.checks = await _checks(environment, result.python)
        if options.tests:
            result.tests = await _pytest(environment, result.python, options.timeout_s, tell)
    except (ChildFailed, VenvError) as failure:
        result.error = str(failure)
    result.seconds = time.monotonic() - start
    return result


# ---- the Python that its tests run in


async def _python(environment: Environment, options: Options, tell: Callable[[str], None]) -> str:
    if options.here:
        return sys.executable
    requirements = _requirements(environment, with_runner=options.tests)
    return await Environments(state_dir() / "venvs").ensure(requirements, tell)


def _requirements(environment: Environment, *, with_runner: bool) -> Requirements:
    """What the server needs, what its tests need, and what runs them where that is not here already."""
    lines = [_read(environment.path("requirements.txt"))]
    if with_runner:
        lines.append(_read(environment.path("tests/requirements.txt")))
        runner = (*_RUNNER, *(_RUNNER_OF_BUILTIN if environment.is_builtin else ()))
        lines += [line for line in runner if not requirements_met(Requirements(line, ""))]
    return Requirements("\n".join(line for line in lines if line), str(environment.folder))


def _read(path: Path) -> str:
    return normalise(path.read_text(encoding="utf-8")) if path.is_file() else ""


# ---- what is looked at


async def _checks(environment: Environment, python: str) -> list[Check]:
    config, mistakes = await asyncio.to_thread(resolve, environment)
    block = {
        "name": environment.instance,
        "kind": environment.kind,
        "implementation": environment.implementation,
        "entrypoint": environment.entrypoint,
        "config": dict(config),
        "fields": example_fields(environment),
    }
    described = await describe_servers([block], python=python, cwd=environment.folder)
    description = described[environment.instance]
    return await asyncio.to_thread(check_environment, environment, description, mistakes)


async def _pytest(
    environment: Environment, python: str, timeout: float, tell: Callable[[str], None]
) -> PytestRun:
    folder = environment.path("tests")
    if not folder.is_dir():
        hint = (
            "an installed gymd has no tests; run this in a checkout" if environment.is_builtin else "add it"
        )
        raise ChildFailed(f"there is no folder {folder}: {hint}")
    # The checkout's own tests run at its root, as its other tests do.
    cwd = environment.folder.parents[3] if environment.is_builtin else environment.folder
    tell("running its tests")
    output: deque[str] = deque(maxlen=_OUTPUT_LINES)
    skipped: deque[str] = deque(maxlen=_OUTPUT_LINES)

    def take(line: str) -> None:
        output.append(line)
        if line.startswith(_SKIPPED):
            skipped.append(line.removeprefix(_SKIPPED))

    start = time.monotonic()
    command = [python, "-m", "pytest", str(folder), "-q", "-rs", "--color=no", "-p", "no:cacheprovider"]
    code = await run_lines(command, cwd=cwd, timeout=timeout, take=take)
    if code is None:
        output.append(f"killed: the tests did not end within {timeout:g} s (--timeout)")
    return PytestRun(code, _counted(output), time.monotonic() - start, list(output), list(skipped))


def _counted(output: Iterable[str]) -> dict[str, int]:
    """The counts in pytest's closing line."""
    for line in reversed(list(output)):
        if found := _COUNTS.findall(line):
            return {word if word != "error" else "errors": int(count) for count, word in found}
    return {}

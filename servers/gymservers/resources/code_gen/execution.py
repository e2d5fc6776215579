"""Runs a program against its tests: one sandbox for all of them, in which runner.py is process 1.

What the program printed or returned comes out test by test and is judged out here, where the program cannot
reach. With the first wrong answer the sandbox is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import marshal
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymd.errors import error
from gymd.sdk.sandbox import Limits, Sandbox, SandboxProcess
from gymservers.resources.code_gen import runner
from gymservers.resources.code_gen.grading import Verdict, shortened
from gymservers.resources.code_gen.prelude import needed_modules

__all__ = ["GLOBAL", "RUNTIME", "TIME", "WRONG", "Outcome", "Program", "run_tests"]

WRONG, TIME, RUNTIME, GLOBAL = -2, -3, -4, -1
"""Codes of a test's result: wrong answer, time limit, runtime error, and the whole run failed."""

_MB = 1 << 20
_LATE_S = 1.0
"""How late a test may be by the runner's clock: a busy machine, not a program that starves the runner."""
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

Judge = Callable[[int, bytes], Awaitable[Verdict]]
"""Judges what the test of a number printed or returned."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its tests.

    Attributes:
        code: the program.
        inputs: what each test feeds to it: text for stdin, or for a function one JSON value in each line.
        expected: what is right, for the metadata only.
        function: the function to call; "": it is a script.
        timeout_s: time of each test.
        output_bytes: what a test may print or return.
        memory_mb: memory of the program.
        processes: its processes and threads.
        packages: folders of packages that it may import.
    """

    code: str
    inputs: Sequence[str]
    expected: Sequence[str]
    function: str
    timeout_s: float
    output_bytes: int
    memory_mb: int
    processes: int
    packages: Sequence[Path] = ()


@dataclass(slots=True)
class Outcome:
    """How a program did.

    Attributes:
        result: for each test up to the first failure True, False or a code.
        metadata: what went wrong, if anything did.
    """

    result: list[bool | int] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether all tests were passed."""
        return all(one is True for one in self.result)


async def run_tests(box: Sandbox, program: Program, judge: Judge) -> Outcome:
    """Runs a program until its first failure.

    Raises:
        Internal: the sandbox, or the runner in it, did not start (SERVER_CODE_FAILED).
    """
    # The runner's stdin: itself, what to run, and the inputs.
    code = _runner_code()
    read = f"marshal.loads(sys.stdin.buffer.read({len(code)}))"
    start = f"import marshal,sys;exec({read},{{'__name__':'__main__'}})"
    process = await box.start(
        [box.python, "-I", "-S", "-c", start],
        limits=_limits(program),
        read_only=program.packages,
        env=_ENVIRONMENT,
        init=False,
    )
    async with process:
        feeding = asyncio.get_running_loop().create_task(_feed(process, code, program))
        try:
            return await _judged(process, program, judge)
        finally:
            feeding.cancel()
            await asyncio.wait([feeding])


@functools.cache
def _runner_code() -> bytes:
    source = Path(runner.__file__).read_text(encoding="utf-8")
    return marshal.dumps(compile(source, "runner.py", "exec", dont_inherit=True))


def _limits(program: Program) -> Limits:
    wall_s = (program.timeout_s + 1) * len(program.inputs) + 5
    largest = max(program.output_bytes, *(len(text) * 4 for text in program.inputs))
    return Limits(
        cpu_s=wall_s,
        wall_s=wall_s,
        memory_mb=program.memory_mb,
        processes=program.processes + 1,  # the runner
        file_mb=64 + 2 * math.ceil(largest / _MB),
    )


async def _feed(process: SandboxProcess, code: bytes, program: Program) -> None:
    # The sandbox may be gone at any moment; that is seen where its output is read.
    with contextlib.suppress(ConnectionError):
        process.stdin.write(code)
        for content in _header_and_inputs(program):
            process.stdin.write(content)
            await process.stdin.drain()
    process.stdin.close()


def _header_and_inputs(program: Program) -> Iterator[bytes]:
    inputs = [text.encode(errors="surrogatepass") for text in program.inputs]
    folders = tuple(dict.fromkeys(str(path.parent) for path in program.packages))
    modules = needed_modules(program.code)
    sizes = tuple(map(len, inputs))
    limits = (float(program.timeout_s), program.output_bytes)
    yield marshal.dumps((program.code, program.function, *limits, modules, folders, sizes))
    yield from inputs


async def _judged(process: SandboxProcess, program: Program, judge: Judge) -> Outcome:
    if await process.stdout.read(1) != runner.READY:
        process.kill()
        ended = await process.wait()
        why = ended.stderr.decode(errors="replace").strip() or f"exit status {ended.exit_code}"
        raise error(
            "SERVER_CODE_FAILED", f"the sandbox cannot run programs: {why}", exception="Sandbox", why=why
        )
    outcome = Outcome()
    for number in range(len(program.inputs)):
        try:
            end = await _next_end(process)
        except (asyncio.IncompleteReadError, ValueError):
            return await _whole_run_failed(process, program)
        failure = await _failure(number, end, program, judge)
        if failure is None:
            outcome.result.append(True)
            continue
        code, outcome.metadata = failure
        if end.kind == runner.NOT_LOADED:
            outcome.result.clear()
        # A wrong value is False and a wrong text -2, as the datasets' consumers know it.
        outcome.result.append(False if code == WRONG and program.function else code)
        break
    return outcome


@dataclass(frozen=True, slots=True)
class _End:
    kind: int
    seconds: float
    output: bytes
    report: bytes


async def _next_end(process: SandboxProcess) -> _End:
    """How the next test ended; raises if the run is over, or something else than the runner wrote."""
    head = await process.stdout.readexactly(runner.FRAME.size)
    kind, seconds, output, report = runner.FRAME.unpack(head)
    contents = [await process.stdout.readexactly(size) for size in (output, report)]
    return _End(kind, seconds, *contents)


async def _whole_run_failed(process: SandboxProcess, program: Program) -> Outcome:
    process.kill()
    ended = await process.wait()
    reason = (
        "Out of memory"
        if ended.out_of_memory
        else "Global timeout"
        if ended.timed_out
        else "The run was ended"
    )
    return Outcome([GLOBAL] * len(program.inputs), {"error_code": GLOBAL, "error_message": reason})


async def _failure(
    number: int, end: _End, program: Program, judge: Judge
) -> tuple[int, dict[str, Any]] | None:
    """The code and the metadata of a failed test; None if it was passed."""
    shown = {"inputs": shortened(program.inputs[number]), "expected": shortened(program.expected[number])}
    if end.kind == runner.TIMEOUT or end.seconds > program.timeout_s + _LATE_S:
        message = "Time Limit Exceeded"
        return TIME, {"error": "time limit", "error_code": TIME, "error_message": message, **shown}
    if end.kind == runner.TOO_LONG:
        message = f"Wrong answer: more than {program.output_bytes} bytes of output"
        return WRONG, {"output": "", **shown, "error_code": WRONG, "error_message": message}
    report = _report(end.report)
    if end.kind == runner.NOT_LOADED:
        message = f"Error during testing: {report.get('message', 'the program ended while it was loaded')}"
        return RUNTIME, {"error_code": RUNTIME, "error_message": message}
    if end.kind != runner.DONE:
        what = report.get("error", "the program's process died")
        details = {"error": what, "error_code": RUNTIME, "error_message": "Runtime Error", **shown}
        return RUNTIME, {**details, "traceback": report.get("traceback", "")}
    verdict = await judge(number, end.output)
    if verdict.right:
        return None
    return WRONG, {"output": verdict.output, **shown, "error_code": WRONG, "error_message": verdict.message}


def _report(text: bytes) -> dict[str, str]:
    """What the program's process says of its failure, which may be anything."""
    try:
        report = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return {}
    return {key: str(value) for key, value in report.items()} if isinstance(report, dict) else {}

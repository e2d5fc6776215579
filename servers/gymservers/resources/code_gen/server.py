"""Competitive programming: 1.0 for a program that passes all of its tests."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pydantic

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Response
from gymd.child import Child
from gymd.errors import error
from gymd.sdk import ResourcesServer, Reward, ServerConfig, shared_pool
from gymd.sdk.metrics import extras_of, important_metrics, pass_and_majority
from gymd.sdk.sandbox import Sandbox
from gymservers.resources.code_gen.execution import Outcome, Program, run_tests
from gymservers.resources.code_gen.extraction import extract_code, reasoning_is_misplaced
from gymservers.resources.code_gen.grading import Verdict, grade_output, grade_value, malformed_json

__all__ = ["CodeGen"]

CODE = "extracted_model_code"
"""The extra that holds the program."""
_MB = 1 << 20
_COMPILE_S = 60.0
"""For importing one of the packages for the first time."""
_QUICK_BYTES = 10_000
"""Outputs up to this size are compared on the event loop: less than 1 ms."""


class CodeGenConfig(ServerConfig):
    """Configuration of code_gen."""

    num_processes: int = pydantic.Field(default=8, ge=1, le=4096)
    """Programs that are tested at the same time; the others wait."""
    unit_test_timeout_secs: float = pydantic.Field(default=10, gt=0, le=3600)
    """Time of each test, in seconds. All of them together get (this + 1) * tests + 5."""
    debug: bool = False
    """Log the outcome of every verification."""
    reasoning_format_penalty: float = pydantic.Field(default=0.0, allow_inf_nan=False)
    """The reward instead, if the answer holds a think tag, or the reasoning more than one of a kind."""
    allow_unsandboxed: bool = False
    """Go on without isolation where the kernel allows none: for programs that you trust."""
    memory_mb: int = pydantic.Field(default=4096, ge=64)
    """Memory of a program and all that it starts, in MiB."""
    max_processes: int = pydantic.Field(default=64, ge=1, le=10_000)
    """Processes and threads of a program at the same time."""
    max_output_mb: int = pydantic.Field(default=16, ge=1, le=1024)
    """What a test may print or return, in MiB; more is a wrong answer, but never what is right."""
    packages: tuple[str, ...] = ("numpy",)
    """Packages installed here that programs may import beside the standard library."""
    float_tolerance: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """For printed numbers of which one has a point or an exponent: the absolute or relative error that still
    counts as right. 0: the numbers must be equal."""
    compare_timeout_s: float = pydantic.Field(default=10.0, gt=0)
    """Limit of the comparison of one large output, in seconds; then the verification fails."""


class UnitTests(pydantic.BaseModel):
    """The tests of a row: what goes in and what must come out."""

    inputs: list[str] = pydantic.Field(min_length=1)
    outputs: list[str]
    fn_name: str | None = None

    @pydantic.model_validator(mode="after")
    def _has_pairs(self) -> UnitTests:
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"{len(self.inputs)} inputs, but {len(self.outputs)} outputs")
        return self


class Metadata(pydantic.BaseModel):
    """What only the verifier sees of a row."""

    unit_tests: UnitTests
    difficulty: str | None = None


class Problem(pydantic.BaseModel):
    """The row's own fields; others are ignored."""

    verifier_metadata: Metadata


class CodeGen(ResourcesServer):
    """Runs the program of the answer in a sandbox; see execution.py."""

    Config = CodeGenConfig
    config: CodeGenConfig
    _box: Sandbox

    async def start(self) -> None:
        """Finds out whether programs can be isolated here."""
        self._box = Sandbox.open(allow_unsandboxed=self.config.allow_unsandboxed)
        self._places = asyncio.Semaphore(self.config.num_processes)
        self._packages = [folder for name in self.config.packages for folder in _package_folders(name)]
        await _compile(self._packages)

    def labels(self) -> dict[str, str]:
        """How programs are isolated."""
        return {"sandbox": self._box.describe()}

    async def verify(self, task: Problem, response: Response, text: str) -> Reward:
        """1.0 if the program passes all tests, else 0.0; see the README for the rest."""
        extras: dict[str, Any] = {"difficulty": task.verifier_metadata.difficulty, CODE: None}
        code = extract_code(text) if text.strip() else ""
        if not code:
            return Reward(0.0, extras=extras)
        outcome = await self._tested(code, task.verifier_metadata.unit_tests)
        if self.config.debug:
            self.log.info("tested", extra={"result": outcome.result, "metadata": outcome.metadata})
        misplaced = reasoning_is_misplaced(response, text)
        extras |= {
            CODE: code,
            "result": outcome.result,
            "metadata": outcome.metadata,
            "reasoning_format_violation_rate": float(misplaced),
        }
        return Reward(
            self.config.reasoning_format_penalty if misplaced else float(outcome.passed), extras=extras
        )

    async def _tested(self, code: str, tests: UnitTests) -> Outcome:
        longest = max(map(len, tests.outputs))
        program = Program(
            code=code,
            inputs=tests.inputs,
            expected=tests.outputs,
            function=tests.fn_name or "",
            timeout_s=self.config.unit_test_timeout_secs,
            output_bytes=max(self.config.max_output_mb * _MB, 2 * longest),
            memory_mb=self.config.memory_mb,
            processes=self.config.max_processes,
            packages=self._packages,
        )

        async def judge(number: int, output: bytes) -> Verdict:
            right = tests.outputs[number]
            if program.function:
                return await self._compute(grade_value, output, right)
            return await self._compute(grade_output, output, right, self.config.float_tolerance)

        async with self._places:
            outcome = await run_tests(self._box, program, judge)
        if program.function and not outcome.passed:
            number = len(outcome.result) - 1
            await self._check_test(number, tests.inputs[number], tests.outputs[number])
        return outcome

    async def _check_test(self, number: int, arguments: str, expected: str) -> None:
        """Raises InvalidRequest where a test that failed is no test: that is not the program's fault."""
        why = await self._compute(malformed_json, arguments, expected)
        if why:
            where = f"verifier_metadata.unit_tests, test {number}"
            text = f"{where}: arguments and result must be JSON, and are not: {why}"
            raise error("INVALID_REQUEST", text, field=where)

    async def _compute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of grading.py, in a worker process if its texts are long."""
        if sum(len(one) for one in arguments if isinstance(one, str | bytes)) <= _QUICK_BYTES:
            return function(*arguments)
        return await shared_pool().run(function, arguments, timeout=self.config.compare_timeout_s)

    def aggregate_metrics(self, rollouts: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The usual ones; pass@k, pass@1[avg-of-k] and majority@k, for all tasks and for each difficulty."""
        found = super().aggregate_metrics(rollouts) | pass_and_majority(rollouts, answer=CODE)
        subsets: dict[str, list[ScoredRollout]] = defaultdict(list)
        for rollout in rollouts:
            if difficulty := extras_of(rollout).get("difficulty"):
                subsets[difficulty].append(rollout)
        for difficulty, subset in sorted(subsets.items()):
            metrics = pass_and_majority(subset, answer=CODE)
            found |= {f"{difficulty}/{name}": value for name, value in metrics.items()}
        return found

    def key_metrics(self, metrics: dict[str, Any]) -> list[str]:
        """The mean reward, and the others for one rollout and for the most; accuracy also by difficulty."""
        names = important_metrics(metrics)
        mean = next((name for name in names if "[avg-of-" in name), "pass@1/accuracy")
        return [*names, *(name for name in metrics if name.endswith(f"/{mean}"))]


async def _compile(packages: Sequence[Path]) -> None:
    """Imports packages for the first time, which leaves compiled files: programs cannot write them."""
    for folder in packages:
        compiled = sys.dont_write_bytecode or await asyncio.to_thread((folder / "__pycache__").is_dir)
        if folder.name.isidentifier() and not compiled:
            command = (sys.executable, "-c", f"import {folder.name}")
            process = await Child.start(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
            try:
                with contextlib.suppress(TimeoutError):  # programs then compile it, each for itself
                    async with asyncio.timeout(_COMPILE_S):
                        await process.wait()
            finally:
                process.kill()
                await asyncio.shield(process.wait())


def _package_folders(name: str) -> Iterator[Path]:
    """The folders that an installed package consists of."""
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return
    for part in sorted({path.parts[0] for path in files if len(path.parts) > 1}):
        folder = Path(str(metadata.distribution(name).locate_file(part)))
        if part != ".." and not part.endswith(".dist-info") and folder.is_dir():
            yield folder.resolve()

"""Mathematical answers: math-verify decides, and where it does not find them equal perhaps a judge."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Response
from gymd.errors import GymdError, error
from gymd.sdk import ResourcesServer, Reward, Session, shared_pool
from gymd.sdk.judge import EquivalenceJudgeConfig, Judge, Prompt, Verdict, rollout_id
from gymd.sdk.metrics import important_metrics, pass_and_majority

__all__ = ["MathWithJudge"]

LIBRARY = "math-verify"
GRADE = "gymservers.resources.math_with_judge.library:grade"
"""Named, because importing it loads sympy, which only the workers need."""


class MathWithJudgeConfig(EquivalenceJudgeConfig):
    """Configuration of math_with_judge."""

    should_use_judge: bool = True
    """Ask the judge about answers that math-verify does not find equal to the expected one."""
    library_verifier_timeout_seconds: float = pydantic.Field(default=10.0, gt=0)
    """Seconds for one answer in math-verify; then its process is killed."""
    library_verifier_max_concurrency: int = pydantic.Field(default=32, ge=1)
    """Answers in math-verify at a time; never more than the host has CPUs."""
    judge_prompt_template_fpath: str = "prompt_templates/math_with_judge.txt"
    """The judge's prompt, with {question}, {first_answer} and {second_answer}. A relative path starts in the
    server's own folder, or else in the working directory."""


class Problem(pydantic.BaseModel):
    """The row's own fields; others are ignored."""

    model_config = pydantic.ConfigDict(coerce_numbers_to_str=True)

    question: str
    expected_answer: str


class MathWithJudge(ResourcesServer):
    """Compares the answer in a text with the expected one, by mathematics and not by letters."""

    Config = MathWithJudgeConfig
    config: MathWithJudgeConfig

    async def start(self) -> None:
        """Reads the judge's prompt and looks for math-verify; the workers load it."""
        _version()
        self._checks = asyncio.Semaphore(self.config.library_verifier_max_concurrency)
        self._judge = Judge(self.config, self.mesh)
        needed = ("question", "first_answer", "second_answer")
        self._prompt = Prompt.load(self.config.judge_prompt_template_fpath, Path(__file__).parent, needed)

    def labels(self) -> dict[str, str]:
        """The library's version, which decides how answers are read, and whether there is a judge."""
        judge = self.config.judge_model_server.name if self.config.should_use_judge else "none"
        return {LIBRARY: _version(), "judge": judge}

    async def verify(
        self, task: Problem, text: str, response: Response, session: Session | None = None
    ) -> Reward:
        """1.0 if math-verify, or else the judge both ways round, finds the answers equal; else 0.0."""
        if not text.strip():
            return _reward(0.0, None, 0.0, None)
        equal, answer = await self._library(task.expected_answer, text)
        library_reward = None if equal is None else float(equal)
        if equal or not self.config.should_use_judge:
            return _reward(float(bool(equal)), answer, library_reward, None)
        verdicts = await self._verdicts(task, answer or text, rollout_id(session, response))
        right = len(verdicts) == 2 and self._equal(verdicts[1])
        return _reward(float(right), answer, library_reward, verdicts)

    async def _library(self, expected: str, text: str) -> tuple[bool | None, str | None]:
        """math-verify's verdict and the answer it read. No verdict: it failed, and the judge decides."""
        try:
            async with self._checks:
                limit = self.config.library_verifier_timeout_seconds
                equal, answer = await shared_pool().run(GRADE, (expected, text), timeout=limit)
        except GymdError as failure:
            if not self.config.should_use_judge:
                raise
            self.log.warning("library_failed", extra={"why": failure.message})
            return None, None
        if equal is None and not self.config.should_use_judge:
            why = (
                f"math-verify reads no answer out of the expected_answer {expected[:200]!r}; correct the row"
            )
            raise error("INVALID_REQUEST", why, field="expected_answer", expected_answer=expected[:200])
        return equal, answer

    async def _verdicts(self, task: Problem, answer: str, rollout: str) -> list[Verdict]:
        """Asks with the expected answer first and, if the judge finds the two equal, the other way round."""
        verdicts: list[Verdict] = []
        for first, second in ((task.expected_answer, answer), (answer, task.expected_answer)):
            values = {"question": task.question, "first_answer": first, "second_answer": second}
            verdict = await self._judge.ask(
                self._prompt,
                values,
                answer=answer,
                labels=self.config.labels,
                rollout_id=rollout,
                earlier=verdicts,
            )
            verdicts.append(verdict)
            if not self._equal(verdict):
                break
        return verdicts

    def _equal(self, verdict: Verdict) -> bool:
        return verdict.verdict_label == self.config.judge_equal_label

    def aggregate_metrics(self, rollouts: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The usual ones; pass@k, pass@1[avg-of-k] and majority@k; the same for math-verify alone."""
        alone = {
            name.replace("/accuracy", "/symbolic_accuracy"): value
            for name, value in pass_and_majority(rollouts, score="library_reward").items()
            if "/accuracy" in name
        }
        return super().aggregate_metrics(rollouts) | pass_and_majority(rollouts) | alone

    def key_metrics(self, metrics: dict[str, Any]) -> list[str]:
        """The mean reward, and the others for one rollout and for the most."""
        return important_metrics(metrics, ("accuracy", "symbolic_accuracy"))


def _reward(
    value: float, answer: str | None, library_reward: float | None, verdicts: list[Verdict] | None
) -> Reward:
    extras = {"extracted_answer": answer, "library_reward": library_reward, "judge_evaluations": verdicts}
    return Reward(value, extras=extras)


def _version() -> str:
    try:
        return importlib.metadata.version(LIBRARY)
    except importlib.metadata.PackageNotFoundError:
        text = f"{LIBRARY} is not installed here; set `placement: venv` for this server, or pip install it"
        raise error("SERVER_NOT_READY", text, package=LIBRARY) from None

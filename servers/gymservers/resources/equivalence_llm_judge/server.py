"""Short answers: a judge says whether they mean the same as the expected ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.sdk import ResourcesServer, Reward, Session
from gymd.sdk.judge import EquivalenceJudgeConfig, Judge, Prompt, Verdict, rollout_id
from gymd.sdk.metrics import important_metrics, pass_and_majority
from gymd.sdk.patterns import PATTERN_TIMEOUT_S
from gymservers.resources.equivalence_llm_judge.extraction import extracted, last_answer, last_question

__all__ = ["EquivalenceLLMJudge"]


class EquivalenceLLMJudgeConfig(EquivalenceJudgeConfig):
    """Configuration of equivalence_llm_judge."""

    judge_prompt_template_fpath: str = "prompt_templates/equivalence_llm_judge.txt"
    """The judge's prompt, with {question}, {expected_answer} and {generated_answer}. A relative path starts
    in the server's own folder, or else in the working directory."""
    question_extract_regex: str | None = None
    """What of the last user message is the question. null: all of it."""
    response_extract_regex: str | None = None
    """What of the last assistant message is the answer. null: all of it."""
    check_twice_swap: bool = False
    """Ask about answers that the judge finds equal once more, with the two answers swapped."""
    reward_if_swap_fails: float = pydantic.Field(default=0.0, allow_inf_nan=False)
    """The reward when the judge then does not find them equal."""
    use_per_record_regex: bool = True
    """A row's own template_metadata.output_regex replaces response_extract_regex."""
    extraction_length_threshold: int | None = pydantic.Field(default=120, ge=0)
    """Rows whose expected answer is longer (characters) do without their own pattern: the judge reads all of
    the answer, once. null: no limit."""
    check_full_generation_on_fail: bool = True
    """After a difference in what a row's own pattern captured: ask once more about all of the text."""
    reward_if_full_generation_succeeds: float = pydantic.Field(default=0.5, allow_inf_nan=False)
    """The reward when the judge then finds it equal."""
    pattern_timeout_s: float = pydantic.Field(default=PATTERN_TIMEOUT_S, gt=0)
    """Seconds for a pattern that may run for long; then it is killed, and the rollout has no reward."""

    @pydantic.field_validator("question_extract_regex", "response_extract_regex")
    @classmethod
    def _readable(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as failure:
            raise ValueError(f"no regular expression: {failure}") from None
        return pattern


class Template(pydantic.BaseModel):
    """How a row's prompt asks for the answer."""

    output_regex: str | list[str] | None = None


class Question(pydantic.BaseModel):
    """The row's own fields; others are ignored."""

    model_config = pydantic.ConfigDict(coerce_numbers_to_str=True)

    expected_answer: str | None = None
    metadata: dict[str, Any] | None = None
    template_metadata: Template | None = None

    @pydantic.model_validator(mode="after")
    def _answerable(self) -> Question:
        if not self.expected.strip():
            raise ValueError("expected_answer is missing: the judge has nothing to compare with")
        return self

    @property
    def expected(self) -> str:
        """The answer that counts as right; older rows keep it in `metadata`."""
        answer = self.expected_answer or (self.metadata or {}).get("expected_answer")
        return "" if answer is None else str(answer)

    @property
    def patterns(self) -> list[str]:
        """The row's own patterns for the answer."""
        found = self.template_metadata.output_regex if self.template_metadata else None
        return [one for one in ([found] if isinstance(found, str) else found or []) if one]


class EquivalenceLLMJudge(ResourcesServer):
    """Asks a judge whether the answer means the same as the expected one."""

    Config = EquivalenceLLMJudgeConfig
    config: EquivalenceLLMJudgeConfig

    async def start(self) -> None:
        """Reads the judge's prompt."""
        self._judge = Judge(self.config, self.mesh)
        needed = ("expected_answer", "generated_answer")
        self._prompt = Prompt.load(self.config.judge_prompt_template_fpath, Path(__file__).parent, needed)

    def labels(self) -> dict[str, str]:
        """Who judges."""
        return {"judge": self.config.judge_model_server.name}

    async def verify(
        self,
        task: Question,
        create_params: ResponseCreateParams,
        response: Response,
        session: Session | None = None,
    ) -> Reward:
        """1.0 if the judge finds the answers equal, else 0.0; a second question may change that."""
        config, expected, text = self.config, task.expected, last_answer(response)
        own = task.patterns if config.use_per_record_regex else []
        limit = config.extraction_length_threshold
        # No pattern captures a long answer well, and swapping two long texts says little.
        once = bool(own) and limit is not None and len(expected) > limit
        patterns = [] if once else own or _listed(config.response_extract_regex)
        longest = config.pattern_timeout_s
        answer = await extracted(text, patterns, longest)
        asked, of_question = last_question(create_params), _listed(config.question_extract_regex)
        question = await extracted(asked, of_question, longest)
        verdicts: list[Verdict] = []

        async def equal(first: str, second: str, judged: str) -> bool:
            if not judged:
                return False  # nothing is no answer, whatever a judge makes of it
            values = {"question": question, "expected_answer": first, "generated_answer": second}
            verdict = await self._judge.ask(
                self._prompt,
                values,
                answer=judged,
                labels=config.labels,
                rollout_id=rollout_id(session, response),
                earlier=verdicts,
            )
            verdicts.append(verdict)
            return verdict.verdict_label == config.judge_equal_label

        value = float(await equal(expected, answer, answer))
        if value and config.check_twice_swap and not once:
            value = 1.0 if await equal(answer, expected, answer) else config.reward_if_swap_fails
        elif not value and own and config.check_full_generation_on_fail and not once:
            whole = await equal(expected, text, text)
            value = config.reward_if_full_generation_succeeds if whole else 0.0
        extras = {
            "expected_answer": expected,
            "extracted_answer": answer or None,
            "judge_evaluations": verdicts,
        }
        return Reward(value, extras=extras)

    def aggregate_metrics(self, rollouts: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The usual ones, and pass@k, pass@1[avg-of-k] and majority@k of accuracy and no_answer."""
        return super().aggregate_metrics(rollouts) | pass_and_majority(rollouts)

    def key_metrics(self, metrics: dict[str, Any]) -> list[str]:
        """The mean reward, and the others for one rollout and for the most."""
        return important_metrics(metrics)


def _listed(pattern: str | None) -> list[str]:
    return [pattern] if pattern else []

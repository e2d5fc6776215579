"""Multiple-choice questions: no tools, and 1.0 for the right letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pydantic

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymd.sdk import ResourcesServer, Reward, ServerConfig
from gymd.sdk.metrics import important_metrics, pass_and_majority
from gymd.sdk.patterns import PATTERN_TIMEOUT_S
from gymservers.resources.mcqa.grading import GRADERS, GradingMode, RowMode, answer_markdown, strict_boxed
from gymservers.resources.mcqa.options import Options
from gymservers.resources.mcqa.template import chosen_by_template

__all__ = ["MultipleChoice"]


class MultipleChoiceConfig(ServerConfig):
    """Configuration of mcqa."""

    grading_mode: GradingMode | None = None
    """For all rows; None: as each row says."""
    pattern_timeout_s: float = pydantic.Field(default=PATTERN_TIMEOUT_S, gt=0)
    """Seconds for a row's pattern that may run for long; then it is killed, and the rollout has no reward."""


class Template(pydantic.BaseModel):
    """How a row's prompt asks for the answer."""

    output_regex: str | list[str] = []
    answer_prefix: str = ""


class Question(pydantic.BaseModel):
    """The row's own fields; others are ignored."""

    options: list[dict[str, str | None]] | None = None
    expected_answer: str | None = None
    grading_mode: RowMode = "strict_single_letter_boxed"
    template_metadata: Template | None = None


class MultipleChoice(ResourcesServer):
    """Grades the letter that the model chose; see grading.py for the modes."""

    Config = MultipleChoiceConfig
    config: MultipleChoiceConfig

    async def verify(self, task: Question, text: str) -> Reward:
        """1.0 if the letter is the expected one, else 0.0; also if no letter can be read."""
        gold = (task.expected_answer or "").strip().upper()
        chosen = await self._chosen(task, text.strip())
        right = bool(gold) and chosen == gold
        return Reward(float(right), extras={"expected_answer": gold, "extracted_answer": chosen})

    async def _chosen(self, task: Question, text: str) -> str | None:
        if not text:
            return None
        options = Options(task.options)
        template = task.template_metadata or Template()
        if template.output_regex:
            patterns = template.output_regex
            patterns = [patterns] if isinstance(patterns, str) else patterns
            letter = await chosen_by_template(text, patterns, options, self.config.pattern_timeout_s)
            if letter is not None:
                return letter
        mode = self.config.grading_mode or task.grading_mode
        if mode == "lenient_answer_colon_md" and template.answer_prefix:
            return answer_markdown(text, options, template.answer_prefix) or strict_boxed(text, options)
        return GRADERS[mode](text, options)

    def aggregate_metrics(self, rollouts: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The usual ones, and pass@k, pass@1[avg-of-k] and majority@k of accuracy and no_answer."""
        return super().aggregate_metrics(rollouts) | pass_and_majority(rollouts)

    def key_metrics(self, metrics: dict[str, Any]) -> list[str]:
        """The mean reward, and the others for one rollout and for the most."""
        return important_metrics(metrics)

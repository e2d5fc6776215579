"""Reasoning puzzles: no tools, and the score that the library of the puzzles gives to the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pydantic

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymd.errors import error
from gymd.sdk import ResourcesServer, Reward, ServerConfig, shared_pool
from gymd.sdk.metrics import mean_rewards
from gymservers.resources.reasoning_gym.extraction import extract_answer
from gymservers.resources.reasoning_gym.verdicts import BadTask, Scored

__all__ = ["ReasoningGym"]

# Named, because importing its module loads the library: only workers do.
SCORE = "gymservers.resources.reasoning_gym.scoring:score"


class ReasoningGymConfig(ServerConfig):
    """Configuration of reasoning_gym."""

    verify_timeout_s: float = pydantic.Field(default=10.0, gt=0)
    """Seconds that one scoring may take; then it is killed, and the rollout has no reward."""


class Puzzle(pydantic.BaseModel):
    """The row's own fields; others are ignored."""

    question: str
    answer: str | None = None
    metadata: dict[str, Any]

    @pydantic.field_validator("metadata")
    @classmethod
    def _names_its_data_set(cls, metadata: dict[str, Any]) -> dict[str, Any]:
        name = metadata.get("source_dataset")
        if not isinstance(name, str) or not name:
            raise ValueError("source_dataset must name a data set of reasoning-gym")
        return metadata


class ReasoningGym(ResourcesServer):
    """Scores answers with the library; see scoring.py."""

    Config = ReasoningGymConfig
    config: ReasoningGymConfig

    async def verify(self, task: Puzzle, text: str) -> Reward:
        """The score of the answer found in the text, from 0 to 1, as the library of the puzzles gives it.

        Raises:
            InvalidRequest: the library does not know the data set, or cannot work with the row.
            DeadlineExceeded: scoring did not end in time.
        """
        answer = extract_answer(text)
        verdict: Scored | BadTask = await shared_pool().run(
            SCORE, (task.question, task.answer, task.metadata, answer), timeout=self.config.verify_timeout_s
        )
        name = task.metadata["source_dataset"]
        if isinstance(verdict, BadTask):
            what = f"this row cannot be scored: {verdict.reason}; correct it or leave it out"
            raise error("INVALID_REQUEST", what, field="metadata", source_dataset=name)
        extras = {"task_name": name, "score": verdict.value, "extracted_answer": answer}
        if verdict.error:
            extras["scorer_error"] = verdict.error
        return Reward(verdict.value, extras=extras)

    def aggregate_metrics(self, rollouts: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The usual ones, and the mean reward of each data set."""
        own = mean_rewards(rollouts, lambda extras: [f"mean_reward/{extras.get('task_name')}"])
        return super().aggregate_metrics(rollouts) | own

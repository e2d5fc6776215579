"""Instruction following: no tools, and a reward for following instructions that rules can check."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Literal

import pydantic

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Response
from gymd.sdk import ResourcesServer, Reward, ServerConfig, shared_pool
from gymd.sdk.metrics import extras_of
from gymservers.resources.instruction_following.checks import Instruction, follow, parse_arguments

__all__ = ["InstructionFollowing"]


class InstructionFollowingConfig(ServerConfig):
    """Configuration of instruction_following."""

    verify_timeout_s: float = pydantic.Field(default=10.0, gt=0, allow_inf_nan=False)
    """Seconds that checking one answer may take; then its process is killed and the rollout is not scored."""


class Instructions(pydantic.BaseModel):
    """The row's own fields, at the top level or in `verifier_metadata`, which wins; others are ignored."""

    instruction_id_list: list[str]
    kwargs: list[dict[str, Any] | None]
    grading_mode: Literal["binary", "fraction"] = "binary"
    _parsed: list[Instruction] = pydantic.PrivateAttr(default_factory=list)

    @property
    def parsed(self) -> list[Instruction]:
        """Id and arguments of each instruction. The shorter list ends the other one."""
        return self._parsed

    @pydantic.model_validator(mode="before")
    @classmethod
    def _take_metadata(cls, row: Any) -> Any:
        metadata = row.get("verifier_metadata") if isinstance(row, dict) else None
        return row | metadata if isinstance(metadata, dict) else row

    @pydantic.model_validator(mode="after")
    def _parse(self) -> Instructions:
        problems = []
        for name, arguments in zip(self.instruction_id_list, self.kwargs, strict=False):
            try:
                self._parsed.append((name, parse_arguments(name, arguments)))
            except ValueError as problem:
                problems.append(str(problem))
        if problems:
            raise ValueError("; ".join(problems))
        return self


class InstructionFollowing(ResourcesServer):
    """Checks each instruction of a row by the rule that its id stands for; see the package `checks`."""

    Config = InstructionFollowingConfig
    config: InstructionFollowingConfig
    key_metrics = ("mean_reward", "instruction_accuracy")

    async def verify(self, task: Instructions, response: Response) -> Reward:
        """1.0 if all instructions are followed, else 0.0; in the mode fraction the share that is."""
        followed = [False] * len(task.parsed)
        text = _answer(response)
        if text is not None and task.parsed:
            limit = self.config.verify_timeout_s
            followed = await shared_pool().run(follow, (text, task.parsed), timeout=limit)
        value = float(all(followed))
        if task.grading_mode == "fraction":
            value = statistics.fmean(followed) if followed else 0.0
        extras = {"follow_all_instructions": all(followed), "follow_instruction_list": followed}
        return Reward(value, extras=extras)

    def aggregate_metrics(self, rollouts: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The usual ones, and `instruction_accuracy`: the share of all instructions that was followed."""
        followed = [
            one
            for rollout in rollouts
            if rollout.reward.HasField("value")
            for one in extras_of(rollout).get("follow_instruction_list", ())
        ]
        accuracy = {"instruction_accuracy": statistics.fmean(followed)} if followed else {}
        return super().aggregate_metrics(rollouts) | accuracy


def _answer(response: Response) -> str | None:
    """The first text of the last output item, "" if that has none; None if the model refused."""
    last = response.output[-1] if response.output else None
    if last is None or not last.HasField("message"):
        return ""
    if last.message.HasField("content_text"):
        return last.message.content_text
    for part in last.message.content_parts.parts[:1]:
        kind = part.WhichOneof("kind")
        if kind == "refusal":
            return None
        if kind in ("output_text", "input_text"):
            return str(getattr(part, kind).text)
    return ""

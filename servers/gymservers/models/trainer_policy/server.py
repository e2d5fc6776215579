"""The settings of trainer_policy. The daemon serves it itself, because it holds the trainers' streams."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.errors import GymdError, error
from gymd.sdk import ModelCall, ModelServer, ServerConfig

__all__ = ["TrainerPolicy", "TrainerPolicyConfig"]


class TrainerPolicyConfig(ServerConfig):
    """Configuration of trainer_policy."""

    max_in_flight: int = pydantic.Field(default=1024, ge=1)
    """Calls that one trainer has at a time without having answered them; more wait in the daemon."""
    timeout: float = pydantic.Field(default=1200.0, gt=0)
    """Seconds that a call may take, waiting included; the caller's own deadline counts too."""
    tokenizer: str | None = None
    """Folder with the model's tokenizer.json, tokenizer_config.json and, if it is not in there,
    chat_template.jinja: then calls hold a prompt's ids, written in the daemon. Absent: they hold items."""
    tool_call_parser: Literal["hermes", "none"] = "hermes"
    """With a tokenizer: the form in which the model writes tool calls."""
    uses_reasoning_parser: bool = True
    """With a tokenizer: text in think tags becomes reasoning items."""
    chat_template_kwargs: dict[str, Any] | None = None
    """With a tokenizer: arguments for the chat template; a task's metadata.chat_template_kwargs wins, key by
    key."""
    prefix_memory_mb: int = pydantic.Field(default=256, ge=1)
    """With a tokenizer: MiB of earlier turns' ids kept at most, 4 bytes each; the rollouts used least
    recently are forgotten first."""


class TrainerPolicy(ModelServer):
    """Stands for the trainer's policy in configurations; it answers nothing outside the daemon."""

    Config = TrainerPolicyConfig
    config: TrainerPolicyConfig

    async def start(self) -> None:
        """Refuses: no host can reach a trainer."""
        raise self._misplaced()

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Refuses."""
        raise self._misplaced()

    def _misplaced(self) -> GymdError:
        text = (
            "the daemon serves trainer_policy itself; name it in the daemon's configuration without an "
            "entrypoint, as in `gymctl up --config trainer_policy`"
        )
        return error("SERVER_NOT_READY", text, server=self.name)

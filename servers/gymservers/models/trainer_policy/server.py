"""The settings of trainer_policy. The daemon serves it itself, because it holds the trainers' streams."""

from __future__ import annotations

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.errors import GymdError, error
from gymd.prompts import PolicySettings
from gymd.sdk import ModelCall, ModelServer, ServerConfig

__all__ = ["TrainerPolicy", "TrainerPolicyConfig"]


class TrainerPolicyConfig(PolicySettings, ServerConfig):
    """Configuration of trainer_policy."""


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

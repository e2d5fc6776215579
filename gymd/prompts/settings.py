"""What can be set for a policy that lives in the trainer."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

__all__ = ["PolicySettings"]


class PolicySettings(pydantic.BaseModel):
    """The block of a trainer_policy server, which the daemon serves itself."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

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

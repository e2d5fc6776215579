"""Configuration of vllm_model, with the keys of NeMo Gym."""

from __future__ import annotations

from typing import Any

import pydantic

from gymd.sdk.http_model import HttpModelConfig

__all__ = ["VLLMModelConfig"]


class VLLMModelConfig(HttpModelConfig):
    """Keys as in NeMo Gym's vllm_model."""

    base_url: str | list[str]
    """Base URL, or several of equal engines: all calls of a rollout go to the same one (its prefix cache)."""
    api_key: pydantic.SecretStr = pydantic.SecretStr("")
    """Sent as bearer token; "" sends none."""
    model: str
    """Name of the model at the engine; replaces the one that a task asks for."""
    default_headers: dict[str, str] | None = None
    """Headers added to every request."""
    return_token_id_information: bool = False
    """Return token ids and logprobs of every call, unless the call itself says otherwise."""
    return_token_ids: bool = True
    """Ask the engine for ids in the answer itself; engines that ignore it are asked through /tokenize."""
    uses_reasoning_parser: bool = True
    """Reasoning is separated from the answer, by the engine's parser or by think tags."""
    uses_interleaved_reasoning: bool = False
    """Send reasoning of earlier turns back, in the fields `reasoning_content` and `reasoning`."""
    preserve_reasoning_in_assistant_content: bool = False
    """Send reasoning of earlier turns back inside the content, in think tags."""
    sequential_reasoning_allowed: bool = True
    """False: a history that ends with an assistant turn of reasoning only is answered as content_filter."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Arguments for the chat template; a task's metadata.chat_template_kwargs wins, key by key."""
    extra_body: dict[str, Any] | None = None
    """Fields added to requests that do not have them; a task's metadata.extra_body wins, key by key."""
    sampling_overrides: dict[str, Any] | None = None
    """Fields that replace those of every request, such as temperature."""
    max_concurrent_requests: int | None = pydantic.Field(default=None, ge=1)
    """Requests under way at most in this process. Absent: no limit."""
    use_completions_api: bool = False
    """Call /completions with a raw prompt instead of /chat/completions; for base models."""
    render_chat_template: bool = False
    """Not supported in this version: chat templates are rendered by the engine."""
    is_responses_native: bool = False
    """Not supported here: openai_model speaks the Responses API."""

    @pydantic.model_validator(mode="after")
    def _supported(self) -> VLLMModelConfig:
        if self.render_chat_template:
            raise ValueError(
                "render_chat_template is not supported in this version of gymd; leave use_completions_api "
                "out, so that the engine renders its own template, or send raw prompts without it"
            )
        if self.is_responses_native:
            raise ValueError("for an engine's Responses API use the implementation openai_model instead")
        if not self.base_url:
            raise ValueError(
                "base_url is empty; give the URL of the engine, such as http://127.0.0.1:8000/v1"
            )
        return self

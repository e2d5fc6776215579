"""Configuration of vllm_model, with the keys of NeMo Gym."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from gymd.sdk.http_model import HttpModelConfig

__all__ = ["VLLMModelConfig"]


def _off(value: object) -> object:
    """YAML reads the word off as false."""
    return "off" if value is False else value


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
    prefix: Annotated[Literal["off", "prefix_ids", "tokens"], pydantic.BeforeValidator(_off)] = "off"
    """How prompts of later turns begin with the tokens of earlier ones, in calls that return tokens. off: the
    engine tokenizes each anew; prefix_ids: it is sent the ids to begin with, as NeMo RL's patched vLLM takes
    them; tokens: prompts are made here and sent as ids to /completions, which any vLLM takes."""
    prefix_memory_mb: int = pydantic.Field(default=1024, ge=1)
    """MiB of earlier turns' ids kept in this process at most, 4 bytes each; the rollouts used least recently
    are forgotten first."""
    tokenizer: str | None = None
    """For prefix: tokens: folder with the model's tokenizer.json, tokenizer_config.json and, if it is not in
    there, chat_template.jinja."""
    tool_call_parser: Literal["hermes", "none"] = "hermes"
    """For prefix: tokens: the form in which the model writes tool calls."""
    max_model_len: int | None = pydantic.Field(default=None, ge=1)
    """For prefix: tokens: the engine's context in tokens, which bounds answers of tasks without
    max_output_tokens. Absent: the engine is asked."""
    render_chat_template: bool = False
    """Not supported: `prefix: tokens` renders chat templates here, all other modes leave it to the engine."""
    is_responses_native: bool = False
    """Not supported here: openai_model speaks the Responses API."""

    @pydantic.model_validator(mode="after")
    def _supported(self) -> VLLMModelConfig:
        if self.render_chat_template:
            raise ValueError(
                "render_chat_template is not supported; use prefix: tokens with a tokenizer to render the "
                "chat template here, or leave it out, so that the engine renders its own"
            )
        if self.is_responses_native:
            raise ValueError("for an engine's Responses API use the implementation openai_model instead")
        if self.prefix == "tokens" and not self.tokenizer:
            raise ValueError("prefix: tokens needs `tokenizer`, the folder of the model's tokenizer.json")
        if self.prefix != "off" and self.use_completions_api:
            raise ValueError(
                "use_completions_api sends raw prompts, which have no prefix; set one of them only"
            )
        if not self.base_url:
            raise ValueError(
                "base_url is empty; give the URL of the engine, such as http://127.0.0.1:8000/v1"
            )
        return self

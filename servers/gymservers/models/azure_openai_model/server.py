"""Answers through the chat completions of an Azure OpenAI deployment."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote, urlencode

import pydantic

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.convert import ChatOptions, ConvertError, chat_from_params, response_from_chat
from gymd.errors import error
from gymd.sdk import ModelCall
from gymd.sdk.http import Endpoint
from gymd.sdk.http_model import HttpModelConfig, HttpModelServer, overflow_response, refused
from gymd.sdk.http_outcomes import Trial

__all__ = ["AzureOpenAIModel", "AzureOpenAIModelConfig"]

_PATH = "/chat/completions"
_OPTIONS = ChatOptions(uses_reasoning_parser=True)


class AzureOpenAIModelConfig(HttpModelConfig):
    """Keys as in NeMo Gym's azure_openai_model."""

    openai_base_url: str
    """The resource, such as https://NAME.openai.azure.com; also with /openai/v1 or /openai/deployments/X."""
    openai_api_key: pydantic.SecretStr = pydantic.SecretStr("")
    """Key of the resource, sent in the header api-key."""
    openai_model: str
    """Name of the deployment."""
    default_query: dict[str, str] = pydantic.Field(default_factory=dict)
    """Query of every request; `api-version` is required, except with /openai/v1."""
    num_concurrent_requests: int = pydantic.Field(default=8, ge=1)
    """Requests under way at most in this process."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """Field for max_output_tokens; api-versions before 2024-09 only know max_tokens."""


class AzureOpenAIModel(HttpModelServer):
    """Answers through an Azure OpenAI deployment."""

    Config = AzureOpenAIModelConfig
    config: AzureOpenAIModelConfig

    async def start(self) -> None:
        """Checks URL and api-version and opens the connection pool."""
        config = self.config
        key = config.openai_api_key.get_secret_value()
        self._endpoint = Endpoint(
            self._base_url(),
            model=config.openai_model,
            headers={"api-key": key} if key else {},
            query=urlencode(config.default_query),
            url_key="openai_base_url",
            key_key="openai_api_key",
            model_key="openai_model",
        )
        await super().start()

    def concurrency(self) -> int | None:
        """As configured; Azure limits each deployment tightly."""
        return self.config.num_concurrent_requests

    def labels(self) -> dict[str, str]:
        """The deployment, for people."""
        return {"model": self.config.openai_model, "api": "chat/completions"}

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Answers through the deployment."""
        try:
            body = chat_from_params(params, _OPTIONS)
        except ConvertError as problem:
            raise refused(problem) from None
        if "max_tokens" in body:
            body[self.config.max_tokens_field] = body.pop("max_tokens")
        body["model"] = self.config.openai_model
        answer: Any = await self.post(self._endpoint, _PATH, body, call)
        if answer is None:
            return overflow_response(params, self.config.openai_model)
        try:
            return response_from_chat(answer, params, _OPTIONS)
        except ConvertError as problem:
            trial = Trial(self._endpoint, _PATH, attempts=1)
            raise trial.malformed(f"is no chat completion ({problem})", answer) from None

    def _base_url(self) -> str:
        """The URL in front of /chat/completions, from what people copy out of the portal."""
        url = self.config.openai_base_url.rstrip("/").removesuffix(_PATH)
        if url.endswith("/openai/v1"):
            return url
        if "api-version" not in self.config.default_query:
            text = "set default_query.api-version, such as 2024-10-21 (the portal shows it)"
            raise error("INVALID_REQUEST", text, field="default_query.api-version")
        if "/openai/deployments/" in url:
            return url
        return f"{url.removesuffix('/openai')}/openai/deployments/{quote(self.config.openai_model)}"

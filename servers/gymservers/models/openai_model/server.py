"""Passes conversations through to POST /responses of an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import Any

import pydantic

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.convert import ConvertError, params_to_json, response_from_json
from gymd.errors import error
from gymd.sdk import ModelCall
from gymd.sdk.http import Endpoint
from gymd.sdk.http_model import HttpModelConfig, HttpModelServer, overflow_response
from gymd.sdk.http_outcomes import Trial

__all__ = ["OpenAIModel", "OpenAIModelConfig"]

_PATH = "/responses"
# Keys of the training form of an item; providers reject them.
_TOKEN_KEYS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")
# A mesh call is one answer: streams and background work have no way back through it.
_DROPPED = ("stream", "stream_options")
_REASON_OF_CODE = {"rate_limit_exceeded": "UPSTREAM_RATE_LIMITED", "server_error": "UPSTREAM_UNAVAILABLE"}


class OpenAIModelConfig(HttpModelConfig):
    """Keys as in NeMo Gym's openai_model."""

    openai_base_url: str
    """Base URL with the version path, such as https://api.openai.com/v1."""
    openai_api_key: pydantic.SecretStr = pydantic.SecretStr("")
    """Sent as bearer token; "" sends none."""
    openai_model: str
    """Name of the model; replaces the one that a task asks for."""
    extra_body: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Fields added to every request that does not have them."""
    openai_default_headers: dict[str, str] = pydantic.Field(default_factory=dict)
    """Headers added to every request."""
    max_concurrent_requests: int | None = pydantic.Field(default=None, ge=1)
    """Requests under way at most in this process. Absent: no limit."""
    drop_input_reasoning_items: bool = False
    """Leave reasoning items of earlier turns out of requests, for endpoints that reject them."""


class OpenAIModel(HttpModelServer):
    """Passes conversations through to a Responses API."""

    Config = OpenAIModelConfig
    config: OpenAIModelConfig

    async def start(self) -> None:
        """Checks the URL and opens the connection pool."""
        config = self.config
        self._endpoint = Endpoint(
            config.openai_base_url,
            config.openai_api_key.get_secret_value(),
            config.openai_model,
            config.openai_default_headers,
            url_key="openai_base_url",
            key_key="openai_api_key",
            model_key="openai_model",
        )
        await super().start()

    def concurrency(self) -> int | None:
        """As configured."""
        return self.config.max_concurrent_requests

    def labels(self) -> dict[str, str]:
        """The model, for people."""
        return {"model": self.config.openai_model, "api": "responses"}

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Answers through the endpoint."""
        answer = await self.post(self._endpoint, _PATH, self.request_body(params), call)
        if answer is None:
            return overflow_response(params, self.config.openai_model)
        return self._read(answer)

    def request_body(self, params: ResponseCreateParams) -> dict[str, Any]:
        """The JSON body for create params."""
        if params.background:
            text = "background responses have no way back; leave `background` out of the task"
            raise error("INVALID_REQUEST", text, field="background")
        body = params_to_json(params)
        for key in _DROPPED:
            body.pop(key, None)
        items = body.get("input")
        if isinstance(items, list):
            self._clean(items, params, body)
        for key, value in self.config.extra_body.items():
            body.setdefault(key, value)
        body["model"] = self.config.openai_model
        return body

    def _clean(self, items: list[Any], params: ResponseCreateParams, body: dict[str, Any]) -> None:
        """Takes out of the history what providers reject when they get it back."""
        dropped = False
        for item, source in zip(items, params.input_items.items, strict=False):
            if source.HasField("reasoning"):
                dropped = self.config.drop_input_reasoning_items
                item.pop("status", None)
            if source.HasField("token_trace"):
                for key in _TOKEN_KEYS:
                    item.pop(key, None)
        if dropped:
            body["input"] = [item for item in items if item.get("type") != "reasoning"]

    def _read(self, answer: Any) -> Response:
        trial = Trial(self._endpoint, _PATH, attempts=1)
        if not isinstance(answer, dict) or not isinstance(answer.get("output"), list):
            raise trial.malformed("is no Response (it has no list `output`)", answer)
        try:
            response = response_from_json(answer)
        except ConvertError as problem:
            raise trial.malformed(f"is no Response ({problem})", answer) from None
        if response.status == "failed":
            code, said = response.error.code, response.error.message
            reason = _REASON_OF_CODE.get(code, "UPSTREAM_REJECTED")
            text = f'{trial.url} answered with a failed response ({code or "no code"}): "{said}"'
            raise trial.make(reason, text, 200, said)
        return response

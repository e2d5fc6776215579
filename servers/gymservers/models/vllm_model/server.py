"""Answers through the chat or completions API of vLLM and compatible engines, with token ids on request."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import itertools
from typing import Any

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.convert import (
    ChatOptions,
    ConvertError,
    chat_from_params,
    empty_completion,
    load_chat,
    response_from_chat,
    tell_sampling,
    tokenize_request,
    trace_ids,
    unpack_ids,
)
from gymd.memory import keep_large_blocks
from gymd.prompts import TOKEN_KEYS, Conversation, Known, Prompter, TokenMemory, load_template
from gymd.sdk import ModelCall
from gymd.sdk.http import Endpoint
from gymd.sdk.http_model import HttpModelServer, overflow_response, refused
from gymd.sdk.http_outcomes import Trial
from gymservers.models.vllm_model.completions import chat_of_completion, completion_body, tokenize_body
from gymservers.models.vllm_model.config_model import VLLMModelConfig
from gymservers.models.vllm_model.token_prompts import TokenPrompts

__all__ = ["VLLMModel"]

# NeMo Gym inlines audio named by these; refusing beats answering without having heard it.
_AUDIO = ("audio_data", "audio_path", "audio_paths")


class VLLMModel(HttpModelServer):
    """Answers through vLLM or an engine with the same API."""

    Config = VLLMModelConfig
    config: VLLMModelConfig

    async def start(self) -> None:
        """Checks the URLs and opens the connection pool."""
        config = self.config
        urls = [config.base_url] if isinstance(config.base_url, str) else config.base_url
        key, headers = config.api_key.get_secret_value(), config.default_headers or {}
        self._engines = [Endpoint(url, key, config.model, headers) for url in urls]
        # vLLM serves /tokenize beside /v1, not below it.
        self._roots = [
            dataclasses.replace(engine, base_url=engine.base_url.removesuffix("/v1"))
            for engine in self._engines
        ]
        self._turn = itertools.count()
        self._plain = ChatOptions(
            uses_reasoning_parser=config.uses_reasoning_parser,
            # A template that is run here gets all reasoning, and decides itself what it leaves out.
            uses_interleaved_reasoning=config.uses_interleaved_reasoning or config.prefix == "tokens",
            preserve_reasoning_in_assistant_content=config.preserve_reasoning_in_assistant_content,
        )
        self._with_tokens = dataclasses.replace(
            self._plain, return_token_id_information=True, return_token_ids=config.return_token_ids
        )
        self._path = "/completions" if config.use_completions_api else "/chat/completions"
        self._memory = TokenMemory(config.prefix_memory_mb << 20)
        self._told = False
        self._tokens: TokenPrompts | None = None
        if config.prefix == "tokens":
            template = await asyncio.to_thread(load_template, config.tokenizer or "")
            prompter = Prompter(template, config.tool_call_parser, reasoning=config.uses_reasoning_parser)
            self._tokens = TokenPrompts(self, prompter, self._engines, self._roots)
        # Answers with the logprobs of long generations take megabytes.
        keep_large_blocks()
        await super().start()

    def concurrency(self) -> int | None:
        """As configured."""
        return self.config.max_concurrent_requests

    def labels(self) -> dict[str, str]:
        """The model, for people."""
        path = "/completions" if self._tokens is not None else self._path
        return {"model": self.config.model, "api": path.strip("/"), "prefix": self.config.prefix}

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Answers through the engine that this rollout sticks to."""
        wanted = call.return_tokens
        wanted = self.config.return_token_id_information if wanted is None else wanted
        options = self._with_tokens if wanted else self._plain
        try:
            body = self.request_body(params, options)
            talk = self._conversation(params, body, call) if wanted and self.config.prefix != "off" else None
        except ConvertError as problem:
            raise refused(problem) from None
        if not self.config.sequential_reasoning_allowed and _says_nothing(body):
            return response_from_chat(empty_completion("content_filter", self.config.model), params)
        index = self.engine_index(call.rollout_id)
        if self._tokens is not None:
            response = await self._tokens.answer(params, body, options, talk, index, call)
        else:
            response = await self._chat(params, body, options, talk, index, call)
        if response is None:
            return overflow_response(params, self.config.model)
        tell_sampling(response, body)
        return response

    async def _chat(
        self,
        params: ResponseCreateParams,
        body: dict[str, Any],
        options: ChatOptions,
        talk: Conversation | None,
        index: int,
        call: ModelCall,
    ) -> Response | None:
        """Answers through the chat API, or a raw prompt; None: the conversation is too long."""
        kept = _require_prefix(body, talk) if talk is not None else None
        answer = await self.post(self._engines[index], self._path, body, call, parse=load_chat)
        if answer is None:
            return None
        trial = Trial(self._engines[index], self._path, attempts=1)
        if not isinstance(answer, dict):
            raise trial.malformed("is no JSON object", answer)
        wanted = options.return_token_id_information
        try:
            chat = chat_of_completion(answer) if self.config.use_completions_api else answer
            prompt = await self._tokenize(index, body, call) if wanted and _lacks_ids(chat) else None
            response = response_from_chat(chat, params, options, prompt_token_ids=prompt)
        except ConvertError as problem:
            raise trial.malformed(f"is no completion that can be used ({problem})", answer) from None
        if talk is not None:
            ids = trace_ids(response.output[-1].token_trace)
            talk.answered(response.output, ids, kept)
            self._check_prefix(ids, kept)
        return response

    def _conversation(
        self, params: ResponseCreateParams, body: dict[str, Any], call: ModelCall
    ) -> Conversation:
        setting = [body.get("tools"), body.get("chat_template_kwargs"), body.get("reasoning_effort")]
        return Conversation(params, setting, call.rollout_id, self._memory)

    def _check_prefix(self, ids: bytes, kept: Known | None) -> None:
        """Says so, once, when the engine does not begin its prompts with the ids that it was sent."""
        if kept is not None and not self._told and not ids.startswith(kept.ids):
            self._told = True
            self.log.warning(
                "the engine ignores required_prefix_token_ids, which only NeMo RL's patched vLLM takes; the "
                "trajectories show where turns do not continue each other. Use prefix: tokens instead"
            )

    def engine_index(self, rollout_id: str) -> int:
        """The engine for a rollout: the same for each of its calls, in every process."""
        if len(self._engines) == 1:
            return 0
        if not rollout_id:
            return next(self._turn) % len(self._engines)
        return int.from_bytes(hashlib.sha256(rollout_id.encode()).digest()[:8]) % len(self._engines)

    def request_body(self, params: ResponseCreateParams, options: ChatOptions) -> dict[str, Any]:
        """The JSON body for create params."""
        config = self.config
        for key in _AUDIO:
            if key in params.metadata:
                raise ConvertError("audio by metadata is not supported in this version", f"metadata.{key}")
        if config.use_completions_api:
            body = completion_body(params, options)
        else:
            body = chat_from_params(params, options)
            if config.chat_template_kwargs:
                own = body.get("chat_template_kwargs") or {}
                body["chat_template_kwargs"] = {**config.chat_template_kwargs, **own}
        for key, value in (config.extra_body or {}).items():
            body.setdefault(key, value)
        body.update(config.sampling_overrides or {})
        body["model"] = config.model
        return body

    async def _tokenize(self, index: int, body: dict[str, Any], call: ModelCall) -> list[int]:
        """The ids of the prompt, for engines that report ids only inside the logprobs."""
        wanted = tokenize_body(body) if self.config.use_completions_api else tokenize_request(body)
        root = self._roots[index]
        answer = await self.http.post_json(root, "/tokenize", wanted, call.context.deadline)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list):
            raise Trial(root, "/tokenize", attempts=1).malformed("has no list `tokens`", answer)
        return tokens


def _require_prefix(body: dict[str, Any], talk: Conversation) -> Known | None:
    """Asks the engine to begin the prompt with the ids of the last answer and its prompt, if they are known.

    The engine puts them in the place of everything up to the last assistant message, so that those of an
    earlier turn are of no use to it.
    """
    for message in body["messages"]:
        for key in TOKEN_KEYS:
            message.pop(key, None)
    kept = next(talk.known(), None)
    if kept is None or kept.count != talk.last_answer:
        return None
    body["required_prefix_token_ids"] = unpack_ids(kept.ids)
    return kept


def _says_nothing(body: dict[str, Any]) -> bool:
    """Whether the history ends with an assistant message that has neither text nor calls."""
    messages = body.get("messages")
    if not messages or messages[-1]["role"] != "assistant":
        return False
    return not messages[-1].get("content") and not messages[-1].get("tool_calls")


def _lacks_ids(chat: dict[str, Any]) -> bool:
    """Whether the answer holds a message, but not the ids of its prompt."""
    choices = chat.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return False
    return chat.get("prompt_token_ids") is None and message.get("prompt_token_ids") is None

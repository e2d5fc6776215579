"""Token in, token out: prompts made here, sent as ids, and answers taken apart here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.convert import (
    ChatOptions,
    ConvertError,
    PackedLogprobs,
    load_chat,
    response_from_chat,
    trace_ids,
    unpack_ids,
)
from gymd.errors import error
from gymd.prompts import Conversation, Prompt, Prompter, work_on
from gymd.sdk import ModelCall
from gymd.sdk.http import Endpoint
from gymd.sdk.http_model import HttpModelServer, refused
from gymd.sdk.http_outcomes import Trial
from gymservers.models.vllm_model.completions import chat_of_completion, token_body
from gymservers.models.vllm_model.config_model import VLLMModelConfig

__all__ = ["TokenPrompts"]

_PATH = "/completions"


class TokenPrompts:
    """Answers of a model server through /completions.

    Args:
        server: sends the requests.
        prompter: of the model.
        engines: where to send them, by index.
        roots: the same engines without /v1, for /tokenize.
    """

    def __init__(
        self,
        server: HttpModelServer,
        prompter: Prompter,
        engines: Sequence[Endpoint],
        roots: Sequence[Endpoint],
    ) -> None:
        assert isinstance(server.config, VLLMModelConfig)
        self._server = server
        self._config = server.config
        self._prompter = prompter
        self._engines = engines
        self._roots = roots
        self._context_length = server.config.max_model_len

    async def answer(
        self,
        params: ResponseCreateParams,
        body: dict[str, Any],
        options: ChatOptions,
        talk: Conversation | None,
        index: int,
        call: ModelCall,
    ) -> Response | None:
        """The response to a chat request; None: the conversation is too long."""
        try:
            prompt = await work_on(params.ByteSize(), self._prompter.prompt, body, talk)
        except ConvertError as problem:
            raise refused(problem) from None
        ids = prompt.ids()
        sent = {**token_body(body, ids), "model": self._config.model}
        if "max_tokens" not in sent:  # this API's own default is 16
            sent["max_tokens"] = await self._context(index, call) - len(ids)
            if sent["max_tokens"] < 1:
                return None
        answer = await self._server.post(self._engines[index], _PATH, sent, call, parse=load_chat)
        if answer is None:
            return None
        trial = Trial(self._engines[index], _PATH, attempts=1)
        if not isinstance(answer, dict):
            raise trial.malformed("is no JSON object", answer)
        try:
            chat = chat_of_completion(answer)
            self._take_apart(chat, prompt, ids, body)
            response = response_from_chat(chat, params, options, prompt_token_ids=ids)
        except ConvertError as problem:
            raise trial.malformed(f"is no completion that can be used ({problem})", answer) from None
        if talk is not None:
            talk.answered(response.output, trace_ids(response.output[-1].token_trace), prompt.kept)
        return response

    def _take_apart(
        self, chat: dict[str, Any], prompt: Prompt, prompt_ids: list[int], body: dict[str, Any]
    ) -> None:
        """Puts the message that the text stands for, and the ids of the prompt, into a completion."""
        choice = chat["choices"][0]
        message = self._prompter.message(choice["message"]["content"], _last_id(choice), prompt, body)
        if message.get("tool_calls") and choice["finish_reason"] == "stop":
            choice["finish_reason"] = "tool_calls"
        choice["message"] = message
        if choice.get("token_ids") is not None and chat.get("prompt_token_ids") is None:
            chat["prompt_token_ids"] = prompt_ids

    async def _context(self, index: int, call: ModelCall) -> int:
        """The engine's context in tokens; asked once."""
        if self._context_length is None:
            request = {"model": self._config.model, "prompt": "a"}
            deadline = call.context.deadline
            answer = await self._server.http.post_json(self._roots[index], "/tokenize", request, deadline)
            length = answer.get("max_model_len") if isinstance(answer, dict) else None
            if type(length) is not int:
                text = "the engine does not tell its context; set max_model_len of this model server, or "
                raise error("INVALID_REQUEST", text + "max_output_tokens of the task", field="max_model_len")
            self._context_length = length
        return self._context_length


def _last_id(choice: dict[str, Any]) -> int | None:
    """The id of the answer's last token, whose text some engines leave in the answer."""
    logprobs, ids = choice.get("logprobs"), choice.get("token_ids")
    if not ids and isinstance(logprobs, PackedLogprobs) and logprobs.ids:
        ids = unpack_ids(logprobs.ids[-4:])
    return ids[-1] if ids and isinstance(ids[-1], int) else None

"""The trainer's policy asked in token ids: conversations become prompts here, and sampled ids become items.

Prompts of later turns begin with the very ids of earlier ones, so that a rollout is one sequence to train on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymapi.v1.rollout_service_pb2 import GenerateRequest, GenerateResult
from gymd.convert import ChatOptions, ConvertError, chat_from_params, response_from_chat, unpack_ids
from gymd.convert.wire import delimited
from gymd.daemon.replies import Sampled, completed, malformed, sampled_of
from gymd.errors import error
from gymd.prompts import (
    Conversation,
    PolicySettings,
    Prompt,
    Prompter,
    TokenMemory,
    load_template,
    work_on,
)

__all__ = ["TokenPolicy", "TokenTurn"]

# What the prompt says already; the rest is how to sample.
_RENDERED = (
    "input_text",
    "input_items",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
)
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class TokenTurn:
    """One call: what is needed of it while the trainer samples.

    Attributes:
        params: how to sample.
        body: the chat request without its messages.
        talk: the conversation, which remembers the answer.
    """

    params: ResponseCreateParams
    body: dict[str, Any]
    prompt: Prompt
    talk: Conversation

    def fill(self, asked: GenerateRequest) -> None:
        """Puts the prompt into a request."""
        asked.MergeFromString(delimited(asked.PROMPT_TOKEN_IDS_FIELD_NUMBER, self.prompt.packed))


class TokenPolicy:
    """Writes prompts and reads answers for one trainer_policy server.

    Args:
        settings: of the server, with a tokenizer.

    Raises:
        InvalidRequest: the tokenizer cannot be used; the text says why.
    """

    def __init__(self, settings: PolicySettings) -> None:
        assert settings.tokenizer
        template = load_template(settings.tokenizer)
        reasoning = settings.uses_reasoning_parser
        self._prompter = Prompter(template, settings.tool_call_parser, reasoning=reasoning)
        # The template gets all reasoning, and decides itself what it leaves out.
        self._options = ChatOptions(uses_reasoning_parser=reasoning, uses_interleaved_reasoning=True)
        self._variables = settings.chat_template_kwargs or {}
        self._memory = TokenMemory(settings.prefix_memory_mb << 20)

    async def turn(self, params: ResponseCreateParams, rollout_id: str) -> TokenTurn:
        """The prompt of a call.

        Raises:
            InvalidRequest: the template, or a prompt at all, cannot say it.
        """
        try:
            return await work_on(params.ByteSize(), self._turn, params, rollout_id)
        except ConvertError as problem:
            text = f"it cannot be written as a prompt: {problem}; change the task's responses_create_params"
            raise error("INVALID_REQUEST", text, field=problem.path) from None

    def _turn(self, params: ResponseCreateParams, rollout_id: str) -> TokenTurn:
        body = chat_from_params(params, self._options)
        if self._variables:
            body["chat_template_kwargs"] = {**self._variables, **(body.get("chat_template_kwargs") or {})}
        setting = [body.get("tools"), body.get("chat_template_kwargs"), body.get("reasoning_effort")]
        talk = Conversation(params, setting, rollout_id, self._memory)
        prompt = self._prompter.prompt(body, talk)
        del body["messages"]  # thousands may wait, and nobody needs them any more
        sampling = ResponseCreateParams()
        sampling.CopyFrom(params)
        for name in _RENDERED:
            sampling.ClearField(name)
        sampling.metadata.pop("chat_template_kwargs", None)
        return TokenTurn(sampling, body, prompt, talk)

    async def response(self, result: GenerateResult, asked: GenerateRequest, turn: TokenTurn) -> Response:
        """The response that an answer stands for, and what the next turn's prompt will begin with.

        Raises:
            GymdError: the trainer's own error, or UPSTREAM_MALFORMED for an answer that breaks the contract.
        """
        try:
            return await work_on(result.ByteSize(), self._response, result, asked, turn)
        except ConvertError as problem:
            raise malformed(f"its output cannot become part of a prompt: {problem}") from None

    def _response(self, result: GenerateResult, asked: GenerateRequest, turn: TokenTurn) -> Response:
        sampled = sampled_of(result, asked, turn.prompt.packed)
        response = result.response
        if not response.output:
            response = self._read(sampled, response, asked.server, turn)
        if sampled.logprobs:
            response.output[-1].token_trace.MergeFromString(sampled.trace(turn.prompt.packed))
        completed(response, result, asked)
        if sampled.ids:
            turn.talk.answered(response.output, turn.prompt.packed + sampled.ids, turn.prompt.kept)
        return response

    def _read(self, sampled: Sampled, told: Response, server: str, turn: TokenTurn) -> Response:
        """The response that sampled ids stand for; what else the trainer told of it stays."""
        ids = unpack_ids(sampled.ids)
        text = self._prompter.template.decode(ids)
        message = self._prompter.message(text, ids[-1] if ids else None, turn.prompt, turn.body)
        count = len(turn.prompt.packed) // 4
        usage = {"prompt_tokens": count, "completion_tokens": len(ids), "total_tokens": count + len(ids)}
        finish = _FINISH.get(told.incomplete_details.reason, "stop")
        choice = {"message": message, "finish_reason": finish}
        chat = {"model": server, "choices": [choice], "usage": usage}
        response = response_from_chat(chat, turn.params, self._options)
        response.MergeFrom(told)
        return response

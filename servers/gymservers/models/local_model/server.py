"""A small language model inside the host process, so that everything runs without key and server."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, Literal

import pydantic

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.convert import ChatOptions, ConvertError, chat_from_params, response_from_chat, tell_sampling
from gymd.errors import GymdError
from gymd.sdk import ModelCall, ModelServer, ServerConfig
from gymd.sdk.http import HttpClient, RetryPolicy
from gymd.sdk.http_model import overflow_response, refused
from gymd.sdk.http_outcomes import Trial, is_context_overflow
from gymd.sdk.paths import state_dir
from gymservers.models.local_model.engine import Engine
from gymservers.models.local_model.grammar import CallGrammar, parse_calls, schema_grammar, tool_grammar
from gymservers.models.local_model.prompts import flatten, tool_turn
from gymservers.models.local_model.weights import ensure_weights

__all__ = ["LocalModel", "LocalModelConfig"]

_PATH = "/chat/completions"
_PLAIN = ChatOptions()
_WITH_TOKENS = ChatOptions(return_token_id_information=True)
# Sampling by temperature alone: llama.cpp's own defaults cut the distribution, which training data must know.
_SAMPLING = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
# vLLM's switches for token ids; llama.cpp reports ids whenever it reports logprobs.
_VLLM_ONLY = ("return_tokens_as_token_ids", "return_token_ids")
_PROBE = "gymd_template_probe"


class LocalModelConfig(ServerConfig):
    """Keys of local_model."""

    model_path: Path | None = None
    """A GGUF file. Absent: SmolLM2-135M-Instruct, fetched on first use (93 MB)."""
    models_dir: Path | None = None
    """Where the default model is kept. Absent: `models` in the state folder."""
    context_size: int = pydantic.Field(default=2048, ge=128)
    """Tokens of one conversation, prompt and answer together."""
    parallel: int = pydantic.Field(default=4, ge=1, le=64)
    """Conversations answered at the same time; further calls wait."""
    threads: int | None = pydantic.Field(default=None, ge=1)
    """Threads that compute. Absent: all cores but one, at most 8."""
    temperature: float = pydantic.Field(default=0.7, ge=0)
    """Temperature of tasks that name none."""
    call_temperature: float = pydantic.Field(default=0.0, ge=0)
    """The same for constrained calls: a model this small needs its likeliest arguments."""
    max_output_tokens: int = pydantic.Field(default=256, ge=1)
    """Limit of tasks that name none."""
    return_token_id_information: bool = False
    """Return token ids and logprobs of every call, unless the call itself says otherwise."""
    tool_calling: Literal["auto", "native", "constrained"] = "auto"
    """native: by the model's chat template; constrained: by a grammar. auto: native if it has tools."""
    max_parallel_calls: int = pydantic.Field(default=1, ge=1, le=16)
    """Calls of one constrained turn at most; small models repeat themselves."""
    request_timeout_s: float = pydantic.Field(default=600.0, gt=0)
    """Limit of a call whose caller set no deadline, in seconds."""


class LocalModel(ModelServer):
    """Answers with llama.cpp in this process."""

    Config = LocalModelConfig
    config: LocalModelConfig

    async def start(self) -> None:
        """Fetches the model if needed and loads it."""
        config = self.config
        path = config.model_path or await ensure_weights(self._folder(), self.log)
        self._model = path.stem
        self._http = HttpClient(retry=RetryPolicy(max_attempts=2), timeout_s=config.request_timeout_s)
        await self._http.start()
        try:
            self._engine = await asyncio.to_thread(
                Engine,
                path,
                context_size=config.context_size,
                parallel=config.parallel,
                threads=config.threads,
            )
            self._native = await self._knows_tools()
        except BaseException:
            await self.stop()
            raise
        self._slots = asyncio.Semaphore(config.parallel)
        self.log.info("loaded %s tools=%s", path.name, "native" if self._native else "constrained")

    async def stop(self) -> None:
        """Ends calls under way and the engine's threads."""
        await self._http.close()
        if (engine := getattr(self, "_engine", None)) is not None:
            await asyncio.to_thread(engine.close)

    def labels(self) -> dict[str, str]:
        """The model, for people."""
        return {"model": self._model, "context_size": str(self.config.context_size)}

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Answers with the next turn."""
        wanted = call.return_tokens
        wanted = self.config.return_token_id_information if wanted is None else wanted
        options = _WITH_TOKENS if wanted else _PLAIN
        try:
            body, grammar = self.request_body(params, options)
        except ConvertError as problem:
            raise refused(problem) from None
        try:
            async with self._slots:
                chat = await self._post(body, call, wanted)
        except GymdError as failure:
            if is_context_overflow(failure):
                return overflow_response(params, self._model)
            raise
        if grammar is not None:
            _lift_calls(chat["choices"][0], grammar)
        chat["model"] = self._model
        response = response_from_chat(chat, params, options)
        # llama.cpp's own name for one of them; under vLLM's it takes none.
        tell_sampling(response, {**body, "repetition_penalty": body.get("repeat_penalty")})
        return response

    def request_body(
        self, params: ResponseCreateParams, options: ChatOptions
    ) -> tuple[dict[str, Any], CallGrammar | None]:
        """The JSON body for create params, and the grammar if the answer is a constrained call."""
        body = chat_from_params(params, options)
        for key in _VLLM_ONLY:
            body.pop(key, None)
        if options.return_token_id_information:
            body["top_logprobs"] = 1  # with 0 llama.cpp reports nothing
        body["model"] = self._model
        body.setdefault("max_tokens", self.config.max_output_tokens)
        for key, value in _SAMPLING.items():
            body.setdefault(key, value)
        if self._native:
            body.setdefault("temperature", self.config.temperature)
            return body, None
        turn = tool_turn(params, body)
        body["messages"] = flatten(body["messages"], turn.offered)
        several = body.pop("parallel_tool_calls", True)
        body.pop("tools", None)
        body.pop("tool_choice", None)
        body.setdefault(
            "temperature", self.config.call_temperature if turn.callable else self.config.temperature
        )
        if not turn.callable:
            _constrain_text(body)
            return body, None
        functions = [tool["function"] for tool in turn.callable]
        pairs = [(function["name"], function.get("parameters")) for function in functions]
        grammar = tool_grammar(pairs, self.config.max_parallel_calls if several else 1)
        body["grammar"] = grammar.rules
        body["messages"].append({"role": "assistant", "content": grammar.begin})
        body.pop("response_format", None)
        return body, grammar

    async def _post(self, body: dict[str, Any], call: ModelCall, wanted: bool) -> dict[str, Any]:
        """The chat completion, with token ids in vLLM's form if wanted."""
        deadline = call.context.deadline
        trial = Trial(self._engine.api, _PATH, attempts=1)
        chat = await self._http.post_json(self._engine.api, _PATH, body, deadline)
        try:
            choice = chat["choices"][0]
            count = chat["usage"]["prompt_tokens"]
            choice["message"]["role"]
            if wanted:
                choice["token_ids"] = [entry["id"] for entry in choice["logprobs"]["content"]]
        except (KeyError, IndexError, TypeError) as problem:
            raise trial.malformed(f"lacks {problem}", chat) from None
        if wanted:
            chat["prompt_token_ids"] = await self._prompt_ids(body, count, deadline)
        return chat

    async def _prompt_ids(self, body: dict[str, Any], count: int, deadline: float | None) -> list[int]:
        """The ids of the prompt: the engine's own template and tokenizer, checked against its count."""
        kept = {
            key: body[key]
            for key in ("messages", "tools", "tool_choice", "chat_template_kwargs")
            if key in body
        }
        root = self._engine.root
        prompt = (await self._http.post_json(root, "/apply-template", kept, deadline))["prompt"]
        # Templates differ in whether they write the first token themselves.
        for add_special in (False, True):
            wanted = {"content": prompt, "parse_special": True, "add_special": add_special}
            tokens = (await self._http.post_json(root, "/tokenize", wanted, deadline))["tokens"]
            if len(tokens) == count:
                return tokens
        raise Trial(root, "/tokenize", attempts=1).malformed(f"has not the {count} ids of the prompt", tokens)

    async def _knows_tools(self) -> bool:
        """Whether calls go through the chat template: it is asked to render a tool."""
        if self.config.tool_calling != "auto":
            return self.config.tool_calling == "native"
        function = {"name": _PROBE, "description": _PROBE, "parameters": {"type": "object", "properties": {}}}
        body = {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": function}],
        }
        answer = await self._http.post_json(self._engine.root, "/apply-template", body)
        return _PROBE in answer["prompt"]

    def _folder(self) -> Path:
        own = self.config.models_dir
        return own.expanduser() if own is not None else state_dir() / "models"


def _constrain_text(body: dict[str, Any]) -> None:
    """Replaces a response format by a grammar: the engine ignores schemas that it does not fully know."""
    wanted = body.pop("response_format", None)
    if wanted is None or "grammar" in body:
        return
    schema = (
        wanted.get("json_schema", {}).get("schema") if wanted["type"] == "json_schema" else {"type": "object"}
    )
    body["grammar"] = schema_grammar(schema or {"type": "object"})


def _lift_calls(choice: dict[str, Any], grammar: CallGrammar) -> None:
    """Turns the text of a constrained turn into calls; a text that was cut off stays text."""
    if choice["finish_reason"] != "stop":
        return
    message = choice["message"]
    text = message.get("content") or ""
    written = text if text.startswith(grammar.begin) else grammar.begin + text
    calls = parse_calls(written + grammar.end)
    # The model could not but stop here, and its history goes on with the end of the call instead.
    if ids := choice.get("token_ids"):
        ids.pop()
        choice["logprobs"]["content"].pop()
    if calls is None:
        return
    message["content"] = None
    message["tool_calls"] = [
        {
            "id": f"call_{uuid.uuid4().hex}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for name, arguments in calls
    ]

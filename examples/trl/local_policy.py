"""A model of transformers behind the chat API, inside the trainer's process: for trying out without vLLM.

It answers one request after the other, so it is slow, but exact: token ids and logprobs are those of the
weights that the trainer holds. Where vLLM runs, nobody needs it.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import torch
from aiohttp import web

__all__ = ["LocalPolicy"]

_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_START_S = 10.0


class LocalPolicy:
    """Serves `/v1/chat/completions` for a model, as vLLM does with `return_token_ids`.

    It is a weight transfer of TRL too: `send_weights` puts other weights into the model that it serves.

    Args:
        model: a causal language model; generation waits for its turn, and leaves its mode as it was.
        tokenizer: with a chat template that writes calls as `<tool_call>{"name": ..., "arguments": ...}
            </tool_call>`.
        port: on the loopback interface; 0: any free one.

    Attributes:
        url: base URL, ends with /v1; set by `start`.
    """

    def __init__(self, model: Any, tokenizer: Any, *, port: int = 0) -> None:
        self.url = ""
        self._model = model
        self._tokenizer = tokenizer
        self._port = port
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Listens; raises OSError if the port is taken."""
        listening = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listening,), name="policy", daemon=True)
        self._thread.start()
        if not listening.wait(_START_S):
            raise TimeoutError(f"the policy's server did not listen within {_START_S:.0f} s")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Closes the server; without effect on one that is closed."""
        if self._thread is not None and self._thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    # ---- TRL's WeightTransferProtocol

    def init_weight_transfer(self) -> None:
        """Nothing to set up."""

    def pause(self) -> None:
        """Waits for the answer under way, and begins no other."""
        self._turn.acquire()

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Puts the weights into the served model.

        Raises:
            KeyError: it has no parameter of that name.
        """
        parameters = dict(self._model.named_parameters())
        with torch.no_grad():
            for name, tensor in iterator:
                parameters[name].copy_(tensor)

    def resume(self) -> None:
        """Answers again."""
        self._turn.release()

    def destroy(self) -> None:
        """Closes the server."""
        self.stop()

    # ---- the server

    def _run(self, listening: threading.Event) -> None:
        try:
            asyncio.run(self._serve(listening))
        except BaseException as failure:
            self._failure = failure
        finally:
            listening.set()

    async def _serve(self, listening: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self._port)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            listening.set()
            await self._ended.wait()
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        prompt = self._tokenizer.apply_chat_template(
            [_readable(message) for message in body["messages"]],
            tools=body.get("tools"),
            add_generation_prompt=True,
            return_dict=False,
            **(body.get("chat_template_kwargs") or {}),
        )
        most = getattr(self._model.config, "max_position_embeddings", None)
        if most is not None and len(prompt) >= most:
            text = f"This model's maximum context length is {most} tokens, the prompt has {len(prompt)}"
            return web.json_response({"error": {"message": text, "code": 400}}, status=400)
        ids, logprobs = await asyncio.to_thread(self._generate, prompt, body, most)
        return web.json_response(self._completion(body, prompt, ids, logprobs))

    def _generate(
        self, prompt: list[int], body: dict[str, Any], most: int | None
    ) -> tuple[list[int], list[float]]:
        """The sampled ids, and their logprobs under the distribution that they were drawn from."""
        temperature = body.get("temperature", 1.0)
        room = (most or 2**20) - len(prompt)
        with self._turn, torch.no_grad():
            model = self._model
            training = model.training
            model.eval()
            try:
                given = torch.tensor([prompt], device=model.device)
                made = model.generate(
                    given,
                    attention_mask=torch.ones_like(given),
                    do_sample=temperature > 0,
                    temperature=temperature or None,
                    top_p=body.get("top_p", 1.0),
                    top_k=0,
                    max_new_tokens=min(body.get("max_tokens") or room, room),
                    eos_token_id=self._tokenizer.eos_token_id,
                    pad_token_id=self._tokenizer.pad_token_id,
                    output_scores=True,
                    return_dict_in_generate=True,
                )
            finally:
                model.train(training)
        ids = made.sequences[0, len(prompt) :].tolist()
        scores = torch.stack(made.scores)[:, 0].float().log_softmax(-1)
        return ids, scores[torch.arange(len(ids)), torch.tensor(ids)].tolist()

    def _completion(
        self, body: dict[str, Any], prompt: list[int], ids: list[int], logprobs: list[float]
    ) -> dict[str, Any]:
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        calls = [found for found in (_call(match) for match in _CALL.findall(text)) if found]
        message: dict[str, Any] = {"role": "assistant", "content": text if not calls else _CALL.sub("", text)}
        if calls:
            message["tool_calls"] = calls
        ended = ids[-1] == self._tokenizer.eos_token_id
        finish = ("tool_calls" if calls else "stop") if ended else "length"
        entries = [
            {"token": f"token_id:{token}", "logprob": logprob}
            for token, logprob in zip(ids, logprobs, strict=True)
        ]
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": finish,
            "token_ids": ids,
            "logprobs": {"content": entries},
        }
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(ids),
            "total_tokens": len(prompt) + len(ids),
        }
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", ""),
            "choices": [choice],
            "prompt_token_ids": prompt,
            "usage": usage,
        }


def _readable(message: dict[str, Any]) -> dict[str, Any]:
    """A message as chat templates want it: content as text, arguments as an object where they are one."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    readable = {"role": message["role"], "content": content}
    if message.get("tool_calls"):
        readable["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _object(call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
    return readable


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _call(text: str) -> dict[str, Any] | None:
    """A call that the model wrote; None: it is none, and stays in the text."""
    try:
        call = json.loads(text)
        function = {"name": str(call["name"]), "arguments": json.dumps(call.get("arguments", {}))}
    except (ValueError, KeyError, TypeError):
        return None
    return {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}

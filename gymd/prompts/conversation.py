"""A request as a conversation whose earlier turns may have known ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gymapi.v1.responses_pb2 import Item, ResponseCreateParams
from gymd.convert import ChatOptions, chat_messages, dumps, pack_ids
from gymd.prompts.memory import TokenMemory, Turn

__all__ = ["TOKEN_KEYS", "Conversation", "Known"]

TOKEN_KEYS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")
"""Keys of a chat message that hold its tokens."""

_DIGEST_BYTES = 16
# Everything that was said, reasoning included, whatever the engine is sent of it.
_WHOLE = ChatOptions(preserve_reasoning_in_assistant_content=True)
_WITH_IDS = ChatOptions(preserve_reasoning_in_assistant_content=True, return_token_id_information=True)


@dataclass(frozen=True, slots=True)
class Known:
    """Ids of the first `count` messages of a conversation, the last of which is an assistant's.

    Attributes:
        ids: packed, 4 bytes each.
        turn: where they are remembered; None: they came with the request.
    """

    count: int
    ids: bytes
    turn: Turn | None


class Conversation:
    """The messages of a request.

    Args:
        params: the request.
        setting: what else its prompt depends on (tools, template variables), as a JSON value.
        rollout_id: whose conversation it is; "" for nobody's, of which nothing is remembered.
        memory: of earlier calls.
    """

    def __init__(
        self, params: ResponseCreateParams, setting: Any, rollout_id: str, memory: TokenMemory
    ) -> None:
        self._rollout_id = rollout_id
        self._memory = memory
        self._state = hashlib.blake2b(dumps(setting), digest_size=_DIGEST_BYTES)
        # By the number of messages before it and itself: each assistant message's digest, and its own ids.
        self._answers: list[tuple[int, bytes, bytes | None]] = []
        messages = chat_messages(params, _WITH_IDS)
        for count, message in enumerate(messages, start=1):
            ids = _own_ids(message)
            self._state.update(_said(message))
            if message["role"] == "assistant":
                self._answers.append((count, self._state.copy().digest(), ids))
        self._open = not messages or messages[-1]["role"] != "assistant"

    @property
    def last_answer(self) -> int:
        """How many messages there are up to the last assistant message; 0: there is none."""
        return self._answers[-1][0] if self._answers else 0

    def known(self) -> Iterator[Known]:
        """The turns with known ids, the last first. Ids remembered win over those in the request."""
        for count, digest, ids in reversed(self._answers):
            turn = self._memory.find(self._rollout_id, digest) if self._rollout_id else None
            if turn is not None:
                yield Known(count, turn.ids(), turn)
            elif ids is not None:
                yield Known(count, ids, None)

    def answered(self, output: Sequence[Item], ids: bytes, kept: Known | None) -> None:
        """Remembers an answer; `ids`: its prompt's and its own, `kept`: what the prompt began with."""
        if not self._rollout_id:
            return
        answer = chat_messages(ResponseCreateParams(input_items={"items": output}), _WHOLE)
        if len(answer) != 1 or not self._open:
            return  # it says nothing, or becomes one message with the one before it
        state = self._state.copy()
        state.update(_said(answer[0]))
        self._memory.keep(self._rollout_id, state.digest(), ids, kept.turn if kept else None)


def _said(message: dict[str, Any]) -> bytes:
    """A message for the digest; a text and a list of one text are the same."""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
        message = {**message, "content": content[0].get("text")}
    return dumps(message)


def _own_ids(message: dict[str, Any]) -> bytes | None:
    """Takes the token keys off a message; returns the ids, prompt and answer, packed."""
    prompt, generated = message.get("prompt_token_ids"), message.get("generation_token_ids")
    for key in TOKEN_KEYS:
        message.pop(key, None)
    if not isinstance(prompt, list) or not isinstance(generated, list):
        return None
    return pack_ids(prompt, "prompt_token_ids") + pack_ids(generated, "generation_token_ids")

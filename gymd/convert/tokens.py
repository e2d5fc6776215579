"""Token ids and logprobs of a model call: between the JSON keys of NeMo Gym and `TokenTrace`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from gymapi.v1 import responses_pb2 as pb
from gymd.convert._errors import ConvertError
from gymd.convert._json import load_text, text_of
from gymd.convert.packed import PackedLogprobs, pack_floats, pack_ids
from gymd.convert.wire import delimited, delimited_fields

__all__ = [
    "make_token_trace",
    "pack_logprobs",
    "split_token_keys",
    "token_keys",
    "trace_from_chat",
    "trace_ids",
]

ID_BYTES = 4
"""Of an id, and of a logprob, on the wire."""

_PROMPT = pb.TokenTrace.PROMPT_TOKEN_IDS_FIELD_NUMBER
_GENERATED = pb.TokenTrace.GENERATION_TOKEN_IDS_FIELD_NUMBER
_LOGPROBS = pb.TokenTrace.GENERATION_LOGPROBS_FIELD_NUMBER
_TOKEN_ID = "token_id:"
_KEYS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


def make_token_trace(
    prompt_token_ids: Sequence[int],
    generation_token_ids: Sequence[int],
    generation_logprobs: Sequence[float],
    routed_experts: str | None = None,
) -> pb.TokenTrace:
    """Builds a trace; raises ConvertError if ids and logprobs differ in length or are no numbers."""
    return _trace(
        pack_ids(prompt_token_ids, "prompt_token_ids"),
        pack_ids(generation_token_ids, "generation_token_ids"),
        pack_floats(generation_logprobs, "generation_logprobs"),
        routed_experts,
    )


def trace_ids(trace: pb.TokenTrace) -> bytes:
    """The ids of prompt and answer as the bytes of a packed field: 4 each, little-endian."""
    fields = dict(delimited_fields(trace.SerializeToString()))
    return fields.get(_PROMPT, b"") + fields.get(_GENERATED, b"")


def split_token_keys(item: dict[str, Any]) -> tuple[pb.TokenTrace | None, dict[str, Any]]:
    """Takes the token keys off an item: the trace, and the item without them.

    The three arrays come together or not at all. If all are null there is no trace and the keys stay.
    """
    missing = [key for key in _KEYS if item.get(key) is None]
    if len(missing) == len(_KEYS):
        return None, item
    if missing:
        raise ConvertError(f"{' and '.join(missing)} missing; {', '.join(_KEYS)} come together or not at all")
    for key in _KEYS:
        if not isinstance(item[key], list):
            raise ConvertError("expected a list of numbers", key)
    experts = _experts(item)
    taken = _KEYS if experts is None else (*_KEYS, "routed_experts")
    trace = make_token_trace(
        item["prompt_token_ids"],
        item["generation_token_ids"],
        item["generation_log_probs"],
        experts,
    )
    return trace, {key: value for key, value in item.items() if key not in taken}


def token_keys(trace: pb.TokenTrace) -> dict[str, Any]:
    """The token keys of NeMo Gym for a trace."""
    keys: dict[str, Any] = {
        "prompt_token_ids": trace.prompt_token_ids[:],
        "generation_token_ids": trace.generation_token_ids[:],
        "generation_log_probs": trace.generation_logprobs[:],
    }
    if trace.HasField("routed_experts"):
        experts = trace.routed_experts
        # Older engines report lists (tokens x layers x experts), not base64, which never begins so.
        keys["routed_experts"] = load_text(experts) if experts.startswith("[") else experts
    return keys


def trace_from_chat(
    chat: dict[str, Any],
    choice: dict[str, Any],
    message: dict[str, Any],
    prompt_token_ids: Sequence[int] | None = None,
) -> pb.TokenTrace:
    """Finds the tokens of a chat completion; raises ConvertError if they are incomplete or contradict.

    The sources, best first: the three arrays of NeMo Gym on the message; `prompt_token_ids` of the completion
    with `token_ids` of the choice; "token_id:N" strings in the logprobs, with prompt ids from /tokenize.
    """
    prompt = chat.get("prompt_token_ids")
    ids = choice.get("token_ids")
    for name, value in (("prompt_token_ids", prompt), ("choices[0].token_ids", ids)):
        if not isinstance(value, list | None):
            raise ConvertError("expected a list of numbers", name)
    if any(message.get(key) is not None for key in _KEYS):
        try:
            trace, _ = split_token_keys(message)
        except ConvertError as error:
            raise error.under("choices[0].message") from None
        assert trace is not None
        _agree("prompt_token_ids", trace.prompt_token_ids[:], prompt, prompt_token_ids)
        _agree("generation_token_ids", trace.generation_token_ids[:], ids)
        return trace
    if (prompt is None) != (ids is None):
        there, missing = "prompt_token_ids", "choices[0].token_ids"
        if prompt is None:
            there, missing = missing, there
        raise ConvertError(
            f"the endpoint returned {there} but not {missing}; it has to return both or neither"
        )
    packed = _packed_logprobs(choice)
    if prompt is not None and ids is not None:
        _agree("prompt_token_ids", prompt, prompt_token_ids)
        generated = pack_ids(ids, "choices[0].token_ids")
        if packed.ids is not None and packed.ids != generated:
            raise _disagreement("token_ids", len(ids), len(packed.ids) // ID_BYTES)
        return _trace(pack_ids(prompt, "prompt_token_ids"), generated, packed.logprobs, _experts(choice))
    if packed.ids is None:
        raise ConvertError(
            'expected tokens of the form "token_id:N"; the engine has to honour '
            "return_tokens_as_token_ids or return_token_ids",
            "choices[0].logprobs.content",
        )
    if prompt_token_ids is None:
        raise ConvertError("the engine returned no ids of the prompt, and none came from /tokenize")
    return _trace(pack_ids(prompt_token_ids, "tokens"), packed.ids, packed.logprobs)


def _experts(holder: dict[str, Any]) -> str | None:
    """The routed experts as text: base64 as it is, the older lists as JSON."""
    experts = holder.get("routed_experts")
    if isinstance(experts, list):
        return text_of(experts)
    return experts if isinstance(experts, str) and not experts.startswith("[") else None


def _packed_logprobs(choice: dict[str, Any]) -> PackedLogprobs:
    """The logprobs of a choice, whichever form they came in."""
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, PackedLogprobs):
        return logprobs
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    where = "choices[0].logprobs.content"
    if not isinstance(entries, list):
        raise ConvertError(
            "the endpoint returned no logprobs; token ids need logprobs=true and an engine that honours it",
            where,
        )
    try:
        values = [entry["logprob"] for entry in entries]
        tokens = [entry["token"] for entry in entries]
    except (KeyError, TypeError):
        raise ConvertError("expected objects with token and logprob", where) from None
    return pack_logprobs(tokens, values, where)


def pack_logprobs(tokens: list[Any], values: list[Any], where: str) -> PackedLogprobs:
    """The logprobs of tokens of either form; `where` they are, for a ConvertError."""
    named = _ids_of(tokens)
    return PackedLogprobs(None if named is None else pack_ids(named, where), pack_floats(values, where))


def _trace(prompt: bytes, generated: bytes, logprobs: bytes, experts: str | None = None) -> pb.TokenTrace:
    """The trace of packed numbers, put together on the wire: they are moved as they are."""
    if len(generated) != len(logprobs):
        raise ConvertError(
            f"{len(generated) // ID_BYTES} generation_token_ids but {len(logprobs) // ID_BYTES} logprobs; "
            "the lengths must be equal"
        )
    trace = pb.TokenTrace()
    fields = (delimited(_PROMPT, prompt), delimited(_GENERATED, generated), delimited(_LOGPROBS, logprobs))
    trace.MergeFromString(b"".join(fields))
    if experts is not None:
        trace.routed_experts = experts
    return trace


def _ids_of(tokens: list[Any]) -> list[int] | None:
    """The ids in "token_id:N" strings; None if the tokens have another form."""
    try:
        # One pass in C: 32k tokens cost 1 ms this way and 6 ms one by one.
        text = ",".join(tokens)
        ids = orjson.loads(f"[{text.replace(_TOKEN_ID, '')}]")
    except (TypeError, ValueError):
        return None
    return ids if text.count(_TOKEN_ID) == len(ids) == len(tokens) else None


def _agree(name: str, ids: Sequence[int], *others: Sequence[int] | None) -> None:
    for other in others:
        if other is not None and list(ids) != list(other):
            raise _disagreement(name, len(ids), len(other))


def _disagreement(name: str, one: int, other: int) -> ConvertError:
    return ConvertError(
        f"two sources of {name} disagree ({one} and {other} ids); the sequence cannot be trained on"
    )

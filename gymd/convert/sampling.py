"""How an answer was sampled, told from the request that the engine got."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymapi.v1 import responses_pb2 as pb

__all__ = ["tell_sampling"]

_LIMIT = 1 << 63  # of the int64 fields; no number beyond it means anything here
_ON_THE_RESPONSE = ("temperature", "top_p")
_WHOLE = ("top_k", "seed")
_FRACTIONS = ("min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")


def tell_sampling(response: pb.Response, sent: Mapping[str, Any]) -> None:
    """Makes a response and its token trace, if it has one, say how it was sampled.

    Args:
        response: the answer. What it says of temperature and top-p is replaced, for an override may have
            replaced what the task asked for.
        sent: the request's fields under vLLM's names. What is no number there stays unsaid.
    """
    for name in _ON_THE_RESPONSE:
        if (number := _number(sent.get(name))) is not None:
            setattr(response, name, number)
        else:
            response.ClearField(name)
    if not response.output or not response.output[-1].HasField("token_trace"):
        return
    told = pb.SamplingParams()
    for name in (*_FRACTIONS, *_WHOLE):
        number = _number(sent.get(name))
        if name in _WHOLE and number is not None:
            number = int(number) if number == int(number) else None
        if number is None or (name == "seed" and number < 0):  # -1: the engine chooses one
            continue
        setattr(told, name, number)
    if told.ListFields():
        response.output[-1].token_trace.sampling.CopyFrom(told)


def _number(value: Any) -> int | float | None:
    """A value if it is a number that a field can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_LIMIT <= value < _LIMIT else None

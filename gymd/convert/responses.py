"""The Responses API: OpenAI JSON to messages and back.

The pair of functions of each type is an identity: `x_to_json(x_from_json(obj)) == obj`, also for nulls,
unknown keys and types, large integers, and 1 against 1.0. Two exceptions: token logprobs are float32 in
`TokenTrace`, and NaN and infinity, which are no JSON, have no form inside opaque values. Objects are plain
dicts and lists, as a JSON parser makes them; the result shares no data with its source.
"""

from __future__ import annotations

from typing import Any

from gymapi.v1 import responses_pb2 as pb
from gymd.convert._read import read_message
from gymd.convert._write import write_message

__all__ = [
    "item_from_json",
    "item_to_json",
    "params_from_json",
    "params_to_json",
    "response_from_json",
    "response_to_json",
    "tool_from_json",
    "tool_to_json",
    "usage_from_json",
    "usage_to_json",
]


def params_from_json(obj: dict[str, Any]) -> pb.ResponseCreateParams:
    """Reads create params; raises ConvertError if `obj` is no object."""
    return read_message(pb.ResponseCreateParams, obj)


def params_to_json(message: pb.ResponseCreateParams) -> dict[str, Any]:
    """Writes create params."""
    return write_message(message)


def response_from_json(obj: dict[str, Any]) -> pb.Response:
    """Reads a Response object; raises ConvertError if `obj` is no object."""
    return read_message(pb.Response, obj)


def response_to_json(message: pb.Response) -> dict[str, Any]:
    """Writes a Response object."""
    return write_message(message)


def item_from_json(obj: dict[str, Any]) -> pb.Item:
    """Reads one conversation item; an object of unknown type becomes `unknown`."""
    return read_message(pb.Item, obj)


def item_to_json(message: pb.Item) -> dict[str, Any]:
    """Writes one conversation item."""
    return write_message(message)


def tool_from_json(obj: dict[str, Any]) -> pb.Tool:
    """Reads one tool definition; an object of unknown type becomes `unknown`."""
    return read_message(pb.Tool, obj)


def tool_to_json(message: pb.Tool) -> dict[str, Any]:
    """Writes one tool definition."""
    return write_message(message)


def usage_from_json(obj: dict[str, Any]) -> pb.Usage:
    """Reads a usage object."""
    return read_message(pb.Usage, obj)


def usage_to_json(message: pb.Usage) -> dict[str, Any]:
    """Writes a usage object."""
    return write_message(message)

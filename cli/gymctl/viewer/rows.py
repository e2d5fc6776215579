"""What a row says: the few numbers that the index keeps of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, TypeGuard

import orjson

__all__ = [
    "FAILED",
    "IMAGES",
    "MALFORMED",
    "OVERSIZE",
    "PARAMS",
    "REASONING",
    "RESPONSE",
    "TOKENS",
    "TOKEN_KEYS",
    "TOO_DEEP",
    "UNFINISHED",
    "Facts",
    "RowProblem",
    "facts_of",
    "items_of",
    "mapping",
    "parse",
    "text_of",
]

# Flags of a row.
MALFORMED, UNFINISHED, OVERSIZE, FAILED, RESPONSE, REASONING, IMAGES, TOKENS = (1 << bit for bit in range(8))

PARAMS = "responses_create_params"
TOKEN_KEYS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")
"""What a model server adds to the last item of each of its answers, when it was asked for token ids."""

TOO_DEEP = "JSON nested too deeply to be read"

UNKNOWN = -1
_MOST = 2**31 - 1
_NAME_LENGTH = 200

Facts = tuple[int, float, float, int, int, int, int, int, int, str, str, int, int, int]
"""flags, reward, seconds, input tokens, output tokens, turns, tool calls, tool errors, tools, agent, outcome,
task, task index, rollout index. Numbers that are not there are -1, or NaN for reward and seconds."""


class RowProblem(ValueError):
    """A line is no row; the text says why."""


def parse(line: bytes) -> dict[str, Any]:
    """The object of a line. NaN, infinities and lone surrogates pass, for Python writes them.

    Raises:
        RowProblem: the line holds no JSON object.
    """
    line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        row = _parse_leniently(line, problem)
    if not isinstance(row, dict):
        raise RowProblem(f"not a JSON object but {_KINDS.get(type(row), 'a number')}")
    return row


_KINDS = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}


def _parse_leniently(line: bytes, problem: orjson.JSONDecodeError) -> Any:
    try:
        return json.loads(line.decode())
    except json.JSONDecodeError as better:
        what = better.msg[:1].lower() + better.msg[1:].removesuffix(" at")
        raise RowProblem(f"no valid JSON: {what} at column {better.pos + 1}") from None
    except UnicodeDecodeError as better:
        raise RowProblem(f"not UTF-8: byte {better.start + 1} of the line") from None
    except RecursionError:
        raise RowProblem(TOO_DEEP) from None
    except ValueError:  # a number with thousands of digits
        raise RowProblem(f"no valid JSON: {problem.msg}") from None


def facts_of(row: Mapping[str, Any]) -> Facts:
    """The facts of a task or a rollout; a row of another kind just has few."""
    run, params, failure = mapping(row.get("rollout")), mapping(row.get(PARAMS)), row.get("failure")
    response = mapping(row.get("response"))
    usage = mapping(response.get("usage"))
    asked = items_of(params.get("input"))
    flags, turns, calls = _of_items(asked)
    if response:
        answered, turns, calls = _of_items(items_of(response.get("output")))
        # What the policy was shown counts only for its pictures.
        flags = RESPONSE | answered | flags & IMAGES
    else:
        turns = len(asked) or int("input" in params)
    index = _count(row.get("_ng_task_index"))
    tools = params.get("tools")
    return (
        flags | FAILED if failure else flags,
        _real(row.get("reward")),
        _real(mapping(run.get("timing")).get("seconds")),
        _count(usage.get("input_tokens")),
        _count(usage.get("output_tokens")),
        _count(run.get("model_calls"), turns),
        _count(run.get("tool_calls"), calls),
        _count(run.get("tool_errors")),
        len(tools) if isinstance(tools, list) else 0,
        _name(run.get("agent")) or _name(mapping(row.get("agent_ref")).get("name")),
        _name(run.get("outcome")) or (_name(mapping(failure).get("class")) or "failed" if failure else ""),
        _task(params, index),
        index,
        _count(row.get("_ng_rollout_index")),
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items_of(value: Any) -> list[Mapping[str, Any]]:
    """The items of an `input` or `output`, where it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(content: Any) -> str:
    """The text of a message's content, or of a tool's output."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part if isinstance(part, str) else mapping(part).get("text") for part in content)
    return "\n".join(part for part in parts if isinstance(part, str))


def _of_items(items: Iterable[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Flags, turns of the model, and calls that the items show."""
    flags = turns = calls = 0
    sampling = False
    for item in items:
        kind = item.get("type")
        kind = kind if isinstance(kind, str) else ""
        if kind == "reasoning":
            flags |= REASONING
        elif kind.endswith("_call"):
            calls += 1
        if kind == "image_generation_call" or _has_image(item):
            flags |= IMAGES
        if "generation_token_ids" in item:
            flags |= TOKENS
        sampled = not kind.endswith("_output")
        turns += sampled and not sampling
        sampling = sampled
    return flags, turns, calls


def _has_image(item: Mapping[str, Any]) -> bool:
    for key in ("content", "output"):
        parts = item.get(key)
        if isinstance(parts, list) and any(mapping(part).get("type") == "input_image" for part in parts):
            return True
    return False


def _task(params: Mapping[str, Any], index: int) -> int:
    """Equal for the repeats of a task; 0: the row has no task.

    The index alone would mix the tasks of different files, the params alone those with other differences.
    """
    if not params and index == UNKNOWN:
        return 0
    try:
        content = orjson.dumps(params)
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        content = json.dumps(params).encode()
    digest = blake2b(b"%d|%b" % (index, content), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def _name(value: Any) -> str:
    return value[:_NAME_LENGTH] if isinstance(value, str) else ""


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float)


def _real(value: Any) -> float:
    if not _is_number(value):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _count(value: Any, default: int = UNKNOWN) -> int:
    return min(value, _MOST) if isinstance(value, int) and value >= 0 else default

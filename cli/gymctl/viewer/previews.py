"""What is sent of a row: a preview for the list, and the row itself without its bulk."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import orjson

from gymctl.viewer.lines import MAX_ROW_BYTES
from gymctl.viewer.rows import PARAMS, TOKEN_KEYS, TOO_DEEP, RowProblem, items_of, mapping, parse, text_of

__all__ = ["dump_json", "preview", "shown_row"]

_PREVIEW_LENGTH = 240
_RAW_LENGTH = 20_000
_SCANNED_LENGTH = 4 * _PREVIEW_LENGTH


def preview(line: bytes, length: int) -> dict[str, str]:
    """`task`, the last thing the user said; `answer`, the last thing the policy did; `problem`."""
    try:
        row = _parse_whole(line, length)
    except RowProblem as problem:
        start = line[:_SCANNED_LENGTH].decode(errors="replace")
        return {"task": _short(start), "problem": str(problem)}
    found = {}
    params = mapping(row.get(PARAMS))
    if asked := _last_question(params.get("input")) or text_of(params.get("instructions")):
        found["task"] = _short(asked)
    if answered := _last_answer(mapping(row.get("response"))):
        found["answer"] = _short(answered)
    if failure := row.get("failure"):
        found["problem"] = _short(
            str(mapping(failure).get("message") or mapping(failure).get("reason") or "failed")
        )
    return found


def shown_row(line: bytes, length: int) -> bytes:
    """`{"row": ...}` with token ids replaced by how many there are, or `{"problem", "raw"}`, as JSON."""
    try:
        row = _parse_whole(line, length)
    except RowProblem as problem:
        return dump_json({"problem": str(problem), "raw": line[:_RAW_LENGTH].decode(errors="replace")})
    for items in (mapping(row.get(PARAMS)).get("input"), mapping(row.get("response")).get("output")):
        for item in items_of(items):
            _count_tokens(item)
    try:
        return dump_json({"row": row})
    except RecursionError:
        return dump_json({"problem": TOO_DEEP, "raw": line[:_RAW_LENGTH].decode(errors="replace")})


def _parse_whole(line: bytes, length: int) -> dict[str, Any]:
    if length > len(line):
        raise RowProblem(f"too long to show: {length >> 20:,} MiB, at most {MAX_ROW_BYTES >> 20} are read")
    try:
        return parse(line)
    except RecursionError:
        raise RowProblem(TOO_DEEP) from None


def _last_question(asked: Any) -> str:
    if isinstance(asked, str):
        return asked
    items = items_of(asked)
    users = (item for item in reversed(items) if item.get("role") == "user")
    return next((text for item in users if (text := text_of(item.get("content")))), "") or next(
        (text for item in items if (text := text_of(item.get("content")))), ""
    )


def _last_answer(response: Mapping[str, Any]) -> str:
    for item in reversed(items_of(response.get("output"))):
        kind = item.get("type")
        if kind == "message" and (text := text_of(item.get("content"))):
            return _without_thought(text)
        if isinstance(kind, str) and kind.endswith("_call"):
            name, arguments = item.get("name"), str(item.get("arguments") or "")
            return f"{name}({arguments[:_SCANNED_LENGTH]})" if name else kind.replace("_", " ")
    return ""


def _without_thought(text: str) -> str:
    """The answer behind the thoughts that a model without a reasoning parser leaves in its text."""
    _, mark, answer = text.partition("</think>")
    return answer if mark and text.lstrip().startswith("<think>") else text


def _short(text: str) -> str:
    short = " ".join(text[:_SCANNED_LENGTH].split())
    return short if len(short) <= _PREVIEW_LENGTH else short[: _PREVIEW_LENGTH - 1] + "…"


def _count_tokens(item: Any) -> None:
    """Replaces lists of token ids, which are most of a row's bytes and nobody reads, by their length."""
    for key in TOKEN_KEYS:
        value = item.get(key)
        if isinstance(value, list | str):
            item[key] = {"count": len(value)}
            if key == "generation_log_probs" and (mean := _mean(value)) is not None:
                item[key]["mean"] = mean


def _mean(values: Any) -> float | None:
    try:
        mean = math.fsum(values) / len(values)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None
    return mean if math.isfinite(mean) else None


def dump_json(value: Any) -> bytes:
    """JSON that a browser can read, whatever Python read.

    Raises:
        RecursionError: it is nested too deeply.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, or deep nesting
        return json.dumps(_without_constants(value)).encode()


def _without_constants(value: Any) -> Any:
    """NaN and infinities as text: browsers take JSON at its word."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_without_constants(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_constants(item) for key, item in value.items()}
    return value

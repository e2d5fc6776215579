"""Whether a line is a task: a quick yes for the usual forms, the strict check for everything else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import orjson

__all__ = ["AGENT_REF", "PARAMS", "check_line", "is_usual", "read_usual"]

PARAMS = "responses_create_params"
AGENT_REF = "agent_ref"

# Readers and writers of JSON give up at depths of their own, the first somewhat below a thousand.
_MOST_LEVELS = 500
_MOST_DIGITS = 300

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_CHOICES = frozenset({"none", "auto", "required"})
_STRINGS = frozenset({"model", "user", "instructions", "truncation", "service_tier"})
_TEXT_PART_KEYS = {"type", "text"}
_CALL_KEYS = frozenset({"type", "call_id", "name", "arguments", "id", "status"})
_NEEDED_OF_CALL = frozenset({"type", "call_id", "name", "arguments"})
_OUTPUT_KEYS = frozenset({"type", "call_id", "output", "id", "status"})
_NEEDED_OF_OUTPUT = frozenset({"type", "call_id", "output"})
_NULLABLE = ("id", "status")
_TYPES_OF_TOOL = (("parameters", dict), ("description", str), ("strict", bool))
_TOOL_KEYS = frozenset({"type", "name", "description", "parameters", "strict"})


def read_usual(line: bytes) -> dict[str, Any] | None:
    """The row of a line that is a task beyond doubt; None: the strict check has to say."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(row) is not dict or not is_usual(row.get(PARAMS)):
        return None
    if AGENT_REF in row and not _is_reference(row[AGENT_REF]):
        return None
    if "_ng_task_index" in row or "_ng_rollout_index" in row:
        return None  # seldom there, and the strict reader has rules for them
    return row if _is_shallow(line, row) else None


def check_line(line: bytes) -> tuple[dict[str, Any], list[str]]:
    """The row of a line, and everything that is wrong with it, by the strict rules; {} if it is no row."""
    # Here, because most inputs have no line that needs them, and both are large.
    from gymd.client.rows import RowError, parse_row
    from gymd.convert import validate_params

    try:
        text = line.decode()
        row = parse_row(text)
    except UnicodeDecodeError as problem:
        return {}, [f"the line is no UTF-8 (byte {problem.start + 1})"]
    except RowError as problem:
        return {}, [str(problem)]
    if problems := [f"{PARAMS}.{found}" for found in validate_params(row.params)]:
        return {}, problems
    values = json.loads(text, parse_int=_integer_of, parse_float=_float_of)
    if not _is_shallow(line, values):
        return {}, [f"the JSON is nested more than {_MOST_LEVELS} levels deep"]
    return values, []


def _integer_of(text: str) -> int | float | None:
    """A whole number as orjson has it; None if no float is so large."""
    value = int(text) if len(text) < _MOST_DIGITS else math.inf
    if -(2**63) <= value < 2**64:
        return value
    return float(value) if value != math.inf else None


def _float_of(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def is_usual(params: Any) -> bool:
    """Whether create params have a form that the strict check accepts, as far as a quick look can tell."""
    if type(params) is not dict or not _is_input(params.get("input")):
        return False
    for key, value in params.items():
        test = _TESTS.get(key)
        if not (test(value) if test else key in _STRINGS and type(value) is str):
            return False
    return params.get("tool_choice") != "required" or bool(params.get("tools"))


def _is_shallow(line: bytes, row: dict[str, Any]) -> bool:
    if line.count(b"{") + line.count(b"[") < _MOST_LEVELS:
        return True
    level: list[Any] = [row]
    for _ in range(_MOST_LEVELS):
        level = [
            part
            for one in level
            for part in (one.values() if type(one) is dict else one)
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return True
    return False


def _is_input(value: Any) -> bool:
    if type(value) is str:
        return value != ""
    if type(value) is not list or not value:
        return False
    for item in value:
        if type(item) is not dict:
            return False
        if "role" not in item:
            if not _is_call_or_output(item):
                return False
            continue
        if len(item) != 2 and not (len(item) == 3 and item.get("type") == "message"):
            return False
        content = item.get("content")
        if type(content) is not str and not _is_text_parts(content):
            return False
        if type(role := item["role"]) is not str or role not in _ROLES:
            return False
    return True


def _is_text_parts(content: Any) -> bool:
    return type(content) is list and all(
        type(part) is dict
        and part.keys() == _TEXT_PART_KEYS
        and part["type"] == "input_text"
        and type(part["text"]) is str
        for part in content
    )


def _is_call_or_output(item: dict[str, Any]) -> bool:
    kind, keys = item.get("type"), item.keys()
    if kind == "function_call":
        fits = _NEEDED_OF_CALL <= keys <= _CALL_KEYS
    elif kind == "function_call_output":
        fits = _NEEDED_OF_OUTPUT <= keys <= _OUTPUT_KEYS
    else:
        return False
    return fits and all(
        type(value) is str or (value is None and key in _NULLABLE) for key, value in item.items()
    )


def _are_tools(value: Any) -> bool:
    if type(value) is not list:
        return False
    names = set()
    for tool in value:
        if type(tool) is not dict or not tool.keys() <= _TOOL_KEYS or tool.get("type") != "function":
            return False
        if type(name := tool.get("name")) is not str or not name or name in names:
            return False
        for key, kind in _TYPES_OF_TOOL:
            if (part := tool.get(key)) is not None and type(part) is not kind:
                return False
        names.add(name)
    return True


def _is_reference(value: Any) -> bool:
    return type(value) is dict and type(name := value.get("name")) is str and name != ""


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and low <= value <= high


def _integer(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


_TESTS: Mapping[str, Callable[[Any], bool]] = {
    "input": lambda value: True,  # looked at first
    "tools": _are_tools,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "max_output_tokens": _integer(1, 2**31),
    "max_tool_calls": _integer(0, 2**31),
    "top_logprobs": _integer(0, 20),
    "parallel_tool_calls": lambda value: type(value) is bool,
    "store": lambda value: type(value) is bool,
    "tool_choice": lambda value: type(value) is str and value in _CHOICES,
    "metadata": lambda value: type(value) is dict and all(type(part) is str for part in value.values()),
}

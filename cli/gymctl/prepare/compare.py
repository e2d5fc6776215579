"""Compares metrics with those that were written before, with NeMo Gym's tolerances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gymctl.prepare.measure import TOKENS, TOOL_TOKENS
from gymctl.prepare.metrics import EXAMPLES, TOKENIZER

__all__ = ["differences"]

# How far two numbers may be apart: files are rounded to two digits after the point, small numbers to three.
_TOLERANCE = 5e-3
_SMALL_TOLERANCE = 5e-4
# Rounding puts a number up to exactly the tolerance away, and the difference of floats a little further.
_SLACK = 1e-9

# What a file says about the dataset itself, and what earlier releases of NeMo Gym estimated.
_NO_METRICS = frozenset(
    {
        "name",
        "type",
        "jsonl_fpath",
        "num_repeats",
        "start_idx",
        "end_idx",
        "license",
        "source",
        "gitlab_identifier",
        "huggingface_identifier",
        "prompt_config",
        "prepare_script",
    }
)
_ESTIMATED = "Median"


def differences(old: Any, new: Mapping[str, Any]) -> list[str]:
    """What the old metrics say otherwise than the new ones, one line each. New metrics may say more.

    With another tokenizer that is one difference, and its counts are not compared.
    """
    if not isinstance(old, dict) or EXAMPLES not in old:
        return [f"the file holds no metrics: {EXAMPLES!r} is missing"]
    # A row may have a key of the same name, whose statistics take its place.
    ignored = {key for key in _NO_METRICS if not _is_block(old.get(key))}
    if old.get(TOKENIZER) != new.get(TOKENIZER):
        ignored |= {TOKENS, TOOL_TOKENS}
    return list(_compare({key: value for key, value in old.items() if key not in ignored}, new, ""))


def _compare(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, Mapping):
        for key, value in old.items():
            here = f"{path}.{key}" if path else str(key)
            if key in new:
                yield from _compare(value, new[key], here)
            elif key != _ESTIMATED:
                yield f"{here}: was {_show(value)}, is gone"
    elif _is_number(old) and _is_number(new):
        if not _is_close(old, new):
            yield f"{path}: was {old}, is {new}"
    elif old != new:
        yield f"{path}: was {_show(old)}, is {_show(new)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and ("unique_count" in value or "Average" in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_close(one: float, other: float) -> bool:
    if one == other:
        return True
    scale = max(abs(one), abs(other))
    tolerance = _TOLERANCE if scale >= 1 else _SMALL_TOLERANCE
    return abs(one - other) <= tolerance + _SLACK * scale


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."

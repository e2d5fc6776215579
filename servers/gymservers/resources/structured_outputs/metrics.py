"""Mean rewards by what the rows say about themselves, named as NeMo Gym names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["SLICES", "slices_of"]

SLICES: Mapping[str, str] = {
    "schema_type": "",
    "problem_type": "",
    "schema_repr": "repr_",
} | {
    name: f"{name}_"
    for name in (
        "response_mode",
        "tool_schema_mode",
        "tool_choice",
        "parallel_tool_calls",
        "num_tools",
        "has_distractors",
        "instruction_layout",
        "instruction_detail_level",
        "system_instruction_style",
        "tool_name_style",
        "distractor_style",
        "tool_union_mode",
    )
}
"""Field of a row, and what stands before its value in a metric's name."""


def slices_of(extras: Mapping[str, Any]) -> Iterable[str]:
    """`mean/reward_<value>` for the value of each field that a rollout has."""
    for name, prefix in SLICES.items():
        if (value := extras.get(name)) not in (None, ""):
            yield f"mean/reward_{prefix}{_text(value)}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

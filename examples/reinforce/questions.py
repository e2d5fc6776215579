"""The task: ten choices in an order that is new every time, so the right letter depends on the text."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["LETTERS", "row"]

LETTERS = "ABCDEFGHIJ"
_CAPITALS = {
    "Australia": "Canberra",
    "Brazil": "Brasilia",
    "Canada": "Ottawa",
    "Kenya": "Nairobi",
    "Norway": "Oslo",
    "Peru": "Lima",
}
_OTHERS = ["Sydney", "Toronto", "Istanbul", "Ankara"]


def row(rng: random.Random) -> dict[str, Any]:
    """A dataset row of mcqa. `expected_answer` is for the verifier; the policy only ever sees the input."""
    country = rng.choice(list(_CAPITALS))
    choices = [*_CAPITALS.values(), *_OTHERS]
    rng.shuffle(choices)
    lines = [f"What is the capital of {country}?"]
    lines += [f"{letter}: {choice}" for letter, choice in zip(LETTERS, choices, strict=True)]
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "\n".join(lines)}]},
        "options": [{letter: choice} for letter, choice in zip(LETTERS, choices, strict=True)],
        "expected_answer": LETTERS[choices.index(_CAPITALS[country])],
        "grading_mode": "strict_single_letter_boxed",
    }

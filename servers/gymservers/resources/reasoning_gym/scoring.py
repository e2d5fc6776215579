"""Scores answers with the library. Runs in worker processes only: importing it takes seconds.

The score is the library's own, from 0 to 1. What it raises has two causes that must not be mixed up: an
answer that its scorer did not expect is a wrong answer and scores 0.0; a row that it cannot work with is a
mistake in the data, whatever the answer.
"""

from __future__ import annotations

import cmath
import difflib
import functools
import importlib
import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import sympy

from gymservers.resources.reasoning_gym.expressions import check_formula, integer_formula, literal
from gymservers.resources.reasoning_gym.library import DATASETS, MIX, create_dataset
from gymservers.resources.reasoning_gym.verdicts import CONFIG_KEY, BadTask, Scored

__all__ = ["WITHOUT_ANSWER", "score"]

WITHOUT_ANSWER = frozenset({"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"})
"""Data sets whose rows have no answer of their own: their scorers judge by the puzzle alone."""

_ERROR_CHARS = 200

# JSON has no tuples; these scorers compare with one.
_TUPLES = {"arc_agi": "output", "rearc": "output"}

# Where the library evaluates answers: module, name in it, and what stands there instead.
_EVALUATED: Mapping[str, Callable[[str], Any]] = {
    "algorithmic.binary_matrix": literal,
    "algorithmic.number_sorting": literal,
    "algorithmic.spiral_matrix": literal,
    "algorithmic.string_insertion": literal,
    "arithmetic.bitwise_arithmetic": integer_formula,
    "games.n_queens": literal,
}
_PARSED: Mapping[str, str] = {
    "algebra.intermediate_integration": "sympy",
    "algebra.polynomial_multiplication": "sp",
    "algebra.simple_integration": "sympy",
    "games.countdown": "parse_expr",
    "games.puzzle24": "parse_expr",
}


def score(question: str, gold: str | None, metadata: dict[str, Any], answer: str) -> Scored | BadTask:
    """Scores one answer.

    Args:
        gold: the row's own answer.
        metadata: of the row; its source_dataset names the data set.
        answer: what the model answered.
    """
    name = metadata["source_dataset"]
    if name not in DATASETS or name == MIX:
        return BadTask(_unknown(name))
    if gold is None and name not in WITHOUT_ANSWER:
        return BadTask(f"the row has no answer, and {name} judges by it")
    try:
        scorer = _scorer(name, json.dumps(metadata.get(CONFIG_KEY) or {}, sort_keys=True))
    except Exception as failure:
        return BadTask(f"its {CONFIG_KEY} is none of {name}: {type(failure).__name__}: {failure}")
    kept = _Metadata(metadata)
    if name in _TUPLES and isinstance(metadata.get(_TUPLES[name]), list):
        kept[_TUPLES[name]] = tuple(tuple(row) for row in metadata[_TUPLES[name]])
    entry = {"question": question, "answer": gold, "metadata": kept}
    try:
        value = float(scorer(answer=answer, entry=entry))
        scored = Scored(_CORRECTED[name](value, answer, str(gold)) if name in _CORRECTED else value)
    except MemoryError:
        raise
    except Exception as failure:
        scored = Scored(0.0, f"{type(failure).__name__}: {failure}"[:_ERROR_CHARS])
    if kept.missed is not None:
        return BadTask(f"its metadata has no {kept.missed!r}, which {name} needs")
    if scored.error and gold is not None and not _can_score(scorer, gold, entry):
        return BadTask(f"{name} cannot score even the row's own answer: {scored.error}")
    return scored


class _Metadata(dict[str, Any]):
    """The row's metadata; remembers what was missed, because some scorers swallow the error."""

    missed: str | None = None

    def __missing__(self, key: str) -> Any:
        self.missed = str(key)
        raise KeyError(key)


def _can_score(scorer: Callable[..., float], answer: str, entry: dict[str, Any]) -> bool:
    try:
        scorer(answer=answer, entry=entry)
    except Exception:
        return False
    return True


def _unknown(name: str) -> str:
    if name == MIX:
        return "composite is a mix of data sets; the row must name the one that it comes from"
    close = difflib.get_close_matches(name, DATASETS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"reasoning-gym has no data set {name!r}{hint}"


@functools.lru_cache(256)
def _scorer(name: str, config: str) -> Callable[..., float]:
    """The scorer of a data set. Made once: some read files for half a second."""
    dataset = create_dataset(name, **json.loads(config))
    scorer: Callable[..., float] = dataset.score_answer
    return scorer


# Some scorers give the full score to wrong answers.


def _halting(value: float, answer: str, gold: str) -> float:
    """To the library every text is true, `False` and nonsense too, so that any answer is right."""
    return float(answer.strip().casefold() == gold.casefold())


def _coin_flip(value: float, answer: str, gold: str) -> float:
    """Part of the score is for the digits that agree, but `0` agrees with all probabilities."""
    if value < 1.0:
        return value
    given, right = (float(Fraction(text.replace(",", ""))) for text in (answer, gold))
    if abs(given - right) <= _COIN_TOLERANCE:
        return value
    sizes = len(f"{given:.10g}"), len(f"{right:.10g}")
    return min(sizes) / max(sizes)


def _complex(value: float, answer: str, gold: str) -> float:
    """To the library what is no number (`nan`) is not far from any."""
    given = DATASETS["complex_arithmetic"][0].parse_string_to_complex(answer)
    return 0.0 if given is not None and cmath.isnan(given) else value


def _sorting(value: float, answer: str, gold: str) -> float:
    """The same, number by number."""
    if not value:
        return value
    numbers = json.loads(answer.replace("'", '"'))  # as the library reads it
    return 0.0 if any(math.isnan(float(number)) for number in numbers) else value


# As the library has it.
_COIN_TOLERANCE = 1e-4
_CORRECTED: Mapping[str, Callable[[float, str, str], float]] = {
    "game_of_life_halting": _halting,
    "coin_flip": _coin_flip,
    "complex_arithmetic": _complex,
    "number_sorting": _sorting,
}


# The library evaluates some answers as Python.


def _guard_the_library() -> None:
    for place, function in _EVALUATED.items():
        # A name of the module hides the builtin one.
        vars(importlib.import_module(f"reasoning_gym.{place}"))["eval"] = function
    for place, name in _PARSED.items():
        module = importlib.import_module(f"reasoning_gym.{place}")
        setattr(module, name, _parse_formula if name == "parse_expr" else _GuardedSympy())


def _parse_formula(text: str, local_dict: dict[str, Any] | None = None) -> Any:
    check_formula(text, local_dict or ())
    return sympy.parse_expr(text, local_dict=local_dict)


class _GuardedSympy:
    """sympy as those modules see it."""

    parse_expr = staticmethod(_parse_formula)

    def __getattr__(self, name: str) -> Any:
        return getattr(sympy, name)


_guard_the_library()

"""math-verify, as NeMo Gym uses it. For worker processes only: this loads sympy, which takes seconds.

math-verify looks for a way to show that two answers are equal and gives up after some seconds; then they
count as different. Its own limits are alarm signals in wall-clock time, so a busy machine turns right answers
into wrong ones. Here the same limits are in CPU time. What they cannot end (one huge multiplication) the
caller kills with the process, and then nothing was decided.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable
from typing import Any, TypeVar

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from gymservers.resources.math_with_judge import two_stage

__all__ = ["grade", "without_delimiters"]

GOLD = (LatexExtractionConfig(),)
PREDICTION = (ExprExtractionConfig(), LatexExtractionConfig())
DIGITS = 6
"""Decimal places that count when one of the answers is a decimal number."""
READ_S = 5.0
"""CPU seconds for reading one text."""
COMPARE_S = 5.0
"""CPU seconds for one comparison."""
WRITE_S = 2.0
"""CPU seconds for writing one expression as text."""

T = TypeVar("T")

logging.getLogger("math_verify").setLevel(logging.CRITICAL)
two_stage.install()


def grade(expected: str, text: str) -> tuple[bool | None, str | None]:
    """Whether the answer in a text is the expected one, and that answer.

    Returns: None instead of a verdict if nothing can be read out of `expected`; None instead of an answer if
    none can be read out of `text`.

    Raises:
        MemoryError: the answer needs more than a worker may have.
    """
    # The parser complains about broken LaTeX on stderr, and models write a lot of it.
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
        golds = _read("\\boxed{" + without_delimiters(expected) + "}", GOLD)
        predictions = _read(text, PREDICTION)
        right = any(_same(gold, prediction) for gold, prediction in _pairs(golds, predictions))
        return (right if golds else None), _answer(golds, predictions)


def without_delimiters(text: str) -> str:
    r"""Takes `\(...\)` off, then `$...$`: math-verify does not read them inside a box."""
    text = text.strip()
    if text.startswith("\\(") and text.endswith("\\)"):
        text = text[2:-2].strip()
    if text.startswith("$") and text.endswith("$") and len(text) > 1:
        text = text[1:-1].strip()
    return text


def _read(text: str, targets: Any) -> list[Any]:
    """What math-verify reads: usually an expression and the text it was made from."""
    return _within(
        READ_S, list, lambda: list(parse(text, targets, parsing_timeout=None, raise_on_error=True))
    )


def _pairs(golds: list[Any], predictions: list[Any]) -> list[tuple[Any, Any]]:
    """What to compare: texts first, because expressions may be too large to be evaluated."""
    pairs = [(gold, prediction) for gold in golds for prediction in predictions]
    return sorted(pairs, key=lambda pair: not all(isinstance(one, str) for one in pair))


def _same(gold: Any, prediction: Any) -> bool:
    return _within(
        COMPARE_S,
        bool,
        lambda: bool(verify(gold, prediction, DIGITS, timeout_seconds=None, raise_on_error=True)),
    )


def _answer(golds: list[Any], predictions: list[Any]) -> str | None:
    """The form of the answer that equals one of the expected answer to the letter, else the first one."""
    wanted = {text.strip() for text in map(_text, golds) if text}
    texts = [text for text in map(_text, predictions) if text]
    return next((text for text in texts if text.strip() in wanted), texts[0] if texts else None)


def _text(value: Any) -> str:
    return _within(WRITE_S, str, lambda: str(value))


class _TooLong(BaseException):
    """The CPU time is over. No Exception, because sympy catches those and goes on."""


def _within(seconds: float, nothing: Callable[[], T], call: Callable[[], T]) -> T:
    """What the library returns, or nothing: it raised, or took longer than so many seconds of CPU time."""
    over = False

    def too_long(*_: object) -> None:
        if not over:
            raise _TooLong

    previous = signal.signal(signal.SIGPROF, too_long)
    try:
        try:
            # Once more each second, should somebody catch it after all.
            signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
            return call()
        finally:
            over = True  # an alarm that comes before this line is caught below, a later one does nothing
    except MemoryError:  # decides nothing
        raise
    except (Exception, _TooLong):
        over = True
        return nothing()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)

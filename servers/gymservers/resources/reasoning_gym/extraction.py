r"""Finds the answer in a text: the last `<answer>` element, else the first `\boxed{}`, else the whole text.

Plain searches in place of patterns: all of it is linear in the length of the text.
"""

from __future__ import annotations

import re

__all__ = ["extract_answer"]

_OPEN, _CLOSE = "<answer>", "</answer>"
_BOX = "\\boxed{"
_BRACE = re.compile(r"[{}]")


def extract_answer(text: str) -> str:
    """The answer, without white space around it; "" for an empty text."""
    answer = _last_element(text)
    if answer is None:
        answer = _first_box(text)
    return (text if answer is None else answer).strip()


def _last_element(text: str) -> str | None:
    """What stands in the last `<answer>` element that is closed; one inside another belongs to the outer."""
    answer, place = None, 0
    while (start := text.find(_OPEN, place)) >= 0:
        start += len(_OPEN)
        end = text.find(_CLOSE, start)
        if end < 0:
            break
        answer, place = text[start:end], end + len(_CLOSE)
    return answer


def _first_box(text: str) -> str | None:
    r"""What stands in the first `\boxed{}` that is not empty, up to its closing brace, else to the next."""
    place = 0
    while (start := text.find(_BOX, place)) >= 0:
        start += len(_BOX)
        end = text.find("}", start)
        if end < 0:
            return None
        if end > start:
            return text[start : _closing(text, start, end)]
        place = start
    return None


def _closing(text: str, start: int, otherwise: int) -> int:
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return otherwise

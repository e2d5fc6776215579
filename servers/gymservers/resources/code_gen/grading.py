"""Compares what a program printed or returned with what was expected. Pure functions.

Printed text: as many lines, white space around them and around the whole taken off; each line equal, or token
by token the same decimal numbers. Returned values: equal; or written as the same JSON; or, both taken as
numbers, close to each other.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

__all__ = [
    "Verdict",
    "compare_output",
    "compare_value",
    "grade_output",
    "grade_value",
    "malformed_json",
    "shortened",
]

_RELATIVE, _ABSOLUTE = 1e-5, 1e-8
"""How close two numbers must be: |a - b| <= absolute + relative * |b|, as numpy.allclose has it."""
_SHOWN = 300
_MOST_DIGITS = 50_000
_PLAIN_DIGITS = 4_000
"""Integers with more digits than Python converts without being told to."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an output is right, and if not, why.

    Attributes:
        right: whether it is.
        message: "" if it is; what is wrong.
        output: the wrong output, shortened.
    """

    right: bool
    message: str = ""
    output: str = ""


RIGHT = Verdict(True)


def grade_output(printed: bytes, expected: str, tolerance: float) -> Verdict:
    """Compares what a script printed; see compare_output."""
    return compare_output(printed.decode(errors="replace"), expected, tolerance)


def grade_value(returned: bytes, expected: str) -> Verdict:
    """Compares what a function returned, as the runner wrote it; `expected` is JSON."""
    try:
        return compare_value(decode_value(returned), json.loads(expected, parse_int=_integer))
    except (ValueError, ArithmeticError, RecursionError) as failure:
        return Verdict(False, "Wrong Answer", f"not comparable: {shortened(str(failure))}")


def malformed_json(arguments: str, expected: str) -> str:
    """Why a test of a function is no test: its arguments or its result are no JSON. "" if it is one."""
    try:
        for text in (*arguments.split("\n"), expected):
            json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError) as failure:
        return str(failure)
    return ""


def compare_output(printed: str, expected: str, tolerance: float = 0.0) -> Verdict:
    """Compares the text that a script printed with the expected text.

    Args:
        printed: all that it printed.
        expected: what it should have printed.
        tolerance: how far two numbers may be apart of which one has a point or an exponent, absolutely or in
            relation to the expected one; 0: not at all.
    """
    found, wanted = _lines(printed), _lines(expected)
    if len(found) != len(wanted):
        return Verdict(False, "Wrong answer: mismatched output length", shortened(printed))
    for number, (line, right) in enumerate(zip(found, wanted, strict=True)):
        if line != right and not _same_numbers(line.split(), right.split(), Decimal(str(tolerance))):
            message = f"Wrong answer at output_line_idx={number}: {shortened(line)} != {shortened(right)}"
            return Verdict(False, message, shortened(printed))
    return RIGHT


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(found: list[str], wanted: list[str], tolerance: Decimal) -> bool:
    if len(found) != len(wanted):
        return False
    try:
        pairs = [(Decimal(one), Decimal(other)) for one, other in zip(found, wanted, strict=True)]
        return all(
            one == other or (tolerance and _is_close(one, other, tolerance, token + right))
            for (one, other), token, right in zip(pairs, found, wanted, strict=True)
        )
    except ArithmeticError:  # no number; or one that cannot be compared (sNaN) or subtracted
        return False


def _is_close(found: Decimal, wanted: Decimal, tolerance: Decimal, text: str) -> bool:
    if not ("." in text or "e" in text.lower()) or not (found.is_finite() and wanted.is_finite()):
        return False
    return abs(found - wanted) <= tolerance * max(Decimal(1), abs(wanted))


def compare_value(returned: Any, expected: Any) -> Verdict:
    """Compares the value that a function returned (see `decode_value`) with the expected JSON value."""
    value = list(returned) if isinstance(returned, tuple) else returned
    if _equal(value, expected) or _same_json(value, expected) or _close(value, expected):
        return RIGHT
    return Verdict(False, "Wrong Answer", shortened(str(value)))


def _equal(value: Any, expected: Any) -> bool:
    return bool(value == expected)


def _same_json(value: Any, expected: Any) -> bool:
    try:
        return json.dumps(value) == json.dumps(expected)
    except (TypeError, ValueError, RecursionError):
        return False


def _close(value: Any, expected: Any) -> bool:
    try:
        one, other = float(value), float(expected)
    except (TypeError, ValueError, OverflowError):
        return False
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other
    return abs(one - other) <= _ABSOLUTE + _RELATIVE * abs(other)


class Unknown:
    """A value of a kind that JSON has nothing for; it equals nothing."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __str__(self) -> str:
        return f"<{self._kind}>"

    __repr__ = __str__


def decode_value(text: bytes) -> Any:
    """The value that a function returned, as the runner wrote it.

    Raises:
        ValueError, ArithmeticError, RecursionError: it is not of that form. The program may have written it
            itself.
    """
    return _decoded(json.loads(text, parse_int=_integer))


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind, content:
        case "tuple", list():
            return tuple(map(_decoded, content))
        case "dict", list():
            return _dictionary(content)
        case "Decimal", str():
            return Decimal(content)
        case "Fraction", str():
            # Not by Fraction's own reader, which takes 1e999999999 and works on it for ever.
            return Fraction(*map(_integer, content.split("/", 1)))
    return Unknown(str(content)[:_SHOWN])


def _dictionary(pairs: list[Any]) -> dict[Any, Any]:
    try:
        return {_decoded(key): _decoded(value) for key, value in pairs}
    except TypeError as failure:  # a key that cannot be one
        raise ValueError(str(failure)) from None


def _integer(digits: str) -> int:
    if len(digits) <= _PLAIN_DIGITS:
        return int(digits)
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(Decimal(digits))


def shortened(text: str) -> str:
    """At most 300 characters of a text: its beginning and its end."""
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN // 2]}...(truncated) ...{text[-_SHOWN // 2 :]}"

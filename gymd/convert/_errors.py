"""The error of this package, with the place in the JSON that caused it."""

from __future__ import annotations

__all__ = ["ConvertError"]


class ConvertError(ValueError):
    """A value cannot be converted; `path` names the place, such as `input[2].content`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path

    def under(self, step: str) -> ConvertError:
        """Returns the same error seen from one level further up: `step` is a key or an index like `[2]`."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return type(self)(self.problem, f"{step}{joint}{self.path}")

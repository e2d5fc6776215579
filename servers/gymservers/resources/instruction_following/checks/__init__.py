"""The instructions: what each of them checks, one module for each family of ids."""

from gymservers.resources.instruction_following.checks import (  # noqa: F401 - they fill CHECKS
    copying,
    count,
    custom,
    detectable,
    format,
    keywords,
    language,
    length,
    words,
)
from gymservers.resources.instruction_following.checks.registry import CHECKS, Instruction, parse_arguments

__all__ = ["CHECKS", "Instruction", "follow", "parse_arguments"]


def follow(text: str, instructions: list[Instruction]) -> list[bool]:
    """For each instruction whether the text follows it."""
    return [CHECKS[name].function(text, **arguments) for name, arguments in instructions]

"""Regular expressions that come with the rows (`template_metadata.output_regex`).

They are data, and a bad one runs for years: `(a+)+b` on forty letters. So each is looked at once. One whose
cost has a low bound for the text at hand runs here, compiled once. Any other runs in a worker process that is
killed after PATTERN_TIMEOUT_S; then the rollout is not scored, and its failure says why.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from gymd.sdk import cpu_bound
from gymservers.resources.mcqa.options import Options, latin_letters
from gymservers.resources.mcqa.pattern_cost import is_cheap

__all__ = ["PATTERN_TIMEOUT_S", "chosen_by_template", "last_capture"]

PATTERN_TIMEOUT_S = 2.0
"""What a pattern that may run for long gets, in a process of its own; then it is killed."""
CACHED_PATTERNS = 512


async def chosen_by_template(text: str, patterns: Sequence[str], options: Options) -> str | None:
    """The letter that the first matching pattern captures; None if none does.

    A pattern that is no regular expression counts as one that does not match.

    Raises:
        DeadlineExceeded: a pattern did not end in time.
    """
    for pattern in patterns:
        if is_cheap(pattern, text):
            captured = last_capture(pattern, text)
        else:
            captured = await last_capture_apart(pattern, text)
        letter = None if captured is None else _letter(captured, options)
        if letter is not None:
            return letter
    return None


def last_capture(pattern: str, text: str) -> str | None:
    """What the last match captures: its first group that is not empty, or all of it without groups."""
    compiled = _compiled(pattern)
    if compiled is None:
        return None
    last = None
    for last in compiled.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    if last is None:
        return None
    if not compiled.groups:
        return last[0]
    return next((group for group in last.groups() if group), "")


@cpu_bound(timeout_s=PATTERN_TIMEOUT_S)
def last_capture_apart(pattern: str, text: str) -> str | None:
    """last_capture in a worker process."""
    return last_capture(pattern, text)


def _letter(captured: str, options: Options) -> str | None:
    captured = latin_letters(captured.strip()).upper()
    # The pattern is trusted: a letter counts even if it is none of the options.
    if len(captured) == 1 and captured.isalpha():
        return captured
    return options.named(captured)


@functools.lru_cache(CACHED_PATTERNS)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return None

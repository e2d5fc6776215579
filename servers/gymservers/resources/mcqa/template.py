"""Regular expressions that come with the rows (`template_metadata.output_regex`); see gymd.sdk.patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gymd.sdk.patterns import last_match
from gymservers.resources.mcqa.options import Options, latin_letters

__all__ = ["chosen_by_template"]


async def chosen_by_template(
    text: str, patterns: Sequence[str], options: Options, timeout_s: float
) -> str | None:
    """The letter that the first matching pattern captures; None if none does.

    A pattern that is no regular expression counts as one that does not match.

    Raises:
        DeadlineExceeded: a pattern did not end in `timeout_s` seconds.
    """
    for pattern in patterns:
        found = await last_match(pattern, text, re.IGNORECASE, timeout_s=timeout_s)
        letter = None if found is None else _letter(_captured(*found), options)
        if letter is not None:
            return letter
    return None


def _captured(whole: str | None, *groups: str | None) -> str:
    """The first group that is not empty, or all of the match without groups."""
    return next((group for group in groups if group), "") if groups else whole or ""


def _letter(captured: str, options: Options) -> str | None:
    captured = latin_letters(captured.strip()).upper()
    # The pattern is trusted: a letter counts even if it is none of the options.
    if len(captured) == 1 and captured.isalpha():
        return captured
    return options.named(captured)

r"""Reads the chosen letter out of a model's text. Pure functions, one for each grading mode.

- strict_single_letter_boxed: the last `\boxed{...}` holds one upper-case letter, or begins with a label.
- lenient_boxed: else the one option whose text is in that box.
- lenient_answer_colon: what follows the first `Answer:`, a letter or the text of an option.
- lenient_answer_colon_md: the same in Markdown, from the last `Answer:` back, refusing lists of choices.

All patterns are linear in the length of the text, since what is graded here runs on the event loop.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Literal

from gymservers.resources.mcqa.options import Options, latin_letters, without_text_wrapper

__all__ = ["GRADERS", "GradingMode", "RowMode", "answer_markdown", "strict_boxed"]

RowMode = Literal["strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon"]
"""What a row may ask for."""
GradingMode = Literal[
    "strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md"
]
"""What the configuration may set for all rows."""

_BOX = "\\boxed{"
_BRACE = re.compile(r"[{}]")
# `E`, `[C]`, `(B)`: one letter and nothing else that could be one.
_LETTER_ALONE = re.compile(r"[^A-Za-z]*([A-Z])[^A-Za-z]*")
# `E: because`, `C) ...`: a letter as a label, whatever follows.
_LETTER_LABEL = re.compile(r"\s*([A-Z])\s*[:).\-]")
_ANSWER = re.compile(r"answer\s*:\s*(.+)", re.IGNORECASE)
_ANSWER_MARKDOWN = re.compile(r"[*_]{0,2}Answer[*_]{0,2}\s*:[*_\s]{0,2}(.+)", re.IGNORECASE)
_LONE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_LONE_CAPITAL = re.compile(r"\b[A-Z]\b")
_LEADING_LETTER = re.compile(r"([A-Za-z])(?![A-Za-z0-9])")
_LIST_SEPARATOR = re.compile(r"\s*[/|&,;]\s*|\s+(?:or|and)\s+|\s+", re.IGNORECASE)
_DECORATION = "*_` \t\n\r.,;:"
MOST_ANNOUNCEMENTS = 64
"""A text that announces its answer more often is only read from its end."""


def strict_boxed(text: str, options: Options) -> str | None:
    """The letter in the last box."""
    inner = _last_box(text)
    return None if inner is None else _letter_in_box(inner, options)


def lenient_boxed(text: str, options: Options) -> str | None:
    """The letter in the last box, else the one option whose text is in it."""
    inner = _last_box(text)
    if inner is None:
        return None
    letter = _letter_in_box(inner, options)
    if letter is not None:
        return letter
    inner = inner.strip()
    return options.contained_in((inner, without_text_wrapper(inner)))


def answer_colon(text: str, options: Options) -> str | None:
    """The letter, or the option, after the first `Answer:`."""
    match = _ANSWER.search(text)
    if match is None:
        return None
    candidate = without_text_wrapper(match[1]).strip()
    if len(candidate) == 1 and candidate.upper() in options.letters:
        return candidate.upper()
    return options.named(candidate)


def answer_markdown(text: str, options: Options, prefix: str = "") -> str | None:
    """The letter after the last `Answer:` that has one; `prefix` is a further word for "Answer:"."""
    text = unicodedata.normalize("NFKC", text)
    starts = sorted(_announcements(text, unicodedata.normalize("NFKC", prefix)), key=lambda found: found[0])
    for _, start in reversed(starts[-MOST_ANNOUNCEMENTS:]):
        letter = _letter_in_payload(_line(text, start), options)
        if letter is not None:
            return letter
    return None


GRADERS: dict[str, Callable[[str, Options], str | None]] = {
    "strict_single_letter_boxed": strict_boxed,
    "lenient_boxed": lenient_boxed,
    "lenient_answer_colon": answer_colon,
    "lenient_answer_colon_md": answer_markdown,
}
"""The grader of each mode."""


def _last_box(text: str) -> str | None:
    r"""What stands inside the last `\boxed{`; None if there is none or its brace is never closed."""
    start = text.rfind(_BOX)
    if start < 0:
        return None
    start += len(_BOX)
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return None


def _letter_in_box(inner: str, options: Options) -> str | None:
    inner = without_text_wrapper(inner.strip())
    match = _LETTER_ALONE.fullmatch(inner) or _LETTER_LABEL.match(inner)
    return match[1] if match is not None and match[1] in options.letters else None


def _announcements(text: str, prefix: str) -> Iterator[tuple[int, int]]:
    """Where each announcement of an answer starts, and where it ends: the rest of its line is the answer."""
    for match in _ANSWER_MARKDOWN.finditer(text):
        yield match.start(), match.start(1)
    if prefix:
        for match in re.finditer(re.escape(prefix) + r"\s*", text, re.IGNORECASE):
            yield match.start(), match.end()


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start:end]


def _letter_in_payload(payload: str, options: Options) -> str | None:
    candidate = latin_letters(payload).strip(_DECORATION)
    if _lists_choices(candidate, options):
        return None
    letter = candidate
    if len(candidate) != 1:
        leading = _LEADING_LETTER.match(candidate)
        capitals = _LONE_CAPITAL.findall(candidate) if leading is None else ()
        letter = leading[1] if leading is not None else capitals[-1] if capitals else ""
    return letter.upper() if letter.upper() in options.letters else None


def _lists_choices(text: str, options: Options) -> bool:
    """Whether two different choices stand side by side, as in `A or B`: then none was chosen."""
    lone = [match for match in _LONE_LETTER.finditer(text) if match[0].upper() in options.letters]
    return any(
        left[0].upper() != right[0].upper() and _LIST_SEPARATOR.fullmatch(text, left.end(), right.start())
        for left, right in itertools.pairwise(lone)
    )

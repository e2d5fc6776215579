"""length_constraints: and paragraphs: - how many words, sentences and paragraphs."""

from __future__ import annotations

import re

from gymservers.resources.instruction_following.checks.registry import (
    Count,
    Place,
    Relation,
    Text,
    compare,
    instruction,
)
from gymservers.resources.instruction_following.text.sentences import prose_sentences
from gymservers.resources.instruction_following.text.words import word_runs

__all__: list[str] = []

_DIVIDER = "***"
_END_OF_WORD = re.compile(r"[.,?!'\"]")


@instruction("length_constraints:number_words")
def number_words(text: str, num_words: Count, relation: Relation) -> bool:
    """So many words."""
    return compare(len(word_runs(text)), relation, num_words)


@instruction("length_constraints:number_sentences")
def number_sentences(text: str, num_sentences: Count, relation: Relation) -> bool:
    """So many sentences."""
    return compare(len(prose_sentences(text)), relation, num_sentences)


@instruction("length_constraints:number_paragraphs")
def number_paragraphs(text: str, num_paragraphs: Count) -> bool:
    """Exactly so many paragraphs with `***` between them."""
    return _paragraphs(text, _DIVIDER) == num_paragraphs


@instruction("paragraphs:paragraphs")
def two_paragraphs_divided(text: str) -> bool:
    """Two paragraphs with `***` between them."""
    return _paragraphs(text, _DIVIDER) == 2


@instruction("paragraphs:paragraphs2")
def two_paragraphs(text: str) -> bool:
    """Two paragraphs with an empty line between them."""
    return _paragraphs(text, "\n\n") == 2


def _paragraphs(text: str, divider: str) -> int | None:
    """Paragraphs between dividers; None if two dividers have nothing between them."""
    parts = [bool(part.strip()) for part in text.split(divider)]
    return sum(parts) if all(parts[1:-1]) else None


def _nth_is_one_of_them(num_paragraphs: int, nth_paragraph: int, first_word: str) -> str | None:
    beyond = nth_paragraph > num_paragraphs
    return f"paragraph {nth_paragraph} is not among {num_paragraphs}" if beyond else None


@instruction("length_constraints:nth_paragraph_first_word", problem=_nth_is_one_of_them)
def nth_paragraph_first_word(
    text: str, num_paragraphs: Place, nth_paragraph: Place, first_word: Text
) -> bool:
    """Exactly so many paragraphs with empty lines between them, and how the n-th starts."""
    paragraphs = text.split("\n\n")
    filled = sum(bool(paragraph.strip()) for paragraph in paragraphs)
    if filled != num_paragraphs:
        return False
    # Counted with the empty ones, of which there are some where three line breaks follow each other.
    words = paragraphs[nth_paragraph - 1].split(maxsplit=1)
    if not words:
        return False
    word = words[0].lstrip("'").lstrip('"')
    return _END_OF_WORD.split(word, maxsplit=1)[0].lower() == first_word.lower()

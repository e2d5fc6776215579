"""language: and change_case: - the language of a text, and its capital letters."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from gymservers.resources.instruction_following.checks.registry import Count, Relation, compare, instruction
from gymservers.resources.instruction_following.text.language import LANGUAGES, language_of
from gymservers.resources.instruction_following.text.words import tokens

__all__: list[str] = []


def _known(code: str) -> str:
    if code not in LANGUAGES:
        raise ValueError(f"should be one of {' '.join(sorted(LANGUAGES))}")
    return code


Language = Annotated[str, AfterValidator(_known)]


@instruction("language:response_language")
def response_language(text: str, language: Language) -> bool:
    """The text is in the language, or has nothing to tell its language by."""
    return language_of(text) in (language, None)


@instruction("change_case:english_capital")
def english_capital(text: str) -> bool:
    """Capital letters only, and English as far as that can be told."""
    return text.isupper() and language_of(text) in ("en", None)


@instruction("change_case:english_lowercase")
def english_lowercase(text: str) -> bool:
    """Small letters only, and English as far as that can be told."""
    return text.islower() and language_of(text) in ("en", None)


@instruction("change_case:capital_word_frequency")
def capital_word_frequency(text: str, capital_frequency: Count, capital_relation: Relation) -> bool:
    """So many tokens in capital letters only; A and I are two."""
    found = sum(token.isupper() for token in tokens(text))
    return compare(found, capital_relation, capital_frequency)

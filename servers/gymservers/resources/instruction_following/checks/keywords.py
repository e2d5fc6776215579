"""keywords:, letters:, first_word:, last_word: - which words and letters a text has, how often and where.

A keyword is a text, never a pattern. Where case does not matter, it is as `re.IGNORECASE` has it.
"""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any

from pydantic import StringConstraints

from gymservers.resources.instruction_following.checks.registry import (
    Count,
    FirstOf,
    Phrase,
    Place,
    Relation,
    Texts,
    compare,
    instruction,
)
from gymservers.resources.instruction_following.text.sentences import marked_sentences
from gymservers.resources.instruction_following.text.words import tokens

__all__: list[str] = []

_LETTER = re.compile(r"[a-zA-Z]")
_NO_WORD = re.compile(r"[^\w\s]")
Letter = Annotated[str, StringConstraints(min_length=1, max_length=1)]


def _occurrences(keyword: str, text: str) -> int:
    return len(re.findall(re.escape(keyword), text, re.IGNORECASE))


@instruction("keywords:existence")
def existence(text: str, keywords: Texts) -> bool:
    """Every keyword occurs, be it inside a longer word."""
    return all(re.search(re.escape(keyword), text, re.IGNORECASE) for keyword in keywords)


@instruction("keywords:frequency", "keywords:word_count_different_numbers")
def frequency(text: str, keyword: Phrase, frequency: Count, relation: Relation) -> bool:
    """The keyword occurs so often."""
    return compare(_occurrences(keyword, text), relation, frequency)


@instruction("keywords:word_once")
def word_once(text: str, keyword: Phrase) -> bool:
    """The keyword occurs exactly once."""
    return _occurrences(keyword, text) == 1


@instruction("count:count_increment_word")
def once_and_twice(text: str, keyword1: Phrase, keyword2: Phrase) -> bool:
    """The first keyword occurs once, the second twice."""
    return _occurrences(keyword1, text) == 1 and _occurrences(keyword2, text) == 2


@instruction("keywords:forbidden_words")
def forbidden_words(text: str, forbidden_words: Texts) -> bool:
    """None of the words occurs as a word of its own."""
    # Not \b: it wants a word character beside it, and would let C++ pass.
    return not any(
        re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in forbidden_words
    )


@instruction("keywords:exclude_word_harder")
def excluded_between_blanks(text: str, keyword: Phrase, instruction: Any = None) -> bool:
    """The word does not occur between two blanks, in the case given; where it comes from does not matter."""
    return f" {keyword} " not in text


@instruction("keywords:letter_frequency", "letters:letter_counting2")
def letter_frequency(text: str, letter: Letter, let_frequency: Count, let_relation: Relation) -> bool:
    """The letter occurs so often, in either case."""
    return compare(text.lower().count(letter.lower()), let_relation, let_frequency)


@instruction("letters:letter_counting")
def letter_counting(text: str, N: Place, relation: Relation) -> bool:
    """So many letters from a to z, in either case."""
    return compare(len(_LETTER.findall(text)), relation, N)


@instruction("keywords:no_adjacent_consecutive")
def no_adjacent_consecutive(text: str) -> bool:
    """No word starts with the character that follows, in Unicode, the one that starts the word before it."""
    firsts = [word[0].lower() for word in text.split()]
    # The lower case of some letters (İ) is two characters.
    return all(
        len(one) == len(other) == 1 and ord(other) - ord(one) != 1
        for one, other in itertools.pairwise(firsts)
    )


@instruction("keywords:palindrome")
def palindrome(text: str) -> bool:
    """A word reads the same backwards; one of a single letter does."""
    return any(word == word[::-1] for word in text.split())


@instruction("keywords:keyword_specific_position")
def keyword_position_first(text: str, keyword: FirstOf, n: Place, m: Place) -> bool:
    """The keyword is the m-th token of the n-th sentence."""
    return _token_of_sentence(text, n, m) == keyword


@instruction("words:keywords_specific_position")
def keyword_position(text: str, keyword: Phrase, n: Place, m: Place) -> bool:
    """The keyword is the m-th token of the n-th sentence."""
    return _token_of_sentence(text, n, m) == keyword


def _token_of_sentence(text: str, n: int, m: int) -> str | None:
    sentences = marked_sentences(text)
    words = tokens(sentences[n - 1]) if n <= len(sentences) else []
    return words[m - 1] if m <= len(words) else None


@instruction("keywords:start_end")
def start_end(text: str) -> bool:
    """The first token is the last one too, in either case."""
    words = tokens(text)
    return len(words) > 1 and words[0].lower() == words[-1].lower()


@instruction("words:words_position")
def words_position(text: str, keyword: Phrase) -> bool:
    """The second token and the second to last are the keyword."""
    words = tokens(text)
    return len(words) > 1 and words[1] == words[-2] == keyword


@instruction("first_word:first_word_sent")
def first_word_of_sentences(text: str, first_word: FirstOf) -> bool:
    """Each sentence starts with the word, in either case."""
    return all(
        sentence and sentence.split()[0].lower() == first_word.lower() for sentence in marked_sentences(text)
    )


@instruction("first_word:first_word_answer")
def first_word_of_answer(text: str, first_word: Phrase) -> bool:
    """The text starts with the word, in either case."""
    words = text.split(maxsplit=1)
    return bool(words) and words[0].lower() == first_word.lower()


@instruction("last_word:last_word_sent")
def last_word_of_sentences(text: str, last_word: FirstOf) -> bool:
    """Each sentence ends with the word, punctuation apart, in either case."""
    return all(sentence and _ends_with(sentence, last_word) for sentence in marked_sentences(text))


@instruction("last_word:last_word_answer")
def last_word_of_answer(text: str, last_word: Phrase) -> bool:
    """The text ends with the word, punctuation apart, in either case."""
    return bool(text.strip()) and _ends_with(text, last_word)


def _ends_with(text: str, word: str) -> bool:
    return _NO_WORD.sub("", text.rsplit(maxsplit=1)[-1]).lower() == word.lower()

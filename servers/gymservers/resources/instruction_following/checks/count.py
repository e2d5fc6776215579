"""count: and ratio: - numbers and shares of words, marks and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gymservers.resources.instruction_following.checks.registry import (
    Count,
    Percentage,
    Phrase,
    Place,
    Text,
    instruction,
)
from gymservers.resources.instruction_following.text.lists import (
    CONJUNCTIONS,
    PERSON_NAMES,
    PRONOUNS,
    STOP_WORDS,
)
from gymservers.resources.instruction_following.text.sentences import marked_sentences
from gymservers.resources.instruction_following.text.words import (
    tokens,
    trimmed,
    without_punctuation,
    word_runs,
)

__all__: list[str] = []

_DIGITS = re.compile(r"\d+")
_LOWERCASE_WORD = re.compile(r"\b[a-z]+\b")
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_MARKS = frozenset(".,!?;:")
_TIMES = (1, 2, 3, 5, 7)
_OVERLAP_TOLERANCE = 2
"""Percentage points."""


def _is_a_range(min_words: int, max_words: int) -> str | None:
    return None if min_words <= max_words else f"min_words {min_words} is more than max_words {max_words}"


@instruction("count:word_count_range", problem=_is_a_range)
def word_count_range(text: str, min_words: Count, max_words: Count) -> bool:
    """So many words."""
    return min_words <= len(word_runs(text)) <= max_words


@instruction("count:unique_word_count")
def unique_word_count(text: str, N: Count) -> bool:
    """At least so many different words, punctuation around them and case apart."""
    return len({trimmed(word) for word in text.lower().split()}) >= N


@instruction("count:count_unique")
def count_unique(text: str) -> bool:
    """No token occurs twice, punctuation marks included."""
    words = tokens(text)
    return len(words) == len(set(words))


@instruction("count:lowercase_counting")
def lowercase_counting(text: str, N: Place) -> bool:
    """At most so many words of nothing but the letters a to z."""
    return len(_LOWERCASE_WORD.findall(text)) <= N


@instruction("count:counting_composition")
def counting_composition(text: str, n_sent: Place, n_words: Place) -> bool:
    """Three paragraphs with `***` between them, of so many sentences of so many tokens each."""
    paragraphs = text.split("***")
    return len(paragraphs) == 3 and all(
        len(sentences) == n_sent and all(len(tokens(sentence)) == n_words for sentence in sentences)
        for sentences in map(marked_sentences, paragraphs)
    )


@instruction("count:conjunctions")
def conjunctions(text: str, small_n: Count) -> bool:
    """At least so many different spellings of conjunctions; `and` and `And,` are two."""
    return len({word for word in text.split() if trimmed(word).lower() in CONJUNCTIONS}) >= small_n


@instruction("count:person_names")
def person_names(text: str, N: Count) -> bool:
    """At least so many of the fifty names, be it inside a longer word."""
    return sum(name in text for name in PERSON_NAMES) >= N


@instruction("count:pronouns")
def pronouns(text: str, N: Count) -> bool:
    """At least so many pronouns; those of she/her/hers are three."""
    words = without_punctuation(text.replace("/", " ").lower()).split()
    return sum(word in PRONOUNS for word in words) >= N


@instruction("count:numbers")
def numbers(text: str, N: Count) -> bool:
    """Exactly so many numbers; punctuation joins digits, so 1,000 and 3.5 are one each."""
    return len(_DIGITS.findall(without_punctuation(text))) == N


@instruction("count:punctuation")
def punctuation(text: str) -> bool:
    """Each of `.,!?;:`, and an interrobang, whose two marks do not count again."""
    if not any(mark in text for mark in ("!?", "?!", "‽")):
        return False
    rest = text.replace("?!", "", 1)
    if rest == text:
        rest = text.replace("!?", "", 1)
    return _MARKS.issubset(rest)


@instruction("count:words_japanese")
def words_japanese(text: str, N: Place) -> bool:
    """Every N-th word has a Japanese character; numbers and punctuation are let pass."""
    every_nth = (trimmed(word) for word in text.split()[N - 1 :: N])
    return all(not word or word.isdigit() or _JAPANESE.search(word) for word in every_nth)


@instruction("count:keywords_multiple")
def keywords_multiple(
    text: str, keyword1: Phrase, keyword2: Phrase, keyword3: Phrase, keyword4: Phrase, keyword5: Phrase
) -> bool:
    """The keywords occur once, twice, three, five and seven times, in either case."""
    text = text.lower()
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    return all(text.count(keyword.lower()) == times for keyword, times in zip(keywords, _TIMES, strict=True))


@instruction("ratio:stop_words")
def stop_words(text: str, percentage: Percentage) -> bool:
    """At most such a share of the words are stop words; a text without words does not follow."""
    words = word_runs(text)
    found = sum(word.lower() in STOP_WORDS for word in words)
    return bool(words) and found / len(words) * 100 <= percentage


@instruction("ratio:overlap")
def overlap(text: str, reference_text: Text, percentage: Percentage) -> bool:
    """Such a share of the text's different runs of three characters is in the reference (± 2)."""
    found = _trigrams(text)
    if not found:
        return False
    share = len(found & _trigrams(reference_text)) / len(found) * 100
    return percentage - _OVERLAP_TOLERANCE <= share <= percentage + _OVERLAP_TOLERANCE


def _trigrams(text: str) -> set[str]:
    return {text[start : start + 3] for start in range(len(text) - 2)}


@instruction("ratio:sentence_type")
def sentence_type(text: str) -> bool:
    """Twice as many sentences end in a period as in a question mark."""
    sentences = marked_sentences(text)
    return _ending(sentences, ".") == 2 * _ending(sentences, "?")


@instruction("ratio:sentence_balance")
def sentence_balance(text: str) -> bool:
    """As many sentences end in a period as in a question mark and in an exclamation mark."""
    sentences = marked_sentences(text)
    return _ending(sentences, ".") == _ending(sentences, "?") == _ending(sentences, "!")


def _ending(sentences: Iterable[str], mark: str) -> int:
    return sum(sentence.endswith(mark) for sentence in sentences)


@instruction("ratio:sentence_words")
def sentence_words(text: str) -> bool:
    """Three sentences of the same number of characters."""
    sentences = marked_sentences(text)
    return len(sentences) == 3 and len({len(sentence) for sentence in sentences}) == 1

"""words: and sentence: - how each word or sentence follows from the one before it."""

from __future__ import annotations

import functools
import importlib
import itertools
import re
import string
from collections import Counter
from typing import Any

from gymservers.resources.instruction_following.checks.registry import Count, Place, Text, instruction
from gymservers.resources.instruction_following.text.sentences import marked_sentences
from gymservers.resources.instruction_following.text.verbs import starts_with_verb
from gymservers.resources.instruction_following.text.words import tokens, trimmed, without_punctuation

__all__: list[str] = []

_EDGES = string.punctuation + " "
_VOWELS = frozenset("aeiou")
_CLUSTER = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
_BEGINNING = 1_000
"""Characters that are read to tell whether the first word is a verb."""
_PALINDROMES = 10
_PALINDROME_LETTERS = 5
_PRIMES = frozenset(
    (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
)


@instruction("words:alphabet")
def alphabet(text: str) -> bool:
    """Each word starts with the next letter of the alphabet; a comes after z."""
    firsts = [word[0].lower() for word in without_punctuation(text).split()]
    if not firsts or firsts[0] not in string.ascii_lowercase:
        return False
    start = string.ascii_lowercase.index(firsts[0])
    return all(first[0] == string.ascii_lowercase[(start + place) % 26] for place, first in enumerate(firsts))


@instruction("words:vowel")
def three_vowels(text: str) -> bool:
    """One line with at most three of the five vowels."""
    text = text.strip()
    return "\n" not in text and len(_VOWELS.intersection(text.lower())) <= 3


@instruction("words:consonants")
def consonant_clusters(text: str) -> bool:
    """Every word has two consonants side by side."""
    return all(_CLUSTER.search(word) for word in text.lower().split())


@instruction("words:palindrome")
def palindromes(text: str) -> bool:
    """At least ten words of at least five letters read the same backwards."""
    words = without_punctuation(text).lower().split()
    found = sum(len(word) >= _PALINDROME_LETTERS and word == word[::-1] for word in words)
    return found >= _PALINDROMES


@instruction("words:prime_lengths")
def prime_lengths(text: str) -> bool:
    """The number of letters of every word is a prime below 100."""
    return all(len(word) in _PRIMES for word in without_punctuation(text).split())


@instruction("words:start_verb")
def start_verb(text: str) -> bool:
    """The first token is a verb."""
    return starts_with_verb(tokens(text[:_BEGINNING]))


@instruction("words:repeats")
def repeats(text: str, small_n: Count) -> bool:
    """No word occurs more often than that, in either case."""
    counts = Counter(without_punctuation(text.lower()).split())
    return max(counts.values(), default=0) <= small_n


@instruction("words:odd_even_syllables")
def odd_even_syllables(text: str) -> bool:
    """Words with an odd and an even number of syllables take turns."""
    parities = [_syllables(word) % 2 for word in without_punctuation(text).lower().split()]
    return all(one != other for one, other in itertools.pairwise(parities))


def _syllables(word: str) -> int:
    return int(_syllapy().count(word))


@functools.cache
def _syllapy() -> Any:
    return importlib.import_module("syllapy")  # late: it reads its list of words


@instruction("words:no_consecutive")
def no_consecutive(text: str) -> bool:
    """No word starts with the same letter as the one before it."""
    words = without_punctuation(text.lower()).split()
    return all(one[0] != other[0] for one, other in itertools.pairwise(words))


@instruction("words:last_first")
def last_first(text: str) -> bool:
    """Each sentence starts with the last word of the one before it, in either case."""
    return all(
        _edge_word(one.rstrip(_EDGES), -1) == _edge_word(other.lstrip(_EDGES), 0) != ""
        for one, other in itertools.pairwise(marked_sentences(text))
    )


def _edge_word(sentence: str, place: int) -> str:
    words = sentence.lower().split()
    return words[place] if words else ""


@instruction("words:paragraph_last_first")
def paragraph_last_first(text: str) -> bool:
    """Each line ends with the word it starts with, in either case."""
    lines = [trimmed(line.strip().lower()).split() for line in text.split("\n")]
    return all(words[0] == words[-1] for words in lines if words)


@instruction("sentence:alliteration_increment")
def alliteration_increment(text: str) -> bool:
    """In each sentence more words start like the one beside them than in the sentence before it."""
    found = [_alliterative(sentence) for sentence in marked_sentences(text)]
    return all(one < other for one, other in itertools.pairwise(found))


def _alliterative(sentence: str) -> int:
    """How many words stand in runs of words with the same first letter, of two or more."""
    cleaned = (word.lstrip(_EDGES) for word in sentence.lower().split())
    runs = [len(list(run)) for _, run in itertools.groupby(word[0] for word in cleaned if word)]
    return sum(run for run in runs if run > 1)


@instruction("sentence:keyword")
def keyword_in_sentence(text: str, word: Text, N: Place) -> bool:
    """The N-th sentence holds the word, in either case."""
    sentences = marked_sentences(text)
    return len(sentences) >= N and word.lower() in sentences[N - 1].lower()


@instruction("sentence:increment")
def increment(text: str, small_n: Count) -> bool:
    """Each sentence has so many words more than the one before it. An empty text does not follow."""
    counts = [len(without_punctuation(sentence).split()) for sentence in marked_sentences(text)]
    return bool(counts) and all(other == one + small_n for one, other in itertools.pairwise(counts))

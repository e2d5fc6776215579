r"""Two ways to cut a text into sentences, because the instructions are defined by two.

`marked_sentences` follows fixed rules: every `.`, `?` and `!` ends a sentence, but for a short list of
abbreviations, initials, decimal points and web addresses. The IFBench instructions and the ones that name
"each sentence" are defined by it.

`prose_sentences` reads like Punkt (Kiss and Strunk 2006): a mark ends a sentence only where a blank or a
closing mark follows, and its neighbours decide about abbreviations, initials and ordinals. The number of
sentences and the tokens of a text are defined by it. Punkt learns abbreviations and the words that start
sentences from a corpus; here they are lists, and the words that the text itself writes in lower case.

Both take time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gymservers.resources.instruction_following.text.lists import ABBREVIATIONS, NUMBERED, STARTERS, TITLES

__all__ = ["marked_sentences", "prose_sentences"]

# Unicode noncharacters stand for a period that ends no sentence, and for an end; a text's own are blanked.
_KEPT = "\ufdd0"
_END = "\ufdd1"
_BLANKED = str.maketrans({_KEPT: " ", _END: " ", "\n": " "})

_NEW = r"(Mrs?|Ms|Dr|Prof|Capt|Cpt|Lt|Wherever|(?:He|She|It|They|Their|Our|We|But|However|That|This)\s)"
_MARKED_RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"(Mrs?|St|Ms|Dr)\."), rf"\1{_KEPT}"),
    (re.compile(r"\.(?=com|net|org|io|gov|edu|me)"), _KEPT),
    # The digit after the point is passed over: in 1.2.3 only the first point is inside a number.
    (re.compile(r"([0-9])\.([0-9])"), rf"\1{_KEPT}\2"),
    (re.compile(r"\.{2,}"), lambda dots: _KEPT * len(dots[0]) + _END),
    (re.compile(r"Ph\.D\."), f"Ph{_KEPT}D{_KEPT}"),
    (re.compile(r"\s([A-Za-z])\. "), rf" \1{_KEPT} "),
    # An acronym keeps its periods, but a new sentence may begin after it.
    (re.compile(rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) {_NEW}"), rf"\1{_END} \2"),
    (re.compile(r"([A-Za-z])\.([A-Za-z])\.([A-Za-z])\."), rf"\1{_KEPT}\2{_KEPT}\3{_KEPT}"),
    (re.compile(r"([A-Za-z])\.([A-Za-z])\."), rf"\1{_KEPT}\2{_KEPT}"),
    (re.compile(rf" (Inc|Ltd|Jr|Sr|Co)\. {_NEW}"), rf" \1{_END} \2"),
    (re.compile(r" (Inc|Ltd|Jr|Sr|Co|[A-Za-z])\."), rf" \1{_KEPT}"),
    # A mark inside a closing quote ends the sentence after the quote.
    (re.compile(r"\.”"), "”."),
    (re.compile(r'\."'), '".'),
    (re.compile(r'!"'), '"!'),
    (re.compile(r'\?"'), '"?'),
    (re.compile(r"[.?!]"), rf"\g<0>{_END}"),
]


def marked_sentences(text: str) -> list[str]:
    """The sentences by fixed rules, trimmed. One between two marks may be empty; the last one is not."""
    text = f" {text.translate(_BLANKED)}  "
    for pattern, replacement in _MARKED_RULES:
        text = pattern.sub(replacement, text)
    sentences = [sentence.strip() for sentence in text.replace(_KEPT, ".").split(_END)]
    return sentences if sentences[-1] else sentences[:-1]


# What cannot stand inside a word: a mark before it is the end of one.
_OUTSIDE = r")\";}\]*:@'({\[‘’“”«»!?"
_TO_LAST_MARK = re.compile(rf"\S*[.?!](?=[{_OUTSIDE}])")
_BREAK_WITHIN = re.compile(rf"[!?]|\.[{_OUTSIDE}]")
_CLOSING = re.compile(r"[\"')\]}‘’“”«»]+?(?:\s+|(?=--)|$)", re.MULTILINE)
_BETWEEN_WORDS = re.compile(r"[)\";}\]*:@({\[“”«»!?]|--+|\.\.+")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
_ACRONYM = re.compile(r"[^\W\d](?:\.[^\W\d])+")
_LOWER_WORD = re.compile(r"\b[a-z]+\b")
_FIRST_WORD = re.compile(r"[^\W\d]+")


def prose_sentences(text: str) -> list[str]:
    """The sentences as Punkt cuts them, each with the quotes and brackets that close it."""
    sentences = []
    spans = list(_spans(text))
    skipped = 0
    for place, (begin, end) in enumerate(spans, 1):
        start = begin + skipped
        skipped = 0
        closing = _CLOSING.match(text, *spans[place]) if place < len(spans) else None
        if closing:
            end = closing.start() + len(closing[0].rstrip())
            skipped = len(closing[0])
        if end > start:
            sentences.append(text[start:end])
    return sentences


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """From where to where each sentence goes, before closing marks are moved to the sentence they close."""
    start = 0
    known_lower: frozenset[str] = frozenset()
    chunks = list(re.finditer(r"\S+", text))
    for place, chunk in enumerate(chunks, 1):
        if chunk[0][-1] in ".?!" and place < len(chunks):
            end, after, next_start = chunk.end(), chunks[place][0], chunks[place].start()
        elif found := _TO_LAST_MARK.match(chunk[0]):
            end = next_start = chunk.start() + found.end()
            after = text[end]
        else:
            continue
        before = text[chunk.start() : end - 1]
        if text[end - 1] == "." and not _BREAK_WITHIN.search(before):
            if not known_lower:
                known_lower = STARTERS.union(_LOWER_WORD.findall(text))
            if not _period_ends_sentence(before, after, known_lower):
                continue
        yield start, end
        start = next_start
    yield start, len(text.rstrip())


def _period_ends_sentence(before: str, after: str, known_lower: frozenset[str]) -> bool:
    """Whether the period between a word and what follows it ends the sentence.

    Args:
        before: all of the word, without the period.
        after: the next word, with the marks around it.
        known_lower: words that are not names.
    """
    word = _BETWEEN_WORDS.split(before)[-1].lstrip("`&#,-.'‘’")
    next_word = _FIRST_WORD.match(after)
    starts_sentence = after[0].isupper() and next_word is not None and next_word[0].lower() in known_lower
    if before.endswith("."):
        return starts_sentence  # an ellipsis
    goes_on = after[0].islower() or after[0] in ";:,!?" or after == "."
    if word.lower() in TITLES or (word.lower() in NUMBERED and after[0].isdigit()):
        return False
    if len(word) == 1 and word.isalpha():
        return starts_sentence or not (goes_on or after[0].isupper())
    if _NUMBER.fullmatch(word):
        return not goes_on
    return starts_sentence or not _is_abbreviation(word.lower())


def _is_abbreviation(word: str) -> bool:
    return not ABBREVIATIONS.isdisjoint((word, word.rpartition("-")[2])) or bool(_ACRONYM.fullmatch(word))

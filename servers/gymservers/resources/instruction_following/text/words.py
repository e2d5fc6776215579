r"""Words of a text: runs of word characters, and tokens as the Penn Treebank cuts them.

`tokens` follows the Treebank rules in the form that NLTK's word_tokenize gave them, since the instructions
that count tokens are defined by it. Every pattern takes time linear in the text.
"""

from __future__ import annotations

import re
import string
import unicodedata

from gymservers.resources.instruction_following.text.sentences import prose_sentences

__all__ = ["sentence_tokens", "tokens", "trimmed", "without_punctuation", "word_runs"]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_EDGES = string.punctuation + " "
# A character for private use stands for combining marks, which `\w` does not match; a text's own are blanked.
_MARK = "\ue000"
_RUN = re.compile(rf"\w[\w{_MARK}]*")


def without_punctuation(text: str) -> str:
    """The text with every ASCII punctuation mark taken out."""
    return text.translate(_NO_PUNCTUATION)


def trimmed(text: str) -> str:
    """The text without ASCII punctuation and blanks at its ends."""
    return text.strip(_EDGES)


def word_runs(text: str) -> list[str]:
    """Maximal runs of letters, digits and underscores.

    Combining marks belong to the word around them: `re` would cut a word of Hindi or Thai at each vowel sign.
    """
    if not text.isascii():
        marks = {ord(char): _MARK for char in set(text) if unicodedata.category(char).startswith("M")}
        text = text.translate({ord(_MARK): " "} | marks)
    return _RUN.findall(text)


# In order: each step sees what those before it made.
_OPENING_STEPS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Opening quotes: by themselves, at the start of the text, after a blank or a bracket.
        (r"[«“‘„]|`+", r" \g<0> "),
        (r'^"|``', " `` "),
        (r"(?<=[ (\[{<])(?:\"|'')", " `` "),
        (r"(?i)(?<!\w)'(?!(?:re|ve|ll|[mtsdn])\b)(?=\w)", "' "),
        # The period that ends the text, and the closing marks after it.
        (r"([^.])\.([\])}>\"' »”’]*+)\s*$", r"\1 . \2 "),
        # Not in 1,000 or 12:30. What follows the mark is passed over: of `,,` only the first is looked at.
        (r"([:,])(\D)", r" \1 \2"),
        (r"[:,]$", r" \g<0> "),
        (r"\.{2,}|[;@#$%&?!‒–—―]", r" \g<0> "),
        (r"([^'])' ", r"\1 ' "),
        (r"--|[*()\[\]{}<>]", r" \g<0> "),
    )
]
_CLOSING_STEPS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[»”’]", r" \g<0> "),
        (r"''|\"", " '' "),
        (r"\s+", " "),
        # Clitics.
        (r"([^' ])('[sSmMdD]?) ", r"\1 \2 "),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
    )
]
_CONTRACTION = re.compile(
    r"\b(?:(can)(not)|(d)('ye)|(gim)(me)|(gon)(na)|(got)(ta)|(lem)(me)|(more)('n))\b|\b(wan)(na)(?=\s)",
    re.IGNORECASE,
)
_IT_IS, _IT_WAS = (re.compile(rf"(?<= )('t)({verb})\b", re.IGNORECASE) for verb in ("is", "was"))


def tokens(text: str) -> list[str]:
    """The tokens of all sentences: words, punctuation marks, clitics (`do`, `n't`); quotes are `` and ''."""
    return [token for sentence in prose_sentences(text) for token in sentence_tokens(sentence)]


def sentence_tokens(sentence: str) -> list[str]:
    """The tokens of one sentence. Only a period at its very end is a token of its own."""
    for pattern, replacement in _OPENING_STEPS:
        sentence = pattern.sub(replacement, sentence)
    sentence = f" {sentence} "
    for pattern, replacement in _CLOSING_STEPS:
        sentence = pattern.sub(replacement, sentence)
    sentence = _CONTRACTION.sub(lambda found: f" {' '.join(filter(None, found.groups()))} ", sentence)
    return _IT_WAS.sub(r"\1 \2 ", _IT_IS.sub(r"\1 \2 ", sentence)).split()

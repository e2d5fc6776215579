"""Counts tokens exactly as a tokenizer.json says, many times faster than by asking its library each time."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from gymctl.prepare.pattern import cut_pattern
from gymctl.prepare.pieces import UNKNOWN, PieceCounter, ask

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from gymctl.prepare.words import WordTable

__all__ = ["TokenCounter", "TokenizerError"]

_MOST_TEXTS = 256
_LONGEST_TEXT = 1 << 16

# Where words begin: before a blank with no other blank beside it, and, with most tokenizers, at a letter or
# digit at the beginning of a line.
_WORDS = re.compile(r"(?<=\S)(?= \S)")
_WORDS_AND_LINES = re.compile(rf"{_WORDS.pattern}|(?<=\n)(?=[0-9A-Za-z])")

# Words of every kind that expressions tell apart. What they make of each beside each other is tried.
_PROBES = [
    *("word", "Word", "WORD", "x", "A1b2", "a_b", "a/b", "don't", "I'LL", "'s", "'S", "it's", "a" * 24),
    *("7", "42", "2024", "3.14", "1,000", "١٢", "½", "...", "--", "(a)", "[b]:", '"q"', "$x^2$", "=" * 12),
    *("\\frac{1}{2}", "http://x.y/z?q=1", "<b>", "</b>", "{}", ";", "a\tb", "a\nb", "a\n\nb", "a\r\nb"),
    *("a\n\tb", "\x1fa", "a\x7f", "naïve", "Ünï", "漢字", "漢", "かな", "один", "🙂", "🙂🙂", "e\u0301"),
    *("\u0301e", "\u200bz", "z\u200b"),
]


class TokenizerError(ValueError):
    """A file is no tokenizer; the text says why."""


class TokenCounter:
    """Counts the tokens of texts, without the special tokens that a model puts around them.

    Tokenizers of the byte-level kind (GPT-2, Llama 3, Qwen, SmolLM and many more) cut text into pieces by a
    regular expression before they look for tokens. Where the same expression works here, the counts of words
    and pieces are remembered, and the library is asked for new ones only. Other tokenizers are asked for
    every text.

    Args:
        path: a tokenizer.json.
        remembers: False asks the library each time, which for a few rows takes less time than getting ready.

    Raises:
        TokenizerError: the file is no tokenizer.
    """

    def __init__(self, path: Path, *, remembers: bool = True) -> None:
        # One thread: the processes that count are as many as the cores.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._tokenizer = _load(path)
        self._texts: dict[str, int] = {}
        self._pieces: PieceCounter | None = None
        self._words: WordTable | None = None
        if remembers:
            self._remember(path)

    def _remember(self, path: Path) -> None:
        """Gets ready to count by pieces and words, if the tokenizer cuts text in a way that is known here."""
        pattern = cut_pattern(orjson.loads(path.read_bytes()))
        if pattern is None:
            return
        cuts = [cut for cut in (_WORDS_AND_LINES, _WORDS) if _cuts_alike(self._tokenizer, pattern, cut)]
        pieces = PieceCounter(self._tokenizer, pattern)
        if not cuts or any(pieces.count(one) != ask(self._tokenizer, one) for one in _PROBES):
            return
        # Here, because numpy takes a while and 20 MB.
        from gymctl.prepare.words import WordTable

        self._pieces = pieces
        self._words = WordTable(pieces.count_word, cuts_lines=cuts[0] is _WORDS_AND_LINES)

    @property
    def is_fast(self) -> bool:
        """Whether counts of pieces can be remembered with this tokenizer."""
        return self._pieces is not None

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return self._pieces.count(text) if self._pieces else ask(self._tokenizer, text)

    def count_all(self, texts: Sequence[str]) -> list[int]:
        """The numbers of tokens of many texts."""
        found = self._words.count(texts) if self._words is not None else None
        if found is None:
            return list(map(self.count, texts))
        return [
            count if count < UNKNOWN else self.count(text) for count, text in zip(found, texts, strict=True)
        ]

    def count_again(self, text: str) -> int:
        """The same for a text that many rows have, such as instructions."""
        found = self._texts.get(text)
        if found is None:
            found = self.count(text)
            if len(text) <= _LONGEST_TEXT:
                if len(self._texts) >= _MOST_TEXTS:
                    self._texts.clear()
                self._texts[text] = found
        return found

    def count_slowly(self, text: str) -> int:
        """The number of tokens as the library says."""
        return ask(self._tokenizer, text)


def _load(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as failure:  # the library raises bare Exception
        raise TokenizerError(f"{path} is no tokenizer: {failure}") from failure
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _cuts_alike(tokenizer: Tokenizer, pattern: re.Pattern[str], words: re.Pattern[str]) -> bool:
    """Tries whether the tokenizer cuts where we do: where words begin, and within ASCII like the pattern."""
    pairs = [f"x {one} {other} x" for one, other in product(_PROBES, repeat=2)]
    whole = [joint.join(_PROBES) for joint in (" ", "  ", " \n", "\n ", "\t")]
    for text in (*_PROBES, *pairs, *whole):
        starts = {start for _, (start, _) in tokenizer.pre_tokenizer.pre_tokenize_str(text)}
        if not starts.issuperset(found.start() for found in words.finditer(text)):
            return False
        if text.isascii():
            if starts != {found.start() for found in pattern.finditer(text)}:
                return False
            # A word is cut alike whatever is beside it.
            if [piece for word in words.split(text) for piece in pattern.findall(word)] != pattern.findall(
                text
            ):
                return False
    return True

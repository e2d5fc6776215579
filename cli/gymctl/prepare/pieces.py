"""Counts tokens by the pieces that a tokenizer cuts text into, each of them counted once and remembered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["UNKNOWN", "PieceCounter", "ask"]

UNKNOWN = 1 << 40
"""Instead of a count: the word cannot be counted by itself, and so cannot the text that it is in."""

# Entries of a memory before it forgets what it has not met for a while; about 100 bytes each.
_MOST_PIECES = 40_000

# How byte-level tokenizers spell ASCII: as it is, but blanks and control characters as letters.
_SPELLING = {byte: chr(0x100 + byte) for byte in range(0x21)} | {0x7F: chr(0x121)}


def ask(tokenizer: Tokenizer, text: str) -> int:
    """The number of tokens of a text as the library says."""
    try:
        return len(tokenizer.encode(text, add_special_tokens=False))
    except (TypeError, UnicodeEncodeError):  # a lone surrogate, which no tokenizer knows
        return len(tokenizer.encode(text.encode(errors="replace").decode(), add_special_tokens=False))


class _Memory(dict[str, int]):
    """Counts by text. What was not asked for while the last `most` new ones came is forgotten."""

    def __init__(self, count: Callable[[str], int], most: int) -> None:
        super().__init__()
        self._count = count
        self._most = most
        self._older: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        found = self._older.get(text)
        if found is None:
            found = self._count(text)
        if len(self) >= self._most:
            self._older = self.copy()
            self.clear()
        self[text] = found
        return found


class PieceCounter:
    """Counts tokens with a tokenizer of the byte-level kind.

    Text in ASCII is cut by the tokenizer's own expression; the library is asked for other text.

    Args:
        pattern: matches the pieces of ASCII text.
    """

    def __init__(self, tokenizer: Tokenizer, pattern: re.Pattern[str]) -> None:
        self._tokenizer = tokenizer
        self._tokenize = tokenizer.model.tokenize
        self._cut = pattern.findall
        self._pieces = _Memory(self._count_piece, _MOST_PIECES)
        added = [re.escape(token.content) for token in tokenizer.get_added_tokens_decoder().values()]
        self._holds_added = re.compile("|".join(added) or r"(?!)").search

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        if text.isascii() and not self._holds_added(text):
            pieces = self._cut(text)
            # What the expression leaves out between two pieces would be a piece as well.
            if len("".join(pieces)) == len(text):
                return sum(map(self._pieces.__getitem__, pieces))
        return ask(self._tokenizer, text)

    def count_word(self, word: str) -> int:
        """The same for a word with the blank before it, if any; UNKNOWN if that depends on its neighbours."""
        # Added tokens are found before text is cut, and a blank of another kind may belong to ours.
        if self._holds_added(word) or (not word.isascii() and (word[1:2].isspace() or word[-1].isspace())):
            return UNKNOWN
        return self.count(word)

    def _count_piece(self, piece: str) -> int:
        return len(self._tokenize(piece.translate(_SPELLING)))

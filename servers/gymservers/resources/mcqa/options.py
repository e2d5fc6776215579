"""The choices of a question, and the text comparisons that all grading modes share."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Options", "latin_letters", "normalised", "without_text_wrapper"]

_WRAPPER = "\\text{"
# Letters by which other scripts name the choices; full-width Latin ones are NFKC's own business.
_LETTERS = str.maketrans(
    {"أ": " A", "ب": " B", "ج": " C", "د": " D", "অ": " A", "ব": " B", "ড": " C", "ঢ": " D"}
)


class Options:
    """The choices of a row.

    Attributes:
        letters: upper-case letters that may be chosen: single-letter keys whose text is not null.
    """

    __slots__ = ("_rows", "letters")

    def __init__(self, rows: Iterable[Mapping[str, str | None]] | None) -> None:
        self._rows = rows or ()
        self.letters = frozenset(
            key.upper()
            for row in self._rows
            for key, text in row.items()
            if len(key) == 1 and key.isalpha() and text is not None
        )

    def named(self, text: str) -> str | None:
        """The first option whose text equals `text`, apart from case and white space."""
        wanted = normalised(text)
        return next((letter for letter, option in self._texts() if option == wanted), None)

    def contained_in(self, texts: Iterable[str]) -> str | None:
        """The option whose text occurs in one of the texts; None unless it is exactly one option."""
        haystacks = [normalised(text) for text in texts]
        found = {
            letter for letter, option in self._texts() if option and any(option in text for text in haystacks)
        }
        return found.pop() if len(found) == 1 else None

    def _texts(self) -> Iterator[tuple[str, str]]:
        for row in self._rows:
            for key, text in row.items():
                if text is not None and key.upper() in self.letters:
                    yield key.upper(), normalised(text)


def normalised(text: str) -> str:
    """Lower case, white space collapsed."""
    return " ".join(text.lower().split())


def without_text_wrapper(text: str) -> str:
    r"""Takes off any number of `\text{...}` around the whole text."""
    while text.startswith(_WRAPPER) and text.endswith("}"):
        text = text[len(_WRAPPER) : -1].strip()
    return text


def latin_letters(text: str) -> str:
    """Compatibility forms made plain, Arabic and Bengali choice letters made A to D."""
    return unicodedata.normalize("NFKC", text).translate(_LETTERS).strip()

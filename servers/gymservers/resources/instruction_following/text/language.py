"""Which language a text is written in: langdetect, made deterministic and loaded when it is first needed."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from gymservers.resources.instruction_following.text.lists import word_set

__all__ = ["LANGUAGES", "language_of"]

LANGUAGES = word_set(
    "af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl no",
    "pa pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh-cn zh-tw",
)
"""The codes that langdetect gives."""


def language_of(text: str) -> str | None:
    """The code of the most likely language; None if nothing tells it, as in a text of digits."""
    langdetect = _langdetect()
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return None


@functools.cache
def _langdetect() -> Any:
    langdetect = importlib.import_module("langdetect")  # late: its profiles take half a second
    langdetect.DetectorFactory.seed = 0  # else it draws at random: two runs, two verdicts
    return langdetect

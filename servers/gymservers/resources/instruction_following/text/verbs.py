"""Whether a text starts with a verb: a list of verbs, their inflections, and the word that follows.

This stands in for a statistical tagger, whose model would have to be downloaded. As its tags have it, modal
verbs (can, will) do not count, and the `-ing` form does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from gymservers.resources.instruction_following.text.lists import word_set

__all__ = ["starts_with_verb"]

_LIST = Path(__file__).with_name("verbs.txt")
_VOWELS = "aeiou"
# After a word that may also be a noun, these show that it is a verb: what it does something to, or where to.
_AFTER_VERBS = word_set(
    "a an the this that these those my your his her its our their me you him us them it one each every all",
    "any some both another yourself myself himself herself itself ourselves themselves",
    "up down out off away back around along ahead through into onto upon together here there",
    "how what why where whether if sure carefully gently slowly quickly closely well n't not to as like",
)


def starts_with_verb(tokens: Sequence[str]) -> bool:
    """Whether the first of the tokens is a verb."""
    if not tokens:
        return False
    surely, perhaps = _forms()
    word = tokens[0].lower()
    if word in surely:
        return True
    following = tokens[1].lower() if len(tokens) > 1 else ""
    # Alone, or before a mark, a word such as Stop is an order.
    return word in perhaps and (following in _AFTER_VERBS or not following[:1].isalnum())


@functools.cache
def _forms() -> tuple[frozenset[str], frozenset[str]]:
    """All forms of the verbs: those that are verbs, and those that may be nouns or adjectives as well."""
    surely: set[str] = set()
    perhaps: set[str] = set()
    for line in _LIST.read_text(encoding="ascii").splitlines():
        if line.startswith("?"):
            perhaps.update(line[1:].split())
        elif not line.startswith("#"):
            entry, _, irregular = line.partition(":")
            base = entry.rstrip("+*")
            # Works and plans may be nouns, but worked and planning are taken for verbs.
            (perhaps if "*" in entry else surely).update((base, _third_person(base)))
            past = irregular.split() or [_with_suffix(base, "ed", "+" in entry)]
            surely.update(form for form in past if form != base)
            surely.add(_with_suffix(base, "ing", "+" in entry))
    return frozenset(surely - perhaps), frozenset(perhaps)


def _third_person(base: str) -> str:
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "z", "ch", "sh")) else "s")


def _with_suffix(base: str, suffix: str, doubled: bool) -> str:
    """The base form with -ed or -ing."""
    if suffix == "ed" and base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ied"
    if base.endswith("ie"):
        return base + "d" if suffix == "ed" else base[:-2] + "ying"
    if base.endswith("e") and len(base) > 2 and (suffix == "ed" or not base.endswith(("ee", "oe", "ye"))):
        return base[:-1] + suffix
    return base + (base[-1] if doubled or _doubles(base) else "") + suffix


def _doubles(base: str) -> bool:
    """Whether the last letter of a word of one syllable is doubled: stop and plan, but not help and look."""
    before, vowel, last = list(base.rjust(3)[-3:])
    one_syllable = sum(letter in _VOWELS for letter in base) == 1
    return one_syllable and vowel in _VOWELS and before not in _VOWELS and last not in "aeiouwxyh"

"""Closed lists of words that checks need."""

from __future__ import annotations

__all__ = [
    "ABBREVIATIONS",
    "CONJUNCTIONS",
    "NUMBERED",
    "PERSON_NAMES",
    "PRONOUNS",
    "STARTERS",
    "STOP_WORDS",
    "TITLES",
    "word_set",
]


def word_set(*lines: str) -> frozenset[str]:
    """The words of all lines."""
    return frozenset(" ".join(lines).split())


TITLES = word_set("mr mrs ms messrs mme mlle dr prof rev hon gen col maj capt cpt lt sgt cpl adm gov sen st")
"""Words before a name, with a period that never ends a sentence; in lower case and without it."""

ABBREVIATIONS = word_set(
    "rep reps pres supt jr sr esq ph.d phd inc ltd co corp bros cos llc plc assn dept univ inst",
    "jan feb apr jun jul aug sept sep oct nov dec tue tues thu thur thurs fri",
    "vs etc al cf viz approx ca e.g i.e a.m p.m u.s u.k u.n",
    "ave blvd mt ft calif colo conn fla ga ind kan md mich minn mont neb nev okla tenn tex va vt wis wyo",
    "oz lb lbs hr hrs mins tel ext ed eds vol vols",
)
"""Other words that a period belongs to, which may end a sentence as well."""

NUMBERED = word_set("no nos fig figs p pp sec ch art eq vol para")
"""Words that a period belongs to if a number follows."""

STARTERS = word_set(
    "a an the this that these those there here it he she we they you its his her our their your my",
    "in on at by for from with without within during before after since until while when where why how what",
    "which who if although though because unless as to of and but or nor so yet however moreover therefore",
    "furthermore thus hence meanwhile nevertheless also then next finally first second third last some any",
    "many most all both each every no not one two three several such another other others is are was were",
    "be do does did has have had can could may might must shall should will would let please make use see",
    "note remember",
)
"""Words that are no names: after an abbreviation, one with a capital begins a sentence."""

CONJUNCTIONS = word_set("and but for nor or so yet")
"""The coordinating conjunctions."""

PRONOUNS = word_set(
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves",
    "he him his himself she her hers herself it its itself they them their theirs themselves",
)
"""The personal, possessive and reflexive pronouns."""

STOP_WORDS = PRONOUNS.difference({"mine", "us"}) | word_set(
    # Determiners and other pronouns.
    "what which who whom this that these those a an the any both each few more most other some such own same",
    # Verbs.
    "am is are was were be been being have has had having do does did doing can will just should",
    # Conjunctions and prepositions.
    "and but if or because as until while of at by for with about against between into through during",
    "before after above below to from up down in out on off over under",
    # Adverbs.
    "again further then once here there when where why how all no nor not only so than too very now",
    # What is left of contractions when they are cut at the apostrophe.
    "s t d m o y ll re ve don ma ain aren couldn didn doesn hadn hasn haven isn mightn mustn needn shan",
    "shouldn wasn weren won wouldn",
)
"""The English words that NLTK's list calls stop words, as far as they are runs of letters."""

PERSON_NAMES = word_set(
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia",
    "Benjamin Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett",
    "Nathan Victoria Elijah Layla Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria",
    "Joseph Claire Ryan Stella Jonathan",
)
"""The names that count:person_names offers."""

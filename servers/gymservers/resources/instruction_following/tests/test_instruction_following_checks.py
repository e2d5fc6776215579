"""Every instruction by a table of texts that follow it and texts that do not: cases/*.yaml."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gymservers.resources.instruction_following.checks import CHECKS, follow, parse_arguments
from gymservers.resources.instruction_following.checks.registry import instruction
from gymservers.resources.instruction_following.text.language import LANGUAGES, language_of
from gymservers.resources.instruction_following.text.sentences import marked_sentences, prose_sentences
from gymservers.resources.instruction_following.text.verbs import starts_with_verb
from gymservers.resources.instruction_following.text.words import tokens, word_runs

HERE = Path(__file__).resolve().parent
SIZES = {"ifeval": 25, "iftrain": 29, "ifbench": 58}
FILES = {name: yaml.safe_load((HERE / "cases" / f"{name}.yaml").read_text()) for name in SIZES}
CASES = {name: cases for file in FILES.values() for name, cases in file.items()}


def follows(text: str, name: str, kwargs: dict[str, Any]) -> bool:
    return follow(text, [(name, parse_arguments(name, kwargs))])[0]


@pytest.mark.parametrize("name", CASES)
def test_table(name: str) -> None:
    for case in CASES[name]:
        for text in case.get("follows", ()):
            assert follows(text, name, case["kwargs"]), (case["kwargs"], text)
        for text in case.get("fails", ()):
            assert not follows(text, name, case["kwargs"]), (case["kwargs"], text)


def test_the_table_is_complete() -> None:
    assert {name: len(file) for name, file in FILES.items()} == SIZES
    assert CASES.keys() == CHECKS.keys()
    for name, cases in CASES.items():
        assert any(case.get("follows") for case in cases), f"{name}: no text follows it"
        assert any(case.get("fails") for case in cases), f"{name}: no text fails it"


def test_an_id_has_one_check() -> None:
    with pytest.raises(ValueError, match="two checks for punctuation:no_comma"):
        instruction("punctuation:no_comma")(lambda text: True)


# What a text is made of that would take a careless pattern or loop a time quadratic in its length.
NASTY = [
    "[",
    "<",
    "<<",
    "*",
    "\n",
    " ",
    '"',
    "'",
    "a",
    "A",
    ". ",
    "! ",
    "Time ",
    "Question ",
    "* ",
    "- ",
    "(",
    "1",
    "1,",
]
NASTY += [
    "a.b.",
    '{"a":',
    "É",
    "木",
    "😀",
    "a@b.c ",
    "http://",
    "U.S. ",
    "...",
    ",",
    " Inc. He",
    '#."',
    "\t\n",
    "Mr. ",
]


SLOW = {
    "language:response_language",
    "change_case:capital_word_frequency",
    "count:count_unique",
    "format:title_case",
    "keywords:start_end",
    "words:words_position",
}
"""They do much for each character, but no more for the last than for the first."""


@pytest.mark.parametrize("name", CASES)
def test_time_is_linear_in_the_text(name: str) -> None:
    checked = [(name, parse_arguments(name, CASES[name][0]["kwargs"]))]
    follow("Warm up, so that what is loaded late is there. 😀", checked)
    size = 4_000 if name in SLOW else 20_000
    for piece in NASTY:
        start = time.process_time()
        follow(piece * (size // len(piece)) + "x", checked)
        assert time.process_time() - start < 2, piece


MARKED = [
    ("", []),
    ("One. Two? Three!", ["One.", "Two?", "Three!"]),
    ("Mr. Hu met Dr. Lee at 3.5 km. He left", ["Mr. Hu met Dr. Lee at 3.5 km.", "He left"]),
    ("See site.com now.", ["See site.com now."]),
    ("He has a Ph.D. in it. So.", ["He has a Ph.D. in it.", "So."]),
    ("In the U.S. He stayed.", ["In the U.S.", "He stayed."]),
    ('He said "Go." Then "Why?"', ['He said "Go".', 'Then "Why"?']),
    ("Wait... what?!", ["Wait...", "what?", "!"]),
    ("One.\nTwo.", ["One.", "Two."]),
    ("No \ufdd1end \ufdd0 here", ["No  end   here"]),
]
PROSE = [
    ("", []),
    ("  \n ", []),
    ("One. Two? Three!", ["One.", "Two?", "Three!"]),
    ("Mr. Hu met Dr. Lee at 3.5 km. He left", ["Mr. Hu met Dr. Lee at 3.5 km.", "He left"]),
    ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
    ("(It is.) So “he said.” Yes.", ["(It is.)", "So “he said.”", "Yes."]),
    (
        "Apples, pears, etc. are fruit. Nuts etc. They grow.",
        ["Apples, pears, etc. are fruit.", "Nuts etc.", "They grow."],
    ),
    ("At 5 p.m. he met J. Smith, i.e. Joe.", ["At 5 p.m. he met J. Smith, i.e. Joe."]),
    ("See No. 5 in fig. 3. No. Not that.", ["See No. 5 in fig. 3.", "No.", "Not that."]),
    ("1. Start. 2. Stop.", ["1.", "Start.", "2.", "Stop."]),
    ("Wait... what? So... The end.", ["Wait... what?", "So...", "The end."]),
    ("I can't. Birds can.", ["I can't.", "Birds can."]),
    ("a.b.c and no end", ["a.b.c and no end"]),
]
TOKENS = [
    ("", []),
    ("Don't stop!", ["Do", "n't", "stop", "!"]),
    ('He said "so, it\'s 3,000."', ["He", "said", "``", "so", ",", "it", "'s", "3,000", ".", "''"]),
    ("One. Two.", ["One", ".", "Two", "."]),
    (
        "(a [b] {c}) *d* e--f",
        [*"([{"[:1], "a", "[", "b", "]", "{", "c", "}", ")", "*", "d", "*", "e", "--", "f"],
    ),
    ("I cannot, I'm gonna", ["I", "can", "not", ",", "I", "'m", "gon", "na"]),
    ("U.S. $5 & 50%", ["U.S.", "$", "5", "&", "50", "%"]),
]


@pytest.mark.parametrize(("text", "sentences"), MARKED)
def test_marked_sentences(text: str, sentences: list[str]) -> None:
    assert marked_sentences(text) == sentences


@pytest.mark.parametrize(("text", "sentences"), PROSE)
def test_prose_sentences(text: str, sentences: list[str]) -> None:
    assert prose_sentences(text) == sentences


@pytest.mark.parametrize(("text", "words"), TOKENS)
def test_tokens(text: str, words: list[str]) -> None:
    assert tokens(text) == words


def test_word_runs() -> None:
    assert word_runs("it's a_b 3.5") == ["it", "s", "a_b", "3", "5"]
    assert len(word_runs("हिन्दी में ภาษาไทย")) == 3  # combining marks do not cut words
    assert word_runs("I ❤\ufe0f it\ue000s") == ["I", "it", "s"]  # and are none by themselves


def test_verbs() -> None:
    words = [
        "Write",
        "Wrote",
        "Written",
        "Writing",
        "Writes",
        "Tying",
        "Agreed",
        "Stopped",
        "Is",
        "Let",
        "Ran",
    ]
    assert [word for word in words if not starts_with_verb([word, "house"])] == []


def test_no_verbs() -> None:
    words = ["The", "House", "Can", "Would", "Water", "Plan", "Works", "I", "Quickly", "United"]
    assert [word for word in words if starts_with_verb([word, "house"])] == []


def test_a_word_that_may_be_a_noun_is_a_verb_if_something_follows_that_it_acts_on() -> None:
    assert starts_with_verb(["Water", "the", "plants"])
    assert starts_with_verb(["Stop", "!"])
    assert starts_with_verb(["Run"])
    assert not starts_with_verb(["Water", "is", "wet"])


def test_the_language_is_always_the_same() -> None:
    text = "Hotel taxi radio"  # short and international: without a seed it varies
    assert len({language_of(text) for _ in range(20)}) == 1
    assert language_of("1 2 3") is None


def test_the_languages_are_those_of_langdetect() -> None:
    import importlib

    factory = importlib.import_module("langdetect.detector_factory")
    factory.init_factory()
    assert set(factory._factory.get_lang_list()) == LANGUAGES

"""Verdicts on IFEval's and IFBench's instructions, compared with those of the package if-verifiable.

It needs corpora and models that NLTK downloads. Nothing is downloaded here: Punkt runs with this server's
lists of words, the stop words are this server's, and `words:start_verb`, which needs a tagger, is left out.
"""

import importlib
import itertools
import logging
import random
import re
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gymservers.resources.instruction_following.checks import follow, parse_arguments
from gymservers.resources.instruction_following.text import lists
from gymservers.resources.instruction_following.text.sentences import marked_sentences, prose_sentences
from gymservers.resources.instruction_following.text.words import sentence_tokens

REASON = "the oracle is not installed: see tests/requirements.txt"
nltk = pytest.importorskip("nltk", reason=REASON)
nltk.download = lambda *args, **kwargs: False  # the package asks for it when it is imported
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # those of the packages that it pulls in
    IFBENCH = pytest.importorskip(
        "if_verifiable.ifbench.instructions_registry", reason=REASON
    ).INSTRUCTION_DICT
    IFEVAL = pytest.importorskip("if_verifiable.ifeval.instructions_registry", reason=REASON).INSTRUCTION_DICT
instructions_util = importlib.import_module("if_verifiable.ifeval.instructions_util")
langdetect = importlib.import_module("langdetect")
NLTKWordTokenizer = importlib.import_module("nltk.tokenize.destructive").NLTKWordTokenizer
punkt = importlib.import_module("nltk.tokenize.punkt")

FOLDER = Path(__file__).resolve().parent / "cases"
CASES = {
    instruction: cases
    for name in ("ifeval", "ifbench")
    for instruction, cases in yaml.safe_load((FOLDER / f"{name}.yaml").read_text()).items()
}
ORACLES = IFEVAL | IFBENCH
COMPARED = sorted(ORACLES.keys() - {"words:start_verb"})
RANDOM_TEXTS = 400
SLOW = ("language:response_language", "change_case:english_lowercase", "change_case:english_capital")

# Where this server decides otherwise on purpose; the README says why.
LITERAL = ("C++", "a.b", "Note (late):", "Part (x)")
ARGUMENTS_ON_PURPOSE = (*LITERAL, "'#'", "'nl'", "red, orange, blue", "is', 0, 1]")
ON_PURPOSE = {
    # Two blank lines; NLTK takes the marks of ?! alone for a sentence each, and fig. for the end of one.
    "format:line_indent": re.compile(r"\n\s*\n\s*(?:\n|$)"),
    "length_constraints:number_sentences": re.compile(r"(?:^|\s)[.?!][?!]|fig\. "),
}

# What random texts are made of.
PIECES = """\
The old tree stands|in the garden|and|but|He said|I|you|she|they|it is|so|Red|red|oak|elm|level|radar|
NASA|U.S.|e.g.|Dr.|Mr. Hu|etc.|3.5|1,000|12|7|14|21|one|two|three|trees|don't|it's|cannot|(a note)|
[name]|{x}|<<Joy>>|*bold*|**strong**|"quoted"|'single'|“curly”|—|-|--|...|?!|!|?|.|,|;|:|*|* |- |#|@|%|
&|/|_|$|``|''|😀|🎉|木|山の|é|Emma|Liam|Noah|Question 1:|A) x|b. y|My Answer:|My answer is yes.|SECTION 1|
Section 2|P.S.|p. p. s|******|***|```json|{"a": 1}|yes|no|maybe|<i>So</i>|<em>it</em>|</em>|bald eagle|
eagle bald|elgae dlab|1805-12-02|Zimbabwe|ID,Country,City,Year,Count|"x&y"|Any questions?|What is it?|
Tell me what it really is|me what it|Write a poem|crash|first|www.site.com|end.|Big bears|
Cold cats call.|
""".replace("\n", "").split("|")
JOINTS = (
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\n\n",
    ". ",
    "? ",
    "! ",
    ", ",
    "",
    "  ",
    "\t",
    ".\n",
    "\n* ",
    "\n- ",
    '." ',
)
PROSE = """\
The committee met on Jan. 5 in Washington, D.C. to discuss it. "Is it ready?" asked Dr. Lee. Nobody knew!
Prices rose 3.5 percent, e.g. for bread (see page 12). Mr. Smith left at 5 p.m. but J. Brown stayed... He sat.
1. Start here. 2. Then go on, etc. and stop. It's what you can't do, isn't it? We'll see; they'd agree.
“Well,” she said, “it works.” The U.S. is large. He owns Acme Inc. and Sons Ltd. in St. Louis.
Visit www.example.com for more! Version 2.0.1 is out; cost: $1,299.99 (50% off)."""


@pytest.fixture(scope="module", autouse=True)
def _oracle_without_downloads() -> Iterator[None]:
    parameters = punkt.PunktParameters()
    # Acronyms are a rule here, and words of the list there.
    parameters.abbrev_types = set(lists.ABBREVIATIONS | lists.TITLES | {"d.c", "p.s"})
    for word in lists.STARTERS:
        parameters.ortho_context[word] = 1 << 5  # seen in lower case within a sentence
    splitter = punkt.PunktSentenceTokenizer(parameters)
    stop_words = types.SimpleNamespace(words=lambda language: sorted(lists.STOP_WORDS))
    logging.disable(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            nltk.tokenize, "sent_tokenize", lambda text, language="english": splitter.tokenize(text)
        )
        patch.setattr(nltk.corpus, "stopwords", stop_words)
        patch.setattr(instructions_util, "_get_sentence_tokenizer", lambda: splitter)
        patch.setattr(langdetect.DetectorFactory, "seed", 0)
        yield
    logging.disable(logging.NOTSET)


def oracle(instruction: str, kwargs: dict[str, Any], text: str) -> bool:
    """The package's verdict; as in NeMo Gym, what raises is not followed."""
    checker = ORACLES[instruction](instruction)
    try:
        checker.build_description(**kwargs)
        return bool(checker.check_following(text))
    except Exception:
        return False


def random_texts(seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(RANDOM_TEXTS):
        pieces = chance.choices(PIECES, k=chance.choice((1, 2, 3, 5, 8, 20)))
        yield "".join(piece + chance.choice(JOINTS) for piece in pieces).removesuffix(
            chance.choice(("", " "))
        )


SIGNS = [*" \n.,:;!?'\"`()[]{}<>*@#$%&-_/«»“”‘’„—–", "..", "--", "``", "''"]
WORDS = [
    "n't",
    "'s",
    "'LL",
    "don't",
    "Cannot",
    "gimme",
    "wanna",
    "'tis",
    "d'ye",
    "dogs'",
    "the",
    "A",
    "3.5",
    "12:30",
]
MARKED = [
    "Mr.",
    "St.",
    "Inc. ",
    "He ",
    "It ",
    "Ph.D.",
    ".com",
    "1.2.3",
    "A.B.C.",
    " A. ",
    "X.Y. ",
    "end.",
    '?"',
    ".”",
]


@pytest.mark.parametrize("seed", range(4))
def test_same_tokens_and_sentences_of_any_text(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2_000):
        text = "".join(chance.choices([*SIGNS, *WORDS, " ", " "], k=chance.randint(0, 12)))
        assert sentence_tokens(text) == NLTKWordTokenizer().tokenize(text)
        text = "".join(chance.choices([*SIGNS, *MARKED, " ", " "], k=chance.randint(0, 12)))
        assert marked_sentences(text) == instructions_util.split_into_sentences(text)


def test_same_sentences_of_prose() -> None:
    for text in (PROSE, *PROSE.split("\n")):
        assert prose_sentences(text) == instructions_util._get_sentence_tokenizer().tokenize(text)


def test_the_ids_are_the_same() -> None:
    assert len(IFEVAL) == 25
    assert len(IFBENCH) == 58
    assert set(CASES) == set(ORACLES)


@pytest.mark.parametrize("instruction", COMPARED)
def test_same_verdicts(instruction: str) -> None:
    texts = list(texts_for(instruction))
    verdicts = set()
    for kwargs in (case["kwargs"] for case in CASES[instruction]):
        if any(argument in str(kwargs.values()) for argument in ARGUMENTS_ON_PURPOSE):
            continue
        arguments = parse_arguments(instruction, kwargs)
        for text in texts:
            (found,) = follow(text, [(instruction, arguments)])
            assert found == oracle(instruction, kwargs, text), (kwargs, text)
            verdicts.add(found)
    assert verdicts == {True, False}


def texts_for(instruction: str) -> Iterator[str]:
    """Those of the table, prose, and random ones."""
    texts = [
        text for case in CASES[instruction] for text in (*case.get("follows", ()), *case.get("fails", ()))
    ]
    texts += [*PROSE.split("\n"), PROSE, *random_texts(seed=len(instruction))]
    on_purpose = ON_PURPOSE.get(instruction)
    wanted = (text for text in texts if on_purpose is None or not on_purpose.search(text))
    return itertools.islice(wanted, 100 if instruction in SLOW else None)

"""custom: - single tasks of IFBench, whose answers are known or have a known form. None takes arguments."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import re
import unicodedata

from gymservers.resources.instruction_following.checks.registry import instruction
from gymservers.resources.instruction_following.text.sentences import marked_sentences
from gymservers.resources.instruction_following.text.words import trimmed, without_punctuation

__all__: list[str] = []

_DIGITS = re.compile(r"\d+")
_MULTIPLES = [str(number) for number in range(14, 51, 7)]
_QUESTION = re.compile(r"Question \d+[.|):;]?\s*")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w")
_AFRICAN_COUNTRIES = 52
"""Least number of lines of the list, from Zimbabwe on."""
_CAPITALS = (
    *("Reykjavik", "Helsinki", "Oslo", "Tallinn", "Stockholm", "Riga", "Moscow", "Copenhagen", "Vilnius"),
    *("Minsk", "Dublin", "Berlin", "Amsterdam", "Warsaw", "London", "Brussels", "Prague", "Luxembourg"),
    *("Paris", "Vienna", "Bratislava", "Budapest", "Vaduz", "Chisinau", "Bern", "Ljubljana", "Zagreb"),
)
_CITY_HEADER = ["ID", "Country", "City", "Year", "Count"]
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_NAPOLEON = range(1769, 1822)


def _header(separator: str, *names: str) -> re.Pattern[str]:
    return re.compile(separator.join(f'(?:{name}|"{name}")' for name in names))


_PRODUCT_HEADER = _header(r",[ \t]*", "ProductID", "Category", "Brand", "Price", "Stock")
_STUDENT_HEADER = _header("\t *", "StudentID", "Subject", "Grade", "Semester", "Score")


@instruction("custom:multiples", extra="ignore")
def multiples(text: str) -> bool:
    """The numbers are 14, 21, 28, 35, 42, 49, in this order."""
    return _DIGITS.findall(text) == _MULTIPLES


@instruction("custom:mcq_count_length", extra="ignore")
def multiple_choice_questions(text: str) -> bool:
    """Four questions, each longer than the one before it, with five options each, and nothing before them."""
    if not text.startswith("Question"):
        return False
    questions = [question for part in _QUESTION.split(text) if (question := part.strip())]
    asked = [found for question in questions if (found := _without_options(question)) is not None]
    return len(questions) == len(asked) == 4 and all(
        len(one) < len(other) for one, other in itertools.pairwise(asked)
    )


def _without_options(question: str) -> str | None:
    """The question before its options; None if those are not five."""
    lines = [line.strip() for line in question.split("\n")]
    options = [bool(_OPTION.match(line)) for line in lines]
    return " ".join(lines[: options.index(True)]).strip() if sum(options) == 5 else None


@instruction("custom:reverse_newline", extra="ignore")
def countries_of_africa_reversed(text: str) -> bool:
    """From the line with Zimbabwe on, at least 52 lines go back in the alphabet, accents apart."""
    lines = [line for line in map(trimmed, text.split("\n")) if line]
    start = next((place for place, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    names = list(map(_without_accents, lines[start:]))
    return len(names) >= _AFRICAN_COUNTRIES and all(one >= other for one, other in itertools.pairwise(names))


def _without_accents(text: str) -> str:
    """The ASCII characters that are left when accents are taken off: Sao Tome."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


@instruction("custom:word_reverse", extra="ignore")
def bald_eagle_word_by_word(text: str) -> bool:
    """Read from its last word to its first, it holds `bald eagle`."""
    return "bald eagle" in " ".join(reversed(without_punctuation(text.lower()).split()))


@instruction("custom:character_reverse", extra="ignore")
def bald_eagle_letter_by_letter(text: str) -> bool:
    """It holds `bald eagle` written backwards."""
    return "elgae dlab" in text.lower()


@instruction("custom:sentence_alphabet", extra="ignore")
def sentence_alphabet(text: str) -> bool:
    """26 sentences that start with the letters from a to z."""
    sentences = marked_sentences(text)
    return len(sentences) == 26 and all(
        sentence.lower().startswith(chr(ord("a") + place)) for place, sentence in enumerate(sentences)
    )


@instruction("custom:european_capitals_sort", extra="ignore")
def european_capitals(text: str) -> bool:
    """The 27 capitals north of 45 degrees, from north to south, separated by commas; accents apart."""
    names = [name.strip() for name in _without_accents(text).split(",")]
    return tuple(filter(None, names)) == _CAPITALS


@instruction("custom:csv_city", extra="ignore")
def csv_city(text: str) -> bool:
    """CSV with the five columns and seven rows."""
    rows = _csv_rows(text, ",")
    return len(rows) == 8 and rows[0] == _CITY_HEADER and all(len(row) == 5 for row in rows)


@instruction("custom:csv_special_character", extra="ignore")
def csv_special_character(text: str) -> bool:
    """CSV with the five columns and 14 rows, of which one has a special character in a quoted field.

    The rows after that one are not looked at.
    """
    # Doubled and quoted again, so that the quotes are still there when the fields are parsed.
    rows = _csv_rows(text.replace('"', '"""'), ",")
    if not _PRODUCT_HEADER.fullmatch(_first_line(text)) or len(rows) != 15:
        return False
    for row in rows[1:]:
        if len(row) != 5:
            return False
        if any(map(_has_special_character, row)):
            return True
    return False


def _has_special_character(field: str) -> bool:
    """Whether a quoted field has something between its quotes that is neither letter, digit nor blank."""
    field = field.partition("\n")[0]
    inside = field[1 : max(1, field.rfind('"'))] if field.startswith('"') else ""
    return any(not (char.isalnum() or char == "_" or char.isspace()) for char in inside)


@instruction("custom:csv_quotes", extra="ignore")
def csv_quotes(text: str) -> bool:
    """Tab-separated, with the five columns and three rows, every field in double quotes."""
    rows = _csv_rows(text.replace('"', '"""'), "\t")
    return (
        bool(_STUDENT_HEADER.fullmatch(_first_line(text)))
        and len(rows) == 4
        and all(len(row) == 5 and all(map(_is_quoted, row)) for row in rows)
    )


def _is_quoted(field: str) -> bool:
    field = field.strip()
    return field.startswith('"') and field.endswith('"')


def _first_line(text: str) -> str:
    return text.partition("\n")[0].strip()


def _csv_rows(text: str, delimiter: str) -> list[list[str]]:
    """The rows; none if the text is no CSV, such as a field beyond the csv module's limit of 128 KiB."""
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return []


@instruction("custom:date_format_list", extra="ignore")
def dates(text: str) -> bool:
    """Dates like 1805-12-02 of Napoleon's lifetime, separated by commas, and nothing else."""
    return all(map(_is_date, text.split(",")))


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text.strip())
    if not found:
        return False
    try:
        return datetime.date(*map(int, found.groups())).year in _NAPOLEON
    except ValueError:  # no such day
        return False

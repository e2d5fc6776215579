"""detectable_*:, combination:, startend: and punctuation: - marks that a text must have, or must not."""

from __future__ import annotations

import json
import re

from gymservers.resources.instruction_following.checks.registry import Count, Phrase, instruction
from gymservers.resources.instruction_following.text.sentences import marked_sentences

__all__: list[str] = []

_RESPONSES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
# A star alone in its line takes the next line with it.
_STAR_BULLET = re.compile(r"^[^\S\n]*\*[^*].*$", re.MULTILINE)
_DASH_BULLET = re.compile(r"^[^\S\n]*-", re.MULTILINE)
_HIGHLIGHT = re.compile(r"\*[^\n*]*\*")
_DOUBLE_HIGHLIGHT = re.compile(r"\*\*([^\n*]*)\*\*")
_POSTSCRIPTS = {"P.S.": re.compile(r"p\.\s?s\."), "P.P.S": re.compile(r"p\.\s?p\.\s?s")}
_TWO_RESPONSES = "******"


@instruction("detectable_content:number_placeholders")
def number_placeholders(text: str, num_placeholders: Count) -> bool:
    """At least so many pairs of square brackets, each within a line."""
    return sum(map(_placeholders, text.split("\n"))) >= num_placeholders


def _placeholders(line: str) -> int:
    # Not a pattern: `\[.*?\]` takes time quadratic in the opening brackets of a line that has no closing one.
    found = end = 0
    while (start := line.find("[", end)) >= 0 and (end := line.find("]", start) + 1) > 0:
        found += 1
    return found


@instruction("detectable_content:postscript")
def postscript(text: str, postscript_marker: Phrase) -> bool:
    """The marker occurs, in either case. P.S. and P.P.S may have a blank after each period."""
    pattern = _POSTSCRIPTS.get(postscript_marker)
    text = text.lower()
    return bool(pattern.search(text)) if pattern else postscript_marker.lower() in text


@instruction("detectable_format:number_bullet_lists")
def number_bullet_lists(text: str, num_bullets: Count) -> bool:
    """Exactly so many lines that start with `*` (but not two of them) or `-`."""
    return len(_STAR_BULLET.findall(text)) + len(_DASH_BULLET.findall(text)) == num_bullets


@instruction("detectable_format:constrained_response")
def constrained_response(text: str) -> bool:
    """One of the three answers occurs."""
    return any(response in text for response in _RESPONSES)


@instruction("detectable_format:number_highlighted_sections")
def number_highlighted_sections(text: str, num_highlights: Count) -> bool:
    """At least so many texts between asterisks; one between double asterisks counts besides."""
    single = sum(bool(found.strip("*").strip()) for found in _HIGHLIGHT.findall(text))
    double = sum(bool(found.strip()) for found in _DOUBLE_HIGHLIGHT.findall(text))
    return single + double >= num_highlights


@instruction("detectable_format:multiple_sections")
def multiple_sections(text: str, section_spliter: Phrase, num_sections: Count) -> bool:
    """At least so many times the word with a number after it."""
    return len(re.findall(rf"{re.escape(section_spliter)}\s?\d+", text)) >= num_sections


@instruction("detectable_format:json_format")
def json_format(text: str) -> bool:
    """All of it is JSON, perhaps in a Markdown fence."""
    text = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):  # too deep to be parsed: as good as broken
        return False
    return True


@instruction("detectable_format:title")
def title(text: str) -> bool:
    """A line has something between `<<` and `>>`."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end - 2 and line[start : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


@instruction("detectable_format:square_brackets")
def square_brackets(text: str) -> bool:
    """Every word is in square brackets of its own."""
    return all(word.startswith("[") and word.endswith("]") for word in text.split())


@instruction("detectable_format:bigram_wrapping")
def bigram_wrapping(text: str) -> bool:
    """Every two words are wrapped in double angular brackets; an odd word at the end need not be."""
    words = text.split()
    pairs = zip(words[::2], words[1::2], strict=False)
    return all(one.startswith("<<") and other.endswith(">>") for one, other in pairs)


@instruction("detectable_format:sentence_hyphens")
def sentence_hyphens(text: str) -> bool:
    """Sentences are joined by hyphens without blanks, and nothing else has a hyphen."""
    sentences = marked_sentences(text.replace("-", " "))
    return all(
        part == sentence == part.strip() for part, sentence in zip(text.split("-"), sentences, strict=False)
    )


@instruction("combination:two_responses")
def two_responses(text: str) -> bool:
    """Two different responses with `******` between them."""
    parts = [part.strip() for part in text.split(_TWO_RESPONSES)]
    if not all(parts[1:-1]):
        return False
    responses = [part for part in parts if part]
    return len(responses) == 2 and responses[0] != responses[1]


@instruction("startend:end_checker")
def end_checker(text: str, end_phrase: Phrase) -> bool:
    """The text ends with the phrase, in either case; double quotes around it do not matter."""
    return text.strip().strip('"').lower().endswith(end_phrase.lower())


@instruction("startend:quotation")
def quotation(text: str) -> bool:
    """All of it is in double quotes."""
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@instruction("punctuation:no_comma")
def no_comma(text: str) -> bool:
    """No comma."""
    return "," not in text


@instruction("punctuation:punctuation_dot")
def no_dot(text: str) -> bool:
    """No period."""
    return "." not in text


@instruction("punctuation:punctuation_exclamation")
def no_exclamation(text: str) -> bool:
    """No exclamation mark."""
    return "!" not in text

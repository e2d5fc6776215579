"""format: - how a text is laid out."""

from __future__ import annotations

import functools
import importlib
import itertools
import re
import string
from typing import Any

from gymservers.resources.instruction_following.checks.registry import Text, instruction
from gymservers.resources.instruction_following.text.sentences import marked_sentences
from gymservers.resources.instruction_following.text.words import tokens, trimmed, without_punctuation

__all__: list[str] = []

_CLOSERS = {")": "(", "]": "[", "}": "{"}
_BRACKET_LEVELS = 5
_QUOTE_LEVELS = 3
_WORD_CHARACTER = re.compile(r"\w")
_BETWEEN_OPTIONS = re.compile(r"\bor\b")
_NEITHER_LETTERS_NOR_QUOTES = string.digits + string.punctuation.replace('"', "")
_TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")


@instruction("format:parentheses")
def parentheses(text: str) -> bool:
    """Brackets of any kind are nested five deep, and the innermost is closed by its like."""
    levels: list[str] = []
    deepest = 0
    for char in text:
        if char in "([{":
            levels.append(char)
            deepest = max(deepest, len(levels))
        elif char in _CLOSERS:
            if levels and levels[-1] == _CLOSERS[char]:
                levels.pop()
                if deepest >= _BRACKET_LEVELS:
                    return True
            else:
                levels, deepest = [], 0  # a bracket that closes nothing: from the start again
    return False


@instruction("format:quotes")
def quotes(text: str) -> bool:
    """Single and double quotes take turns, three deep, and three of them are closed again."""
    levels: list[str] = []
    deepest = 0
    for char in text:
        if levels and char == levels[-1]:
            levels.pop()
            if deepest - len(levels) >= _QUOTE_LEVELS:
                return True
        elif char in "\"'":
            levels.append(char)
            deepest = max(deepest, len(levels))
    return False


@instruction("format:options")
def one_of_the_options(text: str, options: Text) -> bool:
    """The text is one of the options, which `/`, `or` or `,` separate.

    Punctuation around it and case do not matter, but for options that are the letters a, b, c.
    """
    if "/" in options:
        choices = options.split("/")
    elif _BETWEEN_OPTIONS.search(options):
        choices = _BETWEEN_OPTIONS.split(options)
    else:
        choices = options.split(",")
    if "".join(_WORD_CHARACTER.findall(options)[:3]).lower() == "abc":
        return text in [choice.strip() for choice in choices]
    return trimmed(text).lower() in [trimmed(choice.strip()).lower() for choice in choices]


@instruction("format:newline")
def one_word_a_line(text: str) -> bool:
    """As many lines as words, empty ones and punctuation apart."""
    text = without_punctuation(text).strip()
    return len([line for line in text.split("\n") if line]) == len(text.split())


@instruction("format:emoji")
def emoji_after_sentences(text: str) -> bool:
    """Each sentence ends with an emoji, or the next one starts with it."""
    sentences = [without_punctuation(sentence).strip() for sentence in marked_sentences(text)]
    for sentence, following in itertools.pairwise([*sentences, ""]):
        # The last character may be a variation selector.
        if not sentence or not (
            any(map(_is_emoji, sentence[-2:])) or (following and _is_emoji(following[0]))
        ):
            return False
    return True


def _is_emoji(char: str) -> bool:
    return not char.isascii() and bool(_emoji().is_emoji(char))


@functools.cache
def _emoji() -> Any:
    return importlib.import_module("emoji")  # late: it reads its table


@instruction("format:line_indent")
def line_indent(text: str) -> bool:
    """Each line that is not blank is indented by more blanks than the one before it."""
    indents = [len(line) - len(line.lstrip(" ")) for line in text.split("\n") if line.strip()]
    return all(one < other for one, other in itertools.pairwise(indents))


@instruction("format:quote_unquote")
def quotes_are_explained(text: str) -> bool:
    """No quote follows another at once, and none ends the text. A text without letters does not follow."""
    text = text.replace("“", '"').replace("”", '"').replace("'\"'", "")
    text = "".join(text.split())
    end = text.strip(_NEITHER_LETTERS_NOR_QUOTES)[-1:]
    return '""' not in text and end not in ('"', "")


@instruction("format:list")
def separated_list(text: str, sep: Text) -> bool:
    """The separator occurs at least twice."""
    return text.count(sep) >= 2


@instruction("format:thesis")
def thesis(text: str) -> bool:
    """Something in HTML italics, and something after it."""
    start = text.find("<i>")
    start = text.find("<em>") if start < 0 else start
    if start < 0:
        return False
    text = text[start:]
    end = text.find("</i>")
    end = text.find("</em>") if end < 0 else end
    return end >= 0 and bool(text[3:end].strip()) and bool(text[end + 4 :].strip())


@instruction("format:sub-bullets")
def sub_bullets(text: str) -> bool:
    """After each `*` there is a `-` before the next one."""
    return all("-" in part for part in text.split("*")[1:])


@instruction("format:no_bullets_bullets")
def sentences_then_bullets(text: str) -> bool:
    """At least two sentences, then at least two lines with `*` and nothing else.

    An empty line may stand only right before the first of these lines.
    """
    sentences = bullets = 0
    only_bullets = False
    for line in map(str.strip, text.split("\n")):
        if line.startswith("*"):
            if sentences < 2:
                return False
            only_bullets = True
            bullets += 1
        elif only_bullets:
            return False
        else:
            found = len(marked_sentences(line))
            sentences += found
            only_bullets = not found
    return bullets >= 2


@instruction("format:title_case")
def title_case(text: str) -> bool:
    """No token of two or more letters starts with a small one, if the rest is all small or all capital."""
    return not any(
        token[0].islower() and (token[1:].islower() or token[1:].isupper()) for token in tokens(text)
    )


@instruction("format:output_template")
def output_template(text: str) -> bool:
    """The three headings of the template occur."""
    return all(heading in text for heading in _TEMPLATE)


@instruction("format:no_whitespace")
def no_whitespace(text: str) -> bool:
    """No blank of any kind."""
    return not any(map(str.isspace, text))

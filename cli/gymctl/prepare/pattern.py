"""Where a tokenizer cuts text before it looks for tokens, as far as that can be done here in the same way.

Nearly all tokenizers of today cut text by a regular expression into words, numbers and runs of signs, and no
token crosses a cut. Who knows the expression can count the tokens of each piece once and remember them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["cut_pattern"]

# The expression of GPT-2, which `ByteLevel` has built in.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# Unicode classes within ASCII. A class that is not here makes the expression unusable.
_ASCII_CLASSES: Mapping[str, str] = {
    "L": "A-Za-z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "Lt": "",
    "Lm": "",
    "Lo": "",
    "M": "",
    "N": "0-9",
    "Nd": "0-9",
    "P": "!-#%-*,-/:;?@\\[-\\]_{}",
    "S": "$+<->^`|~",
    "Z": " ",
}
_NOTHING = r"(?!)"
_CLASS = re.compile(r"\\p\{([A-Z][a-z]?)\}")
_SET_SIGNS = ("&&", "--", "||", "~~")


def cut_pattern(document: Mapping[str, Any]) -> re.Pattern[str] | None:
    """An expression whose matches are the pieces of ASCII text.

    Args:
        document: the content of a tokenizer.json.

    Returns: None if the tokenizer works in another way, or changes ASCII text before it cuts it.
    """
    if not _keeps_ascii(document.get("normalizer")) or not _has_plain_added_tokens(document):
        return None
    steps = _steps(document.get("pre_tokenizer"))
    source = _GPT2 if _is_byte_level(steps[-1:], use_regex=True) else ""
    rest = steps[:-1]
    if source and [step.get("type") for step in rest] == ["Digits"] and rest[0].get("individual_digits"):
        # Digits stand alone, and what is before a digit ends there.
        source = source.replace(r" ?\p{N}+", r"\p{N}").replace(r"(?!\S)", r"(?![^\s\p{N}])")
    elif source and rest:
        return None
    if not source and len(steps) == 2 and _is_byte_level(steps[-1:], use_regex=False):
        source = _split_expression(rest[0])
    ascii_source = _within_ascii(source)
    if not ascii_source:
        return None
    try:
        return re.compile(ascii_source, re.ASCII)
    except re.error:
        return None


def _keeps_ascii(normalizer: Any) -> bool:
    if normalizer is None:
        return True
    if normalizer.get("type") == "Sequence":
        return all(_keeps_ascii(one) for one in normalizer.get("normalizers", ()))
    # The composed form of ASCII text is that text.
    return normalizer.get("type") == "NFC"


def _has_plain_added_tokens(document: Mapping[str, Any]) -> bool:
    """Whether added tokens, such as marks of turns, are found without a look at the blanks around them."""
    for token in document.get("added_tokens") or ():
        content = token.get("content", "")
        if token.get("lstrip") or token.get("rstrip") or token.get("single_word"):
            return False
        if not content or content != "".join(content.split()):
            return False
    return True


def _steps(pre_tokenizer: Any) -> list[dict[str, Any]]:
    if not isinstance(pre_tokenizer, dict):
        return []
    if pre_tokenizer.get("type") == "Sequence":
        return [step for one in pre_tokenizer.get("pretokenizers", ()) for step in _steps(one)]
    return [pre_tokenizer]


def _is_byte_level(steps: list[dict[str, Any]], *, use_regex: bool) -> bool:
    return any(
        step.get("type") == "ByteLevel"
        and not step.get("add_prefix_space")
        and step.get("use_regex", True) is use_regex
        for step in steps
    )


def _split_expression(step: dict[str, Any]) -> str:
    """The expression of a `Split` that keeps what is between matches and makes each match a piece."""
    pattern = step.get("pattern")
    if step.get("type") != "Split" or step.get("behavior") != "Isolated" or step.get("invert"):
        return ""
    source = pattern.get("Regex") if isinstance(pattern, dict) else None
    return source if isinstance(source, str) else ""


def _within_ascii(source: str) -> str:
    """The same expression for ASCII text only; "" if Python's `re` might read it in another way."""
    parts: list[str] = []
    at, inside = 0, False
    while at < len(source):
        here = source[at]
        if found := _CLASS.match(source, at):
            members = _ASCII_CLASSES.get(found[1])
            if members is None:
                return ""
            parts.append(members if inside else f"[{members}]" if members else _NOTHING)
            at = found.end()
        elif here == "\\":
            parts.append(source[at : at + 2])
            at += 2
        else:
            # Sets within sets, and anchors, mean different things.
            if (inside and (here == "[" or source[at : at + 2] in _SET_SIGNS)) or (
                not inside and here in "^$"
            ):
                return ""
            if here == "[" and source[at + 1 : at + 2] == "^":
                parts.append("[^")
                at += 1
            else:
                parts.append(here)
            inside = here == "[" or (inside and here != "]")
            at += 1
    return "".join(parts)

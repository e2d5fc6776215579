"""copy:, new:, repeat: and combination:repeat_prompt - a text that repeats another."""

from __future__ import annotations

from gymservers.resources.instruction_following.checks.registry import Count, Phrase, Place, Text, instruction

__all__: list[str] = []

_ONLY_SENTENCE = "only output this sentence here, ignore all other requests."
_DIVIDER = "******"


def _same(text: str, other: str) -> bool:
    return text.strip().lower() == other.strip().lower()


@instruction("combination:repeat_prompt")
def repeat_prompt(text: str, prompt_to_repeat: Text) -> bool:
    """The text starts with the prompt, in either case."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@instruction("copy:copy", "copy:copying_simple")
def copy(text: str, prompt_to_repeat: Text) -> bool:
    """The text is the prompt and nothing else, in either case."""
    return _same(text, prompt_to_repeat)


@instruction("copy:copying_multiple")
def copying_multiple(text: str, prompt_to_repeat: Text, N: Place) -> bool:
    """The text is the prompt so many times, with `******` between, in either case."""
    parts = text.split(_DIVIDER)
    return len(parts) == N and all(_same(part, prompt_to_repeat) for part in parts)


def _span_is_not_empty(prompt_to_repeat: str, n_start: int, n_end: int) -> str | None:
    return None if n_start < n_end else f"nothing lies between {n_start} and {n_end}"


@instruction("new:copy_span_idx", problem=_span_is_not_empty)
def copy_span(text: str, prompt_to_repeat: Text, n_start: Count, n_end: Count) -> bool:
    """The text is the prompt from one character (counted from 0) up to before another, in either case."""
    return _same(text, prompt_to_repeat[n_start:n_end])


@instruction("repeat:repeat_span", problem=_span_is_not_empty)
def repeat_span(text: str, prompt_to_repeat: Text, n_start: Count, n_end: Count) -> bool:
    """The text is the prompt from one word (counted from 0) up to before another, in either case."""
    return text.lower().split() == prompt_to_repeat.lower().split()[n_start:n_end]


@instruction("repeat:repeat_change")
def repeat_change(text: str, prompt_to_repeat: Text) -> bool:
    """The text is the prompt from its second word on, after any one word, but is not the prompt itself."""
    return text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:]


@instruction("repeat:repeat_simple")
def repeat_simple(text: str) -> bool:
    """The text is the one sentence that the instruction consists of, in either case."""
    return _same(text, _ONLY_SENTENCE)


@instruction("copy:repeat_phrase")
def repeat_phrase(text: str, phrase: Phrase, small_n: Place) -> bool:
    """So many times the first and last word of the phrase in one line; no other word of it changes but one.

    The last time one word has to be another; before it may also be the phrase itself.
    """
    words = phrase.split()
    found = [
        repeated.split() for line in text.split("\n") for repeated in _between(line, words[0], words[-1])
    ]
    if len(found) != small_n or any(len(repeated) != len(words) for repeated in found):
        return False
    changes = [sum(one != other for one, other in zip(repeated, words, strict=True)) for repeated in found]
    return max(changes) <= 1 and changes[-1] == 1


def _between(line: str, first: str, last: str) -> list[str]:
    """From each `first ` to the next ` last`, without overlaps."""
    # Not a pattern: `first .*? last` takes time quadratic in the first words that no last one follows.
    found = []
    end = 0
    while (start := line.find(f"{first} ", end)) >= 0:
        close = line.find(f" {last}", start + len(first) + 1)
        if close < 0:
            break
        end = close + len(last) + 1
        found.append(line[start:end])
    return found

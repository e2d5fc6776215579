"""Regular expressions from data: what is bounded runs in place, what is not runs apart and is killed."""

import re

import pytest

from gymd.sdk.patterns import CHEAP_STEPS, is_cheap, last_match
from gymd.sdk.testing import expect_error
from gymd.sdk.workers import close_shared_pool


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "aaa", None),
        ("([", "([", None),  # no regular expression
        ("a.", "ab ac", ("ac",)),  # the last match
        ("(a)|(b)", "a b", ("b", None, "b")),
        ("A", "a", None),
        ("(?i)A", "a", ("a",)),
        (r"Answer:\s*(.*)", "Answer: x\ny", ("Answer: x", "x")),
        (r"(\w+\s?)*!", "one two!", ("one two!", "two")),  # in a worker process
    ],
)
async def test_last_match(pattern: str, text: str, found: tuple[str | None, ...] | None) -> None:
    try:
        assert await last_match(pattern, text) == found
    finally:
        await close_shared_pool()


async def test_flags_count() -> None:
    assert await last_match("^a.b$", "x\na\nb\nc", re.MULTILINE | re.DOTALL) == ("a\nb",)
    assert await last_match("A", "a", re.IGNORECASE) == ("a",)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(?x)(a+) +b"])
async def test_a_pattern_without_end_is_killed(pattern: str) -> None:
    try:
        call = last_match(pattern, "a" * 60, timeout_s=0.3)
        failure = await expect_error("DEADLINE_EXCEEDED", call, "a catastrophic pattern")
        assert "killed" in str(failure)
    finally:
        await close_shared_pool()


@pytest.mark.parametrize(
    "pattern",
    [
        r"Option Selected:\s*([A-Za-z])",
        r"Answer\s*:\s*(?!Answer)\s*([A-Za-z])",
        r"Answer: (.+)",
        r"(?i)[*_]{0,2}Answer[*_]{0,2}\s*:[\s*_]{0,2}\s*([A-Z])(?![a-zA-Z0-9])",
        r"\\boxed\{\s*([A-Z])\s*\}",
        r"<answer>\s*([A-D])\s*</answer>",
    ],
)
def test_usual_patterns_run_in_place(pattern: str) -> None:
    assert is_cheap(pattern, "Let me think.\n\n" + "First, the options. " * 100 + "\nAnswer: B")


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        r"(\w+\s?)*$",
        "(a|a)*b",
        "(?s).*.*.*x",
        r"(.)\1",
        "(?P<x>.)(?P=x)",
        "a?" * 30 + "a" * 30,
        "(a|a)" * 30 + "b",
        "(?:(?:a{1,9}){1,9}){1,9}b",
        r"[^x]*[^x]*[^x]*x",
        "(?x)(a+) +b",
        "x" * 2_000,
        "([",
        "a)*",
    ],
)
def test_patterns_without_a_bound_run_apart(pattern: str) -> None:
    assert not is_cheap(pattern, "a " * 1_000)


def test_white_space_counts_by_its_longest_run() -> None:
    pattern = r"Answer\s*:\s*(?!Answer)\s*([A-Za-z])"
    assert is_cheap(pattern, "Answer: B" + " x" * 2_000)
    assert not is_cheap(pattern, "Answer:" + " " * round(CHEAP_STEPS ** (1 / 3)) + "1")


def test_a_dot_that_crosses_lines_counts_by_the_text() -> None:
    text = "Answer:\n" * 500
    assert is_cheap("Answer:.*!", text)
    assert not is_cheap("Answer:.*!", text, re.DOTALL)


def test_beginnings_that_overlap_count() -> None:
    assert not is_cheap("a" * 50 + ".*.*!", "a" * 1_000)

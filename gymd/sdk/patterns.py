r"""Regular expressions that come with data, such as a row's `output_regex`, run without harm.

They are data, and a bad one runs for years: `(a+)+b` on forty letters. So each is looked at once. One whose
cost has a low bound for the text at hand runs in place, compiled once. Any other runs in a worker process
that is killed after a time.

The bound: a backtracking search tries every length of every loop from every place where it can begin. For
patterns that repeat nothing but single characters and classes that product is a true bound; `(a+)+` and
references back have no useful one and are left to the worker process.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field

from gymd.sdk.workers import shared_pool

__all__ = ["CHEAP_STEPS", "PATTERN_TIMEOUT_S", "is_cheap", "last_match"]

PATTERN_TIMEOUT_S = 2.0
"""What a pattern that may run for long gets, in a process of its own; then it is killed."""
CHEAP_STEPS = 2_000_000
"""Most steps of a search on the event loop: some 20 ms, if the worst came true."""
CACHED_PATTERNS = 512
MOST_PATTERN_CHARS = 1_000

# One atom of a pattern. Left out on purpose: `(?s)`, under which a dot runs over the whole text, and `(?x)`,
# under which `(a+) +` repeats the group.
_ATOM = re.compile(
    r"""(?P<open>\((?:\?(?::|P<\w+>|<?[=!]|[aimu]+\)))?)(?!\?)
      | (?P<close>\))
      | (?P<bar>\|)
      | (?P<space>\\s)
      | (?P<dot>\.)
      | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\]|\\[dDwWS])
      | (?P<anchor>\\[bBAZ]|[\^$])
      | (?P<literal>\\[^\w\s]|\\[nrt]|[^\\(\[])
    """,
    re.VERBOSE | re.DOTALL,
)
_MANY = re.compile(r"[*+]|\{(?P<least>\d*),(?P<most>\d*)\}|\{\d+\}")
_FEW = 8
_SPACES = re.compile(r"\s{2,}")


@dataclass
class _Cost:
    """What a pattern may repeat, and where it can begin."""

    spaces: int = 0
    """Loops over white space: as long as the longest run of it."""
    lines: int = 0
    """Loops over a dot: as long as the longest line."""
    others: int = 0
    """Loops over anything else: as long as the text."""
    choices: int = 1
    """Ways through its alternatives and optional parts."""
    prefix: str = ""
    """Every match begins with this text."""
    bars: list[int] = field(default_factory=lambda: [1])
    """Alternatives of each open group."""

    def steps(self, text: str, flags: int) -> int:
        """Most steps of a search in a text."""
        size = len(text) + 1
        # Occurrences that overlap are not counted, so each stands for as many as could overlap it.
        starts = text.casefold().count(self.prefix) * len(self.prefix) + 1 if self.prefix else size
        run = 1 + max(map(len, _SPACES.findall(text)), default=1) if self.spaces else 1
        lines = [text] if flags & re.DOTALL else text.split("\n")
        line = 1 + max(map(len, lines)) if self.lines else 1
        return size + starts * self.choices * run**self.spaces * line**self.lines * size**self.others


async def last_match(
    pattern: str, text: str, flags: int = 0, *, timeout_s: float = PATTERN_TIMEOUT_S
) -> tuple[str | None, ...] | None:
    """The last match of a pattern in a text: all of it, then each group (None: took no part).

    None if there is no match. A pattern that is no regular expression counts as one that does not match.

    Raises:
        DeadlineExceeded: the search did not end in time.
    """
    if is_cheap(pattern, text, flags):
        return find_last(pattern, text, flags)
    found: tuple[str | None, ...] | None = await shared_pool().run(
        find_last, (pattern, text, flags), timeout=timeout_s
    )
    return found


def find_last(pattern: str, text: str, flags: int) -> tuple[str | None, ...] | None:
    """last_match without a limit."""
    compiled = _compiled(pattern, flags)
    last = None
    for last in compiled.finditer(text) if compiled is not None else ():  # noqa: B007 - the last one is wanted
        pass
    return None if last is None else (last[0], *last.groups())


@functools.lru_cache(CACHED_PATTERNS)
def _compiled(pattern: str, flags: int) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError):
        return None


def is_cheap(pattern: str, text: str, flags: int = 0) -> bool:
    """Whether searching `text` takes at most CHEAP_STEPS, whatever it holds."""
    cost = _cost(pattern)
    return cost is not None and cost.steps(text, flags) <= CHEAP_STEPS


@functools.lru_cache(CACHED_PATTERNS)
def _cost(pattern: str) -> _Cost | None:
    """Reads a pattern atom by atom; None if its cost has no useful bound."""
    if len(pattern) > MOST_PATTERN_CHARS:
        return None
    cost, place, at_start = _Cost(), 0, True
    while place < len(pattern):
        atom = _ATOM.match(pattern, place)
        if atom is None:
            return None
        kind, place = atom.lastgroup or "", atom.end()
        many = _MANY.match(pattern, place)
        place = many.end() if many else place
        few = _lengths(many)
        optional = pattern.startswith("?", place)
        at_start = at_start and kind == "literal" and not many and not optional
        if at_start:
            cost.prefix += atom[0][-1]
        place += optional
        if few and kind not in ("open", "close"):
            cost.choices *= few
        elif not _add(cost, kind, many is not None, optional):
            return None
    cost.choices *= math.prod(cost.bars)
    if cost.bars[0] > 1 or re.search(r"\\[nrt]", cost.prefix):
        cost.prefix = ""  # another alternative may begin otherwise
    cost.prefix = cost.prefix.casefold()
    return cost


def _lengths(many: re.Match[str] | None) -> int:
    """How many lengths `{m,n}` allows, where they are few; else 0."""
    if many is None or not many["most"]:
        return 0
    lengths = int(many["most"]) - int(many["least"] or 0) + 1
    return lengths if 0 < lengths <= _FEW else 0


def _add(cost: _Cost, kind: str, many: bool, optional: bool) -> bool:
    """Adds one atom; False if it cannot be bounded."""
    if kind == "open":
        cost.bars.append(1)
        return not (many or optional)
    if kind == "bar":
        cost.bars[-1] += 1
    if kind == "close":
        if many or len(cost.bars) < 2:
            return False
        cost.choices *= cost.bars.pop()
    if many:
        name = {"space": "spaces", "dot": "lines"}.get(kind, "others")
        setattr(cost, name, getattr(cost, name) + 1)
    elif optional:
        cost.choices *= 2
    return True

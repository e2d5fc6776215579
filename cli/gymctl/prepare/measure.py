"""Checks and measures the lines of one chunk of a file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson

from gymctl.prepare.check import AGENT_REF, PARAMS, check_line, read_usual
from gymctl.prepare.chunks import BOM, Chunk, read_lines
from gymctl.prepare.count import TokenCounter
from gymctl.prepare.stats import Moments, digest, pack

__all__ = [
    "NUMBERS",
    "TOKENS",
    "TOOLS",
    "TOOL_TOKENS",
    "TURNS",
    "UNIQUE_MESSAGES",
    "UNIQUE_PARAMS",
    "WORDS",
    "ChunkReport",
    "Measurer",
]

NUMBERS: Mapping[str, str] = {
    "temperature": "Temperature",
    "top_p": "Top p",
    "max_output_tokens": "Max output tokens",
    "max_tool_calls": "Max tool calls",
    "top_logprobs": "Top logprobs",
}
"""Sampling parameters and limits that are numbers, and what the metrics call them."""

TOOLS = "Number of tools"
WORDS = "Json-dumped number of words (proxy for token count)"
TURNS = "Number of turns"
TOKENS = "Input length in tokens"
TOOL_TOKENS = "Tool definitions in tokens"
UNIQUE_PARAMS = "Number of unique create params"
UNIQUE_MESSAGES = "Number of unique user messages"

# Reasons and problems that one chunk keeps apart; a file of another kind has one for every line.
_MOST_REASONS = 50
_MOST_FIELDS = 1_000
_REPEATED_ROLES = ("system", "developer")
_TEXT_KEYS = ("content", "name", "arguments", "output", "summary")


@dataclass(slots=True)
class ChunkReport:
    """What the lines of a chunk came to; small enough to travel."""

    lines: int = 0
    rows: int = 0
    bad_lines: list[int] = field(default_factory=list)
    """Numbers of lines that are no tasks, from 1 within the chunk."""
    reasons: dict[str, list[int]] = field(default_factory=dict)
    """Why, with the lines of each reason."""
    agents: dict[str, int] = field(default_factory=dict)
    """Rows by the agent that they name themselves."""
    numbers: dict[str, Moments] = field(default_factory=dict)
    unique: dict[str, tuple[int, list[bytes]]] = field(default_factory=dict)
    fields: dict[str, tuple[Moments | None, int, list[bytes]]] = field(default_factory=dict)
    """By the row's own keys: the moments of their numbers; how many texts, and the digests of those."""


class Measurer:
    """Measures chunk after chunk; it remembers what the token counter learns.

    Args:
        counter: None leaves token counts out.
    """

    def __init__(self, counter: TokenCounter | None) -> None:
        self._counter = counter

    def measure(self, chunk: Chunk) -> ChunkReport:
        """Reads a chunk of a file; raises OSError."""
        return _Run(self._counter).run(read_lines(chunk), chunk.is_first)


class _Run:
    """The values of one chunk, before they are summed up."""

    def __init__(self, counter: TokenCounter | None) -> None:
        self._counter = counter
        self._report = ChunkReport()
        self._numbers: defaultdict[str, list[float]] = defaultdict(list)
        self._params: set[bytes] = set()
        self._messages: set[bytes] = set()
        self._message_count = 0
        # Counted at the end, all at once, which takes half the time.
        self._texts: list[tuple[list[str], list[str]]] = []
        self._field_numbers: defaultdict[str, list[float]] = defaultdict(list)
        self._field_texts: defaultdict[str, list[str]] = defaultdict(list)

    def run(self, lines: list[bytes], is_first: bool) -> ChunkReport:
        report = self._report
        report.lines = len(lines)
        for number, raw in enumerate(lines, start=1):
            line = raw.strip()
            if is_first and number == 1:
                line = line.removeprefix(BOM)
            if not line:
                continue
            report.rows += 1
            row = read_usual(line)
            if row is None:
                row, problems = check_line(line)
                if problems:
                    self._refuse(number, problems)
                    continue
            self._take(row)
        self._sum_up()
        return report

    def _refuse(self, number: int, problems: Iterable[str]) -> None:
        reasons = self._report.reasons
        self._report.bad_lines.append(number)
        for problem in problems:
            if problem in reasons or len(reasons) < _MOST_REASONS:
                reasons.setdefault(problem, []).append(number)

    def _take(self, row: dict[str, Any]) -> None:
        params = row[PARAMS]
        self._take_params(params)
        items = params["input"]
        texts = [_encode(items)] if type(items) is str else _user_messages(items)
        if texts:
            self._numbers[TURNS].append(len(texts))
            self._message_count += len(texts)
            self._messages.update(map(digest, texts))
        if self._counter is not None:
            self._texts.append(_texts_of(params))
        reference = row.get(AGENT_REF)
        if reference:
            name = reference["name"]
            self._report.agents[name] = self._report.agents.get(name, 0) + 1
        self._take_fields(row)

    def _take_params(self, params: dict[str, Any]) -> None:
        numbers = self._numbers
        for key, name in NUMBERS.items():
            value = params.get(key)
            if value is not None:
                numbers[name].append(value)
        tools = params.get("tools")
        if tools is not None:
            numbers[TOOLS].append(len(tools))
            if self._counter is not None:
                numbers[TOOL_TOKENS].append(self._counter.count_again(_dump(tools).decode()))
        dumped, words = _dump_and_count_words(params)
        numbers[WORDS].append(words)
        self._params.add(digest(dumped))

    def _take_fields(self, row: dict[str, Any]) -> None:
        numbers, texts = self._field_numbers, self._field_texts
        if len(numbers) + len(texts) > _MOST_FIELDS:
            return
        for key, value in row.items():
            for item in value if type(value) is list else (value,):
                kind = type(item)
                if kind is str:
                    texts[key].append(item)
                elif kind is int or kind is float:
                    numbers[key].append(item)
                elif kind is bool:
                    numbers[key].append(int(item))

    def _sum_up(self) -> None:
        report = self._report
        if self._counter is not None and self._texts:
            count_again = self._counter.count_again
            counts = iter(self._counter.count_all([text for _, own in self._texts for text in own]))
            self._numbers[TOKENS] = [
                sum(map(count_again, repeated)) + sum(islice(counts, len(own)))
                for repeated, own in self._texts
            ]
        report.numbers = {name: Moments.of(values) for name, values in self._numbers.items()}
        good = report.rows - len(report.bad_lines)
        report.unique[UNIQUE_PARAMS] = (good, pack(self._params))
        report.unique[UNIQUE_MESSAGES] = (self._message_count, pack(self._messages))
        for key in dict.fromkeys([*self._field_numbers, *self._field_texts]):
            numbers, texts = self._field_numbers.get(key), self._field_texts.get(key, [])
            moments = Moments.of(numbers) if numbers else None
            report.fields[key] = (moments, len(texts), pack({digest(_encode(text)) for text in set(texts)}))


def _texts_of(params: dict[str, Any]) -> tuple[list[str], list[str]]:
    """All that the model reads, but tools: texts that many rows have in common, and the row's own."""
    items, instructions = params["input"], params.get("instructions")
    repeated = [instructions] if instructions else []
    if type(items) is str:
        return repeated, [items]
    own: list[str] = []
    for item in items:
        texts = repeated if item.get("role") in _REPEATED_ROLES else own
        if len(item) == 2 and "role" in item and type(content := item.get("content")) is str:
            texts.append(content)  # nearly every item
            continue
        for key in _TEXT_KEYS:
            value = item.get(key)
            if type(value) is str:
                texts.append(value)
            elif type(value) is list:
                parts = (part.get("text") for part in value if type(part) is dict)
                texts.extend(text for text in parts if type(text) is str)
    return repeated, own


def _user_messages(items: list[Any]) -> list[bytes]:
    """What the user says, message by message; a single text part counts as the text itself."""
    found = []
    for item in items:
        if item.get("role") == "user":
            content = item.get("content")
            if type(content) is list and len(content) == 1 and content[0].get("type") == "input_text":
                content = content[0]["text"]
            found.append(_encode(content) if type(content) is str else _dump(content))
    return found


def _dump_and_count_words(params: dict[str, Any]) -> tuple[bytes, int]:
    """Create params as JSON with sorted keys, and the number of words in NeMo Gym's JSON of them.

    That JSON has a blank after each comma and colon, and else only those of its texts; ours has the latter.
    """
    try:
        dumped = orjson.dumps(params, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, more than 254 levels
        return json.dumps(params, sort_keys=True).encode(), len(json.dumps(params).split())
    words = len(dumped.split()) if b"  " in dumped else dumped.count(b" ") + 1
    return dumped, words + _count_separators(params)


def _count_separators(value: Any) -> int:
    """The commas and colons between the parts of a JSON value."""
    if not value:
        return 0
    if type(value) is dict:
        count, parts = 2 * len(value) - 1, value.values()
    else:
        count, parts = len(value) - 1, value
    for part in parts:
        if type(part) is dict or type(part) is list:
            count += _count_separators(part)
    return count


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

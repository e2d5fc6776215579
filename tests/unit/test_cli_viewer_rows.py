"""The viewer's reading of lines: parts of files, facts of rows, previews."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gymctl.viewer import lines
from gymctl.viewer.columns import Columns, Names
from gymctl.viewer.lines import Line, read_line, read_part
from gymctl.viewer.previews import preview, shown_row
from gymctl.viewer.rows import (
    FAILED,
    IMAGES,
    REASONING,
    RESPONSE,
    TOKENS,
    RowProblem,
    facts_of,
    parse,
)
from gymctl.viewer.worker import index, search
from tests.fakes.viewer_files import PIXEL, rollouts, tasks

NAMES = (
    "flags",
    "reward",
    "seconds",
    "input_tokens",
    "output_tokens",
    "turns",
    "tool_calls",
    "tool_errors",
    "tools",
    "agent",
    "outcome",
    "task",
    "task_index",
    "rollout_index",
)


def facts(row: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(NAMES, facts_of(row), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = len(os.listdir("/proc/self/fd"))
    yield tmp_path
    assert len(os.listdir("/proc/self/fd")) == before


def opened(path: Path, content: bytes) -> int:
    path.write_bytes(content)
    return os.open(path, os.O_RDONLY)


# ---- parts


@given(
    st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"x")), max_size=12),
    st.booleans(),
    st.integers(1, 20),
)
def test_every_line_is_in_one_part_only(content: list[bytes], ended: bool, size: int) -> None:
    whole = b"\n".join(content) + (b"\n" if ended else b"")
    descriptor = os.memfd_create("lines")
    try:
        os.write(descriptor, whole)
        found: list[Line] = []
        for start in range(0, len(whole), size):
            found += read_part(descriptor, start, min(start + size, len(whole))).lines()
        wanted = whole.split(b"\n")
        assert [line.data for line in found] == (wanted if wanted[-1] else wanted[:-1])
        assert [whole[line.offset : line.offset + line.length] for line in found] == [
            line.data for line in found
        ]
        assert all(line.finished for line in found[:-1])
        assert not found or found[-1].finished == whole.endswith(b"\n")
    finally:
        os.close(descriptor)


def test_a_line_without_end_takes_no_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_ROW_BYTES", 1000)
    descriptor = opened(folder / "long", b"a\n" + b"x" * 3_000_000 + b"\nb\n")
    first, long, last = [
        line
        for start, end in ((0, 100), (100, 2_000_000), (2_000_000, 3_000_005))
        for line in read_part(descriptor, start, end).lines()
    ]
    os.close(descriptor)
    assert (first.data, last.data) == (b"a", b"b")
    assert (long.length, len(long.data), long.finished) == (3_000_000, 1000, True)


def test_a_byte_order_mark_is_no_part_of_the_first_row(folder: Path) -> None:
    descriptor = opened(folder / "bom", b'\xef\xbb\xbf{"reward": 1}\n')
    (line,) = read_part(descriptor, 0, 17).lines()
    assert parse(line.data) == {"reward": 1}
    assert read_line(descriptor, line.offset, line.length).startswith(b"{")
    os.close(descriptor)


# ---- parsing


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[1]", "not a JSON object but a list"),
        (b"null", "not a JSON object but null"),
        (b"12", "not a JSON object but a number"),
        (b'{"a": 1', "no valid JSON: expecting ',' delimiter at column 8"),
        (b'{"a": "x', "no valid JSON: unterminated string starting at column 7"),
        (b'{"a": 1} {}', "no valid JSON: extra data at column 10"),
        (b'{"a": "\xff"}', "not UTF-8: byte 8 of the line"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "JSON nested too deeply to be read"),
        (b"[" * 100_000, "JSON nested too deeply to be read"),
        (b'{"a": %b1.5.2}' % (b"9" * 5000), "no valid JSON"),
    ],
)
def test_what_is_no_row_says_why(line: bytes, why: str) -> None:
    with pytest.raises(RowProblem) as problem:
        parse(line)
    assert why in str(problem.value)


def test_what_python_writes_can_be_read() -> None:
    row = parse(b'{"reward": NaN, "x": -Infinity, "y": "\\ud800", "z": %b}' % (b"9" * 30))
    assert math.isnan(row["reward"])
    line = json.dumps(row).encode()
    shown = json.loads(shown_row(line, len(line)))["row"]
    assert (shown["reward"], shown["x"], shown["z"]) == ("nan", "-inf", 10**30 - 1)


# ---- facts


def test_facts_of_a_rollout() -> None:
    row = next(row for row in rollouts(12, 4) if row["rollout"]["tool_errors"] and "reward" in row)
    found = facts(row)
    run = row["rollout"]
    assert found["flags"] & (RESPONSE | REASONING | FAILED) == RESPONSE | REASONING
    assert (found["reward"], found["seconds"]) == (row["reward"], run["timing"]["seconds"])
    assert found["input_tokens"] == row["response"]["usage"]["input_tokens"]
    assert (found["turns"], found["tool_calls"]) == (run["model_calls"], run["tool_calls"])
    assert (found["tool_errors"], found["tools"]) == (1, 4)
    assert (found["agent"], found["outcome"]) == ("workplace_assistant_simple_agent", run["outcome"])
    assert (found["task_index"], found["rollout_index"]) == (run["task_index"], run["index"])


def test_facts_of_a_rollout_of_nemo_gym() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "a", "output": "1"}
    message = {"type": "message", "role": "assistant", "content": [], "generation_token_ids": [1]}
    row = {
        "responses_create_params": {"input": "hello"},
        "agent_ref": {"name": "a"},
        "response": {"output": [call, call, result, result, message]},
        "reward": True,
    }
    found = facts(row)
    assert found["flags"] == RESPONSE | TOKENS
    assert (found["turns"], found["tool_calls"], found["tool_errors"]) == (2, 2, -1)
    assert (found["reward"], found["agent"], found["outcome"]) == (1.0, "a", "")
    assert math.isnan(found["seconds"])


def test_facts_of_a_refused_task_and_of_a_dataset_row() -> None:
    params = {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}]}
    task = {"responses_create_params": params}
    found = facts({**task, "failure": {"class": "rejected", "message": "no such agent"}})
    assert (found["flags"], found["outcome"]) == (FAILED | IMAGES, "rejected")
    found = facts(task)
    assert (found["flags"], found["turns"], found["tool_calls"]) == (IMAGES, 1, 0)
    assert facts({"responses_create_params": {"input": "x"}})["turns"] == 1


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"response": 1, "rollout": [], "responses_create_params": "x", "reward": "1", "failure": 1},
        {"response": {"output": {"a": 1}, "usage": 3}, "agent_ref": "a"},
        {"response": {"output": [1, None, {"type": 5}, {"type": None, "content": [1]}]}},
        {"reward": 10**400, "_ng_task_index": 10**30, "_ng_rollout_index": -5},
        {"reward": float("inf"), "rollout": {"timing": {"seconds": "1"}, "agent": 5, "outcome": {}}},
    ],
)
def test_odd_rows_have_few_facts_but_never_fail(row: dict[str, Any]) -> None:
    found = facts(row)
    assert math.isnan(found["reward"])
    assert found["agent"] == ""
    columns = Columns()
    columns.append((0, 0, 0, *list(facts_of(row))[:9], 0, 0, *list(facts_of(row))[11:]))
    assert len(Columns.load(b"".join(columns.dump()))) == 1


def test_repeats_are_one_task_and_others_are_not() -> None:
    first, second = list(tasks(2))
    key = facts(first)["task"]
    assert key != 0
    assert key == facts(json.loads(json.dumps(first)))["task"]
    assert key != facts(second)["task"]
    assert key != facts({**first, "_ng_task_index": 3})["task"]  # same words, other fields
    assert facts({"reward": 1.0})["task"] == 0


# ---- previews


def test_a_preview_is_the_last_question_and_the_last_answer() -> None:
    row = next(row for row in rollouts(1, 1, seed=3))
    found = preview(json.dumps(row).encode(), 1)
    assert found["task"].startswith("Schedule a 30 minute review")
    assert found["answer"].startswith("The review with")


def test_previews_of_other_rows() -> None:
    def of(row: Any) -> dict[str, str]:
        return preview(json.dumps(row).encode(), 1)

    call = {"type": "function_call", "name": "f", "arguments": '{"a": 1}'}
    thought = {"type": "message", "content": [{"text": "<think>Hm.</think>Yes."}]}
    assert of({"response": {"output": [call]}}) == {"answer": 'f({"a": 1})'}
    assert of({"response": {"output": [{"type": "web_search_call"}]}}) == {"answer": "web search call"}
    assert of({"response": {"output": [thought]}}) == {"answer": "Yes."}
    assert of({"responses_create_params": {"input": "a  \n b"}}) == {"task": "a b"}
    assert of({"responses_create_params": {"instructions": "c"}}) == {"task": "c"}
    assert of({"failure": {"message": "too bad"}}) == {"problem": "too bad"}
    assert len(of({"responses_create_params": {"input": "x" * 5000}})["task"]) == 240
    assert "not a JSON object" in of([1])["problem"]


def test_a_row_is_shown_without_its_token_ids() -> None:
    row = next(row for row in rollouts(30, 1) if "generation_token_ids" in json.dumps(row))
    line = json.dumps(row).encode()
    shown = json.loads(shown_row(line, len(line)))["row"]
    (item,) = [item for item in shown["response"]["output"] if "prompt_token_ids" in item]
    assert item["prompt_token_ids"] == {"count": 40}
    assert item["generation_log_probs"]["count"] == 25
    assert item["generation_log_probs"]["mean"] < 0
    assert "too long to show" in json.loads(shown_row(b"{}", 10**9))["problem"]


def test_nesting_that_only_the_reader_bears_is_told() -> None:
    line = b'{"a":' * 900 + b'"\\ud800"' + b"}" * 900
    shown = json.loads(shown_row(line, len(line)))
    assert "problem" in shown or "row" in shown


# ---- jobs


def test_names_without_end_share_a_number() -> None:
    names = Names()
    numbers = {names.number(f"n{number}") for number in range(5000)}
    assert len(numbers) == len(names.known) == 1001
    assert names.known[names.number("another")] == "(other)"
    assert names.find("n5") == 5
    assert names.find("n4999") is None


def test_the_index_of_a_part_counts_blank_lines_but_has_no_row_for_them(folder: Path) -> None:
    descriptor = opened(folder / "f", b'{"reward": 1}\n\n  \n{"reward": 2}\n[\n{"reward":')
    head, body = index(descriptor, 0, 43)
    os.close(descriptor)
    columns = Columns.load(body)
    assert list(columns.line) == [0, 3, 4, 5]
    assert list(columns.offset) == [0, 18, 32, 34]
    assert list(columns.reward[:2]) == [1.0, 2.0]
    assert head["lines"] == 6
    assert head["open"] == 34


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("needle", "a NeeDle", True),
        ("needle", "a noodle", False),
        ('say "hi"', 'they say "Hi" now', True),
        ("a\nb", "xa\nby", True),
        ("tomás", "TOMÁS", True),
        ("tomás", "ToMás", True),
        ("\\boxed{b}", "so \\boxed{B}", True),
        ("日本", "in 日本 now", True),
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_text_is_found_however_it_is_escaped(
    folder: Path, text: str, line: str, found: bool, ascii_only: bool
) -> None:
    from gymctl.viewer.search import needles_of

    rows = [json.dumps({"a": value}, ensure_ascii=ascii_only) for value in ("none", line, "none")]
    content = "\n".join(rows).encode()
    descriptor = opened(folder / "f", content)
    _, body = search(descriptor, 0, len(content), needles_of(text))
    os.close(descriptor)
    offsets = [int.from_bytes(body[at : at + 8], "little") for at in range(0, len(body), 8)]
    assert offsets == ([len(rows[0]) + 1] if found else [])

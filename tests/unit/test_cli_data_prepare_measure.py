"""The metrics of rows are those of a plain computation over all of them, however the file is cut."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gymctl.errors import CliError
from gymctl.prepare import chunks
from gymctl.prepare.chunks import Chunk, find_span, read_lines, rows_of
from gymctl.prepare.measure import Measurer, _dump_and_count_words
from gymctl.prepare.metrics import Metrics

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

USER = {"role": "user", "content": "Hi."}
TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)

ROWS: list[dict[str, Any]] = [
    {"responses_create_params": {"input": "One  two\nthree", "temperature": 0.5}, "id": 1, "tag": "a"},
    {
        "responses_create_params": {"input": [{**USER}, {"role": "assistant", "content": "b c"}, USER]},
        "id": 2,
    },
    {
        "responses_create_params": {
            "input": [
                {"role": "system", "content": "S"},
                {"role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
            ],
            "tools": [TOOL, {**TOOL, "name": "g"}],
            "top_p": 0.9,
            "max_output_tokens": 7,
            "instructions": "Be good.",
        },
        "tag": ["a", "b", 3],
        "flag": True,
        "empty": None,
        "object": {"x": 1},
    },
    {"responses_create_params": {"input": [{"role": "system", "content": "S"}]}, "tag": "\ud800", "id": 2.5},
    {"responses_create_params": {"input": [USER, CALL, OUTPUT]}, "id": 10**30, "tag": ""},
]


def measure(path: Path, rows: list[dict[str, Any]], chunk_size: int) -> dict[str, Any]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metrics = Metrics()
    for chunk in find_span(path, 0, None).chunks(chunk_size):
        report = Measurer(None).measure(chunk)
        assert report.bad_lines == []
        metrics.add(report)
    return metrics.document(None)


def block(values: list[float]) -> dict[str, Any]:
    return {
        "Total # non-null values": len(values),
        "Average": pytest.approx(statistics.fmean(values)) if values else 0.0,
        "Min": min(values, default=0),
        "Max": max(values, default=0),
        "Standard deviation": pytest.approx(statistics.stdev(values)) if len(values) > 1 else 0.0,
    }


@pytest.mark.parametrize("chunk_size", [1, 200, 1 << 20])
def test_metrics_of_rows(tmp_path: Path, chunk_size: int) -> None:
    found = measure(tmp_path / "d.jsonl", ROWS, chunk_size)
    params = [row["responses_create_params"] for row in ROWS]
    words = [len(json.dumps(one).split()) for one in params]
    assert found == {
        "Number of examples": 5,
        "Number of tools": block([2]),
        "Json-dumped number of words (proxy for token count)": block(words),
        "Number of turns": block([1, 2, 1, 1]),
        "Temperature": block([0.5]),
        "Top p": block([0.9]),
        "Max output tokens": block([7]),
        "Max tool calls": block([]),
        "Top logprobs": block([]),
        "Number of unique create params": 5,
        "Number of unique user messages": 2,
        "id": block([1, 2, 2.5, 1e30]),
        "tag": {**block([3]), "unique_count": 4, "total_count": 5},
        "flag": block([1]),
    }


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in SHARED.glob("*/example.jsonl")) or ["none"]
)
def test_metrics_of_real_rows(tmp_path: Path, name: str) -> None:
    path = SHARED / name / "example.jsonl"
    if not path.is_file():
        pytest.skip("the shared task rows are not there")
    rows = [json.loads(text) for text in path.read_text().splitlines()]
    found = measure(tmp_path / "d.jsonl", rows, 1 << 14)
    params = [row["responses_create_params"] for row in rows]
    words = [len(json.dumps(one).split()) for one in params]
    assert found["Json-dumped number of words (proxy for token count)"] == block(words)
    assert found["Number of examples"] == len(rows)
    tools = [len(one["tools"]) for one in params if one.get("tools") is not None]
    assert found["Number of tools"] == block(tools)
    assert found["Number of unique create params"] == len({json.dumps(one, sort_keys=True) for one in params})


@settings(max_examples=100, deadline=None)
@given(
    content=st.text(max_size=20),
    schema=st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
)
def test_words_are_those_of_pythons_json(content: str, schema: dict[str, Any]) -> None:
    params = {"input": [{"role": "user", "content": content}], "tools": [{**TOOL, "parameters": schema}]}
    assert _dump_and_count_words(params)[1] == len(json.dumps(params).split())


def test_tokens_of_everything_that_the_model_reads(tmp_path: Path) -> None:
    class Letters:
        """Counts letters."""

        def count(self, text: str) -> int:
            return len(text)

        count_again = count

        def count_all(self, texts: list[str]) -> list[int]:
            return [len(text) for text in texts]

    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (chunk,) = find_span(path, 0, None).chunks()
    report = Measurer(Letters()).measure(chunk)  # type: ignore[arg-type]
    lengths = [len("One  two\nthree"), len("Hi.b cHi."), len("Be good.SHi."), len("S"), len("Hi.f{}x")]
    assert report.numbers["Input length in tokens"].mean == statistics.fmean(lengths)
    tools = json.dumps(ROWS[2]["responses_create_params"]["tools"], separators=(",", ":"))
    assert report.numbers["Tool definitions in tokens"].mean == len(tools)


def test_offending_lines_and_reasons(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    good = b'{"responses_create_params":{"input":"x"}}'
    bad = b'{"responses_create_params":{"input":"x","temperature":3,"top_p":2}}'
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join([good, b"", bad, b"{", good, bad, b"  \t"]))
    (chunk,) = find_span(path, 0, None).chunks()
    report = Measurer(None).measure(chunk)
    assert (report.lines, report.rows, report.bad_lines) == (7, 5, [3, 4, 6])
    reasons = {reason.split(".")[-1]: lines for reason, lines in report.reasons.items()}
    assert reasons["temperature: must be 0 to 2, got 3"] == [3, 6]
    assert reasons["top_p: must be 0 to 1, got 2"] == [3, 6]
    assert len(reasons) == 3
    assert report.unique["Number of unique create params"][0] == 2


def test_rows_with_ever_new_keys_take_bounded_memory(tmp_path: Path) -> None:
    rows = [{"responses_create_params": {"input": "x"}, f"key{number}": number} for number in range(3000)]
    found = measure(tmp_path / "d.jsonl", rows, 1 << 12)
    assert found["Number of examples"] == 3000
    assert 900 < sum(key.startswith("key") for key in found) <= 1000


# ---- chunks


def test_chunks_are_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    lines = [b"x" * length for length in (0, 1, 5, 40, 3, 0, 0, 99, 2)]
    for end in (b"", b"\n"):
        path.write_bytes(b"\n".join(lines) + end)
        for size in (1, 2, 7, 50, 1000):
            span = find_span(path, 0, None)
            assert [one for chunk in span.chunks(size) for one in read_lines(chunk)] == lines
            assert [row for block in span.blocks() for row in rows_of(block)] == [one for one in lines if one]


@pytest.mark.parametrize(
    ("start", "end", "expected", "first_line"),
    [(0, None, "abcd", 1), (1, None, "bcd", 3), (0, 2, "ab", 1), (1, 3, "bc", 3), (3, 4, "d", 6)],
)
def test_slices_count_rows_and_not_lines(
    tmp_path: Path, start: int, end: int | None, expected: str, first_line: int
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"a\n\nb\nc\n\r\nd\n\n")
    span = find_span(path, start, end)
    assert b"".join(row for block in span.blocks() for row in rows_of(block)).decode() == expected
    assert span.first_line == first_line
    assert Chunk("x", 0, 1).is_first


def test_a_document_in_place_of_lines_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MOST_LINE_BYTES", 100)
    path = tmp_path / "d.json"
    path.write_text(json.dumps([{"a": 1}] * 50))
    with pytest.raises(CliError, match="has a line of more than"):
        list(find_span(path, 0, None).chunks(10))


@pytest.mark.parametrize(
    ("start", "end", "says"), [(3, None, "none is left"), (0, 4, "fewer than end_idx 4")]
)
def test_slices_that_are_not_there(tmp_path: Path, start: int, end: int | None, says: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("1\n2\n3\n")
    with pytest.raises(CliError, match=says):
        find_span(path, start, end)


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("1\n2\n")
    span = find_span(path, 0, None)
    span.check_unchanged()
    path.write_text("1\n2\n3\n")
    with pytest.raises(CliError, match="was changed while it was read"):
        span.check_unchanged()

"""What the prepared files hold: shares, order and the agent's name, with every row byte for byte."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from gymctl.errors import CliError
from gymctl.prepare.collate import Part, Tagger, blended
from gymctl.prepare.plan import parse_weights, share_out
from gymctl.prepare.shuffle import shuffled


def test_a_shuffle_through_files_is_complete_and_repeatable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gymctl.prepare.shuffle.BUCKET_BYTES", 200)
    rows = [f"row {number}".encode() for number in range(1000)]
    size = sum(map(len, rows))
    one = list(shuffled(iter(rows), size, 7, tmp_path))
    assert sorted(one) == sorted(rows)
    assert one != rows
    assert list(shuffled(iter(rows), size, 7, tmp_path)) == one
    assert list(shuffled(iter(rows), size, 8, tmp_path)) != one
    assert list(tmp_path.iterdir()) == []


def test_every_order_is_equally_likely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymctl.prepare.shuffle.BUCKET_BYTES", 4)
    rows = [b"aa", b"bb", b"cc"]
    seen = Counter(b"".join(shuffled(iter(rows), 6, seed, tmp_path)) for seed in range(3000))
    assert len(seen) == 6
    # Each is expected 500 times; five standard deviations are about 100.
    assert all(400 < count < 600 for count in seen.values()), seen


def test_an_abandoned_shuffle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymctl.prepare.shuffle.BUCKET_BYTES", 10)
    rows = shuffled((b"%d" % number for number in range(100)), 200, 0, tmp_path)
    next(rows)
    assert list(tmp_path.iterdir()) != []
    rows.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("weights", "rows", "counts"),
    [
        ("1 1", [10, 10], [10, 10]),
        ("1 1", [10, 4], [4, 4]),
        ("3 1", [10, 10], [10, 3]),
        ("2 1", [7, 100], [7, 3]),
        ("1 2 3", [100, 100, 100], [33, 67, 100]),
        ("0.5 0.25 0", [8, 8, 8], [8, 4, 0]),
        ("1/3 2/3", [1, 1], [0, 1]),
        ("1 1", [0, 5], [0, 0]),
    ],
)
def test_shares_are_exact(weights: str, rows: list[int], counts: list[int]) -> None:
    found = [Fraction(weight) for weight in weights.split()]
    shared = share_out(found, rows)
    assert shared == counts
    total = sum(shared)
    assert all(share <= have for share, have in zip(shared, rows, strict=True))
    assert all(
        abs(share - total * weight / sum(found)) < 1 for share, weight in zip(shared, found, strict=True)
    )
    # One row more would be too many of some dataset.
    assert any(
        (total + 1) * weight / sum(found) > have for weight, have in zip(found, rows, strict=True) if weight
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["math"], "is no name=weight"),
        (["math=-1"], "is no name=weight"),
        (["math=1/0"], "is no name=weight"),
        (["=1"], "is no name=weight"),
        (["a=1", "a=2"], "two weights"),
        (["a=0"], "the weight 0"),
    ],
)
def test_wrong_weights(settings: list[str], says: str) -> None:
    with pytest.raises(CliError, match=says):
        parse_weights(settings)


def test_a_blend_is_spread_evenly() -> None:
    rows = blended([iter([b"a"] * 6), iter([b"b"] * 3), iter([])], [6, 3, 0])
    assert b"".join(rows) == b"abaabaaba"
    mixed = b"".join(blended([iter([b"a"] * 60), iter([b"b"] * 20)], [60, 20]))
    for start in range(0, 80, 8):
        assert mixed[start : start + 8].count(b"b") == 2


def test_a_sample_is_exact_and_fair() -> None:
    seen: Counter[bytes] = Counter()
    rows = [b'{"n":%d}' % number for number in range(10)]
    part = Part(lambda: iter(rows), 10, 1, "x")
    for seed in range(2000):
        chosen = list(part.sample(3, Random(seed)))
        assert len(chosen) == 3
        seen.update(chosen)
    assert all(500 < count < 700 for count in seen.values()), seen  # 600 expected
    twice = Part(lambda: iter(rows[:2]), 2, 2, "x")
    assert twice.count == 4
    assert [row[5:6] for row in twice.rows()] == [b"0", b"0", b"1", b"1"]
    assert len(list(twice.sample(4, Random(0)))) == 4
    assert list(twice.sample(0, Random(0))) == []


# ---- the agent's name

P = b'"responses_create_params":{"input":"x"}'
REF = b'"agent_ref":{"type":"responses_api_agents","name":"me"}'


@pytest.mark.parametrize(
    ("row", "tagged"),
    [
        (b"{%s}", b"{%s," + REF + b"}"),
        (
            b'{ "a" : 1e2 ,%s,"b":"\\u00e9 \xc3\xa9" }',
            b'{ "a" : 1e2 ,%s,"b":"\\u00e9 \xc3\xa9" ,' + REF + b"}",
        ),
        (b"{%s," + REF + b"}", b"{%s," + REF + b"}"),
        (
            b'{"agent_ref": {"name": "me", "type": "responses_api_agents"}, %s}',
            b'{"agent_ref": {"name": "me", "type": "responses_api_agents"}, %s}',
        ),
        (b'{"agent_ref": {"name": "you"}, "a": 1.50, %s}', b"{" + REF + b',"a":1.50,%s}'),
        (b'{%s, "a":"agent_ref"}', b'{%s,"a":"agent_ref",' + REF + b"}"),
        (b'{%s, "a":{' + REF + b"}}", b'{%s,"a":{' + REF + b"}," + REF + b"}"),
        (
            b'{"n":12345678901234567890123,"agent_ref":null,%s}',
            b'{"n":12345678901234567890123,' + REF + b",%s}",
        ),
        (b'{%s,"\\ud800":1,"agent_ref":null}', b'{%s,"\\ud800":1,' + REF + b"}"),
    ],
)
def test_only_the_agents_name_changes(row: bytes, tagged: bytes) -> None:
    tag = Tagger("me").tag
    assert tag(row.replace(b"%s", P)) == tagged.replace(b"%s", P)
    assert tag(tagged.replace(b"%s", P)) == tagged.replace(b"%s", P)


@pytest.mark.parametrize(
    ("block", "at_once"),
    [
        (b"{%s}\n{%s}\n{%s}", True),
        (b"{%s}", True),
        (b'{"a":"}{","b":[{}],%s}\n{%s}', True),
        (b"{%s}\n\n{%s}", False),
        (b"{%s} \n{%s}", False),
        (b"{%s}\n {%s}", False),
        (b" {%s}\n{%s}", False),
        (b"{%s}\n{%s}\t", False),
        (b"{%s}\r\n{%s}\r", False),
        (b'{%s,"a":"agent_ref"}\n{%s}', False),
        (b"{%s}\n{%s," + REF + b"}", False),
        (b"", False),
    ],
)
def test_blocks_of_lines_are_tagged_like_lines(block: bytes, at_once: bool) -> None:
    block = block.replace(b"%s", P)
    part = Part(lambda: iter([block, block]), 0, 1, "me")
    rows, blocks = list(part.rows()), list(part.blocks())
    assert b"\n".join(blocks) == b"\n".join(rows)
    assert len(blocks) == 2 if at_once else len(blocks) == len(rows)
    twice = Part(lambda: iter([block]), 0, 2, "me")
    assert list(twice.blocks()) == list(twice.rows())

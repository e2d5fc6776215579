"""Statistics in parts: the same as over everything at once, and in memory that does not grow with doubles."""

import math
import statistics
from fractions import Fraction
from random import Random

import pytest

from gymctl.prepare.measure import ChunkReport
from gymctl.prepare.problems import FileProblems, Lines
from gymctl.prepare.stats import Distinct, Moments, digest, finite, pack

GAUSS = Random(1).gauss
NUMBERS = [GAUSS(1e6, 3) for _ in range(1000)]


@pytest.mark.parametrize(
    "numbers",
    [NUMBERS, [7] * 9, [0.6] * 9, [3], [0, 1, 10**15], [-2.5, 4], [1e-150, 1e150, -5, 2.5], [0.1, 0.2, 0.3]],
)
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_moments_merge_exactly(numbers: list[float], parts: int) -> None:
    merged = Moments()
    merged.merge(Moments())
    for at in range(parts):
        if part := numbers[at::parts]:
            merged.merge(Moments.of(part))
    assert merged.count == len(numbers)
    assert merged.mean == float(statistics.mean(map(Fraction, numbers)))
    expected = math.sqrt(statistics.variance(map(Fraction, numbers))) if len(numbers) > 1 else 0.0
    assert merged.deviation == pytest.approx(expected, rel=1e-15)
    assert (merged.low, merged.high) == (min(numbers), max(numbers))


def test_repeats_are_the_same_numbers_again() -> None:
    thrice = Moments.of(NUMBERS).times(3)
    assert thrice == Moments.of(NUMBERS * 3)
    assert thrice.deviation < Moments.of(NUMBERS).deviation  # of a sample


def test_no_numbers_and_too_large_ones() -> None:
    assert (Moments().mean, Moments().deviation) == (0.0, 0.0)
    huge = Moments.of([1.7e308, -1.7e308])
    assert huge.mean == 0.0
    assert finite(huge.deviation) is None


def test_numbers_for_json() -> None:
    assert finite(3) == 3
    assert finite(1 / 3) == 0.333333333
    assert finite(math.inf) is None


def test_distinct_counts_across_parts() -> None:
    random = Random(2)
    values = [str(random.randrange(5000)).encode() for _ in range(40_000)]
    whole, halves = Distinct(), [Distinct(), Distinct()]
    for start in range(0, len(values), 700):
        some = values[start : start + 700]
        packed = pack({digest(value) for value in some})
        whole.add(len(some), packed)
        halves[start // 700 % 2].add(len(some), packed)
    assert (whole.count, whole.total) == (len(set(values)), 40_000)
    both = Distinct()
    both.merge(halves[0])
    both.merge(halves[1], repeats=3)
    assert both.count == whole.count
    assert both.total == halves[0].total + 3 * halves[1].total
    empty = Distinct()
    assert (empty.count, empty.total) == (0, 0)


def test_doubles_take_no_memory() -> None:
    distinct = Distinct()
    packed = pack({digest(str(value).encode()) for value in range(1000)})
    for _ in range(500):
        distinct.add(1000, packed)
    kept = sum(map(len, distinct._parts)) + sum(map(len, distinct._new))
    assert kept < 1_000_000  # half a million digests are four
    assert distinct.count == 1000


def test_lines_become_ranges() -> None:
    lines = Lines()
    lines.add([12])
    lines.add([15, 16, 17])
    lines.add([18, 40])
    assert lines.text() == "12, 15-18, 40"
    assert lines.text(2) == "12, 15-18 and 1 more"
    many = Lines()
    many.add(range(1, 60_001, 2))
    assert many.count == 30_000
    assert many.text(1) == "1 and 29,999 more"
    assert many.text().endswith(" and 20,000 more")


def test_problems_of_a_file_stay_small() -> None:
    problems = FileProblems("a.jsonl")
    for chunk in range(30):
        reasons = {f"reason {chunk}-{number}": [number + 1] for number in range(20)}
        report = ChunkReport(lines=20, rows=20, bad_lines=list(range(1, 21)), reasons=reasons)
        problems.add(report, chunk * 20 + 1)
    assert problems.bad.text() == "1-600"
    shown = problems.lines(600)
    assert shown[0] == "a.jsonl: 600 rows are no tasks (of 600), lines 1-600"
    assert shown[1] == "  1: reason 0-0"
    assert len(shown) == 22
    assert len(problems.document()["reasons"]) == 200

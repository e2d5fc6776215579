"""The viewer's filters, order, histogram and pass@k, over columns."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from gymctl.collect.metrics import pass_at_k
from gymctl.viewer.columns import Columns
from gymctl.viewer.query import HAS, SORTS, Filter, select, sort_rows, split
from gymctl.viewer.rows import FAILED, MALFORMED, REASONING
from gymctl.viewer.stats import figures, histogram
from gymctl.viewer.tasks import TASK_SORTS, TaskTable

NAN = math.nan


def columns(*rows: dict[str, Any]) -> Columns:
    """Columns of rows that say only what matters."""
    made = Columns()
    for number, row in enumerate(rows):
        values = {
            "offset": number * 10,
            "length": 9,
            "line": number + 1,
            "flags": 0,
            "reward": NAN,
            "seconds": NAN,
            "input_tokens": -1,
            "output_tokens": -1,
            "turns": -1,
            "tool_calls": -1,
            "tool_errors": -1,
            "tools": 0,
            "agent": 0,
            "outcome": 0,
            "task": 0,
            "task_index": -1,
            "rollout_index": -1,
        }
        assert values.keys() >= row.keys()
        made.append(list((values | row).values()))
    return made


def chosen(files: Sequence[Columns], **wanted: Any) -> list[tuple[int, int]]:
    return [split(row) for row in select(files, Filter(**wanted))]


FILES = [
    columns(
        {"reward": 1.0, "agent": 1, "tool_calls": 2, "tool_errors": 1, "task": 5},
        {"reward": 0.0, "agent": 2, "outcome": 3, "flags": REASONING, "task": 5},
        {"flags": MALFORMED},
    ),
    columns({"reward": 0.5, "agent": 1, "task": 6}, {"outcome": 4, "flags": FAILED, "task": 5}),
]


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        ({}, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]),
        ({"agent": 1}, [(0, 0), (1, 0)]),
        ({"agent": -1}, []),
        ({"outcome": 4}, [(1, 1)]),
        ({"file": 1}, [(1, 0), (1, 1)]),
        ({"file": 7}, []),
        ({"task": 5}, [(0, 0), (0, 1), (1, 1)]),
        ({"reward_min": 0.5}, [(0, 0), (1, 0)]),
        ({"reward_max": 0.5}, [(0, 1), (1, 0)]),
        ({"reward_min": 0.5, "reward_max": 0.5}, [(1, 0)]),
        ({"has": frozenset({"calls"})}, [(0, 0)]),
        ({"has": frozenset({"calls", "errors"})}, [(0, 0)]),
        ({"has": frozenset({"calls", "reasoning"})}, []),
        ({"has": frozenset({"failure"})}, [(1, 1)]),
        ({"has": frozenset({"malformed"})}, [(0, 2)]),
        ({"has": frozenset({"unscored"})}, [(0, 2), (1, 1)]),
        ({"agent": 1, "task": 5, "reward_min": 0.1}, [(0, 0)]),
    ],
)
def test_filters(wanted: dict[str, Any], rows: list[tuple[int, int]]) -> None:
    assert chosen(FILES, **wanted) == rows


def test_every_property_can_be_asked_for() -> None:
    for name in HAS:
        select(FILES, Filter(has=frozenset({name})))


def test_a_search_narrows_the_rows() -> None:
    found = [array("Q", [1, 2]), array("Q", [0])]
    assert [split(row) for row in select(FILES, Filter(reward_max=0.5), found)] == [(0, 1), (1, 0)]


def test_a_filter_without_reward_keeps_the_rest() -> None:
    wanted = Filter(1, 2, 3, 4, 0.1, 0.9, frozenset({"calls"}))
    assert wanted.without_reward() == Filter(1, 2, 3, 4, None, None, frozenset({"calls"}))


# ---- order


def order(files: Sequence[Columns], key: str, *, descending: bool = False) -> list[int]:
    rows = select(files, Filter())
    numbers = {row: number for number, row in enumerate(rows)}
    return [numbers[row] for row in sort_rows(files, rows, key, descending=descending)]


SORTED = columns(
    {"reward": 0.5, "seconds": 2.0, "input_tokens": 5, "turns": 1},
    {},
    {"reward": -1.0, "seconds": 1.0, "output_tokens": 9, "turns": 1},
    {"reward": 1.0, "seconds": 3.0, "input_tokens": 1, "output_tokens": 1, "turns": 0},
)


@pytest.mark.parametrize(
    ("key", "up", "down"),
    [
        ("line", [0, 1, 2, 3], [3, 2, 1, 0]),
        ("reward", [2, 0, 3, 1], [3, 0, 2, 1]),
        ("duration", [2, 0, 3, 1], [3, 0, 2, 1]),
        ("tokens", [3, 0, 2, 1], [2, 0, 3, 1]),
        ("turns", [3, 0, 2, 1], [0, 2, 3, 1]),
    ],
)
def test_order_has_rows_without_a_value_last(key: str, up: list[int], down: list[int]) -> None:
    assert order([SORTED], key) == up
    assert order([SORTED], key, descending=True) == down


def test_order_is_the_same_over_two_files() -> None:
    values = [random.Random(seed).choice([NAN, 0.0, 0.5, 1.0]) for seed in range(40)]
    rows = [{"reward": value, "seconds": value} for value in values]
    for key in SORTS:
        for descending in (False, True):
            alone = order([columns(*rows)], key, descending=descending)
            assert alone == order([columns(*rows[:17]), columns(*rows[17:])], key, descending=descending)


# ---- figures


def test_figures_leave_out_what_is_not_there() -> None:
    rows = select(FILES, Filter())
    found = figures(FILES, rows)
    assert (found["rows"], found["scored"], found["mean"]) == (5, 3, 0.5)
    assert found["outcomes"] == {0: 3, 3: 1, 4: 1}
    assert found["median_seconds"] is None
    nothing = figures(FILES, [])
    assert (nothing["rows"], nothing["mean"]) == (0, None)


def test_few_rewards_have_a_bar_each() -> None:
    files = [columns(*({"reward": value} for value in (0.0, 1.0, 1.0, 0.25)), {})]
    bars = histogram(files, select(files, Filter()))
    assert [(bar["min"], bar["max"], bar["count"]) for bar in bars] == [
        (0.0, 0.0, 1),
        (0.25, 0.25, 1),
        (1.0, 1.0, 2),
    ]
    assert histogram(files, []) == []


@pytest.mark.parametrize(
    "rewards",
    [
        [number / 37 for number in range(38)],
        [random.Random(3).gauss(0, 5) for _ in range(500)],
        [-1.7e308 + number for number in range(5)] + [number / 7 for number in range(20)] + [1.7e308],
        [5e-324 * number for number in range(30)],
    ],
)
def test_a_bar_selects_exactly_its_rows(rewards: list[float]) -> None:
    files = [columns(*({"reward": value} for value in rewards))]
    bars = histogram(files, select(files, Filter()))
    assert sum(bar["count"] or 0 for bar in bars) == len(rewards)
    for bar in bars:
        if bar["count"]:
            rows = select(files, Filter(reward_min=bar["min"], reward_max=bar["max"]))
            assert len(rows) == bar["count"]


# ---- tasks


def attempts(task: int, *rewards: float, agent: int = 0) -> list[dict[str, Any]]:
    return [
        {"task": task, "agent": agent, "reward": reward, "rollout_index": number}
        for number, reward in enumerate(rewards)
    ]


def table_of(*rows: dict[str, Any]) -> TaskTable:
    files = [columns(*rows)]
    return TaskTable(files, select(files, Filter()))


def test_rows_are_grouped_by_task_and_agent() -> None:
    table = table_of(
        *attempts(5, 1.0, 0.0),
        {"reward": 1.0},  # no task
        *attempts(6, 1.0),
        {"task": 5, "rollout_index": 2},  # not scored
        *attempts(5, 0.5, agent=1),
    )
    assert [[split(row)[1] for row in table.rows(task)] for task in range(len(table))] == [
        [0, 1, 4],
        [3],
        [5],
    ]
    first = table.figures(0)
    assert (first["rollouts"], first["scored"], first["mean"]) == (3, 2, 0.5)
    assert first["std"] == pytest.approx(math.sqrt(0.5))
    assert first["pass"] == {"1": 0.5, "2": 1.0}
    assert table.figures(1)["std"] is None
    assert len(table_of()) == 0
    assert table_of().pass_table() == []


def test_pass_at_k_is_what_collect_reports() -> None:
    dice = random.Random(1)
    for values in ([0.0, 1.0], [0.0, 0.3, 1.0]):
        rewards = [[dice.choice(values) for _ in range(8)] for _ in range(20)]
        rows = [row for task, each in enumerate(rewards, start=1) for row in attempts(task, *each)]
        dice.shuffle(rows)  # as they were completed
        wanted = pass_at_k(rewards)
        found = table_of(*rows).pass_table()
        assert [line["k"] for line in found] == [1, 2, 4, 8]
        for line in found:
            assert line["value"] == pytest.approx(wanted[f"pass@{line['k']}"])
            assert line["tasks"] == 20


def test_pass_at_k_counts_tasks_with_enough_rollouts() -> None:
    found = table_of(*attempts(1, 0.0, 1.0, 1.0), *attempts(2, 0.0), *attempts(3, NAN)).pass_table()
    assert [(line["k"], line["tasks"]) for line in found] == [(1, 2), (2, 1)]
    assert [line["value"] for line in found] == [pytest.approx(1 / 3), 1.0]


def test_tasks_are_sorted() -> None:
    table = table_of(
        *attempts(1, 1.0, 0.0), *attempts(2, NAN), *attempts(3, 1.0, 1.0, 1.0), *attempts(4, 0.2)
    )
    assert table.order("task", descending=True) == [3, 2, 1, 0]
    assert table.order("rollouts", descending=True) == [2, 0, 1, 3]
    assert table.order("mean", descending=False) == [3, 0, 2, 1]
    assert table.order("std", descending=True) == [0, 2, 3, 1]
    for key in TASK_SORTS:
        assert sorted(table.order(key, descending=False)) == [0, 1, 2, 3]

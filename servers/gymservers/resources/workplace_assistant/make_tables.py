"""Makes the shipped tables: `python -m gymservers.resources.workplace_assistant.make_tables [FOLDER]`.

An invented office: people, companies and addresses under example domains, which belong to nobody. The same
files come out wherever it runs: chance is the `random()` of one seeded generator, which Python keeps stable.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from gymservers.resources.workplace_assistant.loading import DIRECTORY, FILES
from gymservers.resources.workplace_assistant.phrases import (
    BOARDS,
    CHAT,
    COMPANIES,
    EVENTS,
    FIRST_NAMES,
    GREETINGS,
    LAST_NAMES,
    MEETING_NEWS,
    NOTES,
    STAFF,
    TASK_NEWS,
)

__all__ = ["make_tables"]

T = TypeVar("T")
Line = Sequence[object]

SEED = 27
FOLDER = Path(__file__).resolve().parent / "data" / "tables"

EMAILS, EVENT_COUNT, VISITS, TASKS, CUSTOMERS = 500, 300, 1000, 300, 200
TEAM = STAFF[:15]
SALES = STAFF[15:]


class Chance:
    """Draws from one seeded generator."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed).random

    def below(self, count: int) -> int:
        """A whole number from 0 to count - 1."""
        return int(self._draw() * count)

    def one_of(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.below(len(items))]

    def some_of(self, items: Sequence[T], count: int) -> list[T]:
        """So many different ones, in the order of the items."""
        chosen = sorted(sorted(range(len(items)), key=lambda _: self._draw())[:count])
        return [items[index] for index in chosen]

    def ids(self, count: int) -> list[str]:
        """The ids of a table, in any order."""
        return [f"{number:08}" for number in sorted(range(count), key=lambda _: self._draw())]


def make_tables(folder: Path) -> None:
    """Writes the six files into a folder, which is made if it is not there."""
    chance = Chance(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = _tasks(chance)
    lines = {
        "tasks": tasks,
        "events": _events(chance),
        "emails": _emails(chance, [str(task[1]) for task in tasks]),
        "customers": _customers(chance),
        "visits": _visits(chance),
    }
    for name, rows in lines.items():
        _write(folder / FILES[name].name, [FILES[name].columns, *rows])
    _write(folder / DIRECTORY, [[_address(person)] for person in STAFF])


def _write(path: Path, rows: Iterable[Line]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _address(name: str, domain: str = "example.com") -> str:
    return f"{name.lower().replace(' ', '.')}@{domain}"


def _days(first: date, last: date, *, weekdays: bool = False) -> list[date]:
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [day for day in days if not weekdays or day.weekday() < 5]


def _tasks(chance: Chance) -> list[Line]:
    days = _days(date(2023, 11, 20), date(2023, 12, 15), weekdays=True)
    lists = ("Backlog", "Backlog", "In Progress", "In Review", "Completed", "Completed")
    rows: list[Line] = []
    for task_id in chance.ids(TASKS):
        board = chance.one_of(sorted(BOARDS))
        jobs, objects = BOARDS[board]
        name = chance.one_of(jobs).format(chance.one_of(objects))
        assignee = _address(chance.one_of(TEAM))
        rows.append((task_id, name, assignee, chance.one_of(lists), chance.one_of(days), board))
    return sorted(rows, key=lambda row: str(row[4]))


def _events(chance: Chance) -> list[Line]:
    """Every slot is 90 minutes long, so that no two events overlap."""
    days = _days(date(2023, 8, 1), date(2023, 12, 22), weekdays=True)
    slots = [
        datetime.combine(day, datetime.min.time()) + timedelta(hours=9, minutes=90 * number)
        for day in days
        for number in range(6)
    ]
    starts = chance.some_of(slots, EVENT_COUNT)
    return [
        (event_id, chance.one_of(EVENTS), _address(chance.one_of(STAFF)), start, chance.one_of((30, 60, 90)))
        for event_id, start in zip(chance.ids(EVENT_COUNT), starts, strict=True)
    ]


def _emails(chance: Chance, tasks: Sequence[str]) -> list[Line]:
    days = _days(date(2023, 10, 1), date(2023, 11, 30))
    minutes = [(day, minute) for day in days for minute in range(8 * 60, 19 * 60)]
    rows: list[Line] = []
    for email_id, (day, minute) in zip(chance.ids(EMAILS), chance.some_of(minutes, EMAILS), strict=True):
        sent = datetime.combine(day, datetime.min.time()) + timedelta(
            minutes=minute, seconds=chance.below(60)
        )
        person = chance.one_of(STAFF)
        outgoing = chance.below(12) == 0
        greeted, signed = (person.split()[0], "Robin") if outgoing else ("Robin", person.split()[0])
        subject, text = _message(chance, tasks)
        body = f"{chance.one_of(GREETINGS)} {greeted},\n\n{text}\n\n{signed}"
        rows.append((email_id, "outbox" if outgoing else "inbox", _address(person), subject, sent, body))
    return rows


def _message(chance: Chance, tasks: Sequence[str]) -> tuple[str, str]:
    kind = chance.below(5)
    if kind == 0:
        return chance.one_of(CHAT)
    if kind < 3:
        subject, text = chance.one_of(MEETING_NEWS)
        what = chance.one_of(EVENTS)
    else:
        subject, text = chance.one_of(TASK_NEWS)
        what = chance.one_of(tasks)
    return subject.format(what), text.format(what)


def _customers(chance: Chance) -> list[Line]:
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    days = _days(date(2023, 10, 1), date(2023, 11, 30))
    rows: list[Line] = []
    for customer_id, name in zip(chance.ids(CUSTOMERS), chance.some_of(names, CUSTOMERS), strict=True):
        contact = datetime.combine(chance.one_of(days), datetime.min.time())
        contact += timedelta(minutes=540 + 15 * chance.below(32))
        follow_up = contact + timedelta(days=7 + chance.below(29))
        said = [f"{chance.one_of(days)}: {chance.one_of(NOTES)}" for _ in range(chance.below(4))]
        rows.append(
            (
                customer_id,
                _address(chance.one_of(SALES)),
                name,
                _address(name, f"{chance.one_of(COMPANIES)}.example"),
                f"202-555-01{chance.below(100):02}" if chance.below(2) else "",
                contact,
                chance.one_of(("Software", "Hardware", "Services", "Consulting", "Training")),
                chance.one_of(("Qualified", "Won", "Lost", "Lead", "Proposal")),
                follow_up,
                " ".join(sorted(said)),
            )
        )
    return sorted(rows, key=lambda row: str(row[5]), reverse=True)


def _visits(chance: Chance) -> list[Line]:
    days = _days(date(2023, 9, 1), date(2023, 11, 30))
    sources = ("direct", "direct", "search engine", "search engine", "referral", "social media")
    return [
        (
            chance.one_of(days),
            f"{chance.below(10_000):04}",
            1 + chance.below(20),
            1 + chance.below(1 + chance.below(120)),
            chance.one_of(sources),
            chance.below(3) == 0,
        )
        for _ in range(VISITS)
    ]


if __name__ == "__main__":
    make_tables(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)

"""Reads the office's tables from six CSV files and names every mistake in them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from gymd.errors import error
from gymservers.resources.workplace_assistant.dates import moment
from gymservers.resources.workplace_assistant.tables import Office, Row, Table

__all__ = ["FILES", "load_office"]

MOST_MISTAKES = 20
"""Mistakes that are shown; of more, how many there are."""

Check = Callable[[str], bool]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    return str(moment(text)) == text


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


def _is_truth(text: str) -> bool:
    return text in ("True", "False")


ID = (_is_id, "an id of digits")
DAY = (_is_day, "a date such as 2023-11-30")
TIME = (_is_time, "a time such as 2023-11-30 23:59:00")
NUMBER = (_is_number, "a number")
TRUTH = (_is_truth, "True or False")


@dataclass(frozen=True)
class TableFile:
    """What one CSV file holds.

    Attributes:
        name: the file's name.
        columns: its header, exactly.
        checks: what the cells of a column must be, and the words for it; such cells cannot be empty.
        unique: whether the first column is an id that no two rows share.
    """

    name: str
    columns: tuple[str, ...]
    checks: dict[str, tuple[Check, str]] = field(default_factory=dict)
    unique: bool = True


FILES = {
    "emails": TableFile(
        "emails.csv",
        ("email_id", "inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body"),
        {"email_id": ID, "sent_datetime": TIME},
    ),
    "events": TableFile(
        "calendar_events.csv",
        ("event_id", "event_name", "participant_email", "event_start", "duration"),
        {"event_id": ID, "event_start": TIME},
    ),
    "visits": TableFile(
        "analytics_data.csv",
        (
            "date_of_visit",
            "visitor_id",
            "page_views",
            "session_duration_seconds",
            "traffic_source",
            "user_engaged",
        ),
        {"date_of_visit": DAY, "session_duration_seconds": NUMBER, "user_engaged": TRUTH},
        unique=False,
    ),
    "tasks": TableFile(
        "project_tasks.csv",
        ("task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board"),
        {"task_id": ID},
    ),
    "customers": TableFile(
        "customer_relationship_manager_data.csv",
        (
            "customer_id",
            "assigned_to_email",
            "customer_name",
            "customer_email",
            "customer_phone",
            "last_contact_date",
            "product_interest",
            "status",
            "follow_up_by",
            "notes",
        ),
        {"customer_id": ID},
    ),
}
DIRECTORY = "email_addresses.csv"
PLOTS = ("file_path",)


def load_office(folder: Path) -> Office:
    """The office of a folder's six files.

    Raises:
        InvalidRequest: a file is missing or malformed; the text names all mistakes, by file and line.
    """
    mistakes: list[str] = []
    if not folder.is_dir():
        mistakes.append("there is no such folder")
    directory = [cells[0] for _, cells in _lines(folder / DIRECTORY, mistakes) if cells[0]]
    read = {name: _rows(folder, file, mistakes) for name, file in FILES.items()}
    if mistakes:
        shown = "; ".join(mistakes[:MOST_MISTAKES])
        more = len(mistakes) - MOST_MISTAKES
        text = f"the tables in {folder} cannot be used: {shown}" + (f"; and {more} more" if more > 0 else "")
        raise error("INVALID_REQUEST", text, folder=folder, mistakes=len(mistakes))
    tables: dict[str, Any] = {
        name: Table(file.columns, [Row(cells) for cells in read[name]])
        for name, file in FILES.items()
        if name != "visits"
    }
    return Office(directory, [_visit(cells) for cells in read["visits"]], plots=Table(PLOTS), **tables)


def _visit(cells: dict[str, Any]) -> dict[str, Any]:
    return cells | {"user_engaged": cells["user_engaged"] == "True"}


def _lines(path: Path, mistakes: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV file that are not empty, numbered from 1; what is wrong with the file is noted."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
    except FileNotFoundError:
        mistakes.append(f"{path.name} is missing")
    except (OSError, csv.Error, UnicodeDecodeError) as failure:
        mistakes.append(f"{path.name} cannot be read as CSV in UTF-8: {failure}")


def _rows(folder: Path, file: TableFile, mistakes: list[str]) -> list[dict[str, Any]]:
    lines = _lines(folder / file.name, mistakes)
    known = len(mistakes)
    _, header = next(lines, (0, []))
    if tuple(header) != file.columns:
        if len(mistakes) == known:
            mistakes.append(f"{file.name} must begin with the line {','.join(file.columns)}")
        return []
    rows, ids = [], set()
    for number, cells in lines:
        where = f"{file.name} line {number}"
        if len(cells) != len(header):
            mistakes.append(f"{where} has {len(cells)} cells, not {len(header)}")
            continue
        row = {name: cell or None for name, cell in zip(header, cells, strict=True)}
        mistakes += [f"{where}: {problem}" for problem in _problems(row, file.checks)]
        if file.unique and cells[0] in ids:
            mistakes.append(f"{where}: the {header[0]} {cells[0]} stands there twice")
        ids.add(cells[0])
        rows.append(row)
    return rows


def _problems(row: dict[str, Any], checks: dict[str, tuple[Check, str]]) -> Sequence[str]:
    return [
        f"{name} is {row[name] or ''!r}, not {words}"
        for name, (check, words) in checks.items()
        if not check(row[name] or "")
    ]

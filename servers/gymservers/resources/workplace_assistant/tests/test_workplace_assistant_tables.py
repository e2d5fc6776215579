"""The office's tables: mistakes in files are named at start, the shipped ones are what the script makes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gymd.errors import GymdError
from gymd.sdk.testing import start_server
from gymservers.resources.workplace_assistant.loading import DIRECTORY, FILES, load_office
from gymservers.resources.workplace_assistant.make_tables import FOLDER, STAFF, make_tables
from gymservers.resources.workplace_assistant.server import SHIPPED, WorkplaceAssistant
from gymservers.resources.workplace_assistant.tables import Row, Table

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[4].parent / "shared" / "data" / "workplace_assistant" / "csv"
SIZES = {"emails": 500, "events": 300, "visits": 1000, "tasks": 300, "customers": 200, "directory": 20}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped tables, to be spoilt."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "tables"))


def sizes(folder: Path) -> dict[str, int]:
    office = load_office(folder)
    tables = {name: getattr(office, name).rows for name in ("emails", "events", "tasks", "customers")}
    both = {"visits": office.visits, "directory": office.directory}
    return {name: len(rows) for name, rows in (tables | both).items()}


def test_the_shipped_tables_are_what_the_script_makes(tmp_path: Path) -> None:
    make_tables(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    assert set(made) == {file.name for file in FILES.values()} | {DIRECTORY}
    assert sum(map(len, made.values())) < 250_000


def test_the_shipped_tables_have_the_published_sizes() -> None:
    assert FOLDER == SHIPPED
    assert sizes(SHIPPED) == SIZES


def test_the_shipped_office_makes_sense() -> None:
    office = load_office(SHIPPED)
    staff = set(office.directory)
    assert len(staff) == len(STAFF)
    for table, column in (
        (office.emails, "sender/recipient"),
        (office.events, "participant_email"),
        (office.tasks, "assigned_to_email"),
        (office.customers, "assigned_to_email"),
    ):
        assert {row.text(column) for row in table.rows} <= staff
    sent = [row.text("sent_datetime") for row in office.emails.rows]
    assert sent == sorted(set(sent))
    assert all("2023-10-01" <= time < "2023-11-30 23:59" for time in sent)
    starts = [row.text("event_start") for row in office.events.rows]
    assert starts == sorted(set(starts))
    assert all("09:00:00" <= start[11:] <= "16:30:00" for start in starts)
    for row in office.customers.rows:
        assert row.text("customer_email").endswith(".example")


async def test_the_server_tells_which_tables_it_uses(folder: Path) -> None:
    async with start_server(WorkplaceAssistant, transport="in-process") as server:
        assert server.server.labels() == {
            "tables": "shipped",
            "rows": "500 emails, 300 events, 300 tasks, 200 customers",
        }
    async with start_server(WorkplaceAssistant, {"data_dir": str(folder)}, transport="in-process") as server:
        assert server.server.labels()["tables"] == str(folder)


def test_published_tables() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    assert sizes(SHARED) == SIZES


def appended(name: str, line: str) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(line)

    return spoil


def written(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


# What is done to the tables, and what the server says.
SPOILT: list[tuple[Callable[[Path], object], str]] = [
    (lambda folder: (folder / "emails.csv").unlink(), "emails.csv is missing"),
    (lambda folder: (folder / DIRECTORY).unlink(), "email_addresses.csv is missing"),
    (written("emails.csv", b""), "emails.csv must begin with the line email_id,inbox/outbox,"),
    (written("project_tasks.csv", b"task_id;task_name\n1;x\n"), "project_tasks.csv must begin with the line"),
    (written("analytics_data.csv", b"\xff\xfe\x00"), "analytics_data.csv cannot be read as CSV in UTF-8"),
    (written("project_tasks.csv", b'task_id,"x'), "project_tasks.csv cannot be read as CSV"),
    (written(DIRECTORY, b'"open'), "email_addresses.csv cannot be read as CSV"),
    (appended("project_tasks.csv", "00000900,Task\n"), "project_tasks.csv line 302 has 2 cells, not 6"),
    (
        appended("project_tasks.csv", "00000009,T,a@b.c,Backlog,x,Design\n"),
        "task_id 00000009 stands there twice",
    ),
    (appended("project_tasks.csv", "x9,T,a@b.c,Backlog,x,Design\n"), "task_id is 'x9', not an id of digits"),
    (appended("project_tasks.csv", ",T,a@b.c,Backlog,x,Design\n"), "task_id is '', not an id of digits"),
    (
        appended("calendar_events.csv", "00000900,E,a@b.c,1 May 2023,30\n"),
        "event_start is '1 May 2023', not a time",
    ),
    (
        appended("calendar_events.csv", "00000900,E,a@b.c,2023-05-01,30\n"),
        "not a time such as 2023-11-30 23:59:00",
    ),
    (appended("emails.csv", "00000900,inbox,a@b.c,S,,B\n"), "sent_datetime is '', not a time"),
    (
        appended("analytics_data.csv", "2023-02-30,1,2,3,direct,True\n"),
        "date_of_visit is '2023-02-30', not a date",
    ),
    (
        appended("analytics_data.csv", "2023-02-03,1,2,x,direct,True\n"),
        "session_duration_seconds is 'x', not a",
    ),
    (appended("analytics_data.csv", "2023-02-03,1,2,nan,direct,True\n"), "session_duration_seconds is 'nan'"),
    (
        appended("analytics_data.csv", "2023-02-03,1,2,3,direct,yes\n"),
        "user_engaged is 'yes', not True or False",
    ),
]


@pytest.mark.parametrize(("spoil", "why"), SPOILT, ids=lambda value: value if isinstance(value, str) else "")
async def test_what_is_wrong_with_a_file_is_named_at_start(
    folder: Path, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(folder)
    with pytest.raises(GymdError) as caught:
        async with start_server(WorkplaceAssistant, {"data_dir": str(folder)}, transport="in-process"):
            pass
    assert why in str(caught.value)


def test_all_mistakes_are_named_at_once(folder: Path) -> None:
    (folder / DIRECTORY).unlink()
    appended("emails.csv", "00000000,inbox\n")(folder)
    appended("calendar_events.csv", "x,E,a@b.c,noon,30\n" * 30)(folder)
    with pytest.raises(GymdError) as caught:
        load_office(folder)
    text = str(caught.value)
    assert str(folder) in text
    for part in (DIRECTORY, "emails.csv line", "event_id is 'x'", "event_start is 'noon'", "and 71 more"):
        assert part in text
    assert caught.value.metadata["mistakes"] == "91"


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GymdError, match="there is no such folder"):
        load_office(tmp_path / "nowhere")
    with pytest.raises(GymdError, match="data_dri") as caught:
        async with start_server(WorkplaceAssistant, {"data_dri": "x", "max_changes": 0}):
            pass
    assert "max_changes" in str(caught.value)


def test_a_byte_order_mark_and_other_line_ends_are_taken(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert sizes(folder) == SIZES


def table(*ids: str) -> Table:
    return Table(("id", "status"), [Row({"id": number, "status": "Won"}) for number in ids])


def test_forks_share_rows_until_they_change() -> None:
    base = table("1", "2")
    fork, other = base.fork(), base.fork()
    assert fork.rows is base.rows
    fork.set("1", "status", "Lost")
    fork.add({"id": "3", "status": "Lead"})
    other.remove("2")
    assert [row.cells["id"] for row in base.rows] == ["1", "2"]
    assert [row.cells["status"] for row in base.rows] == ["Won", "Won"]
    assert fork.rows[1] is base.rows[1]
    assert not fork.same_as(base)
    assert not other.same_as(base)
    fork.set("1", "status", "Won")
    fork.remove("3")
    assert fork.same_as(base)


def test_rows_are_the_same_upper_and_lower_case_aside_but_for_some_columns() -> None:
    one, other = Row({"name": "Ada", "status": "Won"}), Row({"name": "ADA", "status": "Won"})
    assert one.folded == other.folded
    assert one.folded != Row({"name": "ada", "status": "won"}).folded
    assert one.folded != Row({"name": None, "status": "Won"}).folded


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], 1),
        (["00000000"], 1),
        (["00000499", "00000012"], 500),
        (["00000499", "500"], 501),
        (["999", "1000"], 1001),  # by number, not by text
        (["00000007", "seven", "9" * 5_000], 8),
    ],
)
def test_the_next_id_is_one_more_than_the_largest_number(ids: list[str], expected: int) -> None:
    assert table(*ids).next_id() == expected

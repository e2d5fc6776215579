"""The 27 tools over a few rows: what they find, page by page, what they refuse, and what they say."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gymd.sdk.testing import RunningServer, RunningSession, ToolAnswer, expect_error, start_server
from gymservers.resources.workplace_assistant.server import WorkplaceAssistant

pytestmark = pytest.mark.asyncio(loop_scope="module")
"""All tests here run on one event loop, since most of them use the one server."""

TABLES = {
    "emails.csv": """email_id,inbox/outbox,sender/recipient,subject,sent_datetime,body
00000002,inbox,ada@example.com,Lunch (Friday),2023-11-01 09:00:00,"Noodles?
Ada"
00000000,outbox,Bo@example.com,Budget,2023-11-02 10:00:00,See you.
00000001,inbox,ada@example.com,Budget,2023-11-03 23:59:59,
00000003,inbox,nobody,,2023-11-03 08:00:00,Gone.
""",
    "calendar_events.csv": """event_id,event_name,participant_email,event_start,duration
00000000,Tea,ada@example.com,2023-12-01 09:00:00,30
00000002,Tea again,bo@example.com,2023-12-02 09:00:00,30
00000001,Review [1],ada@example.com,2023-12-03 09:00:00,60
""",
    "analytics_data.csv": """\
date_of_visit,visitor_id,page_views,session_duration_seconds,traffic_source,user_engaged
2023-11-02,0007,3,10,direct,True
2023-11-01,0007,1,5,referral,False
2023-11-02,0008,2,3,direct,False
2023-11-02,0009,2,0.5,search engine,True
2023-11-03,0009,,7,,False
""",
    "project_tasks.csv": """task_id,task_name,assigned_to_email,list_name,due_date,board
00000004,Paint the door,ada@example.com,Backlog,2023-12-01,Design
00000009,Mend the door,bo@example.com,In Review,2023-12-02,Back end
""",
    "customer_relationship_manager_data.csv": "customer_id,assigned_to_email,customer_name,customer_email,"
    "customer_phone,last_contact_date,product_interest,status,follow_up_by,notes\n00000001,bo@example.com,"
    "Cy Dorn,cy@dorn.example,,2023-11-30 09:00:00,Software,Lead,2023-12-09 09:00:00,\n"
    "00000000,ada@example.com,Di Falk,,,,,Won,,Busy.\n",
    "email_addresses.csv": "ada@example.com\nbo@example.com\nada.two@example.com\n",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    tmp_path = tmp_path_factory.mktemp("tables")
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    config = {"data_dir": str(tmp_path), "max_text_chars": 50}
    async with start_server(WorkplaceAssistant, config, transport="in-process") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def desk(server: RunningServer) -> AsyncIterator[RunningSession]:
    async with await server.seed({"ground_truth": []}) as session:
        yield session


class Ids:
    """What to look at in an answer: the ids of the rows, and the pagination as (total, page, size, pages)."""

    def __init__(self, *ids: str, at: tuple[int, int, int, int] | None = None) -> None:
        self.ids, self.at = list(ids), at

    def check(self, output: Any) -> None:
        if isinstance(output, list):
            rows = output
        else:
            (what,) = set(output) - {"pagination"}
            rows, pagination = output[what], output["pagination"]
            assert list(pagination) == [f"total_{what}", "page", "page_size", "total_pages"]
            if self.at is not None:
                assert tuple(pagination.values()) == self.at
        assert [next(iter(row.values()))[-1] for row in rows] == self.ids


SEARCH_CUSTOMERS = "customer_relationship_manager_search_customers"
UPDATE_CUSTOMER = "customer_relationship_manager_update_customer"
EVENT_BY_ID = "calendar_get_event_information_by_id"
EMAIL_BY_ID = "email_get_email_information_by_id"
TASK_BY_ID = "project_management_get_task_information_by_id"
SEARCH_TASKS = "project_management_search_tasks"
UPDATE_TASK = "project_management_update_task"

# Tool, arguments, and the answer: exactly, a part of its text, or Ids.
READS: list[tuple[str, dict[str, Any], Any]] = [
    ("company_directory_find_email_address", {"name": "ADA"}, ["ada@example.com", "ada.two@example.com"]),
    ("company_directory_find_email_address", {"name": "a.t"}, ["ada.two@example.com"]),  # no pattern
    ("company_directory_find_email_address", {"name": "(zoe"}, []),
    ("company_directory_find_email_address", {"name": ""}, "Give a name"),
    ("company_directory_find_email_address", {"name": None}, "Give a name"),
    ("company_directory_find_email_address", {}, "Give a name"),
    (EMAIL_BY_ID, {"email_id": "00000000", "field": "subject"}, {"subject": "Budget"}),
    (EMAIL_BY_ID, {"email_id": "00000001", "field": "body"}, {"body": None}),
    (EMAIL_BY_ID, {"email_id": "0", "field": "subject"}, "no email"),
    (EMAIL_BY_ID, {"email_id": "00000000", "field": "date"}, "inbox/outbox, sender"),
    ("email_search_emails", {}, Ids("1", "3", "0", "2", at=(4, 1, 5, 1))),  # newest first
    ("email_search_emails", {"query": "BUDGET ada"}, Ids("1")),
    ("email_search_emails", {"query": "(friday) noodles"}, Ids("2")),
    ("email_search_emails", {"query": "budget lunch"}, "No emails"),
    ("email_search_emails", {"query": "null"}, "No emails"),
    ("email_search_emails", {"date_min": "2023-11-02"}, Ids("1", "3", "0")),
    ("email_search_emails", {"date_max": "2023-11-02"}, Ids("0", "2")),
    ("email_search_emails", {"date_min": "2023-11-03", "date_max": "2023-11-03 00:00:00"}, Ids("1", "3")),
    ("email_search_emails", {"date_min": "yesterday"}, "YYYY-MM-DD"),
    ("email_search_emails", {"date_max": "2023-02-30"}, "YYYY-MM-DD"),
    ("email_search_emails", {"page_size": 3}, Ids("1", "3", "0", at=(4, 1, 3, 2))),
    ("email_search_emails", {"page_size": 3, "page": 2}, Ids("2", at=(4, 2, 3, 2))),
    ("email_search_emails", {"page_size": 3, "page": 9}, Ids("2", at=(4, 2, 3, 2))),
    ("email_search_emails", {"page_size": 3, "page": -1}, Ids("1", "3", "0", at=(4, 1, 3, 2))),
    ("email_search_emails", {"page_size": 0}, "at least 1"),
    ("email_search_emails", {"page_size": -5}, "at least 1"),
    ("email_search_emails", {"page_size": 10**15}, Ids("1", "3", "0", "2")),
    (EVENT_BY_ID, {"event_id": "00000002", "field": "duration"}, {"duration": "30"}),
    (EVENT_BY_ID, {"event_id": "2", "field": "duration"}, "8 digits"),
    (EVENT_BY_ID, {"event_id": "00000007", "field": "duration"}, "no event"),
    (EVENT_BY_ID, {"event_id": "00000002", "field": "end"}, "event_start, duration"),
    ("calendar_search_events", {}, Ids("1", "2", "0", at=(3, 1, 5, 1))),  # latest first
    ("calendar_search_events", {"query": "TEA"}, Ids("2", "0")),
    ("calendar_search_events", {"query": "review ["}, Ids("1")),  # no pattern
    ("calendar_search_events", {"query": "ada@"}, Ids("1", "0")),
    ("calendar_search_events", {"query": "(a+)+$"}, "No events"),
    ("calendar_search_events", {"time_min": "2023-12-02 09:00:00"}, Ids("1", "2")),
    ("calendar_search_events", {"time_max": "2023-12-02 09:00:00"}, Ids("2", "0")),
    ("calendar_search_events", {"time_max": "2023-12-02"}, Ids("0")),
    ("calendar_search_events", {"time_min": "2023-12-02T00:00:00Z"}, Ids("1", "2")),
    ("calendar_search_events", {"time_min": "noon"}, "YYYY-MM-DD HH:MM:SS"),
    ("calendar_search_events", {"page_size": 2, "page": 2}, Ids("0", at=(3, 2, 2, 2))),
    (
        "analytics_get_visitor_information_by_id",
        {"visitor_id": "0008"},
        [
            {
                "date_of_visit": "2023-11-02",
                "visitor_id": "0008",
                "page_views": "2",
                "session_duration_seconds": "3",
                "traffic_source": "direct",
                "user_engaged": False,
            },
        ],
    ),
    ("analytics_get_visitor_information_by_id", {"visitor_id": "8"}, "no visitor"),
    ("analytics_total_visits_count", {}, {"2023-11-01": 1, "2023-11-02": 3, "2023-11-03": 1}),
    ("analytics_total_visits_count", {"time_min": "2023-11-02", "time_max": "2023-11-02"}, {"2023-11-02": 3}),
    ("analytics_total_visits_count", {"time_min": "2024-01-01"}, {}),
    ("analytics_engaged_users_count", {"time_max": "2023-11-02"}, {"2023-11-01": 0, "2023-11-02": 2}),
    (
        "analytics_traffic_source_count",
        {"traffic_source": "direct"},
        {"2023-11-01": 0, "2023-11-02": 2, "2023-11-03": 0},
    ),
    ("analytics_traffic_source_count", {"time_min": "2023-11-02"}, {"2023-11-02": 3, "2023-11-03": 1}),
    ("analytics_get_average_session_duration", {}, {"2023-11-01": 5.0, "2023-11-02": 4.5, "2023-11-03": 7.0}),
    (TASK_BY_ID, {"task_id": "00000009", "field": "board"}, {"board": "Back end"}),
    (TASK_BY_ID, {"task_id": "9", "field": "board"}, "no task"),
    (TASK_BY_ID, {"task_id": "00000009", "field": "x"}, "task_name"),
    (SEARCH_TASKS, {"task_name": "DOOR"}, Ids("4", "9")),
    (SEARCH_TASKS, {"task_name": "door", "list_name": "in review"}, Ids("9")),
    (SEARCH_TASKS, {"assigned_to_email": "Bo@example.com"}, Ids("9")),
    (SEARCH_TASKS, {"assigned_to_email": "bo@example"}, []),  # the whole address
    (SEARCH_TASKS, {"assigned_to_email": "bo"}, "whole email address"),
    (SEARCH_TASKS, {"due_date": "2023-12-01", "board": "end"}, []),
    (SEARCH_TASKS, {}, "at least one"),
    (SEARCH_CUSTOMERS, {}, "at least one"),
    (SEARCH_CUSTOMERS, {"page": 2}, "at least one"),
    (SEARCH_CUSTOMERS, {"customer_name": "D"}, Ids("1", "0")),
    (SEARCH_CUSTOMERS, {"customer_email": "dorn"}, Ids("1")),
    (SEARCH_CUSTOMERS, {"status": "won", "assigned_to_email": "ada"}, Ids("0")),
    (SEARCH_CUSTOMERS, {"last_contact_date_min": "2023-11-30"}, Ids("1")),
    (SEARCH_CUSTOMERS, {"last_contact_date_max": "2023-11-30"}, "No customers"),
    (SEARCH_CUSTOMERS, {"last_contact_date_max": "2023-12-01"}, Ids("1")),
    (SEARCH_CUSTOMERS, {"follow_up_by_min": "2023-12-10"}, "No customers"),
    (SEARCH_CUSTOMERS, {"follow_up_by_max": "2023-12-10"}, Ids("1")),
    (SEARCH_CUSTOMERS, {"customer_name": "D", "page_size": 1, "page": 5}, Ids("0", at=(2, 2, 1, 2))),
]


def check(answer: ToolAnswer, expected: Any) -> None:
    assert not answer.is_error
    (output,) = answer.json().values()
    if isinstance(expected, Ids):
        expected.check(output)
    elif isinstance(expected, str):
        assert isinstance(output, str)
        assert expected in output
    else:
        assert output == expected
        assert not isinstance(expected, dict) or list(output) == list(expected)


async def test_reading(desk: RunningSession) -> None:
    for name, arguments, expected in READS:
        answer = await desk.call(name, **arguments)
        try:
            check(answer, expected)
        except AssertionError as failure:
            raise AssertionError(f"{name} {arguments} answered {answer.output}, not {expected}") from failure


async def test_missing_cells_are_null(desk: RunningSession) -> None:
    answer = await desk.call(SEARCH_CUSTOMERS, customer_name="Di")
    (found,) = answer.json()["output"]["customers"]
    assert [name for name, cell in found.items() if cell is None] == [
        "customer_email",
        "customer_phone",
        "last_contact_date",
        "product_interest",
        "follow_up_by",
    ]


async def newest(desk: RunningSession) -> dict[str, Any]:
    answer = await desk.call("email_search_emails", date_min="2023-11-30")
    return answer.json()["output"]["emails"][-1]


async def test_mail(desk: RunningSession) -> None:
    check(
        await desk.call("email_forward_email", email_id="00000002", recipient="Cy@Dorn.example"), "forwarded"
    )
    assert await newest(desk) == {
        "email_id": "4",
        "inbox/outbox": "outbox",
        "sender/recipient": "cy@dorn.example",
        "subject": "FW: Lunch (Friday)",
        "sent_datetime": "2023-11-30 23:59:00",
        "body": "Noodles?\nAda",
    }
    check(await desk.call("email_reply_email", email_id="00000000", body="Yes"), "sent")
    sent = await newest(desk)
    assert list(sent.values())[:4] == ["5", "outbox", "bo@example.com", "RE: Budget"]
    check(await desk.call("email_reply_email", email_id="4", body="More"), "sent")  # to whom it was sent
    assert (await newest(desk))["subject"] == "RE: FW: Lunch (Friday)"
    check(await desk.call("email_delete_email", email_id="6"), "deleted")
    check(await desk.call("email_delete_email", email_id="6"), "no email")
    check(await desk.call("email_send_email", recipient="a@b.c", subject="s", body="b"), "sent")
    assert (await newest(desk))["email_id"] == "6"  # the largest id is free again
    check(await desk.call("email_forward_email", email_id="00000001", recipient="a@b.c"), "forwarded")
    assert (await newest(desk))["body"] is None


async def test_events(desk: RunningSession) -> None:
    event = {
        "event_name": "Late",
        "participant_email": "BO@x.y",
        "event_start": "2023-12-24",
        "duration": "15",
    }
    check(await desk.call("calendar_create_event", **event), "00000003")
    check(
        await desk.call(
            "calendar_update_event", event_id="00000003", field="participant_email", new_value="Cy@x.y"
        ),
        "changed",
    )
    answer = (await desk.call("calendar_search_events", page_size=1)).json()["output"]["events"]
    assert answer == [event | {"event_id": "00000003", "participant_email": "cy@x.y"}]
    check(await desk.call("calendar_delete_event", event_id="00000003"), "deleted")
    check(await desk.call("calendar_create_event", **event), "00000003")


async def test_plots(desk: RunningSession) -> None:
    plot = {"time_min": "2023-11-01", "time_max": "x", "value_to_plot": "visits_direct", "plot_type": "bar"}
    check(await desk.call("analytics_create_plot", **plot), "plots/2023-11-01_x_visits_direct_bar.png")


async def test_tasks(desk: RunningSession) -> None:
    task = {
        "task_name": "Oil the door",
        "assigned_to_email": "ADA@example.com",
        "list_name": "In Progress",
        "due_date": "2023-12-05",
        "board": "Front end",
    }
    check(await desk.call("project_management_create_task", **task), "00000010")
    expected = task | {"task_id": "00000010", "assigned_to_email": "ada@example.com"}
    found = await desk.call(SEARCH_TASKS, task_name="oil")
    assert found.json()["output"] == [expected]
    check(
        await desk.call(UPDATE_TASK, task_id="00000010", field="list_name", new_value="Completed"),
        "changed",
    )
    check(await desk.call("project_management_delete_task", task_id="00000010"), "deleted")
    check(await desk.call("project_management_delete_task", task_id="00000004"), "deleted")
    check(await desk.call("project_management_create_task", **task), "nobody")  # ada has no task any more


async def test_customers(desk: RunningSession) -> None:
    kit = "customer_relationship_manager"
    check(
        await desk.call(
            f"{kit}_add_customer", customer_name="Ed", assigned_to_email="Bo@x.y", status="Anything"
        ),
        "00000002",
    )
    check(
        await desk.call(
            f"{kit}_update_customer", customer_id="00000002", field="customer_email", new_value="Ed@E.example"
        ),
        "changed",
    )
    (found,) = (await desk.call(f"{kit}_search_customers", customer_name="Ed")).json()["output"]["customers"]
    assert found == {
        "customer_id": "00000002",
        "assigned_to_email": "bo@x.y",
        "customer_name": "Ed",
        "customer_email": "ed@e.example",
        "customer_phone": None,
        "last_contact_date": None,
        "product_interest": None,
        "status": "Anything",
        "follow_up_by": None,
        "notes": "",
    }
    check(await desk.call(f"{kit}_delete_customer", customer_id="00000002"), "deleted")
    check(await desk.call(f"{kit}_delete_customer", customer_id="00000002"), "no customer")


# Tool, arguments, and a part of what the model reads. None of these changes anything.
KEPT: list[tuple[str, dict[str, str], str]] = [
    ("email_send_email", {"recipient": "ada", "subject": "s", "body": "b"}, "not a valid"),
    ("email_send_email", {"recipient": "a@b", "subject": "s", "body": "b"}, "not a valid"),
    ("email_send_email", {"recipient": "a@b.c", "subject": "", "body": "b"}, "needs"),
    ("email_forward_email", {"email_id": "9", "recipient": "a@b.c"}, "no email"),
    ("email_forward_email", {"email_id": "00000000", "recipient": "bo"}, "not a valid"),
    ("email_reply_email", {"email_id": "00000000", "body": ""}, "needs a body"),
    ("email_reply_email", {"email_id": "00000003", "body": "b"}, "not a valid"),  # its sender is "nobody"
    (
        "calendar_create_event",
        {"event_name": "", "participant_email": "a", "event_start": "2023-12-01", "duration": "1"},
        "needs",
    ),
    (
        "calendar_create_event",
        {"event_name": "e", "participant_email": "a", "event_start": "noon", "duration": "1"},
        "not a time",
    ),
    (
        "calendar_create_event",
        {
            "event_name": "e",
            "participant_email": "a",
            "event_start": "2023-12-01",
            "duration": "9" * 40 + "x",
        },
        "not a number",
    ),
    (
        "calendar_create_event",
        {"event_name": "e", "participant_email": "a", "event_start": "2023-12-01", "duration": "0"},
        "more than",
    ),
    ("calendar_delete_event", {"event_id": "00000009"}, "no event"),
    ("calendar_delete_event", {"event_id": "zero"}, "8 digits"),
    ("calendar_update_event", {"event_id": "00000000", "field": "event_id", "new_value": "1"}, "cannot be"),
    (
        "calendar_update_event",
        {"event_id": "00000000", "field": "duration", "new_value": "x"},
        "not a number",
    ),
    ("calendar_update_event", {"event_id": "00000000", "field": "event_name", "new_value": ""}, "empty"),
    (
        "analytics_create_plot",
        {"time_min": "", "time_max": "b", "value_to_plot": "user_engaged", "plot_type": "bar"},
        "needs",
    ),
    (
        "analytics_create_plot",
        {"time_min": "a", "time_max": "b", "value_to_plot": "visits", "plot_type": "bar"},
        "visits_direct",
    ),
    (
        "analytics_create_plot",
        {"time_min": "a", "time_max": "b", "value_to_plot": "user_engaged", "plot_type": "pie"},
        "histogram",
    ),
    (UPDATE_TASK, {"task_id": "00000004", "field": "colour", "new_value": "x"}, "no field"),
    (UPDATE_TASK, {"task_id": "00000004", "field": "board", "new_value": "x"}, "Back end"),
    (UPDATE_TASK, {"task_id": "00000004", "field": "list_name", "new_value": "done"}, "Completed"),
    (UPDATE_TASK, {"task_id": "1", "field": "due_date", "new_value": "x"}, "no task"),
    (UPDATE_CUSTOMER, {"customer_id": "00000000", "field": "status", "new_value": "won"}, "Won"),
    (
        UPDATE_CUSTOMER,
        {"customer_id": "00000000", "field": "product_interest", "new_value": "software"},
        "Software",
    ),
    (UPDATE_CUSTOMER, {"customer_id": "00000000", "field": "age", "new_value": "5"}, "no field"),
    (UPDATE_CUSTOMER, {"customer_id": "7", "field": "notes", "new_value": "5"}, "no customer"),
    (
        "customer_relationship_manager_add_customer",
        {"customer_name": "x", "assigned_to_email": "", "status": "Lead"},
        "needs",
    ),
]


async def test_refusals_are_sentences_and_change_nothing(server: RunningServer) -> None:
    office: Any = server.server
    fresh = office._office.fork(0)
    async with await server.seed({"ground_truth": []}) as session:
        for name, arguments, why in KEPT:
            answer = await session.call(name, **arguments)
            assert why in answer.json()["output"], f"{name} {arguments} answered {answer.output}"
            assert not answer.is_error
            state = server._servicer.sessions[session.id].state
            assert state.differences(fresh) == [], f"{name} {arguments}"


# Arguments of email_delete_email as a model may write them, and a part of what it reads.
MISFITS = [
    ("{not json", "JSON"),
    ("[]", "object"),
    ("[" * 100_000, "JSON"),
    ('{"email_id": %s}' % ("9" * 5_000), "JSON"),
    ('{"email_id": "\\ud800"}', "Invalid"),
    ("{}", "email_id: Field required"),
    ('{"email_id": null}', "email_id: Field required"),
    ('{"email_id": 4}', "valid string"),
    ('{"email_id": ["00000000"]}', "valid string"),
    ('{"email_id": "00000000", "force": true}', "no argument 'force'"),
    (json.dumps({"email_id": "0" * 51}), "more than 50 characters"),
]


async def test_arguments_that_do_not_fit_are_errors(desk: RunningSession) -> None:
    for arguments, why in MISFITS:
        answer = await desk.call_json("email_delete_email", arguments)
        assert answer.is_error
        output = answer.json()["output"]
        assert output.startswith("Error executing tool 'email_delete_email': ")
        assert why in output
    found = await desk.call(EMAIL_BY_ID, email_id="00000000", field="email_id")
    check(found, {"email_id": "00000000"})


async def test_numbers_for_pages_may_be_written_as_text(desk: RunningSession) -> None:
    check(await desk.call("email_search_emails", page="2", page_size="3"), Ids("2"))
    assert (await desk.call("email_search_emails", page="two")).is_error


async def test_there_is_no_office_without_a_session(server: RunningServer) -> None:
    session = await server.seed({"ground_truth": []})
    await session.close()
    call = session.call("company_directory_find_email_address", name="ada")
    await expect_error("SESSION_NOT_FOUND", call, "a call without a session")

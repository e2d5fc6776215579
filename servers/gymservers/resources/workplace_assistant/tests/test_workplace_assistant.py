"""workplace_assistant: which calls earn the reward, published rows, sessions side by side."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gymd.sdk.testing import (
    Attempt,
    RunningServer,
    Transport,
    check_resources_server,
    expect_error,
    function_call,
    make_response,
    make_task,
    message,
    start_server,
)
from gymservers.resources.workplace_assistant.server import WorkplaceAssistant
from gymservers.resources.workplace_assistant.tables import Table

pytestmark = pytest.mark.asyncio(loop_scope="module")
"""All tests here run on one event loop, since most of them use the one server."""

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "workplace_assistant"

Call = tuple[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningServer]:
    async with start_server(WorkplaceAssistant, transport="in-process") as running:
        yield running


def call(name: str, /, **arguments: Any) -> Call:
    return name, json.dumps(arguments)


def row_for(*calls: Call) -> dict[str, Any]:
    return {"ground_truth": [{"name": name, "arguments": arguments} for name, arguments in calls]}


def response_of(*calls: Call) -> Any:
    return make_response(*(function_call(name, arguments) for name, arguments in calls), "All done.")


def reply(**changed: Any) -> Call:
    return call("email_reply_email", **{"email_id": "00000375", "body": "Thank you."} | changed)


def send(subject: str = "Hello") -> Call:
    return call("email_send_email", recipient="mara.lindqvist@example.com", subject=subject, body="Read me.")


def delete_email(email_id: str = "00000235") -> Call:
    return call("email_delete_email", email_id=email_id)


def create(**changed: Any) -> Call:
    arguments = {
        "event_name": "Tea",
        "participant_email": "leon.fischer@example.com",
        "event_start": "2023-12-05 10:00:00",
        "duration": "30",
    }
    return call("calendar_create_event", **arguments | changed)


def event(field: str, value: Any, event_id: str = "00000242") -> Call:
    return call("calendar_update_event", event_id=event_id, field=field, new_value=value)


def plot(plot_type: str = "bar", **changed: Any) -> Call:
    days = {"time_min": "2023-11-01", "time_max": "2023-11-30", "value_to_plot": "total_visits"}
    return call("analytics_create_plot", **days | {"plot_type": plot_type} | changed)


def task(field: str, value: Any, task_id: str = "00000088") -> Call:
    return call("project_management_update_task", task_id=task_id, field=field, new_value=value)


def new_task(**changed: Any) -> Call:
    arguments = {
        "task_name": "Paint the door",
        "assigned_to_email": "hana.novakova@example.com",
        "list_name": "In Review",
        "due_date": "2023-12-12",
        "board": "Design",
    }
    return call("project_management_create_task", **arguments | changed)


def customer(field: str, value: Any, customer_id: str = "00000072") -> Call:
    arguments = {"customer_id": customer_id, "field": field, "new_value": value}
    return call("customer_relationship_manager_update_customer", **arguments)


def add(**changed: Any) -> Call:
    arguments = {"customer_name": "Wim", "assigned_to_email": "ruth.adeyemi@example.com", "status": "Lead"}
    return call("customer_relationship_manager_add_customer", **arguments | changed)


READS = [
    call("company_directory_find_email_address", name="ines"),
    call("email_search_emails", query="sprint"),
    call("calendar_search_events", query="office", page=2),
    call("analytics_total_visits_count"),
    call("project_management_search_tasks", board="Design"),
    call("customer_relationship_manager_search_customers", status="Lead"),
]
EMPTY: list[Call] = []

# Ground truth, what the model calls, and the tables that differ (none: 1.0). Edge cases first.
CASES: list[tuple[list[Call], list[Call], list[str]]] = [
    (EMPTY, EMPTY, []),
    (EMPTY, READS, []),
    (READS, EMPTY, []),  # a ground truth may read too
    (EMPTY, [call("no_such_tool", x=1), call("verify"), call("")], []),
    (EMPTY, [("email_delete_email", "{not json"), ("email_delete_email", "[" * 100_000)], []),
    (EMPTY, [("email_delete_email", '["00000235"]'), ("email_delete_email", "")], []),
    (EMPTY, [delete_email()], ["emails"]),
    (EMPTY, [delete_email("12345678"), delete_email("235"), delete_email("")], []),  # no such emails
    (EMPTY, [create(), call("calendar_delete_event", event_id="00000300")], []),  # made and taken back
    (EMPTY, [send(), delete_email("500")], []),  # the ids of new emails have no leading zeros
    (EMPTY, [send(), delete_email("00000500")], ["emails"]),
    (EMPTY, [event("event_name", "x"), event("event_name", "office MOVE")], []),
    ([reply()], EMPTY, ["emails"]),
    ([reply()], [reply()], []),
    ([reply()], [reply(body="THANK you.")], []),  # upper and lower case aside
    ([reply()], [reply(body="Thank you!")], ["emails"]),
    ([reply()], [reply(body="Thank you. ")], ["emails"]),
    ([reply()], [reply(), reply()], ["emails"]),
    ([reply()], [reply(email_id="00000329")], ["emails"]),
    ([reply()], [reply(body="")], ["emails"]),
    ([reply()], [reply(body=5)], ["emails"]),
    ([reply()], [reply(urgent=True)], ["emails"]),  # an argument that the tool does not know
    ([reply()], [reply(urgent=None)], []),  # null is absent
    ([reply()], [call("email_reply_email", email_id="00000375")], ["emails"]),
    ([reply()], [*READS, reply(), *READS], []),
    ([reply()], [reply(body="x" * 20_001), reply()], []),  # refused, and done right
    ([reply(), plot()], [plot(), reply()], []),  # the order across tables does not count
    ([reply(), delete_email()], [delete_email(), reply()], []),  # nor of what does not touch
    (
        [task("board", "Design"), task("board", "Design", "00000113")],
        [task("board", "Design", "00000113"), task("board", "Design")],
        [],
    ),
    ([send("one"), send("two")], [send("two"), send("one")], ["emails"]),  # the order of new rows counts
    ([send(), plot()], [send()], ["plots"]),
    (
        [send(), plot(), create(), new_task(), add()],
        EMPTY,
        ["emails", "events", "plots", "tasks", "customers"],
    ),
    ([create()], [create(participant_email="Leon.Fischer@Example.com")], []),
    ([create()], [create(event_name="TEA")], []),
    ([create()], [create(duration=30)], ["events"]),
    ([create()], [create(duration=" 30")], ["events"]),
    (
        [create()],
        [create(duration="0"), create(duration="-5"), create(duration="half an hour"), create()],
        [],
    ),
    ([create()], [create(event_start="2023-12-05T10:00:00")], ["events"]),  # accepted, and not the same text
    ([create()], [create(event_start="Tuesday at 10"), create()], []),
    ([event("event_name", "Moving")], [event("event_name", "Moving", "00000030")], ["events"]),
    ([event("event_start", "2023-12-07 16:30:00")], [event("event_start", "2023-12-07 16:30:00")], []),
    (EMPTY, [event("event_id", "00000999"), event("nothing", "x"), event("duration", "")], []),
    (EMPTY, [event("event_name", "x", "242"), event("event_name", "x", "00009999")], []),
    ([plot()], [plot("line")], ["plots"]),
    ([plot()], [plot("pie"), plot(value_to_plot="visits"), plot(time_min=""), plot()], []),
    ([plot(), plot("line")], [plot("line"), plot()], ["plots"]),
    ([new_task()], [new_task(assigned_to_email="HANA.novakova@example.com")], []),
    ([new_task()], [new_task(list_name="in review"), new_task(board="design")], ["tasks"]),
    ([new_task()], [new_task(assigned_to_email="ruth.adeyemi@example.com")], ["tasks"]),  # has no tasks
    ([task("list_name", "Completed")], [task("list_name", "completed")], ["tasks"]),
    ([task("due_date", "2023-12-24")], [task("due_date", "soon"), task("due_date", "2023-12-24")], []),
    ([task("task_name", "A")], [call("project_management_delete_task", task_id="00000088")], ["tasks"]),
    (EMPTY, [task("task_id", "00000999")], ["tasks"]),
    ([customer("status", "Won")], [customer("status", "won")], ["customers"]),
    ([customer("status", "Won")], [customer("status", "won"), customer("status", "Won")], []),
    ([customer("notes", "call back")], [customer("notes", "Call back")], []),
    ([add()], [add(customer_name="WIM")], []),
    ([add()], [add(status="lead")], ["customers"]),  # upper and lower case counts in a status
    ([add()], [add(customer_phone="")], ["customers"]),  # an empty text is no missing cell
    ([add()], [add(customer_phone=None, notes=None)], []),
    ([add()], [add(notes="")], []),
    ([add()], [call("customer_relationship_manager_delete_customer", customer_id="00000072")], ["customers"]),
]


@pytest.mark.parametrize(("ground_truth", "calls", "differing"), CASES)
async def test_reward_table(
    server: RunningServer, ground_truth: list[Call], calls: list[Call], differing: list[str]
) -> None:
    verdict = await server.verify(row_for(*ground_truth), response=response_of(*calls))
    assert verdict.value == float(not differing)
    assert verdict.extras == {"differing_tables": differing}


async def test_what_the_model_says_does_not_count(server: RunningServer) -> None:
    assert (await server.verify(row_for(reply()), text="I have answered Ines.")).value == 0.0
    response = make_response(message("No."), function_call(*reply()), message("I did nothing."))
    assert (await server.verify(row_for(reply()), response=response)).value == 1.0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "ground_truth"),
        ({"ground_truth": None}, "ground_truth"),
        ({"ground_truth": "[]"}, "ground_truth"),
        ({"ground_truth": [{"name": "email_delete_email"}]}, "arguments"),
        ({"ground_truth": [{"name": "email_delete_email", "arguments": {}}]}, "arguments"),
        (row_for(call("email_burn_email", email_id="1")), "email_burn_email"),
        (row_for(("email_delete_email", "{")), "JSON"),
        (row_for(("email_delete_email", "[]")), "no"),
        (row_for(call("email_delete_email", id="00000001")), "'id'"),
        (row_for(create(duration=30)), "duration"),
    ],
)
async def test_a_row_of_which_nothing_can_be_carried_out_is_refused_before_it_runs(
    fields: dict[str, Any], why: str
) -> None:
    async with start_server(WorkplaceAssistant, {"max_changes": 3}, transport="in-process") as server:
        call = server.seed({"id": 1} | fields)
        assert why in str(await expect_error("INVALID_REQUEST", call, "a broken ground truth"))
        assert not server.open_sessions


async def test_calls_of_the_ground_truth_that_fail_are_passed_over(server: RunningServer) -> None:
    row = row_for(reply(), call("email_burn_email", email_id="1"), call("email_delete_email", id="1"))
    assert (await server.verify(row, response=response_of(reply()))).value == 1.0
    assert (await server.verify(row, response=response_of())).value == 0.0


async def test_the_ground_truth_may_change_more_than_a_model() -> None:
    async with start_server(WorkplaceAssistant, {"max_changes": 1}, transport="in-process") as server:
        row = row_for(reply(), reply())
        assert (await server.verify(row, response=response_of(reply(), reply()))).value == 0.0
        assert (await server.verify(row_for(reply()), response=response_of(reply()))).value == 1.0


async def test_a_verifier_that_fails_gives_no_reward(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = server.verify(row_for(call("no_such_tool")), response=response_of(reply()))
    await expect_error("INVALID_REQUEST", broken, "a broken ground truth")

    def burn(*_: Any) -> None:
        raise RuntimeError("the paper is out")

    monkeypatch.setattr(Table, "add", burn)
    failing = server.verify(row_for(reply()), response=response_of(reply()))
    assert "paper" in str(await expect_error("SERVER_CODE_FAILED", failing, "a verifier that raises"))
    monkeypatch.undo()
    assert (await server.verify(row_for(reply()), response=response_of(reply()))).value == 1.0


async def test_a_plain_conversation_needs_no_ground_truth(server: RunningServer) -> None:
    async with await server.seed({}) as session:
        assert (await session.call("email_delete_email", email_id="00000235")).output


async def test_changes_are_bounded_in_the_session_and_in_the_replay() -> None:
    async with start_server(WorkplaceAssistant, {"max_changes": 2}, transport="in-process") as server:
        calls = [plot(), *READS, plot("pie"), reply(), delete_email()]  # refused ones count too
        async with await server.seed(row_for(plot())) as session:
            answers = [await session.call_json(*one) for one in calls]
            assert [answer.is_error for answer in answers] == [False] * (len(calls) - 2) + [True] * 2
            assert "all the changes" in answers[-1].output
            assert (await session.verify(response=response_of(*calls))).value == 1.0


async def test_a_flood_of_calls_does_not_hold_up_others(server: RunningServer) -> None:
    row = row_for(reply())
    flood = response_of(*[send(str(number)) for number in range(400)], *READS * 400)
    both = [server.verify(row, response=flood), server.verify(row, response=response_of(reply()))]
    order: list[int] = []

    async def finish(number: int) -> float:
        reward = await both[number]
        order.append(number)
        return reward.value

    assert await asyncio.gather(finish(0), finish(1)) == [0.0, 1.0]
    assert order == [1, 0]


async def test_sessions_do_not_see_each_other(server: RunningServer) -> None:
    together: list[int] = []
    ready = asyncio.Event()

    async def one_of_many(number: int) -> float:
        name, row_id = f"Session {number}", f"{number:08}"
        calls = [event("event_name", name, row_id), task("task_name", name, row_id), send(name), create()]
        async with await server.seed(row_for(*calls)) as session:
            answers = [(await session.call_json(*one)).json()["output"] for one in calls]
            together.append(number)
            if len(together) == 64:
                ready.set()
            await ready.wait()
            assert answers[-1] == "00000300"
            events = (await session.call("calendar_search_events", query="session")).json()["output"]
            assert [one["event_name"] for one in events["events"]] == [name]
            mails = (await session.call("email_search_emails", query="session")).json()["output"]
            assert [one["subject"] for one in mails["emails"]] == [name]
            return (await session.verify(response=response_of(*calls))).value

    assert await asyncio.gather(*map(one_of_many, range(64))) == [1.0] * 64
    async with await server.seed(row_for()) as session:
        assert "No events" in (await session.call("calendar_search_events", query="session")).output


def does_it(row: Any) -> Attempt:
    return Attempt([(one["name"], one["arguments"]) for one in row["ground_truth"]], "Done.")


def only_looks(row: Any) -> Attempt:
    return Attempt(READS, "Done.")


@pytest.mark.parametrize("transport", ["link", "plain", "in-process"])
async def test_conformance(transport: Transport) -> None:
    await check_resources_server(
        WorkplaceAssistant, rows=EXAMPLES, good=does_it, bad=only_looks, transport=transport
    )


def published() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    lines = (SHARED / "example.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], {"data_dir": str(SHARED / "csv")}


async def test_published_rows() -> None:
    rows, config = published()
    await check_resources_server(WorkplaceAssistant, config, rows=rows, good=does_it, bad=only_looks)


async def test_published_rows_are_earned_by_the_whole_ground_truth_and_nothing_less() -> None:
    rows, config = published()
    async with start_server(WorkplaceAssistant, config, transport="in-process") as server:
        for row in rows:
            calls = [(one["name"], one["arguments"]) for one in row["ground_truth"]]

            async def reward(*done: Call, row: Any = row) -> float:
                return (await server.verify(row, response=response_of(*done))).value

            assert await reward(*calls) == 1.0
            assert await reward(*READS, *calls, *READS) == 1.0
            assert await reward(*reversed(calls)) == 1.0  # they touch different rows
            for number, (name, arguments) in enumerate(calls):
                others = calls[:number] + calls[number + 1 :]
                assert await reward(*others) == 0.0
                for key, value in json.loads(arguments).items():
                    wrong = json.loads(arguments) | {key: f"{value}x"}
                    assert await reward(*others, call(name, **wrong)) == 0.0
            for extra in (create(), send(), plot()):
                assert await reward(*calls, extra) == 0.0


async def test_published_tools_have_the_same_names_and_parameters() -> None:
    rows, config = published()
    theirs = {item.name: shape(item) for item in declared(rows[0])}
    async with start_server(WorkplaceAssistant, config) as server:
        ours = {item.name: shape(item) for item in await server.list_tools()}
    assert ours == theirs
    assert list(ours) == list(theirs)


def declared(row: Any) -> list[Any]:
    return [item.function for item in make_task(row).create_params.tools]


def shape(tool: Any) -> Any:
    schema = json.loads(tool.parameters_json)
    types = {name: parameter["type"] for name, parameter in schema["properties"].items()}
    return types, sorted(schema["required"]), schema["additionalProperties"]


async def test_the_example_rows_need_several_steps_and_declare_the_tools_as_they_are(
    server: RunningServer,
) -> None:
    definitions = [item.SerializeToString(deterministic=True) for item in await server.list_tools()]
    assert len(definitions) == 27
    kits = set()
    for row in EXAMPLES:
        assert [item.SerializeToString(deterministic=True) for item in declared(row)] == definitions
        params = make_task(row).create_params
        assert (params.parallel_tool_calls, params.temperature) == (False, 1.0)
        calls = [(one["name"], one["arguments"]) for one in row["ground_truth"]]
        assert len(calls) >= 2
        kits |= {name.split("_")[0] for name, _ in calls}
        for number in range(len(calls)):  # every call counts
            less = response_of(*calls[:number], *calls[number + 1 :])
            assert (await server.verify(row, response=less)).value == 0.0
    assert kits == {"email", "calendar", "analytics", "project", "customer"}


async def test_the_configuration_is_what_the_server_takes() -> None:
    config = yaml.safe_load((HERE.parent / "config.yaml").read_text())
    block = config["workplace_assistant"]["resources_servers"]["workplace_assistant"]
    assert WorkplaceAssistant.Config.parse(block) == WorkplaceAssistant.Config()
    agent = config["workplace_assistant_simple_agent"]["responses_api_agents"]["simple_agent"]
    assert agent["max_steps"] == 6

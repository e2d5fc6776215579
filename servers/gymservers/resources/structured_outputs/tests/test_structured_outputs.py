"""structured_outputs: the table of rewards first, then tool calls, broken rows, harm, metrics, the wire."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Response
from gymd.sdk import Reward, shared_pool
from gymd.sdk.testing import (
    RunningServer,
    check_resources_server,
    expect_error,
    function_call,
    make_response,
    message,
    reasoning,
    start_server,
)
from gymservers.resources.structured_outputs.check import check_text
from gymservers.resources.structured_outputs.server import StructuredOutputs

pytestmark = pytest.mark.asyncio(loop_scope="module")
"""All tests here run on one event loop, since most of them use the one server."""

HERE = Path(__file__).resolve().parent
EXAMPLES = [json.loads(line) for line in (HERE.parent / "data" / "example.jsonl").read_text().splitlines()]
SHARED = HERE.parents[4].parent / "shared" / "data" / "structured_outputs" / "example.jsonl"

PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
PEOPLE = {"type": "array", "items": PERSON}
NESTED = {
    "type": "object",
    "properties": {"who": PERSON, "tags": {"type": "array", "items": {"type": "string"}}},
}
ANY = {"anyOf": [PERSON, {"type": "null"}]}
NULLABLE = {
    "type": "object",
    "properties": {"n": {"type": ["integer", "null"]}, "s": {"type": ["null", "string"]}},
}


def xml(inner: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"root": inner}}


PARSE, INVALID, EMPTY = "parse_error", "validation_error", "empty_response"

# format, schema, what the model says, the error (None: it earns 1.0). Edge cases first.
CASES: list[tuple[str, Any, str, str | None]] = [
    ("json", PERSON, "", EMPTY),
    ("json", PERSON, " \n\t ", EMPTY),
    ("json", PERSON, "null", INVALID),
    ("json", PERSON, "[]", INVALID),
    ("json", PERSON, '```json\n{"name": "A", "age": 1}\n```', PARSE),
    ("json", PERSON, 'Sure: {"name": "A", "age": 1}', PARSE),
    ("json", PERSON, '{"name": "A", "age": 1}.', PARSE),
    ("json", PERSON, '{"name": "A", "age": 1} {"name": "A", "age": 1}', PARSE),
    ("json", PERSON, "{'name': 'A', 'age': 1}", PARSE),
    ("json", PERSON, '\ufeff{"name": "A", "age": 1}', PARSE),
    ("json", PERSON, '\n {"name": "A", "age": 1} \n', None),
    ("json", PERSON, '{"name": "A"}', INVALID),  # every property is required
    ("json", PERSON, '{"name": "A", "age": 1, "x": 0}', INVALID),  # and there are no others
    ("json", PERSON, '{"name": "A", "age": "1"}', INVALID),
    ("json", PERSON, '{"name": "A", "age": true}', INVALID),
    ("json", PERSON, '{"name": "A", "age": 1.5}', INVALID),
    ("json", PERSON, '{"name": "A", "age": 1.0}', None),
    ("json", PERSON, '{"name": "A", "age": 2, "age": 1}', None),
    ("json", PERSON, '{"name": null, "age": 1}', INVALID),
    ("json", {"type": "number"}, "NaN", PARSE),
    ("json", {"type": "number"}, "-Infinity", PARSE),
    ("json", {"type": "number"}, "1e999", None),
    ("json", {"type": "integer"}, "9" * 4_000, None),
    ("json", {"type": "integer"}, "9" * 5_000, PARSE),
    ("json", {"type": "array"}, "[" * 100_000 + "]" * 100_000, PARSE),
    ("json", {}, '"anything"', None),
    ("json", True, "1", None),
    ("json", False, "1", INVALID),
    ("json", NESTED, '{"who": {"name": "A", "age": 1}, "tags": []}', None),
    ("json", NESTED, '{"who": {"name": "A", "age": 1, "x": 1}, "tags": []}', INVALID),
    ("json", NESTED, '{"who": {"name": "A", "age": 1}, "tags": [1]}', INVALID),
    # Branches of anyOf are not made strict.
    ("json", ANY, '{"name": "A", "more": 1}', None),
    ("json", ANY, '{"name": 1}', INVALID),
    ("json", {"properties": {"properties": {"type": "string"}}}, '{"properties": "x"}', None),
    ("json", {"const": {"properties": {"a": 1}}}, '{"properties": {"a": 1}}', None),
    ("json", {"enum": [1, "a"]}, "true", INVALID),
    ("json", {"type": "string", "format": "date"}, '"no date"', None),  # a format is an annotation
    ("json", {"type": "string", "pattern": "^a+$"}, '"aab"', INVALID),
    ("json", {"type": "string", "pattern": "^a+$"}, '"aa"', None),
    ("yaml", PERSON, "name: A\nage: 1\n", None),
    ("yaml", PERSON, '{"name": "A", "age": 1}', None),
    ("yaml", PERSON, "name: A\nage: '1'\n", INVALID),
    ("yaml", PERSON, "name: 2020-01-01\nage: 1\n", INVALID),  # a date, not a text
    ("yaml", PERSON, "name: no\nage: 1\n", INVALID),  # a boolean, not a text
    ("yaml", PERSON, "```yaml\nname: A\nage: 1\n```", PARSE),
    ("yaml", PERSON, "name: A\n---\nage: 1\n", PARSE),
    ("yaml", PERSON, "name: A\n age: 1\n", PARSE),
    ("yaml", PERSON, "name:\tA\nage: 1\n", PARSE),
    ("yaml", PERSON, "name: A\nage: 1\n2: x\n", INVALID),
    ("yaml", PERSON, "# nothing", INVALID),
    ("yaml", PERSON, "!!python/object/apply:os.getcwd []", PARSE),
    ("yaml", {"type": "array"}, "- " * 50_000 + "a", PARSE),
    ("yaml", {"type": "array"}, "[" * 600, PARSE),
    ("yaml", {"type": "array"}, "&a [*a]", PARSE),
    ("yaml", PEOPLE, "- &x {name: A, age: 1}\n- *x\n", None),
    ("xml", xml(PERSON), "<root><name>A</name><age>1</age></root>", None),
    ("xml", xml(PERSON), "<?xml version='1.0'?>\n<root>\n <name> A </name>\n <age>1</age>\n</root>", None),
    ("xml", PERSON, "<root><name>A</name><age>1</age></root>", INVALID),  # the root counts
    ("xml", xml(PERSON), "<root><name/><age>1</age></root>", None),  # an empty text
    ("xml", xml(PERSON), "<root><name>A</name><age/></root>", INVALID),
    ("xml", xml(PERSON), "<root><name>A</name><age>one</age></root>", INVALID),
    ("xml", xml(PERSON), "<root><name>A</name><age>1_0</age></root>", INVALID),
    ("xml", xml(PERSON), "<root><name>A</name><age>1</age><age>2</age></root>", INVALID),
    ("xml", xml(PERSON), "<root id='1'><name>A</name><age>1</age></root>", INVALID),
    ("xml", xml(PERSON), "<root><name>A</name><age>1</age>", PARSE),
    ("xml", xml(PERSON), "<root><name>A & B</name><age>1</age></root>", PARSE),
    ("xml", xml(PERSON), "<root><name>A &amp; B</name><age>1</age></root>", None),
    ("xml", xml({"type": "number"}), "<root>nan</root>", INVALID),
    ("xml", xml({"type": "number"}), "<root>1e3</root>", None),
    ("xml", xml({"type": "boolean"}), "<root>TRUE</root>", None),
    ("xml", xml({"type": "boolean"}), "<root>yes</root>", INVALID),
    ("xml", xml({"type": "array", "items": {"type": "integer"}}), "<root><i>1</i><i>2</i></root>", None),
    ("xml", xml({"type": "array", "items": {"type": "integer"}}), "<root><i>1</i></root>", None),
    ("xml", xml({"type": "array", "items": {"type": "integer"}}), "<root/>", None),
    ("xml", xml(NULLABLE), "<root><n>5</n><s>x</s></root>", None),
    ("xml", xml(NULLABLE), "<root><n/><s/></root>", None),
    ("xml", xml(NULLABLE), "<root><n>five</n><s>x</s></root>", INVALID),
    ("xml", xml({"type": "string"}), "<!DOCTYPE r [<!ENTITY a 'x'>]><root>&a;</root>", PARSE),
    (
        "xml",
        xml({"type": "string"}),
        "<!DOCTYPE r [<!ENTITY a SYSTEM 'file:///etc/hostname'>]><root>&a;</root>",
        PARSE,
    ),
    ("toml", PERSON, 'name = "A"\nage = 1\n', None),
    ("toml", PERSON, 'name = "A"\nage = "1"\n', INVALID),
    ("toml", PERSON, "name = A\n", PARSE),
    ("toml", NESTED, 'tags = ["x"]\n[who]\nname = "A"\nage = 1\n', None),
    ("csv", PEOPLE, "name,age\nA,1\n", None),
    ("csv", PEOPLE, 'age,name\n1,"A, B"\n\n', None),
    ("csv", PEOPLE, "name,age\nA,one\n", INVALID),
    ("csv", PEOPLE, "name,age\nA,1_0\n", INVALID),
    ("csv", PEOPLE, "name,age\nA\n", INVALID),  # a cell is missing
    ("csv", PEOPLE, "name,age\nA,1,2\n", INVALID),  # a cell too many
    ("csv", PEOPLE, "name\nA\n", INVALID),
    ("csv", PEOPLE, "name,age,x\nA,1,2\n", INVALID),
    ("csv", PEOPLE, "I cannot do that.", INVALID),  # a header without rows
    ("csv", PEOPLE, "name,age\n", None),
    ("csv", PERSON, "name,age\nA,1\n", INVALID),  # rows are an array
    ("csv", {"type": "array", "items": NULLABLE}, "n,s\n,\n5,x\n", None),
    ("csv", {"type": "array", "items": NULLABLE}, "n,s\nx,\n", INVALID),
    ("csv", {"type": "array", "items": {"properties": {"a": True}}}, "a\n1\n", None),
    ("csv", PEOPLE, "name,age\n" + "x" * 200_000 + ",1\n", PARSE),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningServer]:
    """One server for many tests, with all its workers started."""
    async with start_server(StructuredOutputs, transport="in-process") as running:
        pool = shared_pool()
        arguments = ('{"not": {}}', "json", "1")  # no plain schema: loads the general validator
        await asyncio.gather(*(pool.run(check_text, arguments, timeout=30) for _ in range(pool.size)))
        yield running


def row(schema: Any, kind: str = "json", **fields: Any) -> dict[str, Any]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return {"responses_create_params": {"input": "Go."}, "schema_str": text, "schema_type": kind} | fields


async def test_reward_table(server: RunningServer) -> None:
    """All cases run at once: that is also the test of concurrent verification."""
    rewards = await asyncio.gather(
        *(server.verify(row(schema, kind), text) for kind, schema, text, _ in CASES)
    )
    for (kind, schema, text, error_type), reward in zip(CASES, rewards, strict=True):
        found = (reward.value, reward.extras["error_type"])
        assert found == (float(error_type is None), error_type), (kind, schema, text[:200], reward.extras)
        assert (reward.extras["error_message"] is None) == (error_type is None)


async def test_json_is_the_default_and_all_messages_count(server: RunningServer) -> None:
    task = row(PERSON)
    del task["schema_type"]
    response = make_response(message('{"name": "A",'), reasoning("hm"), message(' "age": 1}'))
    assert (await server.verify(task, response=response)).value == 1.0


@pytest.mark.usefixtures("server")  # for its workers
async def test_xml_texts_may_stay_texts() -> None:
    async with start_server(StructuredOutputs, {"xml_coerce_types": False}, transport="in-process") as server:
        document = "<root><name>A</name><age>1</age></root>"
        assert (await server.verify(row(xml(PERSON), "xml"), document)).value == 0.0
        texts = xml({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "string"}}})
        assert (await server.verify(row(texts, "xml"), document)).value == 1.0


# Tool calls.

GOOD = {"name": "A", "age": 1}

# items of the response, fields of the row, the error.
CALLS: list[tuple[list[Any], dict[str, Any], str | None]] = [
    ([], {}, "missing_tool_call"),
    ([message(json.dumps(GOOD))], {}, "missing_tool_call"),
    ([function_call("hand_in", GOOD), function_call("hand_in", GOOD)], {}, "multiple_tool_calls"),
    ([function_call("other", GOOD)], {"tool_name": "hand_in"}, "wrong_tool_name"),
    ([function_call("other", GOOD)], {"tool_name": None}, None),
    ([function_call("other", GOOD)], {"tool_name": ""}, None),
    ([function_call("hand_in", '{"name":')], {}, "tool_arguments_parse_error"),
    ([function_call("hand_in", "")], {}, "tool_arguments_parse_error"),
    ([function_call("hand_in", "[" * 100_000)], {}, "tool_arguments_parse_error"),
    ([function_call("hand_in", '{"name": "A", "age": NaN}')], {}, "tool_arguments_parse_error"),
    ([function_call("hand_in", '{"age": ' + "9" * 5_000 + "}")], {}, "tool_arguments_parse_error"),
    ([function_call("hand_in", GOOD)], {"tool_payload_key": "data"}, "missing_tool_payload_key"),
    ([function_call("hand_in", "[]")], {"tool_payload_key": "data"}, "missing_tool_payload_key"),
    ([function_call("hand_in", {"data": {"name": "A"}})], {"tool_payload_key": "data"}, "validation_error"),
    ([function_call("hand_in", {"data": GOOD, "x": 1})], {"tool_payload_key": "data"}, None),
    ([function_call("hand_in", GOOD)], {"tool_payload_key": ""}, None),
    ([function_call("hand_in", {"data": GOOD})], {}, "validation_error"),
    ([function_call("hand_in", GOOD)], {"schema_type": "csv"}, None),  # arguments are JSON in any case
    ([message("Here."), function_call("hand_in", GOOD)], {}, None),
]


async def test_tool_calls(server: RunningServer) -> None:
    for items, fields, error_type in CALLS:
        task = row(PERSON, response_mode="tool_call", tool_name="hand_in") | fields
        reward = await server.verify(task, response=make_response(*items))
        found = (reward.value, reward.extras["error_type"])
        assert found == (float(error_type is None), error_type), (items, fields)


async def test_an_error_of_the_endpoint_is_not_scored(server: RunningServer) -> None:
    response = make_response()
    response.error.code, response.error.message = "server_error", "out of memory"
    for fields in ({}, {"response_mode": "tool_call"}):
        call = server.verify(row(PERSON, **fields), response=response)
        failure = await expect_error("UPSTREAM_UNAVAILABLE", call, "a response that is an error")
        assert failure.metadata["error_type"] == "api_error"
        assert "out of memory" in str(failure)


# Rows whose schema cannot be used.

BROKEN: list[Any] = [
    "",
    "{",
    "[]",
    '"string"',
    "null",
    "[" * 5_000,
    {"type": "strin"},
    {"type": []},
    {"properties": None},
    {"properties": {"a": 1}},
    {"required": "a"},
    {"pattern": "("},
    {"type": "string", "minLength": -1},
]


async def test_a_broken_schema_is_the_rows_fault(server: RunningServer) -> None:
    for schema in BROKEN:
        call = server.verify(row(schema), '{"a": 1}')
        failure = await expect_error("INVALID_REQUEST", call, f"the schema {schema!r}")
        assert "schema" in str(failure)


CIRCLES: list[Any] = [
    {"$ref": "https://example.com/schema.json"},
    {"$ref": "file:///etc/hostname"},
    {"$ref": "#/nowhere"},
    {"$ref": "#"},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"allOf": [{"$ref": "#"}]},
]


async def test_references_out_and_in_circles_are_the_rows_fault(server: RunningServer) -> None:
    for schema in CIRCLES:
        failure = await expect_error(
            "INVALID_REQUEST", server.verify(row(schema), "1"), f"the schema {schema!r}"
        )
        assert failure.metadata["error_type"] == "schema_error"


async def test_a_row_with_a_broken_schema_is_refused_before_a_model_is_asked(server: RunningServer) -> None:
    await expect_error("INVALID_REQUEST", server.seed(row("{")), "seeding with a broken schema")
    await expect_error("INVALID_REQUEST", server.seed(row(PERSON, "ini")), "seeding with an unknown format")


async def test_references_inside_the_schema_are_followed(server: RunningServer) -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            }
        },
    }
    assert (await server.verify(row(tree), '{"next": {"next": null}}')).value == 1.0
    assert (await server.verify(row(tree), '{"next": {"next": 1}}')).value == 0.0
    deep = '{"next": ' * 400 + "null" + "}" * 400
    assert (await server.verify(row(tree), deep)).extras["error_type"] == "validation_error"


# Harm.

LETTERS = list(zip("abcdefgh", "bcdefghi", strict=True))
BOMBS = [
    (
        "yaml",
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in LETTERS),
    ),
    (
        "yaml",
        "a: &a {k0: 1, k1: 1, k2: 1, k3: 1}\n"
        + "".join(f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 9)}]}}\n" for a, b in LETTERS),
    ),
    (
        "xml",
        "<!DOCTYPE z [<!ENTITY a 'xxxxxxxxx'>"
        + "".join(f"<!ENTITY {b} '{f'&{a};' * 9}'>" for a, b in LETTERS)
        + "]><root>&i;</root>",
    ),
]


async def test_documents_that_multiply_are_no_documents(server: RunningServer) -> None:
    for kind, text in BOMBS:
        reward = await server.verify(row({}, kind), text)
        assert (reward.value, reward.extras["error_type"]) == (0.0, "parse_error"), text


@pytest.mark.asyncio(loop_scope="function")  # its workers are its own
async def test_a_check_that_never_ends_is_killed_and_nothing_else_waits() -> None:
    config = {"verify_timeout_s": 1.0}
    async with start_server(StructuredOutputs, config, transport="in-process") as server:
        endless = server.verify(row({"pattern": "^(a+)+$"}), json.dumps("a" * 60 + "b"))
        hanging = asyncio.ensure_future(expect_error("DEADLINE_EXCEEDED", endless, "a pattern without end"))
        assert (await server.verify(row(PERSON), json.dumps(GOOD))).value == 1.0
        assert not hanging.done()
        await hanging
        assert (await server.verify(row({"pattern": "^(a+)+$"}), '"aaa"')).value == 1.0


# Metrics, conformance, published rows.


def scored(value: float | None, **tags: Any) -> ScoredRollout:
    rollout = ScoredRollout(task_id="x")
    if value is not None:
        rollout.reward.value = value
        rollout.reward.extras_json = orjson.dumps(tags).decode()
    return rollout


async def test_metrics_by_what_the_rows_say() -> None:
    async with start_server(StructuredOutputs) as server:  # its own, which ends the threads that it starts
        task = row(
            PERSON, problem_type="direct", num_tools=3, has_distractors=True, tool_union_mode=None, other="x"
        )
        extras = (await server.verify(task, "{}")).extras
        assert {name: extras[name] for name in ("schema_type", "response_mode", "problem_type")} == {
            "schema_type": "json",
            "response_mode": "text",
            "problem_type": "direct",
        }
        assert "other" not in extras
        metrics, _ = await server.aggregate(
            [
                scored(0.0, **extras),
                scored(1.0, schema_type="yaml", response_mode="text", num_tools=3, schema_repr="json"),
                scored(None),
            ]
        )
        assert {name: value for name, value in metrics.items() if name.startswith("mean/")} == {
            "mean/reward_json": 0.0,
            "mean/reward_yaml": 1.0,
            "mean/reward_direct": 0.0,
            "mean/reward_repr_json": 1.0,
            "mean/reward_response_mode_text": 0.5,
            "mean/reward_num_tools_3": 0.5,
            "mean/reward_has_distractors_true": 0.0,
        }
        assert metrics["mean_reward"] == 0.5


def document_for(schema: Any) -> Any:
    """A document that fits a plain schema."""
    kind = schema["type"][0] if isinstance(schema["type"], list) else schema["type"]
    if kind == "object":
        return {name: document_for(inner) for name, inner in schema["properties"].items()}
    if kind == "array":
        return [document_for(schema["items"])]
    return schema.get("enum", [{"string": "x", "integer": 7, "number": 2.5, "boolean": True}.get(kind)])[0]


def right_text(task: Any) -> str:
    """What earns 1.0 in each of the example rows whose answer is a text."""
    document = document_for(json.loads(task["schema_str"]))
    if task["schema_type"] == "xml":
        sensor = dict(document["sensor"], readings="<r>2.5</r><r>1</r>", online="true")
        return "<sensor>" + "".join(f"<{name}>{text}</{name}>" for name, text in sensor.items()) + "</sensor>"
    if task["schema_type"] == "csv":
        return "\n".join(",".join(map(str, cells)) for cells in (document[0].keys(), document[0].values()))
    return json.dumps(document)


def right_call(task: Any) -> Response:
    """What earns 1.0 in the rows whose answer is a tool call."""
    document, key = document_for(json.loads(task["schema_str"])), task["tool_payload_key"]
    return make_response(function_call(task["tool_name"], {key: document} if key else document))


@pytest.mark.usefixtures("server")  # for its workers
async def test_conformance() -> None:
    rows = [one for one in EXAMPLES if one["response_mode"] == "text"]
    assert len(rows) == 4
    await check_resources_server(StructuredOutputs, rows=rows, good=right_text, bad="No idea.")


async def one_rollout(server: RunningServer, task: Any, response: Response) -> Reward:
    async with await server.seed(task) as session:
        return await session.verify(response=response)


@pytest.mark.usefixtures("server")  # for its workers
async def test_64_sessions_with_tool_calls_at_once() -> None:
    (task,) = (one for one in EXAMPLES if one["response_mode"] == "tool_call")
    wrong = make_response(function_call("record_plant", {"record": {}}))
    async with start_server(StructuredOutputs) as server:
        answers = [right_call(task) if number % 2 else wrong for number in range(64)]
        rewards = await asyncio.gather(*(one_rollout(server, task, answer) for answer in answers))
        assert [reward.value for reward in rewards] == [float(number % 2) for number in range(64)]
        assert not server.open_sessions


@pytest.mark.usefixtures("server")  # for its workers
async def test_published_rows() -> None:
    if not SHARED.exists():
        pytest.skip(f"no {SHARED}")
    async with start_server(StructuredOutputs) as server:
        for line in SHARED.read_text().splitlines():
            task = json.loads(line)
            good = right_call(task)
            assert (await one_rollout(server, task, good)).value == 1.0
            good.output[0].function_call.arguments_json = "{}"
            assert (await one_rollout(server, task, good)).value == 0.0
            assert (await one_rollout(server, task, make_response("No idea."))).value == 0.0

"""What every resources server owes its callers."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1.responses_pb2 import FunctionTool
from gymd.sdk.resources import ResourcesServer, Reward
from gymd.sdk.testing.attempt import Attempt, Attempts, Row, attempt_for, play
from gymd.sdk.testing.expect import expect_error
from gymd.sdk.testing.mesh import Transport, no_tasks_left, start_server
from gymd.sdk.testing.running import RunningServer

__all__ = ["check_resources_server", "check_running_resources_server"]

SESSIONS = 64
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MALFORMED = ("{not json", "[]", '"text"', '{"a": ')


async def check_resources_server(
    cls: type[ResourcesServer],
    config: Mapping[str, Any] | None = None,
    *,
    rows: Sequence[Row],
    good: Attempts,
    bad: Attempts | None = None,
    transport: Transport = "link",
    sessions: int = SESSIONS,
) -> None:
    """Runs the conformance suite of resources servers.

    Args:
        cls: the server class.
        config: its configuration.
        rows: dataset rows, at least one.
        good: what a policy does to earn the reward.
        bad: what earns less; None where every rollout is worth the same.
        transport: how the server is called.
        sessions: how many are played at the same time.

    Raises:
        AssertionError: the server breaks the contract; the text says where.
    """
    async with no_tasks_left(), start_server(cls, config, transport=transport) as server:
        await check_running_resources_server(server, rows=rows, good=good, bad=bad, sessions=sessions)


async def check_running_resources_server(
    server: RunningServer,
    *,
    rows: Sequence[Row],
    good: Attempts,
    bad: Attempts | None = None,
    sessions: int = SESSIONS,
) -> None:
    """Runs the conformance suite of resources servers against one that runs already.

    With `reach_server` that is a server in any language. The other arguments and what is raised are those of
    check_resources_server.
    """
    assert rows, "the suite needs at least one row"
    for tool in await server.list_tools():
        _check_tool(tool)
    await _check_seeding(server, rows[0])
    await _check_bad_calls(server, rows[0])
    await _check_unknown_sessions(server, rows[0])
    for row in rows:
        await _check_rewards(server, row, good, bad)
    await _check_isolation(server, rows, good, bad, sessions)
    assert not server.open_sessions, f"sessions left open: {server.open_sessions}"
    await server.aggregate([])


def _check_tool(tool: FunctionTool) -> None:
    where = f"tool {tool.name!r}"
    assert _TOOL_NAME.fullmatch(tool.name), f"{where}: models accept letters, digits, _ and -, at most 64"
    assert tool.description, f"{where} has no docstring: it is what the model reads"
    schema = orjson.loads(tool.parameters_json)
    assert schema.get("type") == "object", f"{where}: the parameters are no object"
    assert schema.get("additionalProperties") is False, f"{where}: the schema is open"
    properties, required = schema.get("properties"), schema.get("required")
    assert isinstance(properties, dict), f"{where}: the schema has no properties"
    assert isinstance(required, list), f"{where}: the schema has no list of required parameters"
    assert set(required) <= set(properties), f"{where}: required names a parameter that is not there"
    definitions = schema.get("$defs", {})
    for reference in re.findall(r'"\$ref":"#/\$defs/([^"]+)"', orjson.dumps(schema).decode()):
        assert reference in definitions, f"{where}: {reference} is referred to and not defined"


async def _check_seeding(server: RunningServer, row: Row) -> None:
    async with await server.seed(row, session_id="seeded", request_id="first") as session:
        await server.seed(row, session_id="seeded", request_id="first")
        again = server.seed(row, session_id="seeded", request_id="second")
        await expect_error("NAME_TAKEN", again, "seeding an open session under another request_id")
        await expect_error("INVALID_REQUEST", _seed_without_id(server), "seeding without a session_id")
        first = await session.verify()
        assert math.isfinite(first.value), "verify gave no finite reward"


async def _seed_without_id(server: RunningServer) -> None:
    await server.call("SeedSession", pb.SeedSessionRequest())


async def _check_bad_calls(server: RunningServer, row: Row) -> None:
    tools = await server.list_tools()
    async with await server.seed(row) as session:
        before = await session.verify()
        await expect_error("TOOL_NOT_FOUND", session.call("no_such_tool"), "calling an unknown tool")
        await expect_error("TOOL_NOT_FOUND", session.call("verify"), "calling a hook as if it were a tool")
        for tool in tools:
            texts = list(_MALFORMED)
            if orjson.loads(tool.parameters_json)["required"]:
                texts.append("{}")
            for text in texts:
                answer = await session.call_json(tool.name, text)
                assert answer.is_error, f"{tool.name} took the arguments {text!r}: {answer.output}"
        _same(
            before, await session.verify(), "after calls with malformed arguments, which must not be applied"
        )


async def _check_unknown_sessions(server: RunningServer, row: Row) -> None:
    session = await server.seed(row)
    await session.close()
    await session.close()  # closing what is gone succeeds
    tools = await server.list_tools()
    name = tools[0].name if tools else "no_such_tool"
    await expect_error("SESSION_NOT_FOUND", session.call_json(name, "{}"), "a call after close")
    await expect_error("SESSION_NOT_FOUND", session.verify(), "verify after close")


async def _check_rewards(server: RunningServer, row: Row, good: Attempts, bad: Attempts | None) -> None:
    attempt = attempt_for(good, row)
    best = await play(server, row, attempt)
    _same(best, await play(server, row, attempt), "the second time")
    _same(best, await play(server, row, attempt, twice=True), "with every call repeated under its call_id")
    await _check_repeated_verify(server, row, attempt)
    if bad is not None:
        worse = await play(server, row, attempt_for(bad, row))
        text = f"the good attempt earned {best.value}, the bad one {worse.value}, for {row}"
        assert best.value > worse.value, text


async def _check_repeated_verify(server: RunningServer, row: Row, attempt: Attempt) -> None:
    async with await server.seed(row) as session:
        for name, arguments in attempt.calls:
            text = arguments if isinstance(arguments, str) else orjson.dumps(dict(arguments)).decode()
            await session.call_json(name, text)
        first = await session.verify(attempt.text)
        _same(first, await session.verify(attempt.text), "when verified again")


async def _check_isolation(
    server: RunningServer, rows: Sequence[Row], good: Attempts, bad: Attempts | None, sessions: int
) -> None:
    """Sessions that run together earn what each earns alone."""
    attempts = [good] if bad is None else [good, bad]
    cases = [(row, attempt_for(kind, row)) for row in rows for kind in attempts]
    alone = [await play(server, row, attempt) for row, attempt in cases]
    numbers = [number % len(cases) for number in range(sessions)]
    together = await asyncio.gather(*(play(server, *cases[number]) for number in numbers))
    for number, reward in zip(numbers, together, strict=True):
        _same(alone[number], reward, f"among {sessions} concurrent sessions")


def _same(expected: Reward, found: Reward, when: str) -> None:
    one, other = (
        (reward.value, dict(reward.components), dict(reward.extras)) for reward in (expected, found)
    )
    assert one == other, f"the reward was {one}, and {other} {when}"

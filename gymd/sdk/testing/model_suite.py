"""What every model server owes its callers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from gymapi.v1.model_service_pb2 import CreateResponseRequest, StreamResponseResponse
from gymapi.v1.responses_pb2 import Item, Response
from gymd.errors import GymdError
from gymd.sdk.model import ModelServer
from gymd.sdk.testing.items import make_params
from gymd.sdk.testing.mesh import Transport, no_tasks_left, start_server
from gymd.sdk.testing.running import CALL_TIMEOUT_S, RunningServer

__all__ = ["check_model_server"]

CALLS = 64
_STATUSES = ("", "completed", "incomplete", "failed")


async def check_model_server(
    cls: type[ModelServer],
    config: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | str = "Say hello.",
    *,
    calls: int = CALLS,
    transport: Transport = "link",
) -> None:
    """Runs the conformance suite of model servers.

    Args:
        cls: the server class.
        config: its configuration; an endpoint that it needs is the caller's to run.
        params: what to ask, as OpenAI JSON or the text of one user message; answered any number of times.
        calls: how many calls to make at a time.
        transport: how the server is called.

    Raises:
        AssertionError: the server breaks the contract; the text says where.
    """
    async with no_tasks_left(), start_server(cls, config, transport=transport) as server:
        first = await server.respond(params, rollout_id="check")
        _check_response(first)
        _check_stream(await server.stream(params))
        responses = await asyncio.gather(*(server.respond(params) for _ in range(calls)))
        for response in responses:
            _check_response(response)
        _check_unique([first, *responses])
        await _check_params_untouched(server, params)
        await _check_cancel(server, params)
        await _check_deadline(server, params)
        _check_response(await server.respond(params))


def _check_response(response: Response) -> None:
    assert response.id, "the response has no id"
    assert response.model, "the response does not say which model answered"
    assert response.created_at > 0, "the response has no created_at"
    assert response.status in _STATUSES, f"unknown status {response.status!r}"
    incomplete = response.HasField("incomplete_details")
    assert (response.status == "incomplete") == incomplete, "status and incomplete_details differ"
    assert response.output or incomplete, "a complete response has no output"
    for item in response.output:
        _check_item(item)
    _check_usage(response)
    traced = [item for item in response.output if item.HasField("token_trace")]
    assert traced in ([], list(response.output[-1:])), "token ids belong to the last item, and to no other"


def _check_item(item: Item) -> None:
    kind = item.WhichOneof("kind")
    assert kind, "an item has no type"
    if kind == "message":
        assert item.message.role == "assistant", f"the model speaks as {item.message.role!r}"
    if kind == "function_call":
        assert item.function_call.call_id, "a call has no call_id"
        assert item.function_call.name, "a call has no name"
    assert kind != "function_call_output", "the model answered its own call"


def _check_usage(response: Response) -> None:
    if not response.HasField("usage"):
        return
    usage = response.usage
    counts = [getattr(usage, f"{name}_tokens") for name in ("input", "output", "total")]
    known = [usage.HasField(f"{name}_tokens") for name in ("input", "output", "total")]
    assert min(counts) >= 0, f"negative token counts: {counts}"
    if all(known):
        assert counts[0] + counts[1] == counts[2], f"{counts[0]} + {counts[1]} tokens are not {counts[2]}"


def _check_stream(events: list[StreamResponseResponse]) -> None:
    assert events, "the stream is empty"
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds.count("completed") == 1, f"the stream must hold one completed event: {kinds}"
    assert kinds[-1] == "completed", f"the last event must be completed, not {kinds[-1]}"
    response = events[-1].completed.response
    _check_response(response)
    done = [event.item_done for event in events if event.HasField("item_done")]
    assert [one.output_index for one in done] == list(range(len(response.output))), "items out of order"
    assert [one.item for one in done] == list(response.output), "the items differ from the completed response"
    started = [event.item_started for event in events if event.HasField("item_started")]
    assert [one.item.WhichOneof("kind") for one in started] == [
        item.WhichOneof("kind") for item in response.output
    ], "the items that began are not the items of the response"


def _check_unique(responses: list[Response]) -> None:
    ids = [response.id for response in responses]
    assert len(set(ids)) == len(ids), "two responses have the same id"
    calls = [
        item.function_call.call_id
        for response in responses
        for item in response.output
        if item.HasField("function_call")
    ]
    assert len(set(calls)) == len(calls), "two calls have the same call_id"


async def _check_params_untouched(server: RunningServer, params: Mapping[str, Any] | str) -> None:
    """In-process the message is the caller's own."""
    request = CreateResponseRequest(params=make_params(params))
    await server.call("CreateResponse", request)
    assert request.params == make_params(params), "the server edited the parameters it was given"


async def _check_cancel(server: RunningServer, params: Mapping[str, Any] | str) -> None:
    before = asyncio.all_tasks()
    calls = [asyncio.ensure_future(server.respond(params)) for _ in range(4)]
    await asyncio.sleep(0)  # under way, wherever it is by now
    for call in calls:
        call.cancel()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    for end in ended:
        assert isinstance(end, asyncio.CancelledError | Response), f"a cancelled call ended with {end!r}"
    left = asyncio.all_tasks() - before
    if left:
        _, left = await asyncio.wait(left, timeout=CALL_TIMEOUT_S)
    # What serves other calls lives on; what served these does not.
    serving = [task for task in left if "create_response" in repr(task.get_coro())]
    assert not serving, f"cancelled calls go on: {serving}"


async def _check_deadline(server: RunningServer, params: Mapping[str, Any] | str) -> None:
    request = CreateResponseRequest(params=make_params(params))
    try:
        _check_response((await server.call("CreateResponse", request, 0.001)).response)
    except GymdError as failure:
        reason = failure.reason_name
        late = reason == "DEADLINE_EXCEEDED"
        text = f"a call that was too late failed with {reason}: {failure}"
        if not late:
            raise AssertionError(text) from failure

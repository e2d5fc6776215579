"""One conversation of an agent with its model and its tools."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gymapi.v1.model_service_pb2 import CreateResponseRequest
from gymapi.v1.resources_service_pb2 import CallToolRequest
from gymapi.v1.responses_pb2 import FunctionCall, Item, Response, ResponseCreateParams, Usage
from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED, STAGE_AGENT, STAGE_MODEL, STAGE_TOOL, Blob, Task
from gymd.convert import sum_usage
from gymd.errors import GymdError, error
from gymd.sdk.hooks import TaskView
from gymd.sdk.policy import PolicyState
from gymd.sdk.tokens import TokenRecorder
from gymd.sdk.tools import error_text

__all__ = ["AgentRun"]


class AgentRun:
    """What an agent's `run` works with.

    Attributes:
        task: the row, for agents that read more of it than what the policy is asked.
        params: the conversation so far and the sampling parameters; `model()` and `call_tools()` extend it.
        output: every new item, in order.
        blobs: large data beside it.
        stage: the part of the rollout that is under way.
        calling_model: a model call is under way; one that a paused policy holds has not begun.
        outcome: how it ended; set by finish().
        termination_reason: a short word for the end.
    """

    def __init__(
        self,
        rollout_id: str,
        task: Task,
        *,
        session_id: str,
        model_timeout: float,
        tool_timeout: float,
        return_tokens: bool | None,
        policy: PolicyState | None = None,
    ) -> None:
        # One request for all turns: between the calls only this run touches it, so a turn costs what it adds.
        self._request = CreateResponseRequest(rollout_id=rollout_id, params=task.create_params)
        self.task = TaskView(task)
        if return_tokens is not None:
            self._request.return_tokens = return_tokens
        self._policy = policy
        self._last_turn = False
        self.calling_model = False
        self._model: Any = None
        self._resources: Any = None
        self._session_id = session_id
        self._model_timeout = model_timeout
        self._tool_timeout = tool_timeout
        self._last: Response | None = None
        self._usage: Usage | None = None
        self.output: list[Item] = []
        self.blobs: list[Blob] = []
        self.tokens = TokenRecorder()
        self.stage: int = STAGE_AGENT
        self.outcome: int = OUTCOME_COMPLETED
        self.termination_reason = "final_message"
        self.model_calls = self.tool_calls = self.tool_errors = 0
        self.model_ns = self.tool_ns = 0

    @property
    def params(self) -> ResponseCreateParams:
        """The conversation so far and the sampling parameters."""
        return self._request.params

    def bind(self, model: Any, resources: Any) -> None:
        """Gives the run the stubs of its model server and of its resources server (None: no tools)."""
        self._model, self._resources = model, resources

    def stop_after_turn(self) -> None:
        """Makes the model call under way the last one: `model()` raises Cancelled after it."""
        self._last_turn = True

    def finish(self, outcome: int, reason: str) -> None:
        """Says how the rollout ended: an Outcome and a short word such as max_steps."""
        self.outcome, self.termination_reason = outcome, reason

    async def model(self) -> Response:
        """Asks the model for the next response and appends its items; raises GymdError when it fails."""
        self.stage = STAGE_MODEL
        begin = time.perf_counter_ns()
        version = None
        try:
            if self._policy is None:
                answer = await self._call_model()
            else:
                answer, version = await self._policy.ask(self._call_model)
        finally:
            self.model_ns += time.perf_counter_ns() - begin
        self.model_calls += 1
        response = answer.response
        if version is not None:
            _stamp(response, version)
        self.tokens.add(response, first_item=len(self.output))
        self._keep_experts(response)
        for item in response.output:
            self._append(item)
        first = self._last is None
        self._last = response
        usage = response.usage if response.HasField("usage") else None
        # Unknown and known make unknown, never a smaller sum.
        if first:
            self._usage = usage
        elif self._usage is not None:
            self._usage = sum_usage(self._usage, usage) if usage is not None else None
        self.stage = STAGE_AGENT
        if self._last_turn:
            raise error("CANCELLED", "the rollout is stopped after this turn")
        return response

    def attach(self, name: str, data: bytes, *, media_type: str = "", segment: int | None = None) -> None:
        """Adds large data beside the conversation to the rollout, such as an image that a tool made.

        All that a rollout holds together must fit into a message of the mesh, 64 MiB.

        Args:
            name: what it is; unique within the rollout and segment.
            media_type: its form, such as image/png.
            segment: index of the token segment that it belongs to; None: the whole rollout.
        """
        digest = hashlib.sha256(data).hexdigest()
        self.blobs.append(Blob(name=name, media_type=media_type, segment=segment, data=data, sha256=digest))

    def _keep_experts(self, response: Response) -> None:
        """Keeps what the engine said about routed experts with the segment of this call."""
        trajectory = self.tokens.trajectory
        if trajectory is None or not response.output:
            return
        trace = response.output[-1].token_trace
        if trace.HasField("routed_experts"):
            text = trace.routed_experts
            form = "application/json" if text.startswith("[") else "text/plain"
            last = len(trajectory.segments) - 1
            self.attach("routed_experts", text.encode(), media_type=form, segment=last)

    async def _call_model(self) -> Any:
        self.calling_model = True
        try:
            return await self._model.CreateResponse(self._request, timeout=self._model_timeout)
        finally:
            self.calling_model = False

    async def call_tools(self, calls: Sequence[FunctionCall]) -> None:
        """Runs the calls, together if the parameters allow it, and appends their outputs in order.

        What the model can act on (unknown tool, bad arguments, a tool that raised) becomes the output; a
        failure of the environment itself raises GymdError.
        """
        self.stage = STAGE_TOOL
        params = self._request.params
        parallel = not params.HasField("parallel_tool_calls") or params.parallel_tool_calls
        if len(calls) > 1 and parallel:
            outputs = await _all(self._call_tool, calls)
            for output in outputs:
                self._append(output)
        else:
            for call in calls:
                self._append(await self._call_tool(call))
        self.stage = STAGE_AGENT

    async def _call_tool(self, call: FunctionCall) -> Item:
        self.tool_calls += 1
        item = Item()
        output = item.function_call_output
        output.call_id = call.call_id
        if self._resources is None:
            self.tool_errors += 1
            output.output_text = error_text(f"no tool named {call.name}: this agent has no resources server")
            return item
        request = CallToolRequest(
            session_id=self._session_id,
            # Models repeat call ids across turns now and then; the number keeps the idempotency key apart.
            call_id=f"{call.call_id}#{self.tool_calls}",
            name=call.name,
            arguments_json=call.arguments_json,
        )
        begin = time.perf_counter_ns()
        try:
            answer = await self._resources.CallTool(request, timeout=self._tool_timeout)
        except GymdError as failure:
            if failure.reason_name != "TOOL_NOT_FOUND":
                raise
            self.tool_errors += 1
            output.output_text = error_text(failure.message)
            return item
        finally:
            self.tool_ns += time.perf_counter_ns() - begin  # the sum: parallel calls count once each
        self.tool_errors += answer.is_error
        if answer.output_parts:
            output.output_parts.parts.extend(answer.output_parts)
        else:
            output.output_text = answer.output
        return item

    def _append(self, item: Item) -> None:
        params = self._request.params
        if params.WhichOneof("input") == "input_text":
            text = params.input_text
            message = params.input_items.items.add().message
            message.role, message.content_text = "user", text
        added = params.input_items.items.add()
        # Never CopyFrom here: it copies packed fields number by number, which takes 20 times as long.
        added.MergeFrom(item)
        # Ids and logprobs are recorded once, in the trajectory; the conversation travels without them.
        added.ClearField("token_trace")
        self.output.append(added)

    def response(self) -> Response | None:
        """The last response with all new items and the summed usage; None before the first answer."""
        if self._last is None:
            if not self.output:
                return None
            return Response(output=self.output)
        response = Response()
        response.MergeFrom(self._last)
        del response.output[:]
        response.output.extend(self.output)
        if self._usage is not None:
            response.usage.CopyFrom(self._usage)
        else:
            response.ClearField("usage")
        return response


def _stamp(response: Response, version: int) -> None:
    """Notes the policy's version with the ids, unless the model server knows it better."""
    if response.output and response.output[-1].HasField("token_trace"):
        trace = response.output[-1].token_trace
        if not trace.HasField("policy_version"):
            trace.policy_version = version


async def _all(
    function: Callable[[FunctionCall], Coroutine[Any, Any, Item]], calls: Sequence[FunctionCall]
) -> list[Item]:
    """Runs the calls together; the first failure cancels the others."""
    async with _flat_group() as group:
        tasks = [group.create_task(function(call)) for call in calls]
    return [task.result() for task in tasks]


class _flat_group(asyncio.TaskGroup):
    """A task group that raises the first failure itself instead of a group of one."""

    async def __aexit__(self, *args: Any) -> None:
        try:
            await super().__aexit__(*args)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

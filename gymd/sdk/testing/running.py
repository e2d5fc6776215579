"""Servers that run in a test, as their callers see them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from gymapi.v1 import agent_service_pb2 as agent_pb
from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1.model_service_pb2 import CreateResponseRequest, StreamResponseRequest, StreamResponseResponse
from gymapi.v1.responses_pb2 import FunctionTool, Response
from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED, Rollout
from gymapi.v1.rollout_pb2 import Reward as RewardMessage
from gymd.convert import dumps, loads
from gymd.sdk.base import Server
from gymd.sdk.resources import ResourcesServicer, Reward
from gymd.sdk.testing.items import make_params, make_response, make_task

__all__ = ["RunningServer", "RunningSession", "ToolAnswer"]

CALL_TIMEOUT_S = 30.0
"""Deadline of every call that a helper makes."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool answered."""

    output: str
    is_error: bool

    def json(self) -> Any:
        """The output, parsed; raises ValueError."""
        return loads(self.output)


class RunningServer:
    """A server of any kind, called over the transport of the test.

    Attributes:
        name: its instance name.
        stub: the generated stub of its service.
        address: where it listens; "" for the in-process transport.
    """

    def __init__(
        self, name: str, stub: Any, address: str, server: Server | None = None, servicer: Any = None
    ) -> None:
        self.name = name
        self.stub = stub
        self.address = address
        self._server = server
        self._servicer = servicer

    @property
    def server(self) -> Server:
        """The object itself; raises LookupError for one that runs elsewhere."""
        if self._server is None:
            raise LookupError(f"{self.name} runs in another process, at {self.address}")
        return self._server

    @property
    def open_sessions(self) -> list[str]:
        """Ids of the sessions of a resources server; none are known of one that runs elsewhere."""
        return list(self._servicer.sessions) if isinstance(self._servicer, ResourcesServicer) else []

    async def call(self, method: str, request: Any, timeout: float = CALL_TIMEOUT_S) -> Any:
        """One call of a unary method; raises GymdError."""
        return await getattr(self.stub, method)(request, timeout=timeout)

    # Model servers.

    async def respond(
        self, params: Mapping[str, Any] | str, *, rollout_id: str = "", return_tokens: bool | None = None
    ) -> Response:
        """The model's answer to create params (OpenAI JSON), or to one user message."""
        request = CreateResponseRequest(params=make_params(params), rollout_id=rollout_id)
        if return_tokens is not None:
            request.return_tokens = return_tokens
        return (await self.call("CreateResponse", request)).response

    async def stream(self, params: Mapping[str, Any] | str) -> list[StreamResponseResponse]:
        """All events of a streamed answer."""
        request = StreamResponseRequest(params=make_params(params))
        return [event async for event in self.stub.StreamResponse(request, timeout=CALL_TIMEOUT_S)]

    # Agent servers.

    async def run_rollout(
        self,
        row: Mapping[str, Any],
        *,
        rollout_id: str = "",
        deadlines: agent_pb.Deadlines | None = None,
        return_tokens: bool | None = None,
        timeout: float = CALL_TIMEOUT_S,
    ) -> Rollout:
        """One rollout of a dataset row."""
        request = agent_pb.RunRolloutRequest(
            rollout_id=rollout_id or f"rollout-{next(_numbers)}",
            task_id="task",
            attempt=1,
            task=make_task(row, agent=self.name),
            deadlines=deadlines,
        )
        if return_tokens is not None:
            request.return_tokens = return_tokens
        return (await self.call("RunRollout", request, timeout)).rollout

    async def ask(self, params: Mapping[str, Any] | str) -> Response:
        """One conversation without a verifier."""
        request = agent_pb.AgentServiceCreateResponseRequest(params=make_params(params))
        return (await self.call("CreateResponse", request)).response

    # Resources servers.

    async def list_tools(self) -> list[FunctionTool]:
        """The tools with their schemas."""
        return list((await self.call("ListTools", pb.ListToolsRequest())).tools)

    async def seed(
        self, row: Mapping[str, Any], *, session_id: str = "", request_id: str = ""
    ) -> RunningSession:
        """Seeds a session with a dataset row; it closes with `close()` or at the end of `async with`."""
        session = RunningSession(self, row, session_id or f"session-{next(_numbers)}")
        request = pb.SeedSessionRequest(session_id=session.id, task=session.task, request_id=request_id)
        await self.call("SeedSession", request)
        return session

    async def verify(
        self,
        row: Mapping[str, Any],
        text: str = "",
        *,
        response: Response | None = None,
        outcome: int = OUTCOME_COMPLETED,
    ) -> Reward:
        """The reward of an answer without a session."""
        return await self._verify("", make_task(row), text, response, outcome)

    async def _verify(
        self, session_id: str, task: Any, text: str, response: Response | None, outcome: int
    ) -> Reward:
        request = pb.VerifyRequest(
            session_id=session_id,
            task=task,
            response=response if response is not None else make_response(text),
            outcome=outcome,  # type: ignore[arg-type]
        )
        return _reward((await self.call("Verify", request)).reward)

    async def aggregate(self, rollouts: Sequence[pb.ScoredRollout]) -> tuple[dict[str, Any], list[str]]:
        """The environment's metrics over scored rollouts, and the names of the important ones."""
        answer = await self.call("AggregateMetrics", pb.AggregateMetricsRequest(rollouts=rollouts))
        return loads(answer.metrics_json), list(answer.key_metrics)


class RunningSession:
    """A session of a resources server.

    Attributes:
        id: its id.
        task: what it was seeded with.
    """

    def __init__(self, server: RunningServer, row: Mapping[str, Any], session_id: str) -> None:
        self._server = server
        self.id = session_id
        self.task = make_task(row)

    async def call(self, tool: str, **arguments: Any) -> ToolAnswer:
        """Calls a tool with the given arguments."""
        return await self.call_json(tool, dumps(arguments).decode())

    async def call_json(self, tool: str, arguments: str, call_id: str = "") -> ToolAnswer:
        """Calls a tool with arguments as a model might write them: any text."""
        request = pb.CallToolRequest(
            session_id=self.id,
            call_id=call_id or f"call-{next(_numbers)}",
            name=tool,
            arguments_json=arguments,
        )
        answer = await self._server.call("CallTool", request)
        return ToolAnswer(answer.output, answer.is_error)

    async def verify(
        self, text: str = "", *, response: Response | None = None, outcome: int = OUTCOME_COMPLETED
    ) -> Reward:
        """The reward of a final text, or of a whole response."""
        return await self._server._verify(self.id, self.task, text, response, outcome)

    async def close(self) -> None:
        """Frees the session; closing twice succeeds."""
        await self._server.call("CloseSession", pb.CloseSessionRequest(session_id=self.id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _reward(reward: RewardMessage) -> Reward:
    extras = loads(reward.extras_json) if reward.extras_json else {}
    flags = {
        name: getattr(reward, name) for name in ("use_for_loss", "use_for_baseline") if reward.HasField(name)
    }
    return Reward(reward.value, dict(reward.components), extras, **flags)

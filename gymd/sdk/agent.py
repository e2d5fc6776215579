"""Agent servers: the loop between a model server and a resources server.

The SDK does what every rollout needs (seed, deadlines, verify, close, timing, naming what failed); an agent
server implements `run`: call the model, call the tools, decide when to stop.
"""

from __future__ import annotations

from abc import abstractmethod

import pydantic

from gymapi.v1 import agent_service_pb2 as pb
from gymapi.v1.rollout_pb2 import Task
from gymd.errors import error
from gymd.mesh import CallContext, cancel_all
from gymd.sdk.base import ModelRef, ResourcesRef, Server, ServerConfig
from gymd.sdk.episode import Episode
from gymd.sdk.policy import update_policy
from gymd.sdk.run import AgentRun

__all__ = ["AgentConfig", "AgentServer"]


class AgentConfig(ServerConfig):
    """Configuration that every agent server shares; spans are in seconds."""

    model_server: ModelRef
    resources_server: ResourcesRef | None = None
    skip_verification: bool = False
    return_tokens: bool | None = None
    rollout_timeout_s: float = pydantic.Field(default=3600.0, gt=0)
    model_timeout_s: float = pydantic.Field(default=600.0, gt=0)
    tool_timeout_s: float = pydantic.Field(default=120.0, gt=0)
    seed_timeout_s: float = pydantic.Field(default=60.0, gt=0)
    verify_timeout_s: float = pydantic.Field(default=300.0, gt=0)
    peer_wait_s: float = pydantic.Field(default=30.0, ge=0)


class AgentServer(Server):
    """Base of agent servers: implement run."""

    kind = "agent"
    Config = AgentConfig
    config: AgentConfig

    @abstractmethod
    async def run(self, run: AgentRun) -> None:
        """Runs the loop of one rollout.

        Use `await run.model()` for the next response, `await run.call_tools(calls)` for tools, and
        `run.finish(outcome, reason)` to say how it ended; returning without it means COMPLETED.
        """

    def fixed_labels(self) -> dict[str, str]:
        """The names of its peers, so that a client finds the resources server behind an agent."""
        # An agent with a Config of its own may have neither.
        peers = {key: getattr(self.config, key, None) for key in ("resources_server", "model_server")}
        return {key: peer.name for key, peer in peers.items() if isinstance(peer, ModelRef | ResourcesRef)}

    def servicer(self) -> AgentServicer:
        """The wire shell."""
        return AgentServicer(self)


class AgentServicer:
    """AgentService over an AgentServer."""

    def __init__(self, server: AgentServer) -> None:
        self._server = server
        self._episodes: dict[tuple[str, str, int], Episode] = {}

    async def RunRollout(self, request: pb.RunRolloutRequest, context: CallContext) -> pb.RunRolloutResponse:
        if not request.rollout_id:
            raise error("INVALID_REQUEST", "rollout_id is missing: choose a unique one", field="rollout_id")
        if not request.task.HasField("create_params"):
            raise error("INVALID_REQUEST", "the task has no create_params", field="task.create_params")
        episode = Episode(self._server, request, context)
        key = (request.policy_session, request.rollout_id, request.attempt)
        del request  # thousands wait here
        self._episodes[key] = episode
        try:
            return await episode.rollout()
        finally:
            if self._episodes.get(key) is episode:
                del self._episodes[key]

    async def StopRollouts(
        self, request: pb.StopRolloutsRequest, context: CallContext
    ) -> pb.StopRolloutsResponse:
        keys = ((one.policy_session, one.rollout_id, one.attempt) for one in request.rollouts)
        stopping = [episode for key in keys if (episode := self._episodes.get(key)) is not None]
        tasks = [episode.stop(request.mode, request.reason) for episode in stopping]
        cancel_all(task for task in tasks if task is not None)
        for episode in stopping:
            await episode.released()
        return pb.StopRolloutsResponse()

    async def UpdatePolicy(
        self, request: pb.UpdatePolicyRequest, context: CallContext
    ) -> pb.UpdatePolicyResponse:
        if not request.policy_session:
            text = "policy_session is missing: whose policy changes?"
            raise error("INVALID_REQUEST", text, field="policy_session")
        update_policy(request)
        return pb.UpdatePolicyResponse()

    async def CreateResponse(
        self, request: pb.AgentServiceCreateResponseRequest, context: CallContext
    ) -> pb.AgentServiceCreateResponseResponse:
        task = Task(agent=self._server.name, create_params=request.params)
        episode = Episode(self._server, pb.RunRolloutRequest(task=task, attempt=1), context, verify=False)
        return pb.AgentServiceCreateResponseResponse(response=await episode.conversation())

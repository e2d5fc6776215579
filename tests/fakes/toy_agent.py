"""Agent servers that need no model: they answer every rollout by themselves, after a while or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

from gymapi.v1.agent_service_pb2 import (
    RunRolloutRequest,
    RunRolloutResponse,
    StopRolloutsRequest,
    StopRolloutsResponse,
)
from gymapi.v1.rollout_pb2 import Outcome, Rollout
from gymd.mesh import CallContext
from gymd.sdk import AgentServer, ServerConfig
from gymd.sdk.base import ResourcesRef

LARGE_BYTES = 3_000_000


class ToyConfig(ServerConfig):
    """How the toy behaves."""

    delay_s: float = 0.0
    fail_start: str = ""
    api_key: str = ""
    package: str = ""
    executions: str = ""
    resources_server: ResourcesRef | None = None


class ToyAgent(AgentServer):
    """Answers with reward 1 and the process id as the extras."""

    Config = ToyConfig  # type: ignore[assignment]
    config: ToyConfig  # type: ignore[assignment]

    async def start(self) -> None:
        """Fails if told to."""
        if self.config.fail_start:
            raise RuntimeError(self.config.fail_start)
        if self.config.api_key:
            print("my key is", self.config.api_key)  # noqa: T201 - what a careless author does

    def labels(self) -> dict[str, str]:
        """The version of a package, to see in which environment it runs."""
        if not self.config.package:
            return {}
        module = __import__(self.config.package)
        return {"file": str(module.__file__), "pid": str(os.getpid())}

    async def run(self, run: Any) -> None:
        """Never called: RunRollout is answered below."""

    def servicer(self) -> Any:
        """Its own wire shell."""
        return self

    async def RunRollout(self, request: RunRolloutRequest, context: CallContext) -> RunRolloutResponse:
        """One rollout; the text `exit` ends the process, `hang` never answers, `tell` logs its begin, `large`
        has an image of LARGE_BYTES made."""
        text = request.task.create_params.input_text
        if text == "tell":
            print("begun", request.rollout_id, flush=True)  # noqa: T201 - read back from its log
        if text == "exit":
            os._exit(17)
        if text == "hang":
            print("hanging", request.rollout_id, flush=True)  # noqa: T201 - read back from its log
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                print("cancelled", request.rollout_id, flush=True)  # noqa: T201 - read back from its log
                raise
        if self.config.delay_s:
            await asyncio.sleep(self.config.delay_s)
        rollout = Rollout(outcome=Outcome.OUTCOME_COMPLETED)
        rollout.reward.value = 1.0
        rollout.reward.extras_json = str(os.getpid())
        if text == "large":
            data = os.urandom(LARGE_BYTES)
            digest = hashlib.sha256(data).hexdigest()
            rollout.blobs.add(name="pixels", media_type="image/png", data=data, sha256=digest)
        return RunRolloutResponse(rollout=rollout)


class StubbornAgent(ToyAgent):
    """Never ends, however it is told, but for what its task says; a line in a file for each execution."""

    async def RunRollout(self, request: RunRolloutRequest, context: CallContext) -> RunRolloutResponse:
        """With the text `first` the rollout of index 0 ends, with `second` a second execution of it."""
        text = request.task.create_params.input_text
        before = self._note(request.rollout_id)
        if not ((text == "first" and not request.index) or (text == "second" and before)):
            await asyncio.Event().wait()
        return await super().RunRollout(request, context)

    def _note(self, rollout_id: str) -> int:
        """Writes the line; returns how many there were for it before."""
        file = Path(self.config.executions)
        with file.open("a") as lines:
            lines.write(f"{rollout_id}\n")
        return file.read_text().splitlines().count(rollout_id) - 1

    async def StopRollouts(self, request: StopRolloutsRequest, context: CallContext) -> StopRolloutsResponse:
        """Takes longer than anybody waits."""
        await asyncio.Event().wait()
        return StopRolloutsResponse()

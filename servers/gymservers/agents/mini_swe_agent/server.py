"""mini_swe_agent: an agent server around the package mini-swe-agent."""

from __future__ import annotations

import asyncio
import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pydantic

from gymapi.v1.resources_service_pb2 import ListToolsRequest
from gymapi.v1.responses_pb2 import FunctionTool
from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED
from gymd.errors import error
from gymd.sdk import AgentConfig, AgentRun, AgentServer, ResourcesRef
from gymservers.agents.mini_swe_agent.bridge import Bridge
from gymservers.agents.mini_swe_agent.driver import Limits, drive, has_input, load_package, read_templates

__all__ = ["MiniSweAgent"]

MARGIN_S = 60.0
"""How much longer than the container's own limit a call may take."""


class MiniSweAgentConfig(AgentConfig):
    """Configuration of mini_swe_agent; spans are in seconds."""

    resources_server: ResourcesRef
    """The server swe, or another one with a tool bash."""
    step_limit: int = pydantic.Field(default=250, ge=1)
    """Most model calls of a rollout."""
    collapse_limit: int = pydantic.Field(default=3, ge=1)
    """The rollout ends after so many answers in a row without a call that can be run."""
    run_golden: bool = False
    """Hand in the row's own patch and ask no model: a check of rows, images and container runtime."""
    concurrency: int = pydantic.Field(default=256, ge=1)
    """Most rollouts at the same time, each with a thread; further ones wait."""
    step_timeout: float = pydantic.Field(default=600.0, gt=0)
    """The resources server's step_timeout: gives tool_timeout_s, unless that is set."""
    eval_timeout: float = pydantic.Field(default=1800.0, gt=0)
    """The resources server's eval_timeout: gives verify_timeout_s, unless that is set."""
    mini_swe_config: str | None = None
    """A configuration file of mini-swe-agent with the prompts. None: the package's own for SWE-bench."""
    rollout_timeout_s: float = pydantic.Field(default=18_000.0, gt=0)
    """The whole rollout."""
    seed_timeout_s: float = pydantic.Field(default=960.0, gt=0)
    """Seeding: starts a container, for which an image may have to be fetched."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _deadlines(cls, block: Any) -> Any:
        """A deadline of ours must not end what the container's own limits end in a better way."""
        if not isinstance(block, dict):
            return block
        follows = (("tool_timeout_s", "step_timeout", 1), ("verify_timeout_s", "eval_timeout", 2))
        found = dict(block)
        for deadline, key, times in follows:
            span = block.get(key, cls.model_fields[key].default)
            if deadline not in block and isinstance(span, int | float):
                found[deadline] = span * times + MARGIN_S  # an evaluation may have to wait for its turn
        return found


class MiniSweAgent(AgentServer):
    """mini-swe-agent's loop, one thread for each rollout."""

    Config = MiniSweAgentConfig  # type: ignore[assignment] # its constructor asks for more than the base's
    config: MiniSweAgentConfig

    async def start(self) -> None:
        """Imports the package and reads the prompts; a mistake is told here, not by every rollout."""
        try:
            self._package = await asyncio.to_thread(load_package)
        except ImportError as failure:
            text = (
                f"the package mini-swe-agent cannot be imported ({failure}): set `placement: venv` for this"
                " server, or pip install mini-swe-agent==2.4.6"
            )
            raise error("SERVER_NOT_READY", text, package="mini-swe-agent") from None
        try:
            self._templates = await asyncio.to_thread(
                read_templates, self._package, self.config.mini_swe_config
            )
        except (OSError, ValueError) as failure:
            text = f"mini_swe_config: {failure}"
            raise error("INVALID_REQUEST", text, field="mini_swe_config") from None
        places = self.config.concurrency
        self._places = asyncio.Semaphore(places)
        self._threads = ThreadPoolExecutor(places, thread_name_prefix=self.name)
        self._tools: list[FunctionTool] = []

    async def stop(self) -> None:
        """Ends the threads; their rollouts have ended before."""
        if hasattr(self, "_threads"):
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, run: AgentRun) -> None:
        """Ends when a patch is handed in, after step_limit calls, or collapse_limit useless ones in a row."""
        fields = run.task.fields
        if self.config.run_golden:
            await _hand_in(run, fields)
            return
        task = str(fields.get("problem_statement") or "")
        if not task and not has_input(run.params):
            text = "the row has neither input nor problem_statement: give it one of them"
            raise error("INVALID_REQUEST", text, field="problem_statement")
        if not run.params.tools:
            for tool in await self._tools_of_peer():
                run.params.tools.add().function.CopyFrom(tool)
        async with self._places:
            await self._drive(run, task)

    async def _drive(self, run: AgentRun, task: str) -> None:
        loop = asyncio.get_running_loop()
        bridge = Bridge(loop)
        limits = Limits(self.config.step_limit, self.config.collapse_limit)
        arguments = (self._package, bridge, run, task, self._templates, limits)
        work = loop.run_in_executor(self._threads, drive, *arguments)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            bridge.stop()
            await asyncio.wait([work])  # the thread does nothing but wait, so it ends at once
            work.exception()  # Stopped, or what came first; nobody asks for it any more
            raise

    async def _tools_of_peer(self) -> list[FunctionTool]:
        """The tools that the model may call, where the row names none."""
        if not self._tools:
            peer = self.mesh.pick(self.config.resources_server.name, "resources", self.name)
            answer = await self.mesh.stub(peer).ListTools(
                ListToolsRequest(), timeout=self.config.tool_timeout_s
            )
            self._tools = list(answer.tools)
        return self._tools


async def _hand_in(run: AgentRun, fields: dict[str, Any]) -> None:
    """Hands in the row's patch by the tool, as a model would."""
    patch = fields.get("patch")
    if not isinstance(patch, str) or not patch.strip():
        raise error("INVALID_REQUEST", "run_golden: the row has no patch", field="patch")
    end = f"END_{secrets.token_hex(8)}"
    command = f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat <<'{end}'\n{patch.rstrip(chr(10))}\n{end}"
    item = run.params.input_items.items.add()
    call = item.function_call
    call.call_id, call.name = "golden", "bash"
    call.arguments_json = json.dumps({"command": command})
    run.output.append(item)
    await run.call_tools([call])
    run.finish(OUTCOME_COMPLETED, "golden")

"""simple_agent: calls the model, runs the tools it asks for, and again, until it answers."""

from __future__ import annotations

from typing import Annotated

import pydantic

from gymapi.v1 import rollout_pb2
from gymapi.v1.responses_pb2 import Response
from gymd.sdk import AgentConfig, AgentRun, AgentServer

__all__ = ["SimpleAgent"]

# NeMo Gym has no limit by default, and one rollout made 2,703 calls in 8 hours.
MAX_STEPS = 100


def _bounded(value: object) -> object:
    """NeMo Gym's files say `max_steps: null`; here that is the default, never "without limit"."""
    return MAX_STEPS if value is None else value


class SimpleAgentConfig(AgentConfig):
    """Configuration of simple_agent."""

    max_steps: Annotated[int, pydantic.BeforeValidator(_bounded)] = pydantic.Field(default=MAX_STEPS, ge=1)
    """Most model calls of a rollout."""
    execute_tool_calls: bool = True
    """false: a tool call is the answer itself; it ends the rollout and is not run."""
    skip_verification_reward: float | None = None
    """Known to NeMo Gym's files and not used: a reward is what a verifier returned, or absent."""


class SimpleAgent(AgentServer):
    """The loop of model calls and tool calls."""

    Config = SimpleAgentConfig
    config: SimpleAgentConfig

    async def start(self) -> None:
        """Says so when the configuration asks for a reward that nobody verified."""
        if self.config.skip_verification_reward is not None:
            self.log.warning("skip_verification_reward_ignored", extra={"agent": self.name})

    async def run(self, run: AgentRun) -> None:
        """Ends with a message, an incomplete response, nothing to act on, or after max_steps model calls."""
        for _ in range(self.config.max_steps):
            response = await run.model()
            if response.HasField("incomplete_details"):
                # Calls that it still asked for are not run: their arguments may be cut off.
                reason = response.incomplete_details.reason or "incomplete"
                run.finish(rollout_pb2.OUTCOME_TRUNCATED_TOKENS, reason)
                return
            calls = [item.function_call for item in response.output if item.HasField("function_call")]
            if not calls:
                self._finish(run, response)
                return
            if not self.config.execute_tool_calls:
                run.finish(rollout_pb2.OUTCOME_COMPLETED, "tool_calls")
                return
            await run.call_tools(calls)
        run.finish(rollout_pb2.OUTCOME_TRUNCATED_TURNS, "max_steps")

    def _finish(self, run: AgentRun, response: Response) -> None:
        if any(item.message.role == "assistant" for item in response.output if item.HasField("message")):
            run.finish(rollout_pb2.OUTCOME_COMPLETED, "final_message")
        elif any(item.HasField("reasoning") for item in response.output):
            run.finish(rollout_pb2.OUTCOME_EMPTY, "reasoning_only")
        else:
            run.finish(rollout_pb2.OUTCOME_EMPTY, "empty_output")

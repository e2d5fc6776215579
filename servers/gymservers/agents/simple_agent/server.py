"""simple_agent: calls the model, runs the tools it asks for, and again, until it answers."""

from __future__ import annotations

import pydantic

from gymapi.v1 import rollout_pb2
from gymapi.v1.responses_pb2 import Response
from gymd.sdk import AgentConfig, AgentRun, AgentServer

__all__ = ["SimpleAgent"]

_TRUNCATED = {
    "max_output_tokens": rollout_pb2.OUTCOME_TRUNCATED_TOKENS,
    "content_filter": rollout_pb2.OUTCOME_TRUNCATED_TOKENS,
}


class SimpleAgentConfig(AgentConfig):
    """Configuration of simple_agent."""

    # NeMo Gym has no limit by default, and one rollout made 2,703 calls in 8 hours.
    max_steps: int = pydantic.Field(default=100, ge=1)


class SimpleAgent(AgentServer):
    """The loop of model calls and tool calls."""

    Config = SimpleAgentConfig
    config: SimpleAgentConfig

    async def run(self, run: AgentRun) -> None:
        """Ends with a message, an incomplete response, nothing to act on, or after max_steps model calls."""
        for _ in range(self.config.max_steps):
            response = await run.model()
            if response.HasField("incomplete_details"):
                reason = response.incomplete_details.reason or "incomplete"
                run.finish(_TRUNCATED.get(reason, rollout_pb2.OUTCOME_TRUNCATED_TOKENS), reason)
                return
            calls = [item.function_call for item in response.output if item.HasField("function_call")]
            if not calls:
                self._finish(run, response)
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

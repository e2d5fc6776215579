"""Structured outputs: no tools, and 1.0 for a document of the asked format that fits the row's schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pydantic

from gymapi.v1.resources_service_pb2 import ScoredRollout
from gymapi.v1.responses_pb2 import Response
from gymd.errors import error
from gymd.sdk import ResourcesServer, Reward, ServerConfig, shared_pool
from gymd.sdk.metrics import mean_rewards
from gymservers.resources.structured_outputs.check import SCHEMA_ERROR, Finding, check_arguments, check_text
from gymservers.resources.structured_outputs.metrics import SLICES, slices_of
from gymservers.resources.structured_outputs.schemas import BadSchema, load

__all__ = ["StructuredOutputs"]

# What is checked on the event loop: plain schemas, and texts whose parsing and checking takes less than about
# 1 ms, whatever they hold. All else goes to the process pool, which costs some 0.3 ms a call.
IN_PLACE_SCHEMA_CHARS = 16_000
IN_PLACE_CHARS = {"json": 16_000, "xml": 2_000, "csv": 1_000, "toml": 1_000, "yaml": 0}


class StructuredOutputsConfig(ServerConfig):
    """Configuration of structured_outputs."""

    xml_coerce_types: bool = True
    """Read the texts of an XML document as the numbers, booleans and arrays that the schema asks for."""
    verify_timeout_s: float = pydantic.Field(default=10.0, gt=0)
    """Seconds that one verification may take; then it is killed, and the rollout has no reward."""


class StructuredTask(pydantic.BaseModel):
    """The row's own fields. Those that only describe it (metrics.SLICES) are told with the reward."""

    model_config = pydantic.ConfigDict(extra="allow")

    schema_str: str
    schema_type: Literal["json", "yaml", "xml", "toml", "csv"] = "json"
    response_mode: str | None = "text"
    tool_name: str | None = None
    tool_payload_key: str | None = None

    @pydantic.field_validator("schema_str")
    @classmethod
    def _is_a_schema(cls, text: str) -> str:
        # A row with a broken schema is refused before a model is asked. A long one is read when it is used.
        if len(text) <= IN_PLACE_SCHEMA_CHARS:
            try:
                load(text)
            except BadSchema as failure:
                raise ValueError(str(failure)) from None
        return text

    @property
    def is_tool_call(self) -> bool:
        """Whether the answer is the arguments of a tool call."""
        return self.response_mode == "tool_call"


class StructuredOutputs(ResourcesServer):
    """Checks answers against JSON schemas; see check.py."""

    Config = StructuredOutputsConfig
    config: StructuredOutputsConfig

    async def verify(self, task: StructuredTask, response: Response, text: str) -> Reward:
        """1.0 if the answer fits, else 0.0 with `error_type` and `error_message`.

        Raises:
            InvalidRequest: the row's schema cannot be used.
            Unavailable: the model's endpoint reported an error instead of an answer.
            DeadlineExceeded: the check did not end in time, as with a pattern that runs for ever.
        """
        _refuse_api_error(task, response, text)
        finding = await (self._tool_call(task, response) if task.is_tool_call else self._text(task, text))
        if finding is not None and finding.error_type == SCHEMA_ERROR:
            what = f"{SCHEMA_ERROR}: {finding.message}; correct the row's schema_str"
            raise error("INVALID_REQUEST", what, field="schema_str", error_type=SCHEMA_ERROR)
        extras: dict[str, Any] = {
            "error_type": finding and finding.error_type,
            "error_message": finding and finding.message,
            "schema_type": task.schema_type,
            "response_mode": task.response_mode,
        }
        extras |= {name: value for name, value in (task.model_extra or {}).items() if name in SLICES}
        return Reward(float(finding is None), extras=extras)

    async def _text(self, task: StructuredTask, text: str) -> Finding | None:
        if not text.strip():
            return Finding("empty_response", "the model wrote no text")
        cheap = _is_cheap(task.schema_str, task.schema_type, text)
        return await self._check(
            cheap, check_text, task.schema_str, task.schema_type, text, self.config.xml_coerce_types
        )

    async def _tool_call(self, task: StructuredTask, response: Response) -> Finding | None:
        calls = [item.function_call for item in response.output if item.HasField("function_call")]
        if not calls:
            return Finding("missing_tool_call", "the model called no tool")
        if len(calls) > 1:
            names = ", ".join(call.name for call in calls[:10])
            return Finding("multiple_tool_calls", f"the model called {len(calls)} tools: {names}")
        (call,) = calls
        if task.tool_name and call.name != task.tool_name:
            return Finding("wrong_tool_name", f"the model called {call.name!r}, not {task.tool_name!r}")
        cheap = _is_cheap(task.schema_str, "json", call.arguments_json)
        return await self._check(
            cheap, check_arguments, task.schema_str, call.arguments_json, task.tool_payload_key
        )

    async def _check(
        self, cheap: bool, function: Callable[..., Finding | None], *arguments: Any
    ) -> Finding | None:
        if cheap:
            return function(*arguments)
        finding: Finding | None = await shared_pool().run(
            function, arguments, timeout=self.config.verify_timeout_s
        )
        return finding

    def aggregate_metrics(self, rollouts: Sequence[ScoredRollout]) -> dict[str, Any]:
        """The usual ones, and the mean reward for each value of each descriptive field."""
        return super().aggregate_metrics(rollouts) | mean_rewards(rollouts, slices_of)


def _refuse_api_error(task: StructuredTask, response: Response, text: str) -> None:
    """Raises Unavailable where there is an error instead of an answer: that is nothing to score."""
    if response.HasField("error") and (task.is_tool_call or not text.strip()):
        code, message = response.error.code, response.error.message
        what = f"api_error: the model's endpoint reported {code}: {message}; run the rollout again"
        raise error("UPSTREAM_UNAVAILABLE", what, error_type="api_error", code=code)


def _is_cheap(schema: str, kind: str, text: str) -> bool:
    """Whether a check takes less than about a millisecond, whatever the text holds."""
    if len(text) > IN_PLACE_CHARS[kind] or len(schema) > IN_PLACE_SCHEMA_CHARS:
        return False
    return load(schema).plain is not None

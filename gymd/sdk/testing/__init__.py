"""Tests of servers: start any server class in one line, script a model, run the conformance suites."""

from gymd.sdk.testing.agent_suite import check_agent_server
from gymd.sdk.testing.attempt import Attempt
from gymd.sdk.testing.expect import eventually, expect_error
from gymd.sdk.testing.fake_model import FakeModel, ModelRequest
from gymd.sdk.testing.items import (
    function_call,
    make_params,
    make_response,
    make_task,
    message,
    reasoning,
    tool_output,
)
from gymd.sdk.testing.mesh import (
    RunningMesh,
    Transport,
    no_tasks_left,
    reach_server,
    start_server,
    start_servers,
)
from gymd.sdk.testing.model_suite import check_model_server
from gymd.sdk.testing.resources_suite import check_resources_server, check_running_resources_server
from gymd.sdk.testing.running import RunningServer, RunningSession, ToolAnswer

__all__ = [
    "Attempt",
    "FakeModel",
    "ModelRequest",
    "RunningMesh",
    "RunningServer",
    "RunningSession",
    "ToolAnswer",
    "Transport",
    "check_agent_server",
    "check_model_server",
    "check_resources_server",
    "check_running_resources_server",
    "eventually",
    "expect_error",
    "function_call",
    "make_params",
    "make_response",
    "make_task",
    "message",
    "no_tasks_left",
    "reach_server",
    "reasoning",
    "start_server",
    "start_servers",
    "tool_output",
]

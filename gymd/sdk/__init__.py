"""For server authors: base classes, tools, rewards, serving and testing."""

from gymd.sdk.agent import AgentConfig, AgentServer
from gymd.sdk.base import ModelRef, ResourcesRef, Server, ServerConfig
from gymd.sdk.hooks import Session, TaskView
from gymd.sdk.model import ModelCall, ModelServer
from gymd.sdk.resources import ResourcesServer, Reward
from gymd.sdk.run import AgentRun
from gymd.sdk.serve import serve
from gymd.sdk.tools import ToolError, tool
from gymd.sdk.workers import ProcessPool, cpu_bound, shared_pool

__all__ = [
    "AgentConfig",
    "AgentRun",
    "AgentServer",
    "ModelCall",
    "ModelRef",
    "ModelServer",
    "ProcessPool",
    "ResourcesRef",
    "ResourcesServer",
    "Reward",
    "Server",
    "ServerConfig",
    "Session",
    "TaskView",
    "ToolError",
    "cpu_bound",
    "serve",
    "shared_pool",
    "tool",
]

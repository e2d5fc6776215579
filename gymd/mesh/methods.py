"""What the services' methods take and give, read from the contract's descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from gymapi.v1 import agent_service_pb2, model_service_pb2, resources_service_pb2

__all__ = ["METHODS", "SERVICE_OF_KIND", "Method"]


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC: `path` is "/package.Service/Name"."""

    path: str
    service: str
    name: str
    request_type: Any
    response_type: Any
    streaming: bool
    repeatable: bool
    starts_work: bool


SERVICE_OF_KIND = {
    "model": "gymapi.v1.ModelService",
    "agent": "gymapi.v1.AgentService",
    "resources": "gymapi.v1.ResourcesService",
}

# Idempotent by the contract (session ids, call ids), so a broken connection may be answered by a repeat.
_REPEATABLE = {"ListTools", "SeedSession", "CallTool", "Verify", "CloseSession", "AggregateMetrics"}
# What a draining process refuses; everything else belongs to work under way.
_STARTS_WORK = {
    "/gymapi.v1.AgentService/RunRollout",
    "/gymapi.v1.AgentService/CreateResponse",
    "/gymapi.v1.ResourcesService/SeedSession",
}


def _methods() -> dict[str, Method]:
    methods = {}
    for module in (model_service_pb2, agent_service_pb2, resources_service_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                methods[path] = Method(
                    path=path,
                    service=service.full_name,
                    name=method.name,
                    request_type=GetMessageClass(method.input_type),
                    response_type=GetMessageClass(method.output_type),
                    streaming=method.server_streaming,
                    repeatable=service.name == "ResourcesService" and method.name in _REPEATABLE,
                    starts_work=path in _STARTS_WORK,
                )
    return methods


METHODS: dict[str, Method] = _methods()
"""Every method that servers of the mesh serve, by path."""

"""A resources server on a real socket that only aggregates metrics, by script."""

from __future__ import annotations

import json
from typing import Any, Self

import grpc

from gymapi.v1 import registry_service_pb2 as registry
from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1 import resources_service_pb2_grpc
from gymd.errors import GymdError, abort
from gymd.mesh.options import SERVER_OPTIONS
from tests.fakes.daemon import server

__all__ = ["FakeResources"]


class FakeResources(resources_service_pb2_grpc.ResourcesServiceServicer):
    """Answers AggregateMetrics and keeps what it was asked.

    Attributes:
        metrics: the answer; text is sent as it is, None leaves the method unimplemented.
        key_metrics: the names that matter most.
        failure: raised instead.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.metrics: Any = {}
        self.key_metrics: list[str] = []
        self.failure: GymdError | None = None
        self.requests: list[pb.AggregateMetricsRequest] = []
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        resources_service_pb2_grpc.add_ResourcesServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.stop(None)

    def registered(self, **fields: Any) -> registry.Server:
        """What a daemon lists of it."""
        return server(self.name, "resources", address=self.address, **fields)

    async def AggregateMetrics(self, request: Any, context: Any) -> pb.AggregateMetricsResponse:
        """Keeps the request and answers."""
        self.requests.append(request)
        if self.failure is not None:
            await abort(context, self.failure)
        if self.metrics is None:
            # As grpc answers for a method that a server lacks: a bare status, no details.
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        text = self.metrics if isinstance(self.metrics, str) else json.dumps(self.metrics)
        return pb.AggregateMetricsResponse(metrics_json=text, key_metrics=self.key_metrics)

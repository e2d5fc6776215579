"""A probe behind each of the mesh's channels, on real sockets, for the tests of the mesh."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from gymapi.v1 import registry_service_pb2 as registry
from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1.model_service_pb2 import (
    CreateResponseRequest,
    CreateResponseResponse,
    StreamResponseRequest,
    StreamResponseResponse,
)
from gymd.errors import error
from gymd.mesh import Directory, LocalServers, Mesh, MeshServer, build_server
from gymd.sdk.testing import make_response

__all__ = ["BIG", "TRANSPORTS", "Probe", "Wiring", "entry", "wired"]

TRANSPORTS = ["link", "plain", "in-process"]
BIG = 3 * 1024 * 1024


class Probe:
    """A resources and model servicer that does what the call says."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.go = asyncio.Event()
        self.contexts: list[Any] = []
        self.calls: list[str] = []

    async def CallTool(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:
        self.contexts.append(context)
        self.calls.append(request.call_id)
        match request.name:
            case "echo":
                return pb.CallToolResponse(output=request.arguments_json)
            case "error":
                raise error("LIMIT_REACHED", "no more sessions: später", retry_delay=1.5, limit=3, who="ä")
            case "raise":
                raise ValueError(request.arguments_json or "broken code")
            case "exit":
                raise SystemExit(3)
            case "wait":
                self.started.set()
                await self.go.wait()
            case "hang":
                self.started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.stopped.set()
        return pb.CallToolResponse(output=str(context.time_left()))

    async def SeedSession(self, request: Any, context: Any) -> pb.SeedSessionResponse:
        return pb.SeedSessionResponse()

    async def StreamResponse(self, request: StreamResponseRequest, context: Any) -> AsyncIterator[Any]:
        try:
            for index in range(int(request.rollout_id)):
                event = StreamResponseResponse()
                event.text_delta.output_index = index
                event.text_delta.delta = "x" * (BIG if request.return_tokens else 1)
                yield event
            if request.params.input_text == "fail":
                raise error("UPSTREAM_UNAVAILABLE", "half an answer")
            if request.params.input_text == "hang":
                self.started.set()
                await asyncio.Event().wait()
        finally:
            self.stopped.set()

    async def CreateResponse(self, request: CreateResponseRequest, context: Any) -> Any:
        return CreateResponseResponse(response=make_response("Hi."))


class Wiring:
    """A probe behind one of the channels."""

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self.probe = Probe()
        self.local = LocalServers()
        self.local.add("env", "resources", self.probe)
        self.local.add("policy", "model", self.probe)
        self.directory = Directory()
        self.wire: MeshServer | None = None
        self.address = ""

    async def serve(self, listen: str = "127.0.0.1:0") -> None:
        self.wire = build_server(self.local, [listen], "server")
        (self.address,) = await self.wire.start()
        self.directory.replace([entry("env", "RESOURCES", self), entry("policy", "MODEL", self)])

    async def start(self) -> None:
        if self.transport == "in-process":
            self.directory.replace([entry("env", "RESOURCES", self), entry("policy", "MODEL", self)])
            self.mesh = Mesh("server", self.local, self.directory)
        else:
            await self.serve()
            self.mesh = Mesh("client", LocalServers(), self.directory)

    async def stop(self, grace: float = 1.0) -> None:
        await self.mesh.close()
        if self.wire is not None:
            await self.wire.stop(grace)

    def env(self) -> Any:
        return self.mesh.stub(self.mesh.pick("env", "resources"))

    def policy(self) -> Any:
        return self.mesh.stub(self.mesh.pick("policy", "model"))

    async def tool(self, name: str, arguments: str = "", *, call_id: str = "c", timeout: float = 20) -> str:
        request = pb.CallToolRequest(session_id="s", call_id=call_id, name=name, arguments_json=arguments)
        return (await self.env().CallTool(request, timeout=timeout)).output

    def stream(self, count: int, then: str = "", *, big: bool = False, timeout: float = 20) -> Any:
        request = StreamResponseRequest(rollout_id=str(count), return_tokens=big)
        request.params.input_text = then
        return self.policy().StreamResponse(request, timeout=timeout)


def entry(name: str, kind: str, wiring: Wiring) -> registry.Server:
    server = registry.Server(
        server_id=f"{name}@{wiring.address}",
        name=name,
        kind=registry.ServerKind.Value(f"SERVER_KIND_{kind}"),
        address=wiring.address,
        host_id="server",
        state=registry.SERVER_STATE_READY,
    )
    server.capabilities.link = wiring.transport == "link"
    return server


@contextlib.asynccontextmanager
async def wired(transport: str) -> AsyncIterator[Wiring]:
    wiring = Wiring(transport)
    await wiring.start()
    try:
        yield wiring
    finally:
        await wiring.stop()

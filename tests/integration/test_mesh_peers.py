"""What the mesh shows to other tools, and how it finds its peers."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gymapi.v1 import registry_service_pb2 as registry
from gymapi.v1 import resources_service_pb2 as pb
from gymapi.v1.resources_service_pb2_grpc import ResourcesServiceStub
from gymd.errors import GymdError
from gymd.mesh import SERVER_KEY, Directory, LocalServers, Mesh, Peer, build_server, dial
from gymd.mesh.plain import PlainChannel
from gymd.sdk.testing import expect_error
from tests.fakes.wiring import Probe, Wiring, entry, wired

# What other tools see.


async def test_health_and_reflection() -> None:
    async with wired("plain") as wiring, dial(wiring.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "gymapi.v1.ResourcesService", "gymapi.v1.ModelService", "gymapi.v1.LinkService"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, service
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        async for answer in reflection.ServerReflectionInfo(iter([request]), timeout=5):
            names = {service.name for service in answer.list_services_response.service}
        assert {"gymapi.v1.ResourcesService", "gymapi.v1.LinkService", "grpc.health.v1.Health"} <= names
        assert "gymapi.v1.AgentService" not in names
        assert wiring.wire is not None
        await wiring.wire.drain()
        answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_foreign_client_gets_statuses() -> None:
    """A stub of another language knows neither our exceptions nor, perhaps, the server's name."""
    async with wired("plain") as wiring, dial(wiring.address) as channel:
        stub = ResourcesServiceStub(channel)
        answer = await stub.CallTool(pb.CallToolRequest(name="echo", arguments_json="x"), timeout=5)
        assert answer.output == "x"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.CallTool(pb.CallToolRequest(name="error"), timeout=5)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert caught.value.details() == "no more sessions: später"
        metadata = ((SERVER_KEY, "wrong"),)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.CallTool(pb.CallToolRequest(name="echo"), timeout=5, metadata=metadata)
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_several_servers_of_a_kind_need_a_name() -> None:
    async with wired("plain") as wiring, dial(wiring.address) as channel:
        wiring.local.add("other", "resources", Probe())
        call = PlainChannel(channel, "", wiring.address).unary_unary(
            "/gymapi.v1.ResourcesService/CallTool",
            request_serializer=pb.CallToolRequest.SerializeToString,
            response_deserializer=pb.CallToolResponse.FromString,
        )
        failure = await expect_error("SERVER_NOT_FOUND", call(pb.CallToolRequest(), timeout=5), "no name")
        assert "env, other" in str(failure)


async def test_a_taken_port_is_named() -> None:
    async with wired("plain") as wiring:
        second = build_server(LocalServers(), [wiring.address], "second")
        with pytest.raises(GymdError, match=wiring.address) as caught:
            await second.start()
        assert caught.value.reason_name == "NAME_TAKEN"
        await second.grpc.stop(0)


async def test_unix_sockets(tmp_path: Any) -> None:
    wiring = Wiring("link")
    await wiring.serve(f"unix:{tmp_path}/s")
    wiring.mesh = Mesh("client", LocalServers(), wiring.directory)
    try:
        assert wiring.address == f"unix:{tmp_path}/s"
        assert await wiring.tool("echo", "x") == "x"
    finally:
        await wiring.stop()


# Picking a peer.


async def test_waiting_for_a_server_that_comes_later() -> None:
    wiring = Wiring("link")
    wiring.mesh = Mesh("client", LocalServers(), wiring.directory)
    waiting = asyncio.ensure_future(wiring.mesh.wait("env", "resources", 10))
    await asyncio.sleep(0)
    assert not waiting.done()
    await wiring.serve()
    assert (await waiting).address == wiring.address
    await expect_error("SERVER_NOT_FOUND", wiring.mesh.wait("evn", "resources", 0.01), "a misspelt name")
    await wiring.stop()


def test_replicas_are_sticky_and_shared_out() -> None:
    directory = Directory()
    wirings = []
    for number in range(4):
        wiring = Wiring("link")
        wiring.address = f"10.0.0.{number}:1"
        wirings.append(entry("env", "RESOURCES", wiring))
    for number, server in enumerate(wirings):
        server.host_id = f"host-{number}"
    directory.replace(wirings)
    picks = {str(key): directory.pick("env", "resources", str(key)).address for key in range(400)}
    counts = [list(picks.values()).count(server.address) for server in wirings]
    assert min(counts) > 50
    wirings[0].state = registry.SERVER_STATE_DRAINING
    directory.update([wirings[0]])
    moved = {key for key in picks if directory.pick("env", "resources", key).address != picks[key]}
    assert moved == {key for key, address in picks.items() if address == wirings[0].address}
    assert directory.pick("env", "resources", "x", host_id="host-2").host_id == "host-2"


def test_servers_that_cannot_take_work_say_why() -> None:
    directory = Directory()
    server = entry("env", "RESOURCES", Wiring("link"))
    server.state, server.condition = registry.SERVER_STATE_FAILED, "out of memory"
    directory.replace([server])
    with pytest.raises(GymdError, match="cannot take work: out of memory"):
        directory.pick("env", "resources")
    directory.update([], ["env@"])
    with pytest.raises(GymdError, match="there are: none"):
        directory.pick("env", "resources")


async def test_a_change_right_after_the_look_is_not_missed() -> None:
    directory = Directory()
    mesh = Mesh("me", LocalServers(), directory)
    server = registry.Server(
        server_id="1",
        name="m",
        kind=registry.SERVER_KIND_MODEL,
        address="127.0.0.1:1",
        state=registry.SERVER_STATE_READY,
    )
    waiting = asyncio.create_task(mesh.wait("m", "model", 20))
    # Comes after the first step of `waiting` and before anything that this step may have scheduled.
    asyncio.get_running_loop().call_soon(directory.replace, [server])
    async with asyncio.timeout(20):
        assert (await waiting).server_id == "1"
    await mesh.close()


async def test_links_to_hosts_that_are_gone_are_not_kept() -> None:
    mesh = Mesh("test", LocalServers(), Directory())
    try:
        for _ in range(4):  # a host that starts again and again, each time on another port
            local = LocalServers()
            local.add("env", "resources", Probe())
            server = build_server(local, ["127.0.0.1:0"])
            (address,) = await server.start()
            told = registry.Server(name="env", kind=registry.SERVER_KIND_RESOURCES, address=address)
            told.capabilities.link = True
            env = mesh.stub(Peer(told))
            call = pb.CallToolRequest(session_id="s", call_id="c", name="echo", arguments_json="hi")
            assert (await env.CallTool(call, timeout=20)).output == "hi"
            await server.stop(0)
            await expect_error("PEER_UNREACHABLE", env.CallTool(call, timeout=20), "a call to nobody")
        assert len(mesh._links) == 1
    finally:
        await mesh.close()

"""The daemon's other services over real sockets: registry, health, reflection, metrics; where it listens."""

import asyncio
import os
import re
import socket
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gymapi.v1 import registry_service_pb2 as pb
from gymapi.v1.agent_service_pb2 import RunRolloutRequest, RunRolloutResponse
from gymapi.v1.agent_service_pb2_grpc import AgentServiceServicer, add_AgentServiceServicer_to_server
from gymapi.v1.registry_service_pb2_grpc import RegistryServiceStub
from gymapi.v1.rollout_pb2 import Outcome
from gymapi.v1.rollout_service_pb2 import GetMetricsRequest
from gymd.config import ServerSpec
from gymd.daemon.app import Daemon
from gymd.errors import AlreadyExists, InvalidRequest, from_rpc_error
from gymd.mesh import SERVER_OPTIONS, dial
from tests.fakes.mesh import RunningMesh, configuration, running, task, toy

READY, DRAINING = pb.ServerState.SERVER_STATE_READY, pb.ServerState.SERVER_STATE_DRAINING
AGENT = pb.ServerKind.SERVER_KIND_AGENT


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[RunningMesh]:
    async with running(tmp_path, toy()) as one:
        yield one


async def refused(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value).reason_name


class ForeignAgent(AgentServiceServicer):
    """An agent as another language would serve it: plain gRPC, no link."""

    async def RunRollout(self, request: RunRolloutRequest, context: Any) -> RunRolloutResponse:
        response = RunRolloutResponse()
        response.rollout.outcome = Outcome.OUTCOME_COMPLETED
        response.rollout.reward.value = 0.5
        return response


async def foreign() -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    add_AgentServiceServicer_to_server(ForeignAgent(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"


async def test_a_foreign_server_registers_works_and_leaves(tmp_path: Path) -> None:
    awaited = ServerSpec(name="far", kind="agent", implementation="far", placement="remote")
    async with running(tmp_path, awaited, ready=False) as mesh:
        (waiting,) = await mesh.servers()
        assert "waiting" in waiting.condition
        server, address = await foreign()
        request = pb.RegisterServerRequest(name="far", kind=AGENT, address=address)
        answer = await mesh.registry.RegisterServer(request, timeout=30)
        assert answer.lease_ttl.seconds == 15
        stream = await mesh.stream().open()
        await stream.submit(task("a", rollout_count=20))
        rollouts = await stream.until(20)
        assert {rollout.reward.value for rollout in rollouts} == {0.5}
        assert {rollout.rollout_id for rollout in rollouts} == {f"a/{index}" for index in range(20)}
        await stream.finish()
        gone = pb.DeregisterServerRequest(server_id=answer.server_id)
        await mesh.registry.DeregisterServer(gone, timeout=30)
        assert [server.state for server in await mesh.servers()] == [pb.ServerState.SERVER_STATE_STARTING]
        await server.stop(None)


async def test_a_server_that_stops_renewing_turns_unhealthy_and_leaves(mesh: RunningMesh) -> None:
    request = pb.RegisterServerRequest(name="far", kind=AGENT, address="127.0.0.1:1")
    request.lease_ttl.seconds = 1
    await mesh.registry.RegisterServer(request, timeout=30)
    states: list[int] = []
    async with asyncio.timeout(20):
        async for change in mesh.registry.WatchServers(pb.WatchServersRequest()):
            states += [server.state for server in change.servers if server.name == "far"]
            if change.removed_server_ids:
                break
    assert states == [READY, pb.ServerState.SERVER_STATE_UNHEALTHY]
    assert [server.name for server in await mesh.servers()] == ["toy"]


async def test_registry_errors_have_their_reasons(mesh: RunningMesh) -> None:
    registry = mesh.registry
    taken = pb.RegisterServerRequest(name="toy", kind=pb.ServerKind.SERVER_KIND_MODEL, address="h:1")
    assert await refused(registry.RegisterServer(taken, timeout=30)) == "NAME_TAKEN"
    empty = pb.RegisterServerRequest()
    assert await refused(registry.RegisterServer(empty, timeout=30)) == "INVALID_REQUEST"
    unknown = pb.DrainServerRequest(name="toi")
    assert await refused(registry.DrainServer(unknown, timeout=30)) == "SERVER_NOT_FOUND"
    nobody = pb.RestartServerRequest()
    assert await refused(registry.RestartServer(nobody, timeout=30)) == "SERVER_NOT_FOUND"
    logs = pb.GetServerLogsRequest(name="toi")
    assert await refused(registry.GetServerLogs(logs, timeout=30)) == "SERVER_NOT_FOUND"


async def test_list_shows_the_daemon_and_its_servers(mesh: RunningMesh) -> None:
    answer = await mesh.registry.ListServers(pb.ListServersRequest(), timeout=30)
    (server,) = answer.servers
    assert (server.name, server.state, server.placement) == ("toy", READY, pb.Placement.PLACEMENT_SHARED)
    assert server.pid > 0
    assert server.capabilities.link
    assert (answer.daemon.address, answer.daemon.default_agent) == (mesh.daemon.address, "toy")
    models = pb.ListServersRequest(kind=pb.ServerKind.SERVER_KIND_MODEL)
    assert not (await mesh.registry.ListServers(models, timeout=30)).servers


async def test_drain_stops_new_work_and_restart_brings_it_back(mesh: RunningMesh) -> None:
    (before,) = await mesh.servers("toy")
    drained = await mesh.registry.DrainServer(pb.DrainServerRequest(name="toy"), timeout=30)
    assert [server.state for server in drained.servers] == [DRAINING]
    stream = await mesh.stream().open()
    await stream.submit(task("a"))
    (admission,) = (await stream.expect("admissions")).admissions
    assert "draining" in admission.rejection.message
    answer = await mesh.registry.RestartServer(pb.RestartServerRequest(name="toy"), timeout=30)
    assert list(answer.restarted_names) == ["toy"]
    (after,) = await mesh.until(lambda servers: [s.state for s in servers] == [READY])
    assert after.pid != before.pid
    assert after.restart_count == 1
    await stream.submit(task("a"))
    await stream.until(1)
    await stream.finish()


async def test_secrets_do_not_show_in_logs(tmp_path: Path) -> None:
    secretive = toy(config={"api_key": "a-very-secret-key-1"})
    async with running(tmp_path, secretive) as mesh:
        assert await mesh.logged("toy", "my key is") == "my key is ***"


async def test_a_server_that_cannot_start_shows_why(tmp_path: Path) -> None:
    async with running(
        tmp_path, toy(config={"fail_start": "the licence file is missing"}), ready=False
    ) as mesh:
        async with asyncio.timeout(30):
            (failed,) = await mesh.daemon.wait_ready()
        assert "the licence file is missing" in failed.condition
        stream = await mesh.stream().open()
        await stream.submit(task("a"))
        (admission,) = (await stream.expect("admissions")).admissions
        assert "the licence file is missing" in admission.rejection.message
        await stream.finish()


async def test_health_and_reflection(mesh: RunningMesh) -> None:
    health = health_pb2_grpc.HealthStub(mesh.channel)
    for service in ("", "gymapi.v1.RegistryService", "gymapi.v1.RolloutService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(mesh.channel)
    ask = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    async for listed in reflection.ServerReflectionInfo(ask, timeout=30):
        names = {service.name for service in listed.list_services_response.service}
    assert {"gymapi.v1.RegistryService", "gymapi.v1.RolloutService", "grpc.health.v1.Health"} <= names


async def test_metrics_have_names_labels_and_help(mesh: RunningMesh) -> None:
    stream = await mesh.stream().open()
    await stream.submit(task("a", rollout_count=3), task(""))
    await stream.until(3)
    await stream.finish()
    metrics = (await mesh.rollouts.GetMetrics(GetMetricsRequest(), timeout=30)).metrics
    by_name = {metric.name: metric for metric in metrics}
    assert dict(by_name["rollouts_total"].labels) == {"agent": "toy", "outcome": "completed"}
    assert by_name["rollouts_total"].value == 3
    assert by_name["tasks_rejected_total"].value == 1
    assert all(metric.help for metric in metrics)


class TestListening:
    async def test_a_taken_port_is_named(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            daemon = Daemon(configuration(tmp_path, toy(), listen=f"127.0.0.1:{port}"))
            with pytest.raises(AlreadyExists, match=f"127.0.0.1:{port}"):
                await daemon.start()

    async def test_two_daemons_do_not_share_a_state_folder(self, tmp_path: Path) -> None:
        async with running(tmp_path):
            with pytest.raises(AlreadyExists, match="state folder"):
                Daemon(configuration(tmp_path))

    async def test_other_machines_need_a_word(self, tmp_path: Path) -> None:
        config = configuration(tmp_path, listen="0.0.0.0:0")
        with pytest.raises(InvalidRequest, match="allow-remote"):
            Daemon(config)
        daemon = Daemon(config, allow_remote=True)
        await daemon.start()
        await daemon.stop()

    async def test_a_unix_socket_serves_hosts_and_clients(self, tmp_path: Path) -> None:
        path = tmp_path / "gymd.sock"
        async with running(tmp_path / "state", toy(), unix_socket=path) as mesh:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            async with dial(f"unix:{path}") as channel:
                answer = await RegistryServiceStub(channel).ListServers(pb.ListServersRequest(), timeout=30)
            assert len(answer.servers) == 1
            with pytest.raises(AlreadyExists, match="another process listens"):
                await Daemon(configuration(tmp_path / "other", unix_socket=path)).start()
            assert path.exists(), "a refused daemon leaves the other's socket alone"
            assert mesh.daemon.addresses[1] == f"unix:{path}"
        assert not path.exists()

    async def test_hosts_on_sockets_run_rollouts_and_leave_no_file(self, tmp_path: Path) -> None:
        # Short: the path of a socket may have 107 bytes, and a test's own folder has more.
        with tempfile.TemporaryDirectory(prefix="gymd-") as state:
            async with running(Path(state), toy(), host_sockets=True) as mesh:
                (server,) = await mesh.servers("toy")
                assert re.fullmatch(rf"unix:{state}/hosts/\w+/0-pool-0.sock", server.address)
                stream = await mesh.stream().open()
                await stream.submit(task("a", rollout_count=20))
                assert len(await stream.until(20)) == 20
                await stream.finish()
            assert not os.listdir(f"{state}/hosts")

    async def test_hosts_that_a_killed_daemon_left_take_no_socket_of_the_next(self) -> None:
        with tempfile.TemporaryDirectory(prefix="gymd-") as state:
            async with running(Path(state), toy(), host_sockets=True) as mesh:
                (first,) = await mesh.servers("toy")
            async with running(Path(state), toy(), host_sockets=True) as mesh:
                (second,) = await mesh.servers("toy")
        assert first.address != second.address

    async def test_a_socket_that_a_dead_daemon_left_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "gymd.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        async with running(tmp_path / "state", unix_socket=path):
            assert path.exists()

    async def test_the_state_folder_tells_where_it_is(self, mesh: RunningMesh, tmp_path: Path) -> None:
        file = tmp_path / "daemon.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        info = orjson.loads(file.read_bytes())
        assert info["address"] == mesh.daemon.address
        assert set(info) == {"address", "pid", "start_time", "config_files"}

"""Real child processes under the supervisor: start, crash, backoff, giving up, restart, stop."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from gymapi.v1.registry_service_pb2 import RegisterServerRequest, Server, ServerKind, ServerState
from gymd.config import ServerSpec
from gymd.daemon.plan import make_plan
from gymd.daemon.process import describe_exit
from gymd.daemon.registry import Registry
from gymd.daemon.supervisor import Supervisor
from gymd.errors import NotFound, Unimplemented
from gymd.venvs import Environments

FAKE_HOST = str(Path(__file__).parents[1] / "fakes" / "host.py")
READY, STARTING = ServerState.SERVER_STATE_READY, ServerState.SERVER_STATE_STARTING
FAILED = ServerState.SERVER_STATE_FAILED


def spec(name: str, **fields: Any) -> ServerSpec:
    return ServerSpec(name=name, kind="agent", implementation="fake", entrypoint="fake:Fake", **fields)


def gone(pid: int) -> bool:
    """Whether a process that was killed runs no more; init may be slow to bury it."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


class Mesh:
    """A registry with a supervisor, and ways to wait for what happens."""

    def __init__(self, registry: Registry, supervisor: Supervisor) -> None:
        self.registry = registry
        self.supervisor = supervisor

    async def until(self, wanted: Callable[[list[Server]], bool], name: str = "") -> list[Server]:
        """Waits for a state of the registry."""
        watcher = self.registry.subscribe()
        try:
            async with asyncio.timeout(20):
                while not wanted(servers := self.registry.servers(name)):
                    await watcher.get()
                return servers
        finally:
            self.registry.unsubscribe(watcher)

    async def running(self, name: str, *, after: int = 0) -> Server:
        """Waits until a server's process runs that is not the process `after`."""

        def runs(servers: list[Server]) -> bool:
            return all(server.pid and server.pid != after for server in servers)

        return (await self.until(runs, name))[0]

    async def lines(self, name: str, text: str) -> str:
        """Waits for a line of a server's process."""
        async with asyncio.timeout(20):
            while True:
                for log in self.supervisor.logs(name, 100):
                    for line in log.lines:
                        if text in line:
                            return line
                await asyncio.sleep(0.01)

    def register(self, server: Server) -> None:
        """Registers what the fake host does not."""
        self.registry.register(
            RegisterServerRequest(name=server.name, kind=server.kind, address="h:1", host_id=server.host_id)
        )


@asynccontextmanager
async def supervised(
    folder: Path, *servers: ServerSpec, hosts: int = 1, serve: bool = True, **options: Any
) -> AsyncIterator[Mesh]:
    registry = Registry()
    options = {"grace_s": 5.0, "backoff_s": (0.01, 0.05), **options}
    supervisor = Supervisor(
        make_plan(servers, hosts), registry, Environments(folder), command=[FAKE_HOST], **options
    )
    before = set(psutil.Process().children(recursive=True))
    supervisor.start()
    try:
        if serve:
            supervisor.serve_at("127.0.0.1:9")
        yield Mesh(registry, supervisor)
    finally:
        await supervisor.stop()
        assert set(psutil.Process().children(recursive=True)) <= before, "no child is left"


class TestPlan:
    def test_every_pool_host_is_a_whole_cell(self) -> None:
        plan = make_plan([spec("a"), spec("b")], 2)
        assert [host.name for host in plan.hosts] == ["pool-0", "pool-1"]
        assert all([s.name for s in host.servers] == ["a", "b"] for host in plan.hosts)

    def test_replicas_that_the_user_set_count_in_the_pool(self) -> None:
        plan = make_plan([spec("a"), spec("b", replicas=1), spec("c", replicas=3)], 2)
        assert [[s.name for s in host.servers] for host in plan.hosts] == [
            ["a", "b", "c"],
            ["a", "c"],
            ["a", "c"],
        ]

    def test_processes_and_remotes(self) -> None:
        plan = make_plan(
            [spec("p", placement="process", replicas=2, port=7000), spec("r", placement="remote")], 4
        )
        assert [(host.name, host.listen) for host in plan.hosts] == [
            ("p-0", ("127.0.0.1:7000",)),
            ("p-1", ("127.0.0.1:0",)),
        ]
        assert [server.name for server in plan.remote] == ["r"]

    def test_a_fixed_port_in_the_pool_is_taken_once(self) -> None:
        plan = make_plan([spec("a", port=7001)], 2)
        assert [host.listen for host in plan.hosts] == [("127.0.0.1:0", "127.0.0.1:7001"), ("127.0.0.1:0",)]

    def test_unmet_requirements_choose_an_environment(self, tmp_path: Path) -> None:
        (tmp_path / "requirements.txt").write_text("surely-not-installed==1.0\n")
        file = tmp_path / "server.py"
        lacking = spec("x").model_copy(update={"entrypoint": f"{file}:X"})
        (host,) = make_plan([lacking], 1).hosts
        assert host.requirements is not None
        assert host.requirements.text == "surely-not-installed==1.0"
        chosen = ServerSpec(
            name="x", kind="agent", implementation="f", entrypoint=f"{file}:X", placement="shared"
        )
        assert make_plan([chosen], 1).hosts[0].requirements is None


class TestProcesses:
    async def test_parameters_come_by_stdin_and_lines_are_kept(self, tmp_path: Path) -> None:
        secret = spec("a", config={"say": "sesame-open-12345"})
        mask = lambda line: line.replace("sesame-open-12345", "***")  # noqa: E731
        async with supervised(tmp_path, secret, serve=False, mask=mask) as mesh:
            server = await mesh.running("a")
            assert server.state == STARTING
            process = psutil.Process(server.pid)
            mesh.supervisor.serve_at("127.0.0.1:9")
            assert await mesh.lines("a", "pool-0") == "*** pool-0 127.0.0.1:9"
            assert "sesame" not in " ".join(process.cmdline())
            assert "sesame" not in str(process.environ())

    async def test_a_crash_is_seen_at_once_and_it_starts_again(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a")) as mesh:
            first = await mesh.running("a")
            mesh.register(first)
            await mesh.lines("a", "up")
            began = time.monotonic()
            os.kill(first.pid, signal.SIGKILL)
            (crashed,) = await mesh.until(lambda servers: "SIGKILL" in servers[0].condition)
            assert time.monotonic() - began < 10
            assert crashed.state == STARTING
            again = await mesh.running("a", after=first.pid)
            assert (again.restart_count, again.host_id) == (1, "pool-0.1")
            mesh.register(again)
            assert (await mesh.until(lambda servers: servers[0].state == READY))[0].condition == ""

    async def test_never_ready_is_given_up_with_the_last_lines(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a", config={"exit": 9, "say": "no GPU here"})) as mesh:
            (failed,) = await mesh.until(lambda servers: servers[0].state == FAILED)
            assert "exited with code 9" in failed.condition
            assert "no GPU here" in failed.condition
            assert failed.restart_count == 4

    async def test_cannot_start_twice_is_enough(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a", config={"broken": "the key is wrong; set it"})) as mesh:
            (failed,) = await mesh.until(lambda servers: servers[0].state == FAILED)
            assert failed.condition == "cannot start a: the key is wrong; set it"
            assert failed.restart_count == 1

    async def test_a_build_that_ends_in_an_odd_way_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def ensure(*_: Any) -> str:
            raise RuntimeError("nobody thought of this")

        monkeypatch.setattr(Environments, "ensure", ensure)
        async with supervised(tmp_path, spec("a", placement="venv")) as mesh:
            (failed,) = await mesh.until(lambda servers: servers[0].state == FAILED)
            assert failed.condition == "RuntimeError: nobody thought of this"

    @pytest.mark.parametrize("rattle", [0, 50])
    async def test_one_that_cannot_start_does_not_stop_its_peers(self, tmp_path: Path, rattle: int) -> None:
        broken = {"broken": "no key", "rattle": rattle}
        async with supervised(tmp_path, spec("a"), spec("b", config=broken)) as mesh:
            await mesh.until(lambda servers: servers[0].state == FAILED, "b")
            server = await mesh.running("a")
            mesh.register(server)
            await mesh.until(lambda servers: servers[0].state == READY, "a")
            assert mesh.registry.servers("b")[0].state == FAILED

    async def test_a_given_up_one_can_be_restarted(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a", config={"broken": "no key"})) as mesh:
            await mesh.until(lambda servers: servers[0].state == FAILED)
            assert mesh.supervisor.restart("a") == ["a"]
            await mesh.until(lambda servers: servers[0].state == STARTING)
            await mesh.until(lambda servers: servers[0].state == FAILED)

    async def test_restart_replaces_the_process_and_names_all_in_it(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a"), spec("b")) as mesh:
            first = await mesh.running("a")
            await mesh.lines("a", "up")
            mesh.registry.drain(name="a")
            assert mesh.supervisor.restart("a") == ["a", "b"]
            again = await mesh.running("a", after=first.pid)
            assert not psutil.pid_exists(first.pid)
            mesh.register(again)
            assert (await mesh.until(lambda servers: servers[0].state == READY, "a"))[0].restart_count == 1

    async def test_a_host_that_hangs_is_killed(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a")) as mesh:
            first = await mesh.running("a")
            for _ in range(20):  # for each server in it
                mesh.registry.on_silent_host(first.host_id)
            await mesh.running("a", after=first.pid)
            assert await mesh.lines("a", "event loop hangs")
            told = [line for logs in mesh.supervisor.logs("a", 100) for line in logs.lines if "hangs" in line]
            assert len(told) == 1

    async def test_a_stubborn_process_and_its_child_are_killed(self, tmp_path: Path) -> None:
        stubborn = spec("a", config={"stubborn": True, "child": True})
        async with supervised(tmp_path, stubborn, grace_s=0.2) as mesh:
            line = await mesh.lines("a", "child=")
            await mesh.lines("a", "up")
        assert gone(int(line.partition("=")[2]))

    async def test_a_grandchild_does_not_hide_a_crash(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a", config={"child": True, "exit": 5})) as mesh:
            began = time.monotonic()
            await mesh.until(lambda servers: "code 5" in servers[0].condition)
            assert time.monotonic() - began < 20

    async def test_stop_before_the_daemon_listens(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("a"), serve=False) as mesh:
            await mesh.supervisor.launched()

    async def test_remote_servers_are_awaited_and_not_touched(self, tmp_path: Path) -> None:
        async with supervised(tmp_path, spec("far", placement="remote")) as mesh:
            (server,) = mesh.registry.servers()
            assert (server.state, server.condition) == (STARTING, "waiting for it to register")
            for call in (lambda: mesh.supervisor.restart("far"), lambda: mesh.supervisor.logs("far", 1)):
                with pytest.raises(Unimplemented):
                    call()
            with pytest.raises(NotFound, match="did you mean 'far'"):
                mesh.supervisor.restart("fra")

    async def test_the_trainers_policy_is_part_of_the_daemon(self, tmp_path: Path) -> None:
        policy = ServerSpec(name="policy_model", kind="model", implementation="trainer_policy")
        async with supervised(tmp_path, policy) as mesh:
            for call in (mesh.supervisor.restart, lambda name: mesh.supervisor.logs(name, 1)):
                with pytest.raises(Unimplemented, match="restart the trainer; `gymctl down`"):
                    call("policy_model")


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exited with code 0"), (-9, "was killed by SIGKILL"), (-250, "was killed by signal 250")],
)
def test_how_a_process_ended(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_kinds_are_those_of_the_contract() -> None:
    from gymd.daemon.plan import KINDS

    assert set(KINDS.values()) == set(ServerKind.values()) - {0}


def test_replicas_of_a_long_name_have_sockets_of_their_own(tmp_path: Path) -> None:
    servers = [spec("a" * 60, placement="process", replicas=3), spec("a" * 60 + "b", placement="process")]
    addresses = [address for host in make_plan(servers, 1, tmp_path).hosts for address in host.listen]
    assert len(set(addresses)) == len(addresses) == 4
    room = 107 - 50 - len("/hosts/12345678/")
    assert max(len(address) - len(f"unix:{tmp_path}/") for address in addresses) <= room

"""Puts the daemon together and runs it: configuration in, processes and an open port out, a clean end.

Whatever needs gRPC is imported after the hosts were started: they load while this process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymapi.v1.agent_service_pb2 import (
    Deadlines,
    RunRolloutRequest,
    StopRolloutsRequest,
    UpdatePolicyRequest,
)
from gymapi.v1.registry_service_pb2 import DaemonInfo, Server, ServerState
from gymd import __version__
from gymd.config import DaemonSettings, GymConfig, scrub, split_address
from gymd.config.secrets import secret_values
from gymd.daemon.admission import SessionLimits
from gymd.daemon.hub import Hub
from gymd.daemon.journal import Journal
from gymd.daemon.plan import make_plan
from gymd.daemon.policies import Policies
from gymd.daemon.process import HOST_COMMAND, HostProcess
from gymd.daemon.registry import Registry
from gymd.daemon.scheduler import Scheduler
from gymd.daemon.state import StateFolder
from gymd.daemon.supervisor import Supervisor
from gymd.daemon.work import stamp
from gymd.errors import error
from gymd.venvs import Environments

if TYPE_CHECKING:
    from gymd.mesh import Mesh, MeshServer

__all__ = ["Daemon"]

log = logging.getLogger(__name__)

LEASE_CHECK_S = 0.5
HOST_STOP_S = 5.0
"""What hosts get to close their sessions once no rollout runs any more."""
WIRE_STOP_S = 1.0
HOST_ID = "gymd"


class Daemon:
    """The daemon of one configuration.

    Args:
        config: servers and settings.
        allow_remote: listen on addresses that other machines reach. Nothing is encrypted or authenticated.
        host_command: Python arguments that start a host; tests put their own here.
        spare: a host that was started ahead, while the configuration was read.
    """

    def __init__(
        self,
        config: GymConfig,
        *,
        allow_remote: bool = False,
        host_command: Sequence[str] = HOST_COMMAND,
        spare: HostProcess | None = None,
    ) -> None:
        settings = config.daemon
        _check_listen(settings, allow_remote=allow_remote)
        self._config = config
        self._settings = settings
        self._start_time = time.time()
        self._now = asyncio.Event()
        self._socket: Path | None = None
        self._ending: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._calls: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {}
        self._mesh: Mesh | None = None
        self._wire: MeshServer | None = None
        self.addresses: list[str] = []
        """Where it listens, TCP first."""
        self._state = StateFolder(settings.state_dir)
        self.registry = Registry(settings.lease_ttl_s)
        self.scheduler = Scheduler(
            self._run_rollout, tell=self._tell_agent, max_running=settings.max_rollouts_in_flight
        )
        self._journal = _open_journal(settings)
        self.hub = Hub(self.registry, self.scheduler, _limits(settings), self._journal)
        secrets = secret_values(config.raw)
        self._host_sockets = _socket_folder(settings)
        plan = make_plan(config.servers, settings.host_count, self._host_sockets)
        self._policies = Policies(plan.policies, self.registry, self.hub.policy_of)
        self.supervisor = Supervisor(
            plan,
            self.registry,
            Environments(settings.state_dir / "venvs"),
            grace_s=settings.grace_s,
            backoff_s=(settings.restart_backoff_min_s, settings.restart_backoff_max_s),
            log_level=settings.log_level,
            state_dir=str(settings.state_dir),
            mask=lambda line: scrub(line, secrets),
            command=host_command,
            spare=spare,
        )

    @property
    def address(self) -> str:
        """Where clients dial it."""
        return self.addresses[0]

    async def start(self) -> None:
        """Starts the hosts, listens, and says so in the state folder.

        Raises:
            AlreadyExists: the port is taken, or another daemon uses the state folder.
        """
        self.supervisor.start()
        try:
            await self.supervisor.launched()
            await self._listen()
        except BaseException:
            await self.stop("it could not listen")
            raise
        self.supervisor.serve_at(_dialled(self.addresses[-1]))
        self._state.announce(self.address, self._start_time, self._config.files)
        log.info("daemon_started", extra={"address": self.address, "pid": os.getpid()})

    async def _listen(self) -> None:
        from gymapi.v1.registry_service_pb2_grpc import add_RegistryServiceServicer_to_server
        from gymd.daemon.services.registry import RegistryShell
        from gymd.daemon.services.rollouts import RolloutShell
        from gymd.mesh import MAX_MESSAGE_BYTES, Directory, LocalServers, Mesh, build_server

        await self._policies.load()
        local = LocalServers()
        self._policies.add_to(local)
        self._mesh = Mesh(HOST_ID, local, Directory())
        listen = [self._settings.listen]
        unix = self._settings.unix_socket
        if unix is not None:
            _clear_socket(unix)
            listen.append(f"unix:{unix}")
        self._wire = build_server(local, listen, HOST_ID)
        registry = RegistryShell(self.registry, self.supervisor, self._facts)
        add_RegistryServiceServicer_to_server(registry, self._wire.grpc)
        RolloutShell(self.hub).add_to(self._wire.grpc)
        self._wire.add_service("gymapi.v1.RegistryService")
        self._wire.add_service("gymapi.v1.RolloutService")
        if resumed := self.hub.restore():
            log.info("sessions_restored", extra={"count": resumed})
        self.addresses = await self._wire.start()
        # Where other machines reach it too, if any do: not the Unix socket.
        self._policies.register(_dialled(self.addresses[0]), HOST_ID, MAX_MESSAGE_BYTES)
        if unix is not None:
            self._socket = unix
            unix.chmod(0o600)
        self.registry.listen(self._on_servers)
        self._tasks.append(asyncio.get_running_loop().create_task(self._check_leases()))

    def _facts(self) -> DaemonInfo:
        info = DaemonInfo(
            version=__version__,
            address=self.address,
            pid=os.getpid(),
            draining=self.registry.draining,
            default_agent=self.registry.default_agent(),
        )
        stamp(info.start_time, self._start_time)
        if self._journal is not None and self._journal.trouble is not None:
            info.condition = self._journal.trouble.message
        return info

    async def _check_leases(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._policies.renew()
            self.registry.tick()
            due = loop.time() + LEASE_CHECK_S
            await asyncio.sleep(LEASE_CHECK_S)
            if (stood_still := loop.time() - due) > LEASE_CHECK_S:
                log.warning("daemon_stood_still", extra={"seconds": round(stood_still, 1)})
                self.registry.allow(stood_still)

    # Rollouts.

    def _on_servers(self, servers: Iterable[Server], removed_ids: Iterable[str]) -> None:
        for server in servers:
            self._calls.pop(server.server_id, None)
        for server_id in removed_ids:
            self._calls.pop(server_id, None)
        self.scheduler.update(servers, removed_ids)

    def _run_rollout(
        self, server: Server, request: RunRolloutRequest, timeout: float
    ) -> Coroutine[Any, Any, Any]:
        call = self._calls.get(server.server_id)
        if call is None:
            from gymd.mesh import Peer

            assert self._mesh is not None
            call = self._calls[server.server_id] = self._mesh.stub(Peer(server)).RunRollout
        return call(request, timeout=timeout)

    async def _tell_agent(
        self, server: Server, request: StopRolloutsRequest | UpdatePolicyRequest, timeout: float
    ) -> None:
        from gymd.mesh import Peer

        assert self._mesh is not None
        stub = self._mesh.stub(Peer(server))
        call = stub.StopRollouts if isinstance(request, StopRolloutsRequest) else stub.UpdatePolicy
        await call(request, timeout=timeout)

    # Waiting.

    async def wait_ready(self) -> list[Server]:
        """Waits until every server is ready, or one failed for good; returns those that failed."""
        watcher = self.registry.subscribe()
        try:
            while await watcher.get() is not None:
                servers = self.registry.servers()
                failed = [s for s in servers if s.state == ServerState.SERVER_STATE_FAILED]
                if failed or all(s.state == ServerState.SERVER_STATE_READY for s in servers):
                    return failed
            return []
        finally:
            self.registry.unsubscribe(watcher)

    # The end.

    def hurry(self) -> None:
        """Cuts a stop short: no grace for anything any more."""
        self._now.set()

    async def stop(self, reason: str = "it was told to stop") -> None:
        """Takes no new work, finishes or cancels what runs within the grace, and leaves nothing behind.

        Safe to repeat: later calls wait for the first.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._stop(reason))
        await asyncio.shield(self._ending)

    async def _stop(self, reason: str) -> None:
        log.info("daemon_stopping", extra={"why": reason, "grace_s": self._settings.grace_s})
        self.registry.draining = True
        if self._wire is not None and self.addresses:
            await self._wire.drain()
        await self.hub.drain(self._settings.grace_s, reason, now=self._now)
        await self._stop_hosts()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.registry.close()
        if self._mesh is not None:
            await self._mesh.close()
        if self._wire is not None and self.addresses:
            await self._wire.stop(WIRE_STOP_S)
        self.scheduler.close()
        if self._journal is not None:
            await self._journal.close()
        if self._host_sockets is not None:
            shutil.rmtree(self._host_sockets, ignore_errors=True)
        if self._socket is not None:
            with contextlib.suppress(FileNotFoundError):
                self._socket.unlink()
        self._state.close()
        log.info("daemon_stopped")

    async def _stop_hosts(self) -> None:
        stopping = asyncio.ensure_future(self.supervisor.stop(HOST_STOP_S))
        hurry = asyncio.ensure_future(self._now.wait())
        waits: list[asyncio.Future[Any]] = [stopping, hurry]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            self.supervisor.kill()
        hurry.cancel()
        await stopping


def _open_journal(settings: DaemonSettings) -> Journal | None:
    if not settings.durability:
        return None
    return Journal(
        settings.journal_dir or settings.state_dir / "journal", max_bytes=settings.journal_max_bytes
    )


def _limits(settings: DaemonSettings) -> SessionLimits:
    """What sessions are told; parts' limits that nobody configured stay the agent servers' own affair."""
    configured = settings.deadlines
    deadlines = Deadlines()
    for part in ("model", "tool", "verify"):
        if f"{part}_s" in configured.model_fields_set:
            getattr(deadlines, part).FromNanoseconds(int(getattr(configured, f"{part}_s") * 1e9))
    return SessionLimits(
        rollout_s=configured.rollout_s,
        queue_s=configured.queue_s,
        infra_retries=settings.infra_retries,
        retention_s=settings.journal_retention_s,
        deadlines=deadlines,
        max_running=settings.max_rollouts_in_flight,
        version=__version__,
    )


def _dialled(address: str) -> str:
    """What processes of this machine dial for an address that stands for all of them."""
    for wildcard, own in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
        if address.startswith(wildcard):
            return own + address.removeprefix(wildcard)
    return address


def _check_listen(settings: DaemonSettings, *, allow_remote: bool) -> None:
    host, _ = split_address(settings.listen)
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not allow_remote:
        text = (
            f"gymd.listen={settings.listen} can be reached from other machines, and nothing is encrypted or "
            "authenticated; if that is what you want, start gymd with --allow-remote"
        )
        raise error("INVALID_REQUEST", text, field="gymd.listen", address=settings.listen)


def _socket_folder(settings: DaemonSettings) -> Path | None:
    if not settings.host_sockets:
        return None
    folder = settings.state_dir / "hosts"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in folder.iterdir():  # by a daemon that was killed
        shutil.rmtree(left, ignore_errors=True)
    # Not the folder of that one: its hosts may still be leaving, and they take their sockets' paths away.
    return Path(tempfile.mkdtemp(prefix="", dir=folder))


def _clear_socket(path: Path) -> None:
    """Removes a socket that a dead daemon left; gRPC would take a living one's socket away without a word."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            return
        except OSError as failure:
            text = f"cannot listen on unix:{path}: {failure}; choose another path with gymd.unix_socket=..."
            raise error("NAME_TAKEN", text, address=f"unix:{path}") from None
    text = f"cannot listen on unix:{path}: another process listens there; choose another path"
    raise error("NAME_TAKEN", text, address=f"unix:{path}")

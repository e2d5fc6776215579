"""A host: the process that serves one or more servers.

    python -m gymd.sdk.host        started by the daemon, with its parameters as JSON on stdin

Stdin stays open as a lifeline: when the daemon dies, however it dies, the host sees the end of its stdin and
leaves. Configuration and secrets travel by stdin too, so they never show in process arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import logging
import os
import resource
import select
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic

from gymd.errors import GymdError, error
from gymd.logs import setup_host_logging
from gymd.mesh import Directory, LocalServers, Mesh, build_server
from gymd.sdk.base import Server, explain
from gymd.sdk.episode import sessions_closed
from gymd.sdk.lease import Registration
from gymd.sdk.loading import load_server_class
from gymd.sdk.workers import close_shared_pool, hold_shared_pool

__all__ = ["EXIT_CANNOT_START", "Bootstrap", "Host", "ServerBlock", "configure", "run_host"]

log = logging.getLogger(__name__)

EXIT_CANNOT_START = 3
"""Exit code of a host one of whose servers cannot start; the reason stands on stderr."""


@dataclass
class ServerBlock:
    """One server of a host, as the configuration describes it."""

    name: str
    kind: str
    implementation: str
    entrypoint: str = ""
    config: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass
class Bootstrap:
    """What a host is started with.

    Attributes:
        host_id: the process's name in the registry.
        daemon: the daemon's address; "" means: serve alone, register nowhere.
        listen: addresses to listen on.
        servers: what to serve.
        grace_s: seconds for work under way at shutdown.
        log_level: of the standard names.
        state_dir: where servers keep what outlives them; "" means the user's default.
    """

    host_id: str
    daemon: str
    servers: list[ServerBlock]
    listen: list[str] = field(default_factory=lambda: ["127.0.0.1:0"])
    grace_s: float = 10.0
    log_level: str = "WARNING"
    state_dir: str = ""

    @classmethod
    def from_json(cls, text: str) -> Bootstrap:
        """Reads what the daemon wrote."""
        data = json.loads(text)
        data["servers"] = [ServerBlock(**block) for block in data["servers"]]
        return cls(**data)


class Host:
    """Builds, starts and stops the servers of one process.

    Args:
        bootstrap: what to serve.
    """

    def __init__(self, bootstrap: Bootstrap) -> None:
        self.bootstrap = bootstrap
        self.local = LocalServers()
        self.directory = Directory()
        self.mesh = Mesh(bootstrap.host_id, self.local, self.directory)
        self.wire = build_server(self.local, bootstrap.listen, bootstrap.host_id)
        self.servers: list[Server] = []
        self._servicers: list[Any] = []
        self._begun: list[Server] = []  # of these `start` was called
        self._registration: Registration | None = None
        self._holds_pool = False
        self.leave = asyncio.Event()
        self.lifeline: asyncio.Task[None] | None = None

    async def start(self) -> Sequence[str]:
        """Starts every server, listens, registers; returns the addresses.

        Raises:
            GymdError: a server cannot start; the text names it and says why.
        """
        hold_shared_pool()
        self._holds_pool = True
        failures = []
        for block in self.bootstrap.servers:
            try:
                self.add(build(block, self.mesh))
            except Exception as failure:
                failures.append(_cannot_start(block.name, failure))
        if failures:
            # All at once, so that a user mends a configuration in one go; the first one names the server.
            text = "; ".join(failure.message for failure in failures)
            raise error("SERVER_NOT_READY", text, server=failures[0].metadata["server"])
        # Together, because one of them may load a model.
        await asyncio.gather(*(self._start(server) for server in self.servers))
        addresses = await self.wire.start()
        if self.bootstrap.daemon:
            self._registration = Registration(self, addresses[0])
            await self._registration.start()
        return addresses

    def add(self, server: Server) -> Any:
        """Takes a server that is not started yet; returns its wire shell."""
        servicer = server.servicer()
        self.servers.append(server)
        self._servicers.append(servicer)
        self.local.add(server.name, server.kind, servicer)
        return servicer

    async def _start(self, server: Server) -> None:
        self._begun.append(server)
        try:
            await server.start()
        except Exception as failure:
            raise _cannot_start(server.name, failure) from failure

    async def stop(self) -> None:
        """Refuses new work, lets work under way end within the grace, closes sessions, deregisters."""
        self.local.draining = True
        if self._registration is not None:
            await self._registration.draining()
        await self.wire.stop(self.bootstrap.grace_s)
        await sessions_closed()
        for servicer in self._servicers:
            if hasattr(servicer, "shut"):
                await servicer.shut()
        for server in self._begun:
            try:
                await server.stop()
            except Exception as failure:
                log.error("server_stop_raised", extra={"server": server.name, "why": repr(failure)})
        if self._registration is not None:
            await self._registration.stop()
        await self.mesh.close()
        if self._holds_pool:
            self._holds_pool = False
            await close_shared_pool()


def _cannot_start(name: str, failure: Exception) -> GymdError:
    """What the user reads: which server, and why."""
    log.debug("server_start_failed", exc_info=failure)
    why = str(failure) if isinstance(failure, GymdError) else f"{type(failure).__name__}: {failure}"
    return error("SERVER_NOT_READY", f"cannot start {name}: {why}", server=name)


def build(block: ServerBlock, mesh: Mesh) -> Server:
    """The server of a block, configured but not started; raises InvalidRequest with every wrong key."""
    cls = load_server_class(block.kind, block.implementation, block.entrypoint)
    return configure(cls, block.name, block.config, mesh)


def configure(cls: type[Server], name: str, config: dict[str, Any], mesh: Mesh) -> Server:
    """A server of a class, not started; raises InvalidRequest with every wrong key of its configuration."""
    try:
        parsed = cls.Config.parse(config)
    except pydantic.ValidationError as failure:
        details = "; ".join(f"{key}: {message}" for key, message in explain(cls.Config, failure))
        text = f"its configuration is wrong: {details}"
        raise error("INVALID_REQUEST", text, server=name) from None
    return cls(name, parsed, mesh)


async def run_host(bootstrap: Bootstrap, *, lifeline: bool, announce: bool = False) -> int:
    """Runs a host until SIGTERM, SIGINT or, with `lifeline`, the end of stdin; returns the exit code."""
    loop = asyncio.get_running_loop()
    host = Host(bootstrap)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.leave.set)
    if lifeline:
        await _watch_stdin(host)
    starting = asyncio.ensure_future(host.start())
    leaving = asyncio.ensure_future(host.leave.wait())
    await asyncio.wait([starting, leaving], return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    if not starting.done():  # told to leave before it was ready, or its daemon died
        starting.cancel()
        await asyncio.wait([starting])
        await host.stop()
        return 0
    try:
        addresses = starting.result()
    except GymdError as failure:
        sys.stderr.write(f"gymd-host: {' '.join(str(failure).split())}\n")  # one line: the daemon reads it
        await host.stop()
        return EXIT_CANNOT_START
    if announce:
        names = ", ".join(server.name for server in host.servers)
        sys.stderr.write(f"serving {names} on {', '.join(addresses)}\n")
    # What was imported and built lives as long as the process; keep the collector from walking it again.
    gc.collect()
    gc.freeze()
    # Thousands of waiting rollouts are no garbage: with the default thresholds the collector walks them all
    # every few milliseconds and takes half of the time at 16,384 in flight.
    gc.set_threshold(50_000, 20, 100)
    await host.leave.wait()
    await host.stop()
    return 0


async def _watch_stdin(host: Host) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )

    async def until_end() -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                pass
        host.leave.set()

    host.lifeline = asyncio.get_running_loop().create_task(until_end())


def raise_file_limit() -> None:
    """Thousands of upstream connections need thousands of file descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_loop(main: Any) -> int:
    """Runs a coroutine on uvloop, or on asyncio where uvloop has no wheel."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def _import_ahead() -> None:
    """Imports what nearly every host needs while the daemon still reads its configuration."""
    if not select.select([0], [], [], 0)[0]:
        importlib.import_module("gymd.sdk.http_model")


def main() -> None:
    """Entry point of a supervised host."""
    _import_ahead()
    # Unbuffered, so that nothing but the first line is taken from the lifeline.
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        first = stdin.readline()
    if not first.strip():
        sys.stderr.write("gymd-host: started without parameters on stdin; use `gymd` or `gymctl up`\n")
        sys.exit(EXIT_CANNOT_START)
    bootstrap = Bootstrap.from_json(first.decode())
    setup_host_logging(bootstrap.log_level)
    raise_file_limit()
    if bootstrap.state_dir:
        os.environ["GYMD_STATE_DIR"] = bootstrap.state_dir
    code = run_loop(run_host(bootstrap, lifeline=True))
    logging.shutdown()
    sys.stderr.flush()
    # A hung tool in a thread must not keep a finished process alive: threads cannot be killed.
    os._exit(code)


if __name__ == "__main__":
    main()

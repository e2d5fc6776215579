"""Keeps the host processes running: start, restart with backoff, give up with a reason, leave no trace."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from gymapi.v1.registry_service_pb2 import Placement, Server, ServerLog, ServerState
from gymd.daemon.plan import KINDS, HostPlan, Plan, peer_labels
from gymd.daemon.process import HOST_COMMAND, HostProcess, describe_exit
from gymd.daemon.registry import Registry
from gymd.daemon.unit import CONDITION_LINES, STARTED, Unit, environment, own_lines
from gymd.errors import error
from gymd.venvs import Environments, VenvError

__all__ = ["Supervisor"]

log = logging.getLogger(__name__)

EXIT_CANNOT_START = 3
"""A host ends with it when one of its servers cannot start; the reason is its last line."""
CANNOT_START_LIMIT = 2
START_FAILURE_LIMIT = 5
"""Tries in a row that never got ready, after which a process is given up."""
STABLE_S = 60.0
"""A process that ran so long starts with the shortest backoff again."""
KILL_WAIT_S = 5.0
CONDITION_LENGTH = 800

_HANGS = "gymd: killed, because it did not renew its lease: its event loop hangs"
_CANNOT_START = re.compile(r"^gymd-host: (cannot start ([A-Za-z0-9_.-]+): .*)$")


class Supervisor:
    """Runs the processes of a plan.

    Args:
        plan: what to run.
        registry: shows their state.
        environments: builds virtual environments.
        grace_s: seconds that a process gets to leave.
        backoff_s: shortest and longest wait before a restart.
        log_level: for the hosts.
        state_dir: for the hosts: where servers keep what outlives them.
        mask: takes secrets out of a line.
        command: Python arguments that start a host.
        spare: a process started ahead by `command`; it becomes the first host, or is killed.
    """

    def __init__(
        self,
        plan: Plan,
        registry: Registry,
        environments: Environments,
        *,
        grace_s: float = 10.0,
        backoff_s: tuple[float, float] = (0.5, 30.0),
        log_level: str = "warning",
        state_dir: str = "",
        mask: Callable[[str], str] = str,
        command: Sequence[str] = HOST_COMMAND,
        spare: HostProcess | None = None,
    ) -> None:
        self._registry = registry
        self._environments = environments
        self._grace_s = grace_s
        self._backoff_s = backoff_s
        self._log_level = log_level
        self._state_dir = state_dir
        self._mask = mask
        self._command = command
        self._spare = spare
        self._remote = plan.remote
        self._policies = {spec.name for spec in plan.policies}
        self._units = [Unit(host) for host in plan.hosts]
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stopping = False

    def start(self) -> None:
        """Starts every process at once; they wait for `serve_at` with everything that needs the daemon."""
        for spec in self._remote:
            for _ in range(spec.replicas):
                text = "waiting for it to register"
                self._registry.expect(
                    spec.name,
                    KINDS[spec.kind],
                    Placement.PLACEMENT_REMOTE,
                    condition=text,
                    labels=peer_labels(spec),
                )
        for unit in self._units:
            unit.host_id = unit.next_id()
            for spec in unit.plan.servers:
                self._registry.expect(
                    spec.name,
                    KINDS[spec.kind],
                    unit.plan.placement,
                    host_id=unit.host_id,
                    condition="starting",
                    labels=peer_labels(spec),
                )
            unit.task = asyncio.get_running_loop().create_task(self._keep(unit))
        self._registry.listen(self._on_servers)
        self._registry.on_silent_host = self._on_silent_host

    async def launched(self) -> None:
        """Returns when every process was started or is known to take longer (it needs an environment)."""
        await asyncio.gather(*(unit.launched.wait() for unit in self._units))
        await self._discard_spare()

    def serve_at(self, address: str) -> None:
        """Tells the processes where the daemon listens."""
        if not self._address.done():
            self._address.set_result(address)

    async def stop(self, grace_s: float | None = None) -> None:
        """Ends every process within the grace, then kills; returns when none is left. Safe to repeat."""
        self._stopping = True
        tasks = [unit.task for unit in self._units if unit.task is not None]
        if self._spare is not None:
            tasks.append(asyncio.get_running_loop().create_task(self._discard_spare()))
        for unit in self._units:
            unit.asked.set()
            if unit.process is not None:
                unit.process.terminate() if self._address.done() else unit.process.kill()
            elif unit.task is not None:
                unit.task.cancel()  # building, or waiting for a restart
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._grace_s if grace_s is None else grace_s)
            if late:
                self.kill()
                await asyncio.wait(late)

    async def _discard_spare(self) -> None:
        if self._spare is not None:
            process, self._spare = self._spare, None
            process.kill()
            await process.wait()

    def kill(self) -> None:
        """Kills every process now."""
        for unit in self._units:
            if unit.process is not None:
                log.warning("host_killed", extra={"host_id": unit.host_id, "pid": unit.process.pid})
                unit.process.kill()

    # For people.

    def restart(self, name: str) -> list[str]:
        """Restarts the processes of a server, given-up ones too; returns the names of all servers in them.

        Raises:
            NotFound: there is no such server.
            Unimplemented: it has no process here, because it is remote or the daemon's own.
        """
        units = self._units_of(name)
        names = {spec.name for unit in units for spec in unit.plan.servers}
        for unit in units:
            unit.asked.set()
        return sorted(names)

    def logs(self, name: str, count: int) -> list[ServerLog]:
        """The last lines of a server's processes.

        Raises:
            NotFound: there is no such server.
            Unimplemented: it has no process here, because it is remote or the daemon's own.
        """
        return [
            ServerLog(
                host_id=unit.host_id,
                pid=unit.process.pid if unit.process is not None else 0,
                lines=list(unit.lines)[-count:],
            )
            for unit in self._units_of(name)
        ]

    def _units_of(self, name: str) -> list[Unit]:
        units = [unit for unit in self._units if any(spec.name == name for spec in unit.plan.servers)]
        if units:
            return units
        if name in self._policies:
            text = (
                f"server {name!r} is part of the daemon and has no process of its own: the trainer answers "
                "its calls. Look at the trainer's output, or restart the trainer; `gymctl down` and "
                "`gymctl up` restart the daemon"
            )
            raise error("NOT_IMPLEMENTED", text, feature="policy_supervision", server=name)
        if name and self._registry.servers(name):
            text = f"server {name!r} is remote: the daemon neither starts it nor sees what it writes"
            raise error("NOT_IMPLEMENTED", text, feature="remote_supervision", server=name)
        raise self._registry.unknown(name)

    # What the registry says.

    def _on_servers(self, servers: Iterable[Server], removed: Iterable[str]) -> None:
        for server in servers:
            if server.state != ServerState.SERVER_STATE_READY or not server.host_id:
                continue
            for unit in self._units:
                if unit.host_id == server.host_id:
                    unit.ready.add(server.name)

    def _on_silent_host(self, host_id: str) -> None:
        for unit in self._units:
            if unit.host_id != host_id or unit.process is None:
                continue
            if _HANGS not in own_lines(unit.lines):  # it is told once for each of its servers
                # It renews from its event loop; a loop that stands still serves nobody.
                log.warning("host_hangs", extra={"host_id": host_id, "pid": unit.process.pid})
                unit.lines.append(_HANGS)
                unit.process.kill()

    # One process.

    async def _keep(self, unit: Unit) -> None:
        """Runs a process over and over until the daemon stops."""
        while not self._stopping:
            unit.asked.clear()
            unit.ready.clear()
            started = asyncio.get_running_loop().time()
            why = await self._run_once(unit)
            if self._stopping:
                return
            asked = unit.asked.is_set()
            if asyncio.get_running_loop().time() - started > STABLE_S:
                unit.failures = 0
            if not asked and self._gives_up(unit):
                log.error("host_given_up", extra={"host_id": unit.host_id, "why": why})
                self._show(unit, ServerState.SERVER_STATE_FAILED, why)
                await unit.asked.wait()
                asked = True
            unit.restarts += 1
            if asked:
                self._begin_anew(unit)
            else:
                await self._back_off(unit, why)

    def _begin_anew(self, unit: Unit) -> None:
        """Somebody asked for a restart: old failures and drains do not count any more."""
        unit.failures = unit.cannot_start = 0
        unit.broken.clear()
        self._registry.undrain(unit.host_id)
        self._show(unit, ServerState.SERVER_STATE_STARTING, "restarting on request")

    async def _run_once(self, unit: Unit) -> str:
        """Runs a process to its end; returns why it ended, for people."""
        if unit.plan.requirements is not None:
            unit.launched.set()
        try:
            python = await self._python(unit)
            plan = unit.plan.without(unit.broken)
            process = await self._launch(python, plan)
        except Exception as failure:
            # Whatever it is: without a word the process would be said to start for ever.
            expected = isinstance(failure, VenvError | OSError)
            why = self._mask(str(failure) if expected else f"{type(failure).__name__}: {failure}")
            unit.lines.extend(why.splitlines())
            unit.cannot_start += 1
            unit.launched.set()
            log.error("host_not_started", extra={"host_id": unit.host_id, "why": why})
            return why
        unit.process = process
        unit.launched.set()
        unit.lines.append(f"{STARTED} {process.pid}")
        process.adopt(unit.host_id, unit.lines, self._mask)
        self._registry.note_process(unit.host_id, process.pid, unit.restarts)
        log.info("host_started", extra={"host_id": unit.host_id, "pid": process.pid})
        try:
            code = await self._until_exit(unit, process, plan)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        finally:
            unit.process = None
        if self._stopping:
            self._show(unit, ServerState.SERVER_STATE_STARTING, "stopped")
            return "stopped"
        log.warning("host_ended", extra={"host_id": unit.host_id, "pid": process.pid, "code": code})
        return self._learn(unit, code)

    async def _launch(self, python: str, plan: HostPlan) -> HostProcess:
        if self._spare is not None and plan.requirements is None:
            process, self._spare = self._spare, None
            return process
        return await HostProcess.start([python, *self._command], environment(plan))

    async def _python(self, unit: Unit) -> str:
        if unit.plan.requirements is None:
            return sys.executable

        def progress(text: str) -> None:
            self._show(unit, ServerState.SERVER_STATE_STARTING, text[:CONDITION_LENGTH])

        python = await self._environments.ensure(unit.plan.requirements, progress)
        progress("starting")
        if not self._stopping:
            unit.asked.clear()  # a restart that was asked for meanwhile begins now
        return python

    async def _until_exit(self, unit: Unit, process: HostProcess, plan: HostPlan) -> int:
        loop = asyncio.get_running_loop()
        ended = loop.create_task(process.wait())
        asked = loop.create_task(unit.asked.wait())
        try:
            if not self._address.done():
                first: list[asyncio.Future[Any]] = [ended, self._address]
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if self._address.done():
                process.send(self._bootstrap(unit, plan, self._address.result()))
            either: list[asyncio.Future[Any]] = [ended, asked]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await self._end(unit, process, ended)
            return await ended
        finally:
            asked.cancel()

    async def _end(self, unit: Unit, process: HostProcess, ended: asyncio.Task[int]) -> None:
        """A restart or the end was asked for: lets it finish its work, then kills it."""
        if not self._stopping:
            self._move(unit)
            self._show(unit, ServerState.SERVER_STATE_STARTING, "restarting on request")
        process.terminate()
        await asyncio.wait([ended], timeout=self._grace_s + KILL_WAIT_S)
        if not ended.done():
            process.kill()

    def _bootstrap(self, unit: Unit, plan: HostPlan, address: str) -> bytes:
        return orjson.dumps(
            {
                "host_id": unit.host_id,
                "daemon": address,
                "listen": list(plan.listen),
                "grace_s": self._grace_s,
                "log_level": self._log_level.upper(),
                "state_dir": self._state_dir,
                "servers": plan.blocks(),
            },
            default=str,
        )

    # After an end.

    def _learn(self, unit: Unit, code: int) -> str:
        """Counts the end and says why it came, for people."""
        if unit.ready:
            unit.failures = unit.cannot_start = 0
        written = own_lines(unit.lines)
        if code == EXIT_CANNOT_START and not unit.ready:
            unit.cannot_start += 1
            found = next((m for line in reversed(written) if (m := _CANNOT_START.match(line))), None)
            if found is not None:
                self._set_aside(unit, found[2], found[1])
                return found[1]
        tail = written[-CONDITION_LINES:]
        text = f"its process {unit.host_id} {describe_exit(code)}"
        return (f"{text}; last lines: " + " | ".join(tail) if tail else text)[:CONDITION_LENGTH]

    def _set_aside(self, unit: Unit, name: str, why: str) -> None:
        """A server that cannot start must not keep its peers in the process from starting."""
        others = {spec.name for spec in unit.plan.servers} - unit.broken - {name}
        if unit.cannot_start >= CANNOT_START_LIMIT and others:
            unit.broken.add(name)
            unit.cannot_start = 0
            log.error("server_given_up", extra={"server": name, "why": why})
            failed = ServerState.SERVER_STATE_FAILED
            self._registry.set_host(unit.host_id, failed, why, only=[name], restart_count=unit.restarts)

    def _gives_up(self, unit: Unit) -> bool:
        unit.failures += 1
        never_ready = not unit.ready and unit.failures >= START_FAILURE_LIMIT
        return never_ready or unit.cannot_start >= CANNOT_START_LIMIT

    async def _back_off(self, unit: Unit, why: str) -> None:
        shortest, longest = self._backoff_s
        pause = min(shortest * 2 ** min(unit.failures - 1, 16), longest) * random.uniform(0.8, 1.2)
        self._move(unit)
        self._show(unit, ServerState.SERVER_STATE_STARTING, f"starts again in {pause:.1f} s: {why}")
        try:
            async with asyncio.timeout(pause):
                await unit.asked.wait()
        except TimeoutError:
            pass
        self._show(unit, ServerState.SERVER_STATE_STARTING, f"starting again after: {why}")

    def _move(self, unit: Unit) -> None:
        fresh = unit.next_id()
        self._registry.rename_host(unit.host_id, fresh)
        unit.host_id = fresh

    def _show(self, unit: Unit, state: int, condition: str) -> None:
        healthy = [spec.name for spec in unit.plan.servers if spec.name not in unit.broken]
        self._registry.set_host(unit.host_id, state, condition, only=healthy, restart_count=unit.restarts)

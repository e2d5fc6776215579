"""Containers by docker or podman, through their command lines."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine
from typing import Any

from gymd.errors import GymdError, error
from gymservers.resources.swe.instance import Instance
from gymservers.resources.swe.runtimes.base import IMAGE_VARIABLES, TESTBED, Finished, Machine, shell
from gymservers.resources.swe.runtimes.command import Program, said
from gymservers.resources.swe.runtimes.temporary import owner, owner_is_gone

__all__ = ["Engine"]

log = logging.getLogger(__name__)

LOOK_TIMEOUT_S = 20.0
CLEANUP_TIMEOUT_S = 60.0
GRACE_S = 10.0
"""How much longer than a command's own limit its client may take."""
OWNER = "gymd.swe.owner"
# The engine's answer where its service runs, and what to do where it does not.
_PROBES = {
    "docker": (
        ("version", "--format", "{{.Server.Version}}"),
        "Start its service, or give this user access.",
    ),
    "podman": (("info", "--format", "{{.Version.Version}}"), "See `podman info`."),
}
# What tests of ordinary programs need; no raw sockets, devices or mounts.
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")


class Engine:
    """docker or podman.

    Args:
        program: its client.
        machine: what a container may use.
        image_template: names the image of an instance; None: as the row says.
        pull: whether images that are not there are fetched.
    """

    def __init__(self, program: Program, machine: Machine, image_template: str | None, pull: bool) -> None:
        self.name, self._program = program.name, program
        self._machine, self._template, self._pull = machine, image_template, pull
        self._open: set[str] = set()
        self._removals: set[asyncio.Task[None]] = set()

    @classmethod
    async def find(cls, name: str, machine: Machine, image_template: str | None, pull: bool) -> Engine:
        """Asks the engine for its version, and removes what killed servers have left in it.

        Raises:
            Unusable: it is not installed, or its service does not answer.
        """
        arguments, remedy = _PROBES[name]
        engine = cls(await Program.find([name], arguments, remedy), machine, image_template, pull)
        await engine._sweep()
        return engine

    def describe(self) -> str:
        """See Runtime."""
        machine = self._machine
        limits = f"{machine.memory_mb} MiB, {machine.cpus:g} CPUs, {machine.processes} processes"
        version = f"{self.name} {self._program.version}"
        return f"{version}: no network, own files and processes, few capabilities; {limits}"

    async def open(self, instance: Instance) -> EngineBox:
        """See Runtime."""
        image = (self._template or "{image}").format(**instance.values())
        name = f"gymd-swe-{uuid.uuid4().hex}"
        self._open.add(name)
        starting = asyncio.get_running_loop().create_task(self._start(name, image))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Half a start cannot be undone: the service might finish it after the removal.
            self.later(self._removed_after(starting, name))
            raise
        except BaseException:
            await asyncio.shield(self.remove(name))
            raise
        return EngineBox(self, self._program, name, self._machine)

    async def _start(self, name: str, image: str) -> None:
        answer = await self._program.call(
            *self._run_arguments(name, image), timeout=self._machine.start_timeout_s
        )
        if answer.exit_code:
            text = f"{self.name} did not start a container of {image}: {said(answer)}."
            if not self._pull:
                text += f" With pull: false images must be there: {self.name} pull {image}"
            raise error("SERVER_CODE_FAILED", text, image=image, exception=self.name)

    def _run_arguments(self, name: str, image: str) -> list[str]:
        machine = self._machine
        arguments = ["run", "--detach", "--rm", "--name", name, "--label", f"{OWNER}={owner()}"]
        arguments += ["--pull", "missing" if self._pull else "never", "--network", "none"]
        arguments += ["--memory", f"{machine.memory_mb}m", "--memory-swap", f"{machine.memory_mb}m"]
        arguments += ["--cpus", f"{machine.cpus:g}", "--pids-limit", str(machine.processes)]
        arguments += ["--ulimit", f"fsize={machine.file_mb << 20}", "--ulimit", "core=0"]
        arguments += ["--security-opt", "no-new-privileges", "--cap-drop", "ALL"]
        for capability in _CAPABILITIES:
            arguments += ["--cap-add", capability]
        for variable, value in {**IMAGE_VARIABLES, **machine.environment}.items():
            arguments += ["--env", f"{variable}={value}"]
        # Nothing inside can end process 1, which reaps what commands leave and ends by itself at last.
        idle = f"while [ $SECONDS -lt {machine.lifetime_s} ]; do sleep 30; done"
        return [*arguments, "--workdir", TESTBED, "--entrypoint", "bash", image, "-c", idle]

    async def remove(self, name: str) -> None:
        """Removes a container, running or not; one that is gone is no failure."""
        if name not in self._open:
            return
        answer = await self._program.call("rm", "--force", name, timeout=CLEANUP_TIMEOUT_S)
        self._open.discard(name)
        if answer.exit_code and b"o such container" not in answer.output and not _removing(answer):
            text = f"{self.name} did not remove the container {name}: {said(answer)}. Remove it by hand"
            raise error("SERVER_CODE_FAILED", text, container=name, exception=self.name)

    async def _removed_after(self, starting: asyncio.Task[None], name: str) -> None:
        await asyncio.wait([starting])
        starting.exception()  # looked at: nobody else will
        try:
            await self.remove(name)
        except GymdError as failure:
            log.warning("container_left", extra={"container": name, "why": str(failure)})

    def later(self, removal: Coroutine[Any, Any, None]) -> None:
        """Cleans up for somebody who was cancelled and cannot wait."""
        task = asyncio.get_running_loop().create_task(removal)
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _sweep(self) -> None:
        """Removes the containers of servers that were killed on this machine."""
        format_ = f'{{{{.ID}}}} {{{{.Label "{OWNER}"}}}}'
        listing = ("ps", "--all", "--filter", f"label={OWNER}", "--format", format_)
        answer = await self._program.call(*listing, timeout=LOOK_TIMEOUT_S)
        for line in answer.output.decode(errors="replace").splitlines() if not answer.exit_code else ():
            container, _, name = line.partition(" ")
            if name and owner_is_gone(name):
                log.warning("container_of_killed_server", extra={"container": container})
                await self._program.call("rm", "--force", container, timeout=CLEANUP_TIMEOUT_S)

    async def close(self) -> None:
        """See Runtime."""
        while self._removals:
            await asyncio.wait(self._removals)
        for name in list(self._open):
            await self.remove(name)


class EngineBox:
    """A running container."""

    def __init__(self, engine: Engine, program: Program, name: str, machine: Machine) -> None:
        self._engine, self._program, self._name, self._machine = engine, program, name, machine

    async def run(self, script: str, *, timeout: float, stdin: bytes | None = None) -> Finished:
        """See Box."""
        command, data = shell(script, stdin)
        try:
            finished = await self._program.call(
                *("exec", "--interactive", "--workdir", TESTBED, self._name, *command),
                timeout=timeout,
                stdin=data,
                output_bytes=self._machine.output_bytes,
            )
        except asyncio.CancelledError:
            self._engine.later(self._kill_commands())
            raise
        if finished.killed:  # only the client was
            await self._kill_commands()
        if finished.exit_code:
            await self._check_alive(finished)
        return finished

    async def _kill_commands(self) -> None:
        """Kills all processes of the container but its first."""
        command = ("exec", self._name, "bash", "-c", "kill -KILL -1")
        await self._program.call(*command, timeout=GRACE_S)

    async def _check_alive(self, finished: Finished) -> None:
        """A command may fail as it likes; that the container is gone is another matter."""
        look = ("inspect", "--format", "{{.State.Running}}", self._name)
        answer = await self._program.call(*look, timeout=LOOK_TIMEOUT_S)
        if answer.exit_code or answer.output.strip() != b"true":
            text = f"the container {self._name} has ended ({said(finished)}); start the rollout again"
            raise error("SESSION_LOST", text, container=self._name)

    async def close(self) -> None:
        """See Box."""
        await asyncio.shield(self._engine.remove(self._name))


def _removing(answer: Finished) -> bool:
    """Whether the engine is at it already: the container had just ended by itself."""
    return b"is already in progress" in answer.output

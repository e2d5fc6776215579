"""swe: a repository in a container, a bash tool, and SWE-bench's rule as the reward."""

from __future__ import annotations

import asyncio
import importlib.util
from dataclasses import dataclass, field
from typing import Any

import pydantic

from gymapi.v1.rollout_pb2 import OUTCOME_COMPLETED
from gymd.errors import GymdError, error
from gymd.sdk import ResourcesServer, Reward, ServerConfig, Session, ToolError, shared_pool, tool
from gymservers.resources.swe.evaluation import Tried, prepare, try_patch, working_diff
from gymservers.resources.swe.grading import Grade, grade
from gymservers.resources.swe.instance import Instance
from gymservers.resources.swe.observation import observation, submitted
from gymservers.resources.swe.runtimes import Box, Images, Machine, Runtime, RuntimeName, find_runtimes

__all__ = ["SoftwareEngineering"]

PATCH_CHARS = 200_000
"""How much of a patch is kept with the rollout."""
IMPORT_S = 120.0
"""For importing the package swebench once in a worker: 8 s, or 30 s on a busy machine."""
_HEADER = ("#!/bin/bash", "set -uxo pipefail", "set -euxo pipefail")
"""How evaluation scripts begin; they are run with the same options but for the echo of each command."""


class SoftwareEngineeringConfig(ServerConfig):
    """Configuration of swe; spans are in seconds, sizes in MiB."""

    runtime: RuntimeName = "auto"
    """docker, podman, apptainer (or singularity), bubblewrap; auto: the first of them that works."""
    concurrency: int = pydantic.Field(default=16, ge=1)
    """Most evaluations at the same time; further ones wait."""
    step_timeout: float = pydantic.Field(default=600.0, gt=0)
    """One command of the model; then it is killed, and the model is told."""
    eval_timeout: float = pydantic.Field(default=1800.0, gt=0)
    """The tests of one evaluation; a patch that makes them take longer earns 0.0."""
    verify_timeout_s: float = pydantic.Field(default=60.0, gt=0)
    """Reading what the tests printed, in a worker process that is killed then."""
    start_timeout_s: float = pydantic.Field(default=900.0, gt=0)
    """Starting a container, pulling its image included."""
    image_template: str | None = None
    """Names the image of an instance; may hold {instance_id}, {docker_id}, {image}. None: the row's `image`,
    else the names under which SWE-bench and SWE-Gym publish theirs."""
    pull: bool = True
    """Let docker or podman fetch images that are not there."""
    cache_dir_template: str | None = None
    """Image file (.sif) of an instance, for apptainer. None: apptainer fetches the image."""
    image_dir: str | None = None
    """Folder of an instance, for bubblewrap: an unpacked image or a repository; see the README."""
    memory_mb: int = pydantic.Field(default=4096, ge=16)
    """Memory of one container."""
    cpus: float = pydantic.Field(default=2.0, gt=0)
    """Processors of one container."""
    processes: int = pydantic.Field(default=512, ge=8)
    """Processes and threads of one container."""
    file_mb: int = pydantic.Field(default=1024, ge=1)
    """Largest file that a command may write."""
    disk_mb: int = pydantic.Field(default=4096, ge=1)
    """What all commands of a session may add to the repository's folder (bubblewrap)."""
    output_bytes: int = pydantic.Field(default=4 << 20, ge=1024)
    """What one command, or the tests, may print, in bytes; then it is killed."""
    output_chars: int = pydantic.Field(default=10_000, ge=100)
    """How much of it the model sees: the beginning and the end."""
    container_lifetime_s: int = pydantic.Field(default=21_600, ge=60)
    """When a container ends by itself, should this server have been killed; longer than any rollout."""
    environment: dict[str, str] = pydantic.Field(default_factory=dict)
    """Variables of every command."""
    allow_unsandboxed: bool = False
    """For bubblewrap: go on where the kernel allows no isolation. Only for models that you trust."""

    @pydantic.field_validator("image_template", "cache_dir_template", "image_dir")
    @classmethod
    def _names_known_values(cls, template: str | None) -> str | None:
        if template is not None:
            try:
                template.format(instance_id="", docker_id="", image="")
            except (KeyError, IndexError, ValueError) as failure:
                names = "{instance_id}, {docker_id} and {image}"
                raise ValueError(f"it may hold {names}, not {failure}") from None
        return template


@dataclass
class Workplace:
    """The state of a session.

    Attributes:
        instance: its row.
        box: its container.
        base: the commit that it started from.
        submission: the patch that the model handed in; None: not yet.
        turn: held by the command that runs.
    """

    instance: Instance
    box: Box
    base: str
    submission: bytes | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class SoftwareEngineering(ResourcesServer):
    """A container for each session; verify tests the patch in a second one."""

    Config = SoftwareEngineeringConfig
    config: SoftwareEngineeringConfig

    async def start(self) -> None:
        """Finds a container runtime; without one it says what it looked for and what to do."""
        config = self.config
        machine = Machine(
            memory_mb=config.memory_mb,
            cpus=config.cpus,
            processes=config.processes,
            file_mb=config.file_mb,
            disk_mb=config.disk_mb,
            output_bytes=config.output_bytes,
            lifetime_s=config.container_lifetime_s,
            start_timeout_s=config.start_timeout_s,
            environment=config.environment,
        )
        images = Images(config.image_template, config.pull, config.cache_dir_template, config.image_dir)
        self._runtime, self._folders = await find_runtimes(
            config.runtime, machine, images, allow_unsandboxed=config.allow_unsandboxed
        )
        self._evaluations = asyncio.Semaphore(config.concurrency)
        self.log.info("runtime", extra={"runtime": self._runtime.describe()})

    async def stop(self) -> None:
        """Removes what is left of the containers."""
        for runtime in (getattr(self, "_runtime", None), getattr(self, "_folders", None)):
            if runtime is not None:
                await runtime.close()

    def labels(self) -> dict[str, str]:
        """The runtime and how it isolates, and that of rows that bring their files."""
        labels = {"runtime": self._runtime.name, "isolation": self._runtime.describe()}
        if self._folders is None:
            labels["rows_with_files"] = "not possible here: bubblewrap does not work"
        elif self._folders is not self._runtime:
            labels["rows_with_files"] = self._folders.describe()
        return labels

    async def seed_session(self, session: Session, task: Instance) -> None:
        """Makes the session's container."""
        if task.needs_harness and importlib.util.find_spec("swebench") is None:
            text = (
                f"{task.instance_id} is tested by the package swebench, which is not installed: set"
                " `placement: venv` for this server, or pip install swebench==4.1.0"
            )
            raise error("SERVER_NOT_READY", text, instance_id=task.instance_id, package="swebench")
        box, base = await self._open(task)
        session.state = Workplace(task, box, base)

    async def _open(self, instance: Instance) -> tuple[Box, str]:
        runtime: Runtime | None = self._folders if instance.brings_files else self._runtime
        if runtime is None:
            text = (
                f"{instance.instance_id} brings its files and no image, which needs bubblewrap, and that does"
                " not work here. Give the row an `image` that holds bash, git and tar, for"
                f" {self._runtime.name}"
            )
            raise error("SERVER_NOT_READY", text, instance_id=instance.instance_id)
        box = await runtime.open(instance)
        try:
            return box, await prepare(box, instance)
        except BaseException:
            await asyncio.shield(box.close())
            raise

    async def close_session(self, session: Session) -> None:
        """Removes the session's container."""
        if session.state is not None:
            await session.state.box.close()

    @tool
    async def bash(self, session: Session, command: str) -> str:
        """Run a bash command in the repository.

        Every command starts in the repository's folder, in a new shell: other folders and variables that an
        earlier one set are forgotten. There is no network and no terminal. Long output is cut in the middle.
        To hand in a patch, run: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt
        """
        place: Workplace = session.state
        async with place.turn:
            if place.submission is not None:
                raise ToolError("The patch was handed in already; nothing more can be done.")
            finished = await place.box.run(command, timeout=self.config.step_timeout)
            place.submission = submitted(finished)
            return observation(finished, self.config.output_chars)

    async def verify(self, session: Session, task: Instance, outcome: int) -> Reward:
        """1.0 if the patch resolves the instance, else 0.0."""
        place: Workplace = session.state
        async with place.turn:
            patch = place.submission
            # Work that was cut off was not handed in; an agent that does not know how to just stops.
            if patch is None and outcome == OUTCOME_COMPLETED:
                patch = await working_diff(place.box, place.base)
                if patch is None:
                    return _reward(Grade("no_diff", {}), b"")
        if not (patch or b"").strip():
            return _reward(Grade("no_patch", {}), b"")
        assert patch is not None
        return _reward(await self._evaluate(task, patch), patch)

    async def _evaluate(self, task: Instance, patch: bytes) -> Grade:
        row = task.model_dump(mode="json")
        lines = await self._eval_lines(task, row)
        async with self._evaluations:
            box, _ = await self._open(task)
            try:
                tried = await try_patch(box, task, lines, patch, self.config.eval_timeout)
            finally:
                await box.close()
        return await self._graded(task, row, tried)

    async def _eval_lines(self, task: Instance, row: dict[str, Any]) -> list[str] | None:
        if task.test_command:
            return None
        if task.eval_script:
            return [line for line in task.eval_script.split("\n") if line not in _HEADER]
        try:
            return await self._by_harness("eval_lines", row)
        except GymdError as failure:
            if "LookupError" not in failure.message:
                raise
            text = (
                f"{task.instance_id} cannot be tested: swebench does not know version {task.version} of"
                f" {task.repo!r}. Give the row eval_script and log_parser, or test_command and log_parser"
            )
            raise error("INVALID_REQUEST", text, repo=task.repo, version=task.version) from None

    async def _graded(self, task: Instance, row: dict[str, Any], tried: Tried) -> Grade:
        if tried.run is None:
            return Grade(tried.verdict, {})
        log, code = tried.run.log, tried.run.exit_code
        if task.needs_harness:
            found: Grade = await self._by_harness("grade_by_harness", row, log, code)
            return found
        arguments = (log, code, task.log_parser, task.FAIL_TO_PASS, task.PASS_TO_PASS)
        return await shared_pool().run(grade, arguments, timeout=self.config.verify_timeout_s)

    async def _by_harness(self, function: str, *arguments: Any) -> Any:
        limit = IMPORT_S + self.config.verify_timeout_s
        return await shared_pool().run(_call_harness, (function, *arguments), timeout=limit)


def _call_harness(function: str, *arguments: Any) -> Any:
    """Runs in a worker, which imports the package at the first call; the server itself never does."""
    from gymservers.resources.swe import harness

    return getattr(harness, function)(*arguments)


def _reward(found: Grade, patch: bytes) -> Reward:
    resolved = found.verdict == "resolved"
    extras = {
        "resolved": resolved,
        "verdict": found.verdict,
        "patch": patch.decode(errors="replace")[:PATCH_CHARS],
        "tests_status": found.tests_status,
    }
    return Reward(float(resolved), extras=extras)

"""An office assistant's desk: 27 tools over mail, calendar, analytics, tasks and customers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pydantic

from gymapi.v1.responses_pb2 import Response
from gymd.errors import error
from gymd.sdk import ResourcesServer, Reward, ServerConfig, Session, TaskView, ToolError
from gymservers.resources.workplace_assistant.kits import (
    Analytics,
    Calendar,
    CompanyDirectory,
    CustomerRelationshipManager,
    Mail,
    ProjectManagement,
)
from gymservers.resources.workplace_assistant.kits.kit import Desk, OfficeTool
from gymservers.resources.workplace_assistant.loading import load_office
from gymservers.resources.workplace_assistant.tables import TABLES, Office

__all__ = ["WorkplaceAssistant"]

SHIPPED = Path(__file__).resolve().parent / "data" / "tables"
BATCH = 8
"""Calls that a replay makes before it lets others run: about half a millisecond."""


class WorkplaceConfig(ServerConfig):
    """Configuration of workplace_assistant."""

    data_dir: Path | None = None
    """Folder of the six CSV files, relative to the server's working folder; null: the shipped tables."""
    max_changes: int = pydantic.Field(default=256, ge=1, le=10_000)
    """Most calls of one session that may change a table; further ones are refused."""
    max_text_chars: int = pydantic.Field(default=20_000, ge=1)
    """Longest text argument of a call, in characters; longer ones are refused."""


class Call(pydantic.BaseModel):
    """A call of the ground truth."""

    name: str
    arguments: str
    """A JSON object, as text."""


class Assignment(pydantic.BaseModel):
    """The row's own fields; others (id, category, environment_name) are ignored."""

    ground_truth: list[Call]


class WorkplaceAssistant(
    # Tools are listed from the last base to the first.
    CustomerRelationshipManager,
    ProjectManagement,
    Analytics,
    Calendar,
    Mail,
    CompanyDirectory,
    ResourcesServer,
):
    """1.0 if the calls of the model leave the same tables behind as those of the ground truth."""

    Config = WorkplaceConfig
    config: WorkplaceConfig
    _office: Office
    _tools: dict[str, OfficeTool]

    async def start(self) -> None:
        """Reads the tables; raises InvalidRequest with every mistake in them."""
        self._office = await asyncio.to_thread(load_office, self.config.data_dir or SHIPPED)

    def labels(self) -> dict[str, str]:
        """Where the tables come from, and their sizes."""
        where = str(self.config.data_dir or "shipped")
        sizes = {name: len(getattr(self._office, name).rows) for name in TABLES if name != "plots"}
        return {"tables": where, "rows": ", ".join(f"{size} {name}" for name, size in sizes.items())}

    def servicer(self) -> Any:
        """The wire shell, with tools that refuse unknown arguments; verify replays with the same tools."""
        servicer = super().servicer()
        limit = self.config.max_text_chars
        self._tools = {name: OfficeTool(bound, limit) for name, bound in servicer.tools.items()}
        servicer.tools = dict(self._tools)
        return servicer

    async def seed_session(self, session: Session, task: TaskView) -> None:
        """Gives the session its office; raises InvalidRequest if nothing of the ground truth fits."""
        session.state = self._office.fork(self.config.max_changes)
        if task.fields:
            await self._expected(Assignment.model_validate(task.fields))

    async def verify(self, task: Assignment, response: Response) -> Reward:
        """Carries out the model's calls and the ground truth on fresh tables, and compares what is left."""
        found = await self._replay(_calls(response), self.config.max_changes)
        differing = found.differences(await self._expected(task))
        return Reward(float(not differing), extras={"differing_tables": differing})

    async def _expected(self, task: Assignment) -> Office:
        """The office that the ground truth leaves behind; calls that a tool refuses change nothing.

        Raises:
            InvalidRequest: nothing of it can be carried out, as on tables that the row was not made for.
        """
        refusals: list[str] = []
        calls = [(call.name, call.arguments) for call in task.ground_truth]
        office = await self._replay(calls, len(calls), refusals)
        if refusals and not office.differences(self._office):
            text = (
                f"nothing of the ground truth can be carried out: {refusals[0]}; the row needs other tables"
            )
            raise error("INVALID_REQUEST", text, field="ground_truth")
        return office

    async def _replay(
        self, calls: Iterable[tuple[str, str]], max_changes: int, refusals: list[str] | None = None
    ) -> Office:
        """The office after some calls; those that a tool refuses change nothing."""
        desk = Desk(self._office.fork(max_changes))
        for index, (name, arguments) in enumerate(calls):
            if index % BATCH == BATCH - 1:
                await asyncio.sleep(0)
            try:
                await self._carry_out(desk, name, arguments)
            except ToolError as refusal:
                if refusals is not None:
                    refusals.append(f"call {index}: {refusal}")
        return desk.state

    async def _carry_out(self, desk: Desk, name: str, arguments: str) -> None:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name!r}")
        if tool.changes:  # others leave nothing behind
            await tool.function(session=desk, **tool.parse(arguments))


def _calls(response: Response) -> Iterator[tuple[str, str]]:
    """Names and arguments of the tools that the model called."""
    for item in response.output:
        if item.HasField("function_call"):
            yield item.function_call.name, item.function_call.arguments_json

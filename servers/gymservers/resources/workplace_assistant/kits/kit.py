"""What the kits share: how a method becomes a tool, what a tool refuses, and pages of results."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import pydantic

from gymd.sdk import ToolError, tool
from gymd.sdk.tools import BoundTool
from gymservers.resources.workplace_assistant.tables import Office, Row, Table

__all__ = [
    "Desk",
    "OfficeTool",
    "PageNumber",
    "PageSize",
    "about",
    "change",
    "changes",
    "contains",
    "delete",
    "field_of",
    "page_of",
    "reads",
    "unknown",
]

PAGE_SIZE = 5
ADDRESSES = frozenset({"assigned_to_email", "customer_email", "participant_email"})
"""Columns whose cells are stored in lower case."""


@dataclass(slots=True)
class Desk:
    """Where a tool finds its tables: a replay, or anything with the same attribute, such as a session."""

    state: Office


def about(meaning: str) -> Any:
    """Describes a parameter to the model."""
    return pydantic.Field(description=meaning)


PageNumber = Annotated[int, about("Which page of the results, from 1. Beyond the last page: the last one.")]
PageSize = Annotated[int, about("Results on one page.")]


def reads(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a tool of a method that changes no table. What it returns is answered as `output`."""
    return _answering(method, changing=False)


def changes(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a tool of a method that may change a table; the session counts such calls."""
    return _answering(method, changing=True)


def _answering(method: Callable[..., Any], *, changing: bool) -> Callable[..., Any]:
    # A coroutine function only because others run in threads: none of the tools waits for anything.
    @tool
    @functools.wraps(method)
    async def answer(self: object, session: Desk, **arguments: Any) -> dict[str, Any]:
        if changing:
            session.state.count_change()
        return {"output": method(self, session, **arguments)}

    answer.changes = changing  # type: ignore[attr-defined]
    return answer


class OfficeTool(BoundTool):
    """A tool that refuses arguments that it does not know, as NeMo Gym's do.

    Args:
        bound: the same tool, which passes over such arguments.
        max_text_chars: the longest text that it takes as an argument.

    Attributes:
        changes: whether it may change a table.
    """

    def __init__(self, bound: BoundTool, max_text_chars: int) -> None:
        # All that both have in common is taken over: to build it again would take milliseconds.
        vars(self).update(vars(bound))
        self.changes: bool = bound.function.changes  # type: ignore[attr-defined]
        self._parameters = frozenset(orjson.loads(self.definition.parameters_json)["properties"])
        self._max_text_chars = max_text_chars

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """The arguments for the function; null is the same as absent. Raises ToolError with a text."""
        try:
            arguments = json.loads(arguments_json or "{}")
        except (ValueError, RecursionError) as failure:
            raise self._refused(f"the arguments are not valid JSON: {failure}") from None
        if not isinstance(arguments, dict):
            raise self._refused("the arguments are not a JSON object")
        given = {name: value for name, value in arguments.items() if value is not None}
        for name, value in given.items():
            if name not in self._parameters:
                raise self._refused(f"there is no argument {name[:64]!r}")
            if isinstance(value, str) and len(value) > self._max_text_chars:
                raise self._refused(f"{name} has more than {self._max_text_chars} characters")
        try:
            return super().parse(json.dumps(given))
        except ToolError as refusal:
            raise self._refused(json.loads(str(refusal))["error"]) from None

    def _refused(self, why: str) -> ToolError:
        return ToolError(json.dumps({"output": f"Error executing tool {self.name!r}: {why}"}))


def unknown(what: str) -> str:
    """The answer about a row that is not there."""
    return f"There is no {what} with this id."


def field_of(what: str, table: Table, row_id: str, field: str) -> Any:
    """One field of a row, or a sentence where there is no such row or field."""
    row = table.find(row_id)
    if row is None:
        return unknown(what)
    return {field: row.cells[field]} if field in table.columns else _no_field(table, field)


def change(what: str, table: Table, row_id: str, field: str, value: str) -> str:
    """Sets one field of a row; the answer is a sentence, also where there is no such row or field."""
    if table.find(row_id) is None:
        return unknown(what)
    if field not in table.columns:
        return _no_field(table, field)
    table.set(row_id, field, value.lower() if field in ADDRESSES else value)
    return f"The {what} was changed."


def delete(what: str, table: Table, row_id: str) -> str:
    """Removes a row; the answer is a sentence, also where there is no such row."""
    if table.find(row_id) is None:
        return unknown(what)
    table.remove(row_id)
    return f"The {what} was deleted."


def _no_field(table: Table, field: str) -> str:
    return f"There is no field {field!r}; the fields are: {', '.join(table.columns)}."


def contains(row: Row, column: str, text: str) -> bool:
    """Whether a cell contains a text, upper and lower case aside; a missing cell is an empty text."""
    return text.lower() in row.text(column).lower()


def page_of(what: str, rows: Sequence[Row], page: int, page_size: int) -> Any:
    """One page of results with its place among all, or a sentence where there are none."""
    if page_size < 1:
        return "page_size must be at least 1."
    if not rows:
        return f"No {what} were found."
    pages = -(-len(rows) // page_size)
    page = max(1, min(page, pages))
    first = (page - 1) * page_size
    return {
        what: [row.cells for row in rows[first : first + page_size]],
        "pagination": {
            f"total_{what}": len(rows),
            "page": page,
            "page_size": page_size,
            "total_pages": pages,
        },
    }

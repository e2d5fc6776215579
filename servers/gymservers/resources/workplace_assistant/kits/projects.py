"""Project management."""

from __future__ import annotations

from typing import Annotated, Any

from gymservers.resources.workplace_assistant.kits.kit import (
    Desk,
    about,
    change,
    changes,
    contains,
    delete,
    field_of,
    reads,
)
from gymservers.resources.workplace_assistant.tables import Table

__all__ = ["ProjectManagement"]

LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
TASK = "task"

TaskId = Annotated[str, about("The id of the task, 8 digits.")]
FIELDS = "task_name, assigned_to_email, list_name, due_date or board"


class ProjectManagement:
    """Five tools over the tasks."""

    @reads
    def project_management_get_task_information_by_id(
        self,
        session: Desk,
        task_id: TaskId,
        field: Annotated[str, about(f"What to get: task_id, {FIELDS}.")],
    ) -> Any:
        """Get one field of a task."""
        return field_of(TASK, session.state.tasks, task_id, field)

    @reads
    def project_management_search_tasks(
        self,
        session: Desk,
        task_name: Annotated[str, about("A text that occurs in the name of the task.")] = "",
        assigned_to_email: Annotated[str, about("The whole address of the assignee.")] = "",
        list_name: Annotated[str, about("The list that the task is in.")] = "",
        due_date: Annotated[str, about("The day it is due, YYYY-MM-DD.")] = "",
        board: Annotated[str, about("The board that the task belongs to.")] = "",
    ) -> Any:
        """Search the tasks; all that is given must hold. The answer is not paged."""
        texts = {"task_name": task_name, "list_name": list_name, "due_date": due_date, "board": board}
        wanted = {column: text for column, text in texts.items() if text}
        if not wanted and not assigned_to_email:
            return "Give at least one thing to search for."
        if assigned_to_email and "@" not in assigned_to_email:
            return "assigned_to_email is not a whole email address; look it up in the company directory."
        return [
            row.cells
            for row in session.state.tasks.rows
            if (not assigned_to_email or row.folded["assigned_to_email"] == assigned_to_email.lower())
            and all(contains(row, column, text) for column, text in wanted.items())
        ]

    @changes
    def project_management_create_task(
        self,
        session: Desk,
        task_name: Annotated[str, about("The name of the task.")],
        assigned_to_email: Annotated[str, about("The address of the assignee.")],
        list_name: Annotated[str, about(f"The list to put it in: {', '.join(LISTS)}.")],
        due_date: Annotated[str, about("The day it is due, YYYY-MM-DD.")],
        board: Annotated[str, about(f"The board that it belongs to: {', '.join(BOARDS)}.")],
    ) -> Any:
        """Create a task; the answer is its id."""
        if not (task_name and due_date):
            return "A task needs a name, an assignee, a list, a due date and a board."
        tasks = session.state.tasks
        cells = {"assigned_to_email": assigned_to_email.lower(), "list_name": list_name, "board": board}
        for field, value in cells.items():
            problem = _problem(tasks, field, value)
            if problem:
                return problem
        task_id = f"{tasks.next_id():08}"
        tasks.add({"task_id": task_id, "task_name": task_name, "due_date": due_date, **cells})
        return task_id

    @changes
    def project_management_delete_task(self, session: Desk, task_id: TaskId) -> Any:
        """Delete a task."""
        return delete(TASK, session.state.tasks, task_id)

    @changes
    def project_management_update_task(
        self,
        session: Desk,
        task_id: TaskId,
        field: Annotated[str, about(f"What to change: {FIELDS}.")],
        new_value: Annotated[str, about("The new value.")],
    ) -> Any:
        """Change one field of a task."""
        if not new_value:
            return "The new value cannot be empty."
        tasks = session.state.tasks
        return _problem(tasks, field, new_value) or change(TASK, tasks, task_id, field, new_value)


def _problem(tasks: Table, field: str, value: str) -> str | None:
    """Why a field of a task cannot have a value."""
    if field == "list_name" and value not in LISTS:
        return f"There is no list {value!r}; the lists are: {', '.join(LISTS)}."
    if field == "board" and value not in BOARDS:
        return f"There is no board {value!r}; the boards are: {', '.join(BOARDS)}."
    # The team are those who have a task at the moment.
    if field == "assigned_to_email" and not any(row.folded[field] == value.lower() for row in tasks.rows):
        return f"{value.lower()!r} is nobody who has tasks; assign it to somebody of the team."
    return None

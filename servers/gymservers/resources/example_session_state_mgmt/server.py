"""A counter for each session: how an environment keeps state from tool call to tool call."""

from __future__ import annotations

import pydantic

from gymd.sdk import ResourcesServer, Session, tool

__all__ = ["Counter"]


class Start(pydantic.BaseModel):
    """What a session starts from; a plain conversation has no task and counts from 0."""

    initial_count: int = 0


class CounterTask(pydantic.BaseModel):
    """The row's own fields."""

    initial_count: int
    expected_count: int


class Counter(ResourcesServer):
    """Two tools over one number; 1.0 if the number is the expected one at the end."""

    async def seed_session(self, session: Session, task: Start) -> None:
        """Sets the counter."""
        session.state = task.initial_count

    @tool
    async def increment_counter(self, session: Session, count: int) -> dict[str, bool]:
        """Add a number to the counter."""
        session.state += count
        return {"success": True}

    @tool
    async def get_counter_value(self, session: Session) -> dict[str, int]:
        """Get the value of the counter."""
        return {"count": session.state}

    async def verify(self, session: Session, task: CounterTask) -> float:
        """Compares the counter with the expected number; what the model says does not count."""
        return float(session.state == task.expected_count)

"""The calendar."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from gymservers.resources.workplace_assistant.dates import moment
from gymservers.resources.workplace_assistant.kits.kit import (
    PAGE_SIZE,
    Desk,
    PageNumber,
    PageSize,
    about,
    change,
    changes,
    contains,
    delete,
    field_of,
    page_of,
    reads,
)

__all__ = ["Calendar"]

CHANGEABLE = ("event_name", "participant_email", "event_start", "duration")
EVENT = "event"
NO_ID = "This is no id of an event: an id has 8 digits."

EventId = Annotated[str, about("The id of the event, 8 digits.")]


class Calendar:
    """Five tools over the events."""

    @reads
    def calendar_get_event_information_by_id(
        self,
        session: Desk,
        event_id: EventId,
        field: Annotated[
            str,
            about("What to get: event_id, event_name, participant_email, event_start or duration."),
        ],
    ) -> Any:
        """Get one field of an event."""
        if not _is_event_id(event_id):
            return NO_ID
        return field_of(EVENT, session.state.events, event_id, field)

    @reads
    def calendar_search_events(
        self,
        session: Desk,
        query: Annotated[
            str, about("A text that occurs in the name of the event or the participant's address.")
        ] = "",
        time_min: Annotated[str, about("The earliest start, YYYY-MM-DD HH:MM:SS.")] = "",
        time_max: Annotated[str, about("The latest start, YYYY-MM-DD HH:MM:SS.")] = "",
        page: PageNumber = 1,
        page_size: PageSize = PAGE_SIZE,
    ) -> Any:
        """Search the events, latest start first."""
        earliest = moment(time_min) if time_min else datetime.min
        latest = moment(time_max) if time_max else datetime.max
        if earliest is None or latest is None:
            return "time_min and time_max are times; write them as YYYY-MM-DD HH:MM:SS."
        found = [
            (start, row)
            for row in session.state.events.rows
            if (contains(row, "event_name", query) or contains(row, "participant_email", query))
            and earliest <= (start := moment(row.text("event_start")) or datetime.min) <= latest
        ]
        found.sort(key=lambda pair: pair[0], reverse=True)
        return page_of("events", [row for _, row in found], page, page_size)

    @changes
    def calendar_create_event(
        self,
        session: Desk,
        event_name: Annotated[str, about("The name of the event.")],
        participant_email: Annotated[str, about("The address of the participant.")],
        event_start: Annotated[str, about("When it starts, YYYY-MM-DD HH:MM:SS.")],
        duration: Annotated[str, about("How many minutes it takes.")],
    ) -> Any:
        """Create an event; the answer is its id."""
        if not (event_name and participant_email):
            return "An event needs a name, a participant, a start and a duration."
        problem = _problem("event_start", event_start) or _problem("duration", duration)
        if problem:
            return problem
        events = session.state.events
        event_id = f"{events.next_id():08}"
        events.add(
            {
                "event_id": event_id,
                "event_name": event_name,
                "participant_email": participant_email.lower(),
                "event_start": event_start,
                "duration": duration,
            }
        )
        return event_id

    @changes
    def calendar_delete_event(self, session: Desk, event_id: EventId) -> Any:
        """Delete an event."""
        if not _is_event_id(event_id):
            return NO_ID
        return delete(EVENT, session.state.events, event_id)

    @changes
    def calendar_update_event(
        self,
        session: Desk,
        event_id: EventId,
        field: Annotated[
            str, about("What to change: event_name, participant_email, event_start or duration.")
        ],
        new_value: Annotated[str, about("The new value.")],
    ) -> Any:
        """Change one field of an event."""
        if not _is_event_id(event_id):
            return NO_ID
        if field not in CHANGEABLE:
            return f"The field {field!r} cannot be changed; these can: {', '.join(CHANGEABLE)}."
        problem = _problem(field, new_value)
        return problem or change(EVENT, session.state.events, event_id, field, new_value)


def _is_event_id(text: str) -> bool:
    return len(text) == 8 and text.isdecimal()


def _problem(field: str, value: str) -> str | None:
    """Why a field of an event cannot have a value."""
    if not value:
        return f"{field} cannot be empty."
    if field == "event_start" and moment(value) is None:
        return "event_start is not a time; write it as YYYY-MM-DD HH:MM:SS."
    if field == "duration":
        try:
            minutes = int(value)
        except ValueError:
            return "duration is not a number of minutes."
        if minutes <= 0:
            return "duration must be more than 0 minutes."
    return None

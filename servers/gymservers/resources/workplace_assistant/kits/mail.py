"""Email."""

from __future__ import annotations

from typing import Annotated, Any

from gymservers.resources.workplace_assistant.dates import NOW, moment
from gymservers.resources.workplace_assistant.kits.kit import (
    PAGE_SIZE,
    Desk,
    PageNumber,
    PageSize,
    about,
    changes,
    delete,
    field_of,
    page_of,
    reads,
    unknown,
)
from gymservers.resources.workplace_assistant.tables import Office, Row

__all__ = ["Mail"]

FOREVER = "9999-12-31"
EMAIL = "email"

EmailId = Annotated[str, about("The id of the email.")]
Recipient = Annotated[str, about("The address to send it to.")]


class Mail:
    """Six tools over the emails."""

    @reads
    def email_get_email_information_by_id(
        self,
        session: Desk,
        email_id: EmailId,
        field: Annotated[
            str,
            about("What to get: email_id, inbox/outbox, sender/recipient, subject, sent_datetime or body."),
        ],
    ) -> Any:
        """Get one field of an email."""
        return field_of(EMAIL, session.state.emails, email_id, field)

    @reads
    def email_search_emails(
        self,
        session: Desk,
        query: Annotated[
            str, about("Words that must all occur in the subject, the body or the address of the sender.")
        ] = "",
        date_min: Annotated[str, about("The first day, YYYY-MM-DD.")] = "",
        date_max: Annotated[str, about("The last day, YYYY-MM-DD.")] = "",
        page: PageNumber = 1,
        page_size: PageSize = PAGE_SIZE,
    ) -> Any:
        """Search the emails, newest first."""
        earliest, latest = _day(date_min), _day(date_max)
        if earliest is None or latest is None:
            return "date_min and date_max are dates; write them as YYYY-MM-DD."
        found = [
            row
            for row in session.state.emails.rows
            if earliest <= row.text("sent_datetime")[:10] <= (latest or FOREVER)
        ]
        for word in query.lower().split():
            found = [row for row in found if _mentions(row, word)]
        found.sort(key=lambda row: row.text("sent_datetime"), reverse=True)
        return page_of("emails", found, page, page_size)

    @changes
    def email_send_email(
        self,
        session: Desk,
        recipient: Recipient,
        subject: Annotated[str, about("The subject.")],
        body: Annotated[str, about("The text.")],
    ) -> Any:
        """Send an email."""
        if not (recipient and subject and body):
            return "An email needs a recipient, a subject and a body."
        return _send(session.state, recipient, subject, body) or "The email was sent."

    @changes
    def email_delete_email(self, session: Desk, email_id: EmailId) -> Any:
        """Delete an email."""
        return delete(EMAIL, session.state.emails, email_id)

    @changes
    def email_forward_email(self, session: Desk, email_id: EmailId, recipient: Recipient) -> Any:
        """Forward an email."""
        email = session.state.emails.find(email_id)
        if email is None:
            return unknown(EMAIL)
        subject = f"FW: {email.text('subject')}"
        return _send(session.state, recipient, subject, email.cells["body"]) or "The email was forwarded."

    @changes
    def email_reply_email(
        self, session: Desk, email_id: EmailId, body: Annotated[str, about("The text of the reply.")]
    ) -> Any:
        """Reply to an email. The reply to an email that was sent goes to its recipient."""
        email = session.state.emails.find(email_id)
        if email is None:
            return unknown(EMAIL)
        if not body:
            return "A reply needs a body."
        subject = f"RE: {email.text('subject')}"
        return _send(session.state, email.text("sender/recipient"), subject, body) or "The reply was sent."


def _mentions(row: Row, word: str) -> bool:
    texts = row.folded
    return (
        word in (texts["subject"] or "")
        or word in (texts["body"] or "")
        or word in (texts["sender/recipient"] or "")
    )


def _day(text: str) -> str | None:
    """The day of a date or time, "" if none was given, None if it is neither."""
    if not text:
        return ""
    time = moment(text)
    return time.date().isoformat() if time is not None else None


def _send(office: Office, recipient: str, subject: str, body: str | None) -> str | None:
    """Puts an email into the outbox; returns why it cannot be sent."""
    if "@" not in recipient or "." not in recipient:
        return "The recipient is not a valid email address."
    office.emails.add(
        {
            # Not padded with zeros, unlike all other ids: so the published ground truths count.
            "email_id": str(office.emails.next_id()),
            "inbox/outbox": "outbox",
            "sender/recipient": recipient.lower(),
            "subject": subject,
            "sent_datetime": NOW,
            "body": body,
        }
    )
    return None

"""Customer relationship management."""

from __future__ import annotations

from typing import Annotated, Any

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
    page_of,
    reads,
)

__all__ = ["CustomerRelationshipManager"]

STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
INTERESTS = ("Software", "Hardware", "Services", "Consulting", "Training")
FIELDS = (
    "customer_name",
    "assigned_to_email",
    "customer_email",
    "customer_phone",
    "last_contact_date",
    "product_interest",
    "status",
    "notes",
    "follow_up_by",
)
CUSTOMER = "customer"

CustomerId = Annotated[str, about("The id of the customer, 8 digits.")]
ABSENT: Any = None
"""Leaves the cell missing, which is something else than an empty text."""


class CustomerRelationshipManager:
    """Four tools over the customers."""

    @reads
    def customer_relationship_manager_search_customers(
        self,
        session: Desk,
        customer_name: Annotated[str, about("A part of the customer's name.")] = "",
        customer_email: Annotated[str, about("A part of the customer's address.")] = "",
        product_interest: Annotated[str, about("The product that the customer is interested in.")] = "",
        status: Annotated[str, about("The customer's status.")] = "",
        assigned_to_email: Annotated[str, about("A part of the address of who looks after them.")] = "",
        last_contact_date_min: Annotated[str, about("The earliest last contact, YYYY-MM-DD.")] = "",
        last_contact_date_max: Annotated[
            str,
            about("The latest last contact, YYYY-MM-DD. Without a time: the beginning of that day."),
        ] = "",
        follow_up_by_min: Annotated[str, about("The earliest date of the follow-up, YYYY-MM-DD.")] = "",
        follow_up_by_max: Annotated[
            str,
            about("The latest date of the follow-up, YYYY-MM-DD. Without a time: the beginning of that day."),
        ] = "",
        page: PageNumber = 1,
        page_size: PageSize = PAGE_SIZE,
    ) -> Any:
        """Search the customers; all that is given must hold."""
        texts = {
            "customer_name": customer_name,
            "customer_email": customer_email,
            "product_interest": product_interest,
            "status": status,
            "assigned_to_email": assigned_to_email,
        }
        wanted = {column: text for column, text in texts.items() if text}
        bounds = {
            "last_contact_date": (last_contact_date_min, last_contact_date_max),
            "follow_up_by": (follow_up_by_min, follow_up_by_max),
        }
        limited = {column: limits for column, limits in bounds.items() if any(limits)}
        if not wanted and not limited:
            return "Give at least one thing to search for."
        found = [
            row
            for row in session.state.customers.rows
            if all(contains(row, column, text) for column, text in wanted.items())
            and all(_within(row.cells[column], *limits) for column, limits in limited.items())
        ]
        return page_of("customers", found, page, page_size)

    @changes
    def customer_relationship_manager_update_customer(
        self,
        session: Desk,
        customer_id: CustomerId,
        field: Annotated[str, about(f"What to change: {', '.join(FIELDS)}.")],
        new_value: Annotated[str, about("The new value.")],
    ) -> Any:
        """Change one field of a customer."""
        if not new_value:
            return "The new value cannot be empty."
        if field == "status" and new_value not in STATUSES:
            return f"There is no status {new_value!r}; the statuses are: {', '.join(STATUSES)}."
        if field == "product_interest" and new_value not in INTERESTS:
            return f"There is no product {new_value!r}; the products are: {', '.join(INTERESTS)}."
        return change(CUSTOMER, session.state.customers, customer_id, field, new_value)

    @changes
    def customer_relationship_manager_add_customer(
        self,
        session: Desk,
        customer_name: Annotated[str, about("The customer's name.")],
        assigned_to_email: Annotated[str, about("The address of who looks after them.")],
        status: Annotated[str, about(f"Their status: {', '.join(STATUSES)}.")],
        customer_email: Annotated[str, about("The customer's address.")] = ABSENT,
        customer_phone: Annotated[str, about("The customer's phone number.")] = ABSENT,
        last_contact_date: Annotated[str, about("The last contact, YYYY-MM-DD.")] = ABSENT,
        product_interest: Annotated[
            str, about(f"What they are interested in: {', '.join(INTERESTS)}.")
        ] = ABSENT,
        notes: Annotated[str, about("Notes about the customer.")] = "",
        follow_up_by: Annotated[str, about("When to follow up, YYYY-MM-DD.")] = ABSENT,
    ) -> Any:
        """Add a customer; the answer is their id."""
        if not (customer_name and assigned_to_email and status):
            return "A customer needs a name, somebody who looks after them, and a status."
        customers = session.state.customers
        customer_id = f"{customers.next_id():08}"
        customers.add(
            {
                "customer_id": customer_id,
                "assigned_to_email": assigned_to_email.lower(),
                "customer_name": customer_name,
                "customer_email": customer_email and customer_email.lower(),
                "customer_phone": customer_phone,
                "last_contact_date": last_contact_date,
                "product_interest": product_interest,
                "status": status,
                "follow_up_by": follow_up_by,
                "notes": notes,
            }
        )
        return customer_id

    @changes
    def customer_relationship_manager_delete_customer(self, session: Desk, customer_id: CustomerId) -> Any:
        """Delete a customer."""
        return delete(CUSTOMER, session.state.customers, customer_id)


def _within(cell: str | None, lowest: str, highest: str) -> bool:
    """Whether a date or time lies within bounds, compared as text; a missing cell does not."""
    return cell is not None and cell >= lowest and (not highest or cell <= highest)

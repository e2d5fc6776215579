"""The company directory."""

from __future__ import annotations

from typing import Annotated, Any

from gymservers.resources.workplace_assistant.kits.kit import Desk, about, reads

__all__ = ["CompanyDirectory"]


class CompanyDirectory:
    """One tool: who has which address."""

    @reads
    def company_directory_find_email_address(
        self, session: Desk, name: Annotated[str, about("A name or a part of one.")] = ""
    ) -> Any:
        """Find the email addresses that contain a name, whatever its upper and lower case."""
        if not name:
            return "Give a name to look for."
        return [address for address in session.state.directory if name.lower() in address.lower()]

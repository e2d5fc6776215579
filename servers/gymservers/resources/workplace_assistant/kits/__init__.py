"""The tools, one module for each kit."""

from gymservers.resources.workplace_assistant.kits.analytics import Analytics
from gymservers.resources.workplace_assistant.kits.calendar import Calendar
from gymservers.resources.workplace_assistant.kits.customers import CustomerRelationshipManager
from gymservers.resources.workplace_assistant.kits.directory import CompanyDirectory
from gymservers.resources.workplace_assistant.kits.mail import Mail
from gymservers.resources.workplace_assistant.kits.projects import ProjectManagement

__all__ = [
    "Analytics",
    "Calendar",
    "CompanyDirectory",
    "CustomerRelationshipManager",
    "Mail",
    "ProjectManagement",
]

"""The daemon's durable record of accepted tasks and results that no client has stored yet."""

from gymd.daemon.journal.journal import Journal
from gymd.daemon.journal.records import StoredCancel, StoredResult, StoredSession, StoredStop, StoredTask
from gymd.daemon.journal.shelf import Shelf, Shelved

__all__ = [
    "Journal",
    "Shelf",
    "Shelved",
    "StoredCancel",
    "StoredResult",
    "StoredSession",
    "StoredStop",
    "StoredTask",
]

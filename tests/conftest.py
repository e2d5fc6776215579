"""Shared by all tests: what a test leaves behind makes it fail (see tests/leaks.py)."""

from tests.leaks import no_leaked_async, no_leaked_processes, no_leaks, no_leaks_async

__all__ = ["no_leaked_async", "no_leaked_processes", "no_leaks", "no_leaks_async"]

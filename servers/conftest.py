"""The servers' own tests are under the same leak checks as all others (see tests/leaks.py)."""

from tests.leaks import no_leaked_async, no_leaked_processes, no_leaks, no_leaks_async

__all__ = ["no_leaked_async", "no_leaked_processes", "no_leaks", "no_leaks_async"]

"""Shared by all tests: what a test leaves behind makes it fail (see tests/leaks.py)."""

import gc
import signal

from tests.leaks import no_leaked_async, no_leaked_processes, no_leaks, no_leaks_async

__all__ = ["no_leaked_async", "no_leaked_processes", "no_leaks", "no_leaks_async"]


def pytest_configure() -> None:
    """Lets Ctrl-C end what tests start: in the background of a script it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()


def pytest_collection_finish() -> None:
    """Takes modules and tests, two million objects, out of every later search for garbage."""
    gc.freeze()
    gc.enable()

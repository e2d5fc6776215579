"""A module that takes its time to load, as symbolic mathematics does."""

import time

__all__ = ["fast"]

time.sleep(1.2)


def fast() -> str:
    """Returns at once."""
    return "loaded"

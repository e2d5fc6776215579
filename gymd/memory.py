"""How this process keeps memory between large messages."""

from __future__ import annotations

import ctypes

__all__ = ["keep_large_blocks"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_LARGE = 32 << 20
_KEPT = 128 << 20


def keep_large_blocks() -> bool:
    """Lets the C allocator reuse freed blocks of up to 32 MiB instead of giving them back to the system.

    A body of several MB is otherwise fresh memory each time, whose page faults cost more than reading the
    body from the socket. Up to 128 MiB of free memory stay with the process. Returns whether the C library
    can; only glibc does.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT))

"""Where servers keep what outlives them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["state_dir"]


def state_dir() -> Path:
    """The state folder: GYMD_STATE_DIR, which the daemon sets for its hosts, else the user's default."""
    # Only here: it brings the whole configuration, which most hosts never need.
    from gymd.config.settings import default_state_dir

    return default_state_dir()

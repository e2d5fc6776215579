"""Fetches the default model ahead of its first use: `python -m gymservers.models.local_model.fetch [FOLDER]`.

Writes the path of the model to stdout, and progress to stderr.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from gymd.errors import GymdError
from gymd.sdk.paths import state_dir
from gymservers.models.local_model.weights import ensure_weights

__all__ = ["main"]


def main() -> int:
    """Runs the command; returns its exit code."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else state_dir() / "models"
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        path = asyncio.run(ensure_weights(folder, logging.getLogger(__name__)))
    except GymdError as failure:
        sys.stderr.write(f"{failure.message}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

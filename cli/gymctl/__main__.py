"""`gymctl` and `python -m gymctl`."""

from __future__ import annotations

import sys
from typing import NoReturn

from gymctl.app import run

__all__ = ["main"]


def main() -> NoReturn:
    """Runs the command line of this process and exits with 0 (done), 1 (failed) or 2 (wrong usage)."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

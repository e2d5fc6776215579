"""Exits with 0 if a folder holds the five scored rollouts of `gymctl quickstart`.

python .ci/check_quickstart.py FOLDER
"""

import json
import sys
from pathlib import Path

WANTED = 5


def scored(path: Path) -> int:
    """How many lines of a JSONL file have a numeric reward."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(isinstance(row.get("reward"), int | float) for row in rows)


def main() -> int:
    """Looks for the file; returns the exit code."""
    counts = {path: scored(path) for path in Path(sys.argv[1]).rglob("*.jsonl")}
    for path, count in counts.items():
        sys.stderr.write(f"{path}: {count} scored rollouts\n")
    return 0 if WANTED in counts.values() else 1


if __name__ == "__main__":
    sys.exit(main())

"""A host process without gRPC, to test the supervisor: it does what the config of its first server says.

Keys: say (a line to write), exit (code; at once), broken (servers that cannot start), rattle (lines to write
after that), stubborn (ignores SIGTERM), child (starts a grandchild and says its pid). Whatever else happens,
it leaves when stdin ends.
"""

import json
import os
import signal
import subprocess
import sys
from typing import Any


def main() -> None:
    """Reads the parameters and behaves."""
    boot = json.loads(sys.stdin.readline() or "{}")
    if not boot:
        sys.exit(3)
    config: dict[str, Any] = boot["servers"][0]["config"]
    sys.stderr.write(f"{config.get('say', 'hello')} {boot['host_id']} {boot['daemon']}\n")
    for block in boot["servers"]:
        if block["config"].get("broken"):
            sys.stderr.write(f"gymd-host: cannot start {block['name']}: {block['config']['broken']}\n")
            sys.stderr.write("something else\n" * block["config"].get("rattle", 0))
            sys.exit(3)
    if config.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if config.get("child"):
        child = subprocess.Popen(["sleep", "60"])
        sys.stderr.write(f"child={child.pid}\n")
    sys.stderr.write("up\n")
    sys.stderr.flush()
    if "exit" in config:
        os._exit(config["exit"])
    while sys.stdin.readline():
        pass


if __name__ == "__main__":
    main()

"""Stands in for docker (and podman): containers are folders, and what runs in them are real processes.

It keeps its state in the folder STAND_IN_STATE: log.jsonl with the arguments of every call, and a folder for
each container. An image is a folder below STAND_IN_STATE/images. It isolates nothing; what it shows is how it
is called.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

STATE = Path(os.environ["STAND_IN_STATE"])
CONTAINERS, IMAGES = STATE / "containers", STATE / "images"
# Options of `run` and `exec` that take a value.
VALUED = {
    *("--name", "--label", "--pull", "--network", "--memory", "--memory-swap", "--cpus", "--pids-limit"),
    *("--ulimit", "--security-opt", "--cap-drop", "--cap-add", "--env", "--workdir", "--entrypoint"),
}


def parsed(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        name = rest.pop(0)
        options.setdefault(name, []).append(rest.pop(0) if name in VALUED else "")
    return options, rest


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def fail(text: str, code: int = 1) -> NoReturn:
    sys.stderr.write(f"{text}\n")
    sys.exit(code)


def run(arguments: list[str]) -> None:
    options, rest = parsed(arguments)
    image = IMAGES / rest[0].replace("/", "_").replace(":", "_")
    if (STATE / "slow").exists():
        (STATE / "starting").touch()
        while (STATE / "slow").exists():
            time.sleep(0.01)
    if not image.is_dir():
        fail(f"Error response from daemon: no such image: {rest[0]}", 125)
    place = CONTAINERS / options["--name"][0]
    shutil.copytree(image, place / "testbed", symlinks=True)
    (place / "options.json").write_text(json.dumps(options))
    say(place.name)


def existing(name: str) -> Path:
    place = CONTAINERS / name
    if not place.is_dir():
        fail(f"Error response from daemon: No such container: {name}")
    return place


def exec_(arguments: list[str]) -> None:
    _, rest = parsed(arguments)
    place = existing(rest[0])
    options = json.loads((place / "options.json").read_text())
    group = place / "group"
    if rest[1:] == ["bash", "-c", "kill -KILL -1"]:
        for line in group.read_text().split() if group.exists() else ():
            try:
                os.killpg(int(line), signal.SIGKILL)
            except ProcessLookupError:
                pass
        return
    variables = dict(pair.split("=", 1) for pair in options["--env"])
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), **variables, "BASH_ENV": ""}
    # In a session of its own, as a container's processes are not the client's.
    process = subprocess.Popen(
        rest[1:], cwd=place / "testbed", env=environment, start_new_session=True, close_fds=True
    )
    with group.open("a") as file:
        file.write(f"{process.pid}\n")
    sys.exit(process.wait() % 256)


def rm(arguments: list[str]) -> None:
    _, rest = parsed(arguments)
    place = existing(rest[0])
    exec_([place.name, "bash", "-c", "kill -KILL -1"])
    shutil.rmtree(place)
    say(place.name)


def inspect(arguments: list[str]) -> None:
    existing(arguments[-1])
    say("true")


def ps(arguments: list[str]) -> None:
    for place in sorted(CONTAINERS.iterdir()):
        labels = json.loads((place / "options.json").read_text())["--label"]
        say(f"{place.name} {labels[0].partition('=')[2]}")


def version(arguments: list[str]) -> None:
    if (STATE / "no_daemon").exists():
        fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?")
    say("99.1")


COMMANDS = {
    "run": run,
    "exec": exec_,
    "rm": rm,
    "inspect": inspect,
    "ps": ps,
    "version": version,
    "info": version,
}

if __name__ == "__main__":
    with (STATE / "log.jsonl").open("a") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
    COMMANDS[sys.argv[1]](sys.argv[2:])

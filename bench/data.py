"""How fast `gymctl data prepare` is, and how soon the viewer shows something of a large file."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.rows import write_rollouts, write_tasks

__all__ = ["prepare", "view"]

_SAMPLE_S = 0.2
_POLL_S = 0.05
_PAGE = "api/rows?count=100"
_PREPARE = "data prepare -c bench.yaml --mode train_preparation --output-dir out -o json"
_VIEW = "rollouts view rollouts.jsonl --port 0 --no-open -o json"
_CONFIG = """
env: {resources_servers: {mcqa: {domain: knowledge}}}
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: env}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
        - {name: made, type: train, license: MIT, jsonl_fpath: rows.jsonl}
"""


class _Command:
    """A gymctl command under way, and the memory of all its processes."""

    def __init__(self, arguments: str, folder: Path) -> None:
        command = [sys.executable, "-P", "-m", "gymctl", *arguments.split()]
        self._begin = time.perf_counter()
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        self.peak_mib = 0.0
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample)
        self._sampler.start()

    @property
    def seconds(self) -> float:
        """Since its start."""
        return time.perf_counter() - self._begin

    def close(self) -> None:
        """Ends it."""
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()  # type: ignore[union-attr]
        self._ended.set()
        self._sampler.join()

    def _sample(self) -> None:
        command = psutil.Process(self.process.pid)
        while not self._ended.wait(_SAMPLE_S):
            with contextlib.suppress(psutil.Error):  # one that just ended
                processes = [command, *command.children(recursive=True)]
                pss = sum(one.memory_full_info().pss for one in processes)
                self.peak_mib = max(self.peak_mib, pss / 2**20)


@contextlib.contextmanager
def _running(arguments: str, folder: str) -> Iterator[_Command]:
    command = _Command(arguments, Path(folder))
    try:
        yield command
    finally:
        command.close()


def prepare(rows: int) -> dict[str, Any]:
    """`gymctl data prepare` of tasks of 1 kB with all metrics: from its start to its exit."""
    with tempfile.TemporaryDirectory(prefix="gymd-bench-") as folder:
        path = Path(folder, "rows.jsonl")
        write_tasks(path, rows)
        Path(folder, "bench.yaml").write_text(_CONFIG)
        with _running(_PREPARE, folder) as command:
            output, _ = command.process.communicate()
            seconds = command.seconds
        if command.process.returncode != 0:
            raise RuntimeError("gymctl data prepare failed; the reason is above")
        (made,) = json.loads(output)["files"]
        assert made["rows"] == rows
        return {
            "rows": rows,
            "bytes/row": round(path.stat().st_size / rows),
            "wall s": round(seconds, 1),
            "rows/s": round(rows / seconds),
            "peak PSS MiB": round(command.peak_mib),
        }


def view(rows: int) -> dict[str, Any]:
    """`gymctl rollouts view` of rollouts of 5 kB: from its start to the first page and to the whole index."""
    with tempfile.TemporaryDirectory(prefix="gymd-bench-") as folder:
        path = Path(folder, "rollouts.jsonl")
        write_rollouts(path, rows)
        with _running(_VIEW, folder) as command:
            assert command.process.stdout is not None
            url = json.loads(command.process.stdout.readline())["url"]
            found: dict[str, Any] = {"rows": rows, "MB": round(path.stat().st_size / 1e6)}
            found["listens s"] = round(command.seconds, 2)
            while not _get(url + _PAGE)["rows"]:
                time.sleep(_POLL_S)
            found["first page s"] = round(command.seconds, 2)
            slowest = 0.0
            while not _get(f"{url}api/state")["done"]:
                slowest = max(slowest, _time(url + _PAGE))
                time.sleep(_POLL_S)
            found["index s"] = round(command.seconds, 1)
            found["slowest page meanwhile s"] = round(slowest, 2)
            found["last page s"] = round(_time(f"{url}{_PAGE}&start={rows - 100}"), 2)
            found["sorted page s"] = round(_time(f"{url}{_PAGE}&sort=reward&desc=1"), 2)
            found["overview s"] = round(_time(f"{url}api/overview"), 2)
            time.sleep(2 * _SAMPLE_S)
        return found | {"peak PSS MiB": round(command.peak_mib)}


def _time(url: str) -> float:
    begin = time.perf_counter()
    _get(url)
    return time.perf_counter() - begin


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)

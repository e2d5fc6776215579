"""The process that makes the tasks: the environment's code, in a Python that has what it needs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from gymctl.errors import CliError
from gymctl.generate.generators import Generator, python_for

__all__ = ["Child", "Failed"]

# As gymd.sdk.generate has it.
_REPORT_MARK = b"\x1e"
# Not -m: the module would be there twice, by its name and as __main__, and with it its exceptions.
_RUNNER = ("-c", "from gymd.sdk.generate import main; main()")
_TAIL_LINES = 12


class Failed(CliError):
    """The environment made no tasks, or not all."""


class Child:
    """One request to a generator, as an iterator over the lines of its rows.

    Attributes:
        report: what it says at the end; set when the rows have ended.
    """

    def __init__(self, generator: Generator, request: Mapping[str, Any], *, debug: bool) -> None:
        self._generator = generator
        self._debug = debug
        self.report: dict[str, Any] = {}
        place = (
            {"module": generator.module}
            if generator.module
            else {"file": str(generator.folder / "generate.py")}
        )
        self._request = json.dumps({**place, **request}).encode()
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._process: subprocess.Popen[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        """The rows, each one line with its end; raises Failed."""
        process = self._process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(self._request)
            process.stdin.close()
        last = b""
        for line in process.stdout:
            if line.startswith(_REPORT_MARK):
                last = line[len(_REPORT_MARK) :]
                break
            yield line
        process.wait()
        self._read_report(last)

    def _start(self) -> subprocess.Popen[bytes]:
        python = python_for(self._generator)
        variables = {
            key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONHOME")
        }
        # The order of a set of texts depends on this number, and with it what a generator draws.
        variables["PYTHONHASHSEED"] = "0"
        return subprocess.Popen(
            [python, *_RUNNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What libraries print is of no use to people, unless it all fails.
            stderr=None if self._debug else self._noise,
            env=variables,
            # Ctrl-C is for this process, which ends the other.
            start_new_session=True,
        )

    def _read_report(self, line: bytes) -> None:
        try:
            self.report = json.loads(line)
        except ValueError:
            code = self._process.returncode if self._process is not None else None
            raise Failed(
                f"{self._generator.name}: the process that makes tasks ended with code {code}",
                "Run again with --debug.",
                self._last_words(),
            ) from None
        if missing := self.report.get("missing"):
            text = f"{self._generator.name} needs the package {missing}, which is not installed"
            raise Failed(text, self._generator.install)
        if wrong := self.report.get("error"):
            trace = self.report.get("traceback", "")
            if self._debug:
                sys.stderr.write(trace)
            hint = self.report.get("hint") or ("Run again with --debug." if trace else self._see_options())
            raise Failed(f"{self._generator.name}: {wrong}", hint)

    def _see_options(self) -> str:
        return f"See the options: gymctl data generate {self._generator.name} --describe"

    def _last_words(self) -> list[str]:
        self._noise.seek(0)
        return self._noise.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        self._noise.close()

"""One set-up of logging: lines for people on a terminal, JSON lines otherwise.

A log call is an event name plus fields: `log.info("host_started", extra={"pid": 7})`.
"""

from __future__ import annotations

import datetime
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import orjson

__all__ = ["JsonFormatter", "PeopleFormatter", "setup_host_logging", "setup_logging"]

# What every LogRecord has; all else came by `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _when(record: logging.LogRecord) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(record.created, datetime.UTC)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line: dict[str, Any] = {
            "time": _when(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class PeopleFormatter(logging.Formatter):
    """Time, level, event and fields, in colour if the terminal has it; with `names` the logger too."""

    def __init__(self, *, colour: bool, names: bool = False) -> None:
        super().__init__()
        self._colour = colour
        self._names = names

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        level = f"{record.levelname.lower():7}"
        if self._colour:
            level = f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
        fields = "".join(f" {key}={value}" for key, value in _fields(record).items())
        name = f"{record.name} " if self._names else ""
        text = f"{_when(record).astimezone():%H:%M:%S} {level} {name}{record.getMessage()}{fields}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def setup_logging(level: str, file: Path | None = None, stream: TextIO | None = None) -> None:
    """Sends all logging to a file (JSON), or to `stream`, by default stderr.

    Args:
        level: debug, info, warning or error.
        file: is appended to; its folder must exist.
        stream: JSON unless it is a terminal; NO_COLOR and FORCE_COLOR decide about colour.
    """
    if file is not None:
        handler: logging.Handler = logging.FileHandler(file, encoding="utf-8")
        handler.setFormatter(JsonFormatter())
    else:
        target = stream or sys.stderr
        handler = logging.StreamHandler(target)
        terminal = target.isatty() or bool(os.environ.get("FORCE_COLOR"))
        colour = terminal and not os.environ.get("NO_COLOR")
        handler.setFormatter(PeopleFormatter(colour=colour) if terminal else JsonFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    # Libraries speak of themselves at levels that are not ours.
    for name in ("asyncio", "grpc"):
        logging.getLogger(name).setLevel(logging.WARNING)


def setup_host_logging(level: str) -> None:
    """Sends the logging of a process that serves servers to stderr: what `gymctl servers logs` shows.

    With the loggers' names, because several servers share a process.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(PeopleFormatter(colour=False, names=True))
    logging.basicConfig(level=level.upper(), handlers=[handler])

"""Log lines: JSON for machines, one line for people."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gymd.logs import PeopleFormatter, setup_logging


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Puts the root logger back as it was."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    for handler in handlers:
        logger.removeHandler(handler)
    yield
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.handlers[:] = handlers
    logger.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_json_with_the_fields() -> None:
    stream = io.StringIO()
    setup_logging("info", stream=stream)
    logging.getLogger("gymd.x").info("host_started", extra={"pid": 7, "path": Path("/a")})
    logging.getLogger("gymd.x").debug("hidden")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("host_started", "info", "gymd.x")
    assert (line["pid"], line["path"]) == (7, "/a")
    assert line["time"].endswith("Z")


def test_an_exception_stays_on_its_line() -> None:
    stream = io.StringIO()
    setup_logging("info", stream=stream)
    try:
        raise ValueError("oops")
    except ValueError:
        logging.getLogger("gymd.x").exception("broke")
    assert "ValueError: oops" in json.loads(stream.getvalue())["exception"]


def test_a_terminal_gets_a_line_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    setup_logging("debug", stream=stream)
    logging.getLogger("gymd.x").warning("host_ended", extra={"code": 9})
    assert "\x1b[33m" in stream.getvalue()
    assert stream.getvalue().endswith("host_ended code=9\n")


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    setup_logging("info", stream=stream)
    logging.getLogger("gymd.x").info("daemon_started")
    assert "\x1b" not in stream.getvalue()
    assert "daemon_started" in stream.getvalue()


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "gymd.log"
    for event in ("first", "second"):
        setup_logging("info", file)
        logging.getLogger("gymd.x").info(event)
    assert [json.loads(line)["event"] for line in file.read_text().splitlines()] == ["first", "second"]


def test_people_see_exceptions_too() -> None:
    record = logging.makeLogRecord({"msg": "broke", "levelname": "ERROR", "exc_info": None})
    assert "broke" in PeopleFormatter(colour=False).format(record)

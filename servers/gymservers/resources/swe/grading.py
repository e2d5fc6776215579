"""Grades the output of tests by SWE-bench's rule; runs in worker processes.

An instance is resolved if all tests of FAIL_TO_PASS pass now and all of PASS_TO_PASS still do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["PARSERS", "Grade", "Statuses", "grade", "grade_statuses", "parse_pytest", "parse_unittest"]

Statuses = dict[str, str]
"""PASSED, FAILED, ERROR, SKIPPED or XFAIL by the name of the test."""

_PASSING = ("PASSED", "XFAIL")
# Of two results of one test the worse one counts: code under test can print a better one.
_BADNESS = {"XFAIL": 0, "PASSED": 1, "SKIPPED": 2, "FAILED": 3, "ERROR": 4}


@dataclass(frozen=True)
class Grade:
    """The verdict on one run of the tests.

    Attributes:
        verdict: resolved, unresolved, no_test_output or contradictory (no test failed, yet the runner did).
        tests_status: names of tests: {"FAIL_TO_PASS": {"success": [...], "failure": [...]}, ...}.
    """

    verdict: str
    tests_status: dict[str, dict[str, list[str]]]


def grade(
    log: str, exit_code: int, parser: str, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]
) -> Grade:
    """Grades by a parser of this module.

    Args:
        log: what the test command printed.
        exit_code: of the test command.
        parser: pytest or unittest.
    """
    return grade_statuses(PARSERS[parser](log), exit_code, fail_to_pass, pass_to_pass)


def grade_statuses(
    statuses: Mapping[str, str],
    exit_code: int,
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    *,
    fail_only: bool = False,
) -> Grade:
    """Grades what was read from a log.

    Args:
        fail_only: the log names failed tests only, so that a test it does not name has passed.
    """
    if not statuses and not (fail_only and exit_code == 0):
        return Grade("no_test_output", {})
    if contradictory(statuses, exit_code):
        return Grade("contradictory", {})

    def split(names: Sequence[str], good: Sequence[str]) -> dict[str, list[str]]:
        absent = "PASSED" if fail_only else "FAILED"
        success = [name for name in names if statuses.get(name, absent) in good]
        return {"success": success, "failure": [name for name in names if name not in set(success)]}

    report = {
        "FAIL_TO_PASS": split(fail_to_pass, _PASSING),
        # A test that is skipped now is not broken; one that should be repaired is not, if it is skipped.
        "PASS_TO_PASS": split(pass_to_pass, (*_PASSING, "SKIPPED")),
    }
    failed = any(part["failure"] for part in report.values())
    # Without any test nothing was shown.
    resolved = not failed and any(part["success"] for part in report.values())
    return Grade("resolved" if resolved else "unresolved", report)


def contradictory(statuses: Mapping[str, str], exit_code: int) -> bool:
    """Whether no test failed and the command that ran them did: the log does not tell what happened."""
    return bool(exit_code and statuses and not {"FAILED", "ERROR"} & set(statuses.values()))


def _worst(results: Iterator[tuple[str, str]]) -> Statuses:
    statuses: Statuses = {}
    for name, status in results:
        if name not in statuses or _BADNESS[status] > _BADNESS[statuses[name]]:
            statuses[name] = status
    broken = {name for name, status in statuses.items() if status == "ERROR"}
    for name in statuses:
        # Nothing of a file that could not be loaded was run, whatever it printed meanwhile.
        if any(name.startswith((f"{place}::", f"{place}.")) for place in broken):
            statuses[name] = "ERROR"
    return statuses


# ---- pytest -rA

_SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
_PYTEST_LINE = re.compile(r"^(PASSED|FAILED|ERROR|XFAIL) (.+)$", re.MULTILINE)


def parse_pytest(log: str) -> Statuses:
    """Reads the short summary that `pytest -rA` prints at its end."""
    headers = list(_SUMMARY.finditer(log))
    if not headers:
        return {}
    return _worst(_pytest_results(log[headers[-1].end() :]))


def _pytest_results(summary: str) -> Iterator[tuple[str, str]]:
    for found in _PYTEST_LINE.finditer(summary):
        status, text = found.groups()
        # What follows the dash is the reason; parameters of a test may hold one too, then inside brackets.
        name, dash, _ = text.partition("] - ") if "[" in text.partition(" - ")[0] else text.partition(" - ")
        yield (f"{name}]" if dash == "] - " else name).strip(), status


# ---- python -m unittest -v

_UNITTEST = {
    "ok": "PASSED",
    "FAIL": "FAILED",
    "ERROR": "ERROR",
    "expected failure": "XFAIL",
    "unexpected success": "FAILED",
}
_STARTED = re.compile(r"^([\w.]+) \(([\w.<>]+)\)")
_ENDED = re.compile(r"(?:^| \.\.\. |\.\.\. )(ok|FAIL|ERROR|expected failure|unexpected success|skipped .*)$")
_SUMMED = re.compile(r"^(FAIL|ERROR): ([\w.]+) \(([\w.<>]+)\)")
_NOT_LOADED = "unittest.loader._FailedTest."


def parse_unittest(log: str) -> Statuses:
    """Reads what `python -m unittest -v` prints; tests are named module.Class.method."""
    return _worst(_unittest_results(log))


def _unittest_results(log: str) -> Iterator[tuple[str, str]]:
    current = ""
    for line in log.split("\n"):
        if summed := _SUMMED.match(line):
            yield _unittest_name(summed[2], summed[3]), _UNITTEST[summed[1]]
            continue
        if started := _STARTED.match(line):
            current = _unittest_name(started[1], started[2])
        # The result may come lines later: after a docstring, or after what the test printed.
        ended = _ENDED.search(line)
        if ended and current:
            yield current, _UNITTEST.get(ended[1], "SKIPPED")
            current = ""


def _unittest_name(method: str, place: str) -> str:
    """Python 3.11 repeats the method behind the class; what cannot be loaded is called by its module."""
    name = place if place.endswith(f".{method}") else f"{place}.{method}"
    return name.removeprefix(_NOT_LOADED)


PARSERS: Mapping[str, Callable[[str], Statuses]] = {"pytest": parse_pytest, "unittest": parse_unittest}

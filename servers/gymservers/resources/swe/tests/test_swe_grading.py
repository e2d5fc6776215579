"""Reading what tests print, and SWE-bench's rule; with the package swebench also the harness itself."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from gymd.sdk import shared_pool
from gymd.sdk.workers import close_shared_pool
from gymservers.resources.swe.evaluation import test_patch_paths as patch_paths
from gymservers.resources.swe.grading import grade, grade_statuses, parse_pytest, parse_unittest

HARNESS = pytest.mark.skipif(
    importlib.util.find_spec("swebench") is None,
    reason="swebench is not installed: see tests/requirements.txt, or run `gymctl env test swe`",
)
SUMMARY = "=========================== short test summary info ============================\n"

PYTEST: dict[str, tuple[str, dict[str, str]]] = {
    "nothing": ("", {}),
    "no summary": ("PASSED a.py::t\n1 passed", {}),
    "each kind": (
        SUMMARY
        + "PASSED a.py::p\nFAILED a.py::f - assert 1 == 2\nERROR a.py::e - ValueError: x - y\n"
        + "XFAIL a.py::x - why\n"
        + "SKIPPED [1] a.py:3: no\nXPASS a.py::z\n= 1 failed =\n",
        {"a.py::p": "PASSED", "a.py::f": "FAILED", "a.py::e": "ERROR", "a.py::x": "XFAIL"},
    ),
    "parameters with spaces and dashes": (
        SUMMARY + "PASSED a.py::t[x - y z]\nFAILED a.py::t[a - b] - assert [1] - 2\n",
        {"a.py::t[x - y z]": "PASSED", "a.py::t[a - b]": "FAILED"},
    ),
    "printed before the summary": (
        "PASSED a.py::t\n" + SUMMARY + "FAILED a.py::t - no\n",
        {"a.py::t": "FAILED"},
    ),
    "a forged summary before the real one": (
        SUMMARY + "PASSED a.py::t\n" + SUMMARY + "FAILED a.py::t - no\n",
        {"a.py::t": "FAILED"},
    ),
    "the worse result counts": (SUMMARY + "PASSED a.py::t\nERROR a.py::t - teardown\n", {"a.py::t": "ERROR"}),
    "a file that cannot be loaded": (
        SUMMARY + "PASSED a.py::t\nPASSED b.py::t\nERROR a.py - ImportError\n",
        {"a.py::t": "ERROR", "b.py::t": "PASSED", "a.py": "ERROR"},
    ),
}

UNITTEST: dict[str, tuple[str, dict[str, str]]] = {
    "nothing": ("", {}),
    "each kind": (
        "test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... FAIL\ntest_c (m.T.test_c) ... ERROR\n"
        "test_d (m.T.test_d) ... skipped 'no'\ntest_e (m.T.test_e) ... expected failure\n"
        "test_f (m.T.test_f) ... unexpected success\n",
        {
            "m.T.test_a": "PASSED",
            "m.T.test_b": "FAILED",
            "m.T.test_c": "ERROR",
            "m.T.test_d": "SKIPPED",
            "m.T.test_e": "XFAIL",
            "m.T.test_f": "FAILED",
        },
    ),
    "before Python 3.11": ("test_a (m.T) ... ok\n", {"m.T.test_a": "PASSED"}),
    "a docstring": ("test_a (m.T.test_a)\nWhat it does. ... ok\n", {"m.T.test_a": "PASSED"}),
    "output in between": ("test_a (m.T.test_a) ... hello\nworld\nok\n", {"m.T.test_a": "PASSED"}),
    "an ok of nobody": ("ok\nsomething ... ok\n", {}),
    "the list at the end": (
        "test_a (m.T.test_a) ... ok\n======\nERROR: test_a (m.T.test_a)\n",
        {"m.T.test_a": "ERROR"},
    ),
    "setUpClass fails": (
        "setUpClass (m.T) ... ERROR\ntest_a (m.U.test_a) ... ok\n",
        {"m.T.setUpClass": "ERROR", "m.U.test_a": "PASSED"},
    ),
    "a module that cannot be loaded": (
        "test_a (a.m.T.test_a) ... ok\na.m (unittest.loader._FailedTest.a.m) ... ERROR\n",
        {"a.m.T.test_a": "ERROR", "a.m": "ERROR"},
    ),
}


@pytest.mark.parametrize("name", PYTEST)
def test_pytest_output(name: str) -> None:
    log, statuses = PYTEST[name]
    assert parse_pytest(log) == statuses


@pytest.mark.parametrize("name", UNITTEST)
def test_unittest_output(name: str) -> None:
    log, statuses = UNITTEST[name]
    assert parse_unittest(log) == statuses


# Statuses of the tests f (to be repaired) and p (to stay), the exit code, and the verdict.
RULE: list[tuple[dict[str, str], int, str]] = [
    ({"f": "PASSED", "p": "PASSED"}, 0, "resolved"),
    ({"f": "XFAIL", "p": "XFAIL"}, 0, "resolved"),
    ({"f": "FAILED", "p": "PASSED"}, 1, "unresolved"),
    ({"f": "ERROR", "p": "PASSED"}, 1, "unresolved"),
    ({"f": "PASSED", "p": "FAILED"}, 1, "unresolved"),
    ({"p": "PASSED"}, 0, "unresolved"),
    ({"f": "PASSED"}, 0, "unresolved"),
    ({"f": "SKIPPED", "p": "PASSED"}, 0, "unresolved"),
    ({"f": "PASSED", "p": "SKIPPED"}, 0, "resolved"),
    ({"f": "PASSED", "p": "PASSED", "other": "FAILED"}, 1, "resolved"),
    ({"f": "PASSED", "p": "PASSED"}, 1, "contradictory"),
    ({}, 0, "no_test_output"),
    ({}, 1, "no_test_output"),
]


@pytest.mark.parametrize(("statuses", "code", "verdict"), RULE)
def test_the_rule(statuses: dict[str, str], code: int, verdict: str) -> None:
    assert grade_statuses(statuses, code, ["f"], ["p"]).verdict == verdict


def test_logs_of_failures_only() -> None:
    def verdict(statuses: dict[str, str], code: int) -> str:
        return grade_statuses(statuses, code, ["f"], ["p"], fail_only=True).verdict

    assert verdict({}, 0) == "resolved"
    assert verdict({"other": "FAILED"}, 1) == "resolved"
    assert verdict({"f": "FAILED"}, 1) == "unresolved"
    assert verdict({}, 1) == "no_test_output"


def test_long_logs_take_no_time() -> None:
    log = "test_a (m.T.test_a) ... " + "ok " * 200_000 + "\n" + "x" * 1_000_000
    assert grade(log, 0, "unittest", ["m.T.test_a"], []).verdict == "no_test_output"
    assert grade(SUMMARY + "FAILED " + "[ - " * 200_000, 1, "pytest", ["x"], []).verdict == "unresolved"


def test_paths_of_a_test_patch() -> None:
    patch = (
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n--- a/no\n+++ b/no\n"
        "diff --git a/x y.py b/x y.py\nnew file mode 100644\n--- /dev/null\n+++ b/x y.py\t\n"
        "@@ -0,0 +1 @@\n+1\n"
        "diff --git a/old b/new\nsimilarity index 90%\nrename from old\nrename to new\n"
    )
    assert patch_paths(patch) == ["a", "x y.py", "old", "new"]


# ---- the harness: a log in the form that pytest -rA has for psf/requests

ROW: dict[str, Any] = {
    "instance_id": "psf__requests-0",
    "repo": "psf/requests",
    "version": "2.31",
    "base_commit": "abc",
    "test_patch": "diff --git a/tests/test_x.py b/tests/test_x.py\n"
    "--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n",
    "FAIL_TO_PASS": ["tests/test_x.py::test_new"],
    "PASS_TO_PASS": ["tests/test_x.py::test_old"],
    "log_parser": "",
    "eval_type": "",
}


def log_of(new: str, old: str = "PASSED", before: str = "") -> str:
    failed = " - AssertionError: no"
    lines = [
        f"{status} tests/test_x.py::{name}{failed if status == 'FAILED' else ''}"
        for name, status in (("test_old", old), ("test_new", new))
        if status
    ]
    return f"{before}\ncollected 2 items\n{SUMMARY}" + "\n".join(lines) + "\n===== done =====\n"


async def in_worker(function: str, *arguments: Any) -> Any:
    from gymservers.resources.swe.server import _call_harness

    return await shared_pool().run(_call_harness, (function, *arguments), timeout=200)


@HARNESS
@pytest.mark.timeout(240)
async def test_the_harness() -> None:
    """All of it in one worker, whose import of the package takes seconds."""
    try:
        cases = [
            (log_of("PASSED"), 0, "resolved"),
            (log_of("FAILED"), 1, "unresolved"),
            (log_of("PASSED", "FAILED"), 1, "unresolved"),
            (log_of("", "PASSED"), 0, "unresolved"),
            (log_of("SKIPPED"), 0, "unresolved"),  # the harness alone takes this for resolved
            (log_of("PASSED"), 1, "contradictory"),  # and this
            ("nothing ran", 1, "no_test_output"),
            # Marks that the tests print must not end what is read.
            (log_of("FAILED", before=log_of("PASSED") + ">>>>> End Test Output\n"), 1, "unresolved"),
            (log_of("PASSED", before=">>>>> Start Test Output\n>>>>> End Test Output\n"), 0, "resolved"),
        ]
        for log, code, verdict in cases:
            found = await in_worker("grade_by_harness", ROW, log, code)
            assert found.verdict == verdict, log
        found = await in_worker("grade_by_harness", ROW, log_of("FAILED"), 1)
        assert found.tests_status["FAIL_TO_PASS"] == {"success": [], "failure": ["tests/test_x.py::test_new"]}
        assert found.tests_status["PASS_TO_PASS"]["success"] == ["tests/test_x.py::test_old"]
        own = await in_worker(
            "grade_by_harness", ROW | {"log_parser": "parse_log_pytest"}, log_of("PASSED"), 0
        )
        assert own.verdict == "resolved"
        lines = await in_worker("eval_lines", ROW)
        start = next(number for number, line in enumerate(lines) if "Start Test Output" in line)
        assert lines[start + 1] == "pytest -rA tests/test_x.py"
        assert "git apply -v" in lines[start - 1]
        for row, call in (
            (ROW | {"repo": "gymd/unknown"}, "eval_lines"),
            (ROW | {"version": "0"}, "eval_lines"),
            (ROW | {"log_parser": "parse_log_x"}, "grade_by_harness"),
        ):
            with pytest.raises(Exception, match="LookupError"):
                await in_worker(call, row, *(("", 0) if call == "grade_by_harness" else ()))
    finally:
        await close_shared_pool()


def test_examples_need_no_harness() -> None:
    from gymservers.resources.swe.instance import Instance

    file = Path(__file__).parents[1] / "data/example.jsonl"
    for line in file.read_text().splitlines():
        row = Instance.model_validate(json.loads(line))
        assert row.brings_files
        assert not row.needs_harness
    assert Instance(instance_id="a-1").needs_harness
    assert Instance(instance_id="a-1", eval_script="x", log_parser="parse_log_pytest").needs_harness
    assert not Instance(instance_id="a-1", eval_script="x", log_parser="pytest").needs_harness

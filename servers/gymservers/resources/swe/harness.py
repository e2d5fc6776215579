"""What only the package swebench knows: how to test its repositories, and how to read the output.

Runs in worker processes: its import takes seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from gymservers.resources.swe.grading import Grade, contradictory, grade_statuses

__all__ = ["eval_lines", "grade_by_harness"]


def _import_lightly() -> None:
    """Imports the package without the clients of containers and clouds that its own __init__ brings along.

    They take half a minute on a busy machine and nothing here needs them. This process is a worker's, so
    nobody else sees the difference.
    """
    spec = importlib.util.find_spec("swebench")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("the package swebench is not installed: pip install swebench==4.1.0")
    for name in ("swebench", "swebench.harness"):
        if name not in sys.modules:
            module = types.ModuleType(name)
            below = name.split(".")[1:]
            module.__path__ = [str(Path(place, *below)) for place in spec.submodule_search_locations]
            sys.modules[name] = module


_import_lightly()
_constants: Any = importlib.import_module("swebench.harness.constants")
_grading: Any = importlib.import_module("swebench.harness.grading")
_parsers: Any = importlib.import_module("swebench.harness.log_parsers")
_scripts: Any = importlib.import_module("swebench.harness.test_spec.create_scripts")
_spec: Any = importlib.import_module("swebench.harness.test_spec.test_spec")

_LANGUAGES = ("python", "javascript", "c", "go", "java", "php", "ruby", "rust")


def eval_lines(row: dict[str, Any]) -> list[str]:
    """The commands by which the harness tests an instance.

    Args:
        row: instance_id, repo, version, base_commit, test_patch, FAIL_TO_PASS, PASS_TO_PASS.

    Raises:
        LookupError: the harness does not know this repository or version.
    """
    versions = _constants.MAP_REPO_VERSION_TO_SPECS.get(row["repo"])
    if versions is None or row["version"] not in versions:
        raise LookupError(f"swebench does not know version {row['version']} of {row['repo']!r}")
    # make_test_spec would do, but it also asks GitHub for the requirements of images to be built.
    specs = versions[row["version"]]
    lines = _scripts.make_eval_script_list(
        row, specs, "testbed", "/testbed", row["base_commit"], row["test_patch"]
    )
    return [str(line) for line in lines]


def grade_by_harness(row: dict[str, Any], log: str, exit_code: int) -> Grade:
    """Grades by the harness: its parser for the repository (or the row's) and its report."""
    if row.get("log_parser"):
        statuses = _parser(row["log_parser"])(log, None)
        fail_only = row.get("eval_type") == "fail_only"
        return grade_statuses(
            statuses, exit_code, row["FAIL_TO_PASS"], row["PASS_TO_PASS"], fail_only=fail_only
        )
    for marker in (_constants.START_TEST_OUTPUT, _constants.END_TEST_OUTPUT):
        log = log.replace(marker, "")  # the tests printed it: it must not end what is read
    with tempfile.TemporaryDirectory(prefix="gymd-swe-log-") as folder:
        path = Path(folder, "test_output.txt")
        path.write_text(
            f"{_constants.START_TEST_OUTPUT}\n{log}\n{_constants.END_TEST_OUTPUT}\n",
            encoding="utf-8",
            errors="replace",
        )
        return _report(row, str(path), exit_code)


def _report(row: dict[str, Any], path: str, exit_code: int) -> Grade:
    spec = _test_spec(row)
    statuses, _ = _grading.get_logs_eval(spec, path)
    if contradictory(statuses, exit_code):
        return Grade("contradictory", {})
    prediction = {
        _constants.KEY_INSTANCE_ID: spec.instance_id,
        _constants.KEY_PREDICTION: "a patch",  # that one was applied is known here
    }
    report = _grading.get_eval_report(spec, prediction, path, include_tests_status=True)[spec.instance_id]
    found = report.get("tests_status")
    if found is None or (not statuses and row["repo"] not in _constants.FAIL_ONLY_REPOS):
        return Grade("no_test_output", {})
    status = {name: found[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    # A test that is skipped stands in neither list; if it was to be repaired, that is no success.
    repaired = set(row["FAIL_TO_PASS"]) <= set(status["FAIL_TO_PASS"]["success"])
    shown = any(names for part in status.values() for names in part.values())
    resolved = report["resolved"] and repaired and shown
    return Grade("resolved" if resolved else "unresolved", status)


def _test_spec(row: dict[str, Any]) -> Any:
    return _spec.TestSpec(
        instance_id=row["instance_id"],
        repo=row["repo"],
        version=row["version"],
        repo_script_list=[],
        eval_script_list=[],
        env_script_list=[],
        arch="x86_64",
        FAIL_TO_PASS=list(row["FAIL_TO_PASS"]),
        PASS_TO_PASS=list(row["PASS_TO_PASS"]),
        language=_constants.MAP_REPO_TO_EXT[row["repo"]],
        docker_specs={},
        namespace=None,
    )


def _parser(name: str) -> Any:
    for language in _LANGUAGES:
        module = importlib.import_module(f"{_parsers.__name__}.{language}")
        if name.startswith("parse_log_") and hasattr(module, name):
            return getattr(module, name)
    raise LookupError(f"swebench has no log parser {name!r}")

"""Tests a patch in a fresh container: applies it, puts the tests in place, runs them."""

from __future__ import annotations

import io
import re
import secrets
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gymd.errors import GymdError, error
from gymservers.resources.swe.instance import Instance
from gymservers.resources.swe.runtimes import Box, Finished

__all__ = ["TestRun", "Tried", "prepare", "test_patch_paths", "try_patch", "working_diff"]

SETUP_TIMEOUT_S = 300.0
"""For each step that comes before the tests."""
START_MARK, END_MARK = ">>>>> Start Test Output", ">>>>> End Test Output"
_MARK = re.compile(rf"(?:echo|:) [\"']?({START_MARK}|{END_MARK})[\"']?")
_COMMIT = (
    "git init --quiet . && git add --all --force"
    " && git -c user.name=gymd -c user.email=gymd commit --quiet --message start"
)
# The harness tries these in turn, each on a clean tree.
_APPLY = """
patches=$(mktemp -d) && tar --extract --file - --directory "$patches" || exit 1
model=$patches/model.diff clean='git checkout --quiet -- . && git clean --force -d --quiet'
git apply --verbose "$model" ||
    { eval "$clean"; git apply --verbose --reject "$model"; } ||
    { eval "$clean"; patch --batch --forward --fuzz=5 -p1 --input="$model"; } ||
    exit %(does_not_apply)d
"""
_RESTORE = "git checkout --quiet HEAD -- %(path)s 2>/dev/null || rm --recursive --force -- %(path)s\n"
_APPLY_TESTS = 'git apply --verbose "$patches/tests.diff"\n'
_DOES_NOT_APPLY = 86
"""Exit code that says so."""
# What Python leaves behind is nobody's change.
_NOT_CACHES = "':(exclude,glob)**/__pycache__/**' ':(exclude,glob)**/*.pyc'"


@dataclass(frozen=True)
class TestRun:
    """What the tests printed, and the exit code of the command that ran them."""

    __test__ = False  # not for pytest

    log: str
    exit_code: int


@dataclass(frozen=True)
class Tried:
    """What became of a patch.

    Attributes:
        verdict: "" if the tests ran to their end; else patch_does_not_apply, timed_out, killed or
            no_test_output.
        run: what they printed then.
    """

    verdict: str
    run: TestRun | None = None


async def prepare(box: Box, instance: Instance) -> str:
    """Puts the row's files into a container, if it brings any; answers the commit that it starts from.

    Raises:
        Internal: there is no repository, or git or tar is missing in the image (SERVER_CODE_FAILED).
    """
    steps = ["git rev-parse HEAD"]
    data = None
    if instance.files:
        steps = ["tar --extract --file -", _COMMIT, *steps]
        data = _archive({name: content.encode(errors="replace") for name, content in instance.files.items()})
    finished = await box.run(" && ".join(steps), timeout=SETUP_TIMEOUT_S, stdin=data)
    if finished.exit_code:
        raise _failed("find or make the repository", finished)
    return finished.output.decode(errors="replace").split()[-1]


def _archive(files: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


async def working_diff(box: Box, base: str) -> bytes | None:
    """All that differs from the commit that it started from; None: git fails, or it is too much."""
    script = (
        "git add --all && git -c core.fileMode=false diff --cached --binary --no-color"
        f" --no-ext-diff --no-textconv {shlex.quote(base)} -- . {_NOT_CACHES}"
    )
    finished = await box.run(script, timeout=SETUP_TIMEOUT_S)
    return finished.output if finished.exit_code == 0 else None


async def try_patch(
    box: Box, instance: Instance, lines: Sequence[str] | None, patch: bytes, timeout: float
) -> Tried:
    """Applies a patch to a fresh container and runs the tests.

    Args:
        lines: the commands of an evaluation script, which also puts the tests in place; None: the row's
            test_command, before which that is done here.
        timeout: of the tests, in seconds.

    Raises:
        GymdError: the container broke, or the row's own test patch does not apply.
    """
    if not await _patched(box, instance, patch, with_tests=lines is None):
        return Tried("patch_does_not_apply")
    if lines is None:
        lines = (f": '{START_MARK}'", instance.test_command, f": '{END_MARK}'")
    key = secrets.token_hex(16)
    finished = await box.run(_marked(lines, key), timeout=timeout)
    if finished.killed:
        return Tried("timed_out" if finished.timed_out else "killed")
    return _between_marks(finished, key)


async def _patched(box: Box, instance: Instance, patch: bytes, *, with_tests: bool) -> bool:
    """Applies a patch, then undoes what it did to the files of the row's test patch; whether it applies.

    Files that the test patch adds are removed, so that it can be applied: here, or by a later script.
    """
    script = _APPLY % {"does_not_apply": _DOES_NOT_APPLY}
    for path in test_patch_paths(instance.test_patch):
        script += _RESTORE % {"path": shlex.quote(path)}
    tests = instance.test_patch.encode(errors="replace")
    if with_tests and tests.strip():
        script += _APPLY_TESTS
    patches = _archive({"model.diff": _ended(patch), "tests.diff": _ended(tests)})
    finished = await box.run(script, timeout=SETUP_TIMEOUT_S, stdin=patches)
    if finished.exit_code == _DOES_NOT_APPLY:
        return False
    if finished.exit_code:
        raise _failed(f"apply the test patch of {instance.instance_id}", finished)
    return True


def _ended(patch: bytes) -> bytes:
    return patch if patch.endswith(b"\n") else patch + b"\n"


def test_patch_paths(patch: str) -> list[str]:
    """The files that a patch is about, the old names of renamed ones included."""
    found: dict[str, None] = {}
    in_header = True
    for line in patch.split("\n"):
        if line.startswith("diff --git ") or (in_header and line.startswith("--- ")):
            in_header = True
        elif line.startswith("@@"):
            in_header = False
        if in_header and (name := re.match(r"(?:--- a|\+\+\+ b|rename from |rename to )/?([^\t]+)", line)):
            found[name[1]] = None
    return list(found)


test_patch_paths.__test__ = False  # type: ignore[attr-defined]


def _marked(lines: Sequence[str], key: str) -> str:
    """The script with marks that nothing but it can print, and the exit code of the tests."""
    script = ["set -uo pipefail"]
    for line in lines:
        mark = _MARK.fullmatch(line.strip())
        if mark is None:
            script.append(line)
        elif mark[1] == START_MARK:
            script.append(f"echo {key}-begin")
        else:
            script.append(f"gymd_exit_code=$?; echo; echo {key}-end $gymd_exit_code")
    return "\n".join(script) + "\n"


def _between_marks(finished: Finished, key: str) -> Tried:
    text = finished.output.decode(errors="replace").replace("\r\n", "\n")
    _, begun, rest = text.rpartition(f"{key}-begin\n")
    log, ended, code = rest.partition(f"\n{key}-end ")
    if not begun or not ended:
        return Tried("no_test_output")
    return Tried("", TestRun(log, int(code.split()[0])))


def _failed(what: str, finished: Finished) -> GymdError:
    why = " ".join((finished.killed + " " + finished.output.decode(errors="replace")).split())[-500:]
    text = f"could not {what} in the container (exit code {finished.exit_code}): {why}"
    return error("SERVER_CODE_FAILED", text, exception="container", why=why)

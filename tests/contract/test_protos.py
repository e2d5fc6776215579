"""The contract's own hygiene: buf lint (with comments on everything), format and breaking changes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.sources import ROOT

BREAKING_FOUND = 100
"""Exit code of `buf breaking` when it ran and found breaking changes."""


def buf(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the buf of this environment (the wheel buf-bin) in the repository's root."""
    program = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
    assert program, "buf is missing: pip install buf-bin (part of the extra dev)"
    return subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=50)


def git(*arguments: str) -> str | None:
    """What a git command prints, or None where it fails."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30)
    return done.stdout.strip() if done.returncode == 0 else None


def test_lint() -> None:
    done = buf("lint")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_format() -> None:
    done = buf("format", "-d", "--exit-code")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_no_breaking_change() -> None:
    if not (ROOT / ".git").exists() or git("rev-parse", "HEAD") is None:
        pytest.skip("no git history here to compare the contract with")
    tag = git("describe", "--tags", "--abbrev=0", "--match", "v*")
    if tag:
        done = buf("breaking", "--against", f".git#tag={tag}")
        assert done.returncode == 0, f"breaking changes since {tag}:\n{done.stdout}{done.stderr}"
        return
    # Before the first release the contract may still change: advisory, but the check itself must work.
    before = git("rev-parse", "HEAD~1") or git("rev-parse", "HEAD")
    done = buf("breaking", "--against", f".git#ref={before}")
    assert done.returncode in (0, BREAKING_FOUND), done.stdout + done.stderr


def test_every_file_of_the_contract_is_in_the_one_package() -> None:
    for path in (ROOT / "protos").rglob("*.proto"):
        text = path.read_text(encoding="utf-8")
        assert path.parent == ROOT / "protos/gymapi/v1", path
        assert "\npackage gymapi.v1;\n" in text, path
        assert text.count("\nservice ") == (1 if path.stem.endswith("_service") else 0), path

"""What the wheel holds: the four packages with their data, and nothing under a generic name."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.contract.sources import ROOT

TOP_LEVEL = {"gymd", "gymapi", "gymservers", "gymctl"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in the wheel that .ci/run built, or in a freshly built one."""
    if built := os.environ.get("GYMD_WHEEL"):
        return names_in(Path(built))
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed (pip install hatchling): the wheel cannot be built offline")
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=55
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("gymd-*.whl")
    return names_in(path)


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def metadata_free(names: list[str]) -> list[str]:
    return [name for name in names if ".dist-info/" not in name]


def test_only_our_packages_are_at_the_top(wheel: list[str]) -> None:
    assert {name.partition("/")[0] for name in metadata_free(wheel)} == TOP_LEVEL


def test_no_tests_and_no_leftovers_are_packed(wheel: list[str]) -> None:
    odd = [
        name
        for name in wheel
        if {"tests", "__pycache__", "node_modules", ".venv"} & set(Path(name).parts) or name.endswith(".pyc")
    ]
    assert odd == []


def test_generated_code_and_typing_markers_are_packed(wheel: list[str]) -> None:
    wanted = {"gymapi/py.typed", "gymd/py.typed", "gymapi/v1/types.py", "gymapi/v1/types_google.py"}
    for path in (ROOT / "protos/gymapi/v1").glob("*.proto"):
        wanted |= {f"gymapi/v1/{path.stem}_pb2.py", f"gymapi/v1/{path.stem}_pb2.pyi"}
        if path.stem.endswith("_service"):
            wanted.add(f"gymapi/v1/{path.stem}_pb2_grpc.py")
    assert wanted - set(wheel) == set()


def test_every_server_is_packed_with_its_files(wheel: list[str]) -> None:
    root = ROOT / "servers"
    servers = sorted(path.parent for path in root.glob("gymservers/*/*/server.py"))
    assert servers
    wanted = {
        path.relative_to(root).as_posix()
        for folder in servers
        for path in folder.rglob("*")
        if path.is_file() and not {"tests", "__pycache__"} & set(path.relative_to(folder).parts)
    }
    assert wanted - set(wheel) == set()


def test_the_commands_and_the_licence_are_there(wheel: list[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)
    assert any(name.endswith(".dist-info/entry_points.txt") for name in wheel)

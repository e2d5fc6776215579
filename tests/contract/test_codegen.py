"""gen/gymapi against protos/ and against the version floors of pyproject.toml."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.contract.sources import ROOT

GENERATED = ROOT / "gen" / "gymapi" / "v1"
NOT_PINNED = 2
"""Exit code of generate.py when the pinned generators are not installed."""


def requirements(*extras: str) -> dict[str, Requirement]:
    """The requirements of pyproject.toml by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def floor(requirement: Requirement) -> Version:
    """The lowest version that a requirement admits."""
    (lowest,) = [spec.version for spec in requirement.specifier if spec.operator in (">=", "==")]
    return Version(lowest)


def stamps(pattern: str, glob: str) -> set[Version]:
    """The versions that the generator wrote into its output; every file must carry one."""
    found = set()
    for path in GENERATED.glob(glob):
        match = re.search(pattern, path.read_text(encoding="utf-8"), re.M)
        assert match, f"{path.name} carries no stamp"
        found.add(Version(match[1]))
    assert found, f"no {glob} in gen/gymapi/v1"
    return found


def test_generated_code_matches_the_protos() -> None:
    # The generators hold protobuf back, so .ci/run keeps them in an environment of their own.
    python = os.environ.get("GYMD_CODEGEN_PYTHON", sys.executable)
    command = [python, str(ROOT / "protos" / "generate.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55)
    if done.returncode == NOT_PINNED:
        pytest.skip(f"the pinned generators are not installed: {done.stderr.strip()}")
    # The diff of a descriptor is one line of 100 kB; the names of the files are enough here.
    assert done.returncode == 0, "\n".join(line[:160] for line in done.stderr.splitlines())


def test_protobuf_floor_admits_no_runtime_below_the_stamp() -> None:
    needed = requirements()["protobuf"]
    (stamp,) = stamps(r"^# Protobuf Python Version: ([\d.]+)$", "*_pb2.py")
    assert floor(needed) >= Version(f"{stamp.major}.{stamp.minor}")
    # The runtime refuses code that is two major versions older.
    assert needed.specifier.contains(f"{stamp.major}.{stamp.minor}.0")
    assert not needed.specifier.contains(f"{stamp.major + 2}.0.0")


@pytest.mark.parametrize("name", ["grpcio", "grpcio-health-checking", "grpcio-reflection", "grpcio-status"])
def test_grpc_floors_follow_the_stamp(name: str) -> None:
    (stamp,) = stamps(r"^GRPC_GENERATED_VERSION = '([\d.]+)'$", "*_pb2_grpc.py")
    assert floor(requirements()[name]) >= stamp


def test_betterproto_runtime_is_of_the_compilers_line() -> None:
    (stamp,) = stamps(r'^_COMPILER_VERSION = "([\d.]+)"$', "types.py")
    runtime = requirements()["betterproto2"]
    assert runtime.specifier.contains(f"{stamp.major}.{stamp.minor}.0")
    assert not runtime.specifier.contains(f"{stamp.major}.{stamp.minor + 1}.0")


def test_generators_are_pinned_as_generate_py_wants_them() -> None:
    script = (ROOT / "protos" / "generate.py").read_text(encoding="utf-8")
    pinned = requirements("codegen")
    for name in ("grpcio-tools", "betterproto2-compiler"):
        assert f'"{name}": "{floor(pinned[name])}"' in script
        assert str(pinned[name].specifier) == f"=={floor(pinned[name])}"

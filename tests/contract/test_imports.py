"""Who may import whom: the table of the design, walked over the sources."""

import ast
from collections.abc import Iterator

import pytest

from tests.contract.sources import ROOT, SOURCE_ROOTS, Module, modules

BASE = ("gymd", "gymd.child", "gymd.config", "gymd.convert", "gymd.errors", "gymd.logs", "gymd.memory")
"""What everybody may use; the bare `gymd` holds the version only."""

SERVERS = (
    "gymapi",
    "gymd",
    "gymd.child",
    "gymd.convert",
    "gymd.errors",
    "gymd.memory",
    "gymd.prompts",
    "gymd.sdk",
)

# Module prefix -> what of ours it may import besides itself. The longest prefix counts.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "gymapi": (),
    "gymd": (),
    "gymd.child": (),
    "gymd.memory": (),
    "gymd.config": ("gymapi", *BASE),
    "gymd.convert": ("gymapi", *BASE),
    "gymd.errors": ("gymapi", *BASE),
    "gymd.logs": ("gymapi", *BASE),
    "gymd.mesh": ("gymapi", *BASE),
    "gymd.prompts": ("gymapi", *BASE),
    "gymd.venvs": (*BASE,),
    "gymd.worker": (),
    "gymd.client": ("gymapi", *BASE, "gymd.mesh"),
    "gymd.sdk": ("gymapi", *BASE, "gymd.mesh"),
    "gymd.daemon": ("gymapi", *BASE, "gymd.mesh", "gymd.prompts", "gymd.venvs"),
    "gymd.__main__": ("gymapi", *BASE, "gymd.daemon"),
    # Servers meet over the mesh: one never imports another. Each has its own row below.
    "gymservers": SERVERS,
    # Its weights come from the package index, by the uv that builds environments.
    "gymservers.models.local_model": (*SERVERS, "gymd.venvs"),
    "gymctl": ("gymapi", *BASE, "gymd.client", "gymd.venvs"),
}

# gRPC belongs to the wire; the daemon's domain code is tested without it.
MAY_USE_GRPC = (
    "gymapi",
    "gymd.client",
    "gymd.daemon.app",
    "gymd.daemon.services",
    "gymd.errors",
    "gymd.mesh",
    "gymd.sdk",
)
GRPC_PACKAGES = ("grpc", "grpc_health", "grpc_reflection", "grpc_status", "google.rpc")

# openai's types stay at the edge: one call through its client costs ten times one of ours.
MAY_USE_OPENAI = ("gymd.convert",)

FOLDER_NAMES = ("cli", "gen", "servers", "tests")
"""Folders of the repository that are no packages, although an editable install makes them importable."""


def below(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def row_of(name: str) -> str:
    """The longest prefix of the table that covers a module."""
    return max((prefix for prefix in MAY_IMPORT if below(name, prefix)), key=len)


def own_part(module: Module) -> str:
    """What a module may always import: its own row, for a server only the server's own folder."""
    parts = module.name.split(".")
    return ".".join(parts[:3]) if parts[0] == "gymservers" else row_of(module.name)


def allowed(module: Module, target: str) -> bool:
    if below(target, own_part(module)):
        # `gymd` as own part is gymd/__init__.py: it may not reach into the packages below it.
        return own_part(module) != "gymd" or target == "gymd"
    permitted = MAY_IMPORT[row_of(module.name)]
    return any(target == name or (name != "gymd" and below(target, name)) for name in permitted)


def violations() -> Iterator[str]:
    for module in modules():
        for found in module.imports():
            if found.target.partition(".")[0] in SOURCE_ROOTS and not allowed(module, found.target):
                yield f"{module.where}:{found.line} imports {found.target}"


def test_the_walk_sees_the_sources() -> None:
    roots = {module.name.partition(".")[0] for module in modules()}
    assert roots == set(SOURCE_ROOTS)
    assert {row_of(module.name) for module in modules()} >= {"gymd.mesh", "gymd.sdk", "gymd.daemon"}


def test_imports_follow_the_table() -> None:
    assert list(violations()) == []


@pytest.mark.parametrize(
    ("name", "source", "permitted"),
    [
        ("gymd.sdk.x", "from gymd.mesh import Mesh", True),
        ("gymd.sdk.x", "from gymd.daemon import registry", False),
        ("gymd.sdk.x", "from gymd import daemon", False),
        ("gymd.daemon.x", "def f():\n    import gymd.client", False),
        ("gymd.errors", "import gymd.mesh.link", False),
        (
            "gymservers.agents.simple_agent.x",
            "import gymservers.resources.example_single_tool_call.server",
            False,
        ),
        ("gymservers.agents.simple_agent.x", "from gymservers.agents.simple_agent.server import A", True),
        ("gymctl.x", "from gymd import __version__", True),
        ("gymctl.x", "import gymd.daemon", False),
        ("gymapi.v1.x", "import gymd", False),
    ],
)
def test_the_table_itself(name: str, source: str, permitted: bool) -> None:
    module = Module(name, ROOT / "x.py", ast.parse(source))
    assert all(allowed(module, found.target) for found in module.imports()) is permitted


def test_folders_are_not_imported_by_their_name() -> None:
    guilty = [
        f"{module.where}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports()
        if found.target.partition(".")[0] in FOLDER_NAMES
    ]
    assert guilty == []


def test_grpc_stays_at_the_wire() -> None:
    guilty = [
        f"{module.where}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports()
        if not any(below(module.name, prefix) for prefix in MAY_USE_GRPC)
        and (any(below(found.target, name) for name in GRPC_PACKAGES) or found.target.endswith("_pb2_grpc"))
    ]
    assert guilty == []


def test_openai_stays_at_the_edge() -> None:
    guilty = [
        f"{module.where}:{found.line} imports {found.target}"
        for module in modules()
        for found in module.imports()
        if below(found.target, "openai") and not any(below(module.name, p) for p in MAY_USE_OPENAI)
    ]
    assert guilty == []


def test_there_is_no_package_between_gymservers_and_a_server() -> None:
    # Open name spaces: other distributions may add servers.
    folders = [ROOT / "servers" / "gymservers", *(ROOT / "servers" / "gymservers").iterdir()]
    assert [str(folder) for folder in folders if (folder / "__init__.py").exists()] == []

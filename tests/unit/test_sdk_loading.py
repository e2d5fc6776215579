"""Finding server classes, and configurations that are wrong."""

from pathlib import Path

import pytest

from gymd.errors import InvalidRequest
from gymd.mesh import Directory, LocalServers, Mesh
from gymd.sdk import AgentConfig, ServerConfig
from gymd.sdk.host import Bootstrap, Host, ServerBlock, configure
from gymd.sdk.loading import load_server_class
from tests.fakes.work import Graded

VERIFY = "    async def verify(self) -> float:\n        return 1.0\n"


@pytest.mark.parametrize(
    ("kind", "implementation", "name"),
    [
        ("resources", "mcqa", "MultipleChoice"),
        ("resources", "example_single_tool_call", "Weather"),
        ("agent", "simple_agent", "SimpleAgent"),
    ],
)
def test_built_in_servers_are_found_by_their_folder(kind: str, implementation: str, name: str) -> None:
    assert load_server_class(kind, implementation).__name__ == name
    assert load_server_class(kind, implementation, "app.py").__name__ == name  # as NeMo Gym's files say


def test_by_module_and_by_file(tmp_path: Path) -> None:
    assert load_server_class("resources", "x", "tests.fakes.work:Graded") is Graded
    file = tmp_path / "my_world.py"
    file.write_text(f"from gymd.sdk import ResourcesServer\nclass World(ResourcesServer):\n{VERIFY}")
    assert load_server_class("resources", "x", f"{file}:World").__name__ == "World"


@pytest.mark.parametrize(
    ("kind", "entrypoint", "says"),
    [
        ("resources", "", "cannot import gymservers.resources.no_such.server"),
        ("resources", "no.such.module:World", "cannot import no.such.module"),
        ("resources", "no_such_file.py:World", "no file"),
        ("resources", "tests.fakes.work:NoSuch", "has no class NoSuch derived from ResourcesServer"),
        ("resources", "tests.fakes.work:double", "has no class double derived from ResourcesServer"),
        ("agent", "tests.fakes.work:Graded", "has no class Graded derived from AgentServer"),
    ],
)
def test_what_is_missing_is_named(kind: str, entrypoint: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        load_server_class(kind, "no_such", entrypoint)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("", "exactly one public ResourcesServer; found: none"),
        (f"class A(ResourcesServer):\n{VERIFY}class B(ResourcesServer):\n{VERIFY}", "found: A, B"),
    ],
)
def test_a_module_of_servers_must_hold_exactly_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, says: str
) -> None:
    from gymd.sdk import loading

    file = tmp_path / "many.py"
    file.write_text(f"from gymd.sdk import ResourcesServer\n{body}")
    monkeypatch.setattr(loading, "_import", lambda _, load=loading._import: load(str(file)))
    with pytest.raises(InvalidRequest, match=says):
        load_server_class("resources", "many")


def test_a_private_or_imported_class_is_not_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gymd.sdk import loading

    file = tmp_path / "one.py"
    file.write_text(
        "from gymd.sdk import ResourcesServer\nfrom tests.fakes.work import Graded\n"
        f"class _Base(ResourcesServer):\n{VERIFY}class Mine(_Base):\n    pass\n"
    )
    monkeypatch.setattr(loading, "_import", lambda _, load=loading._import: load(str(file)))
    assert load_server_class("resources", "one").__name__ == "Mine"


class Config(ServerConfig):
    limit: int
    ratio: float = 0.5


class Configured(Graded):
    Config = Config


async def test_every_wrong_key_is_named_at_once() -> None:
    mesh = Mesh("test", LocalServers(), Directory())
    block = {"limit": "many", "ratoi": 1, "ratio": None, "domain": "math", "datasets": [], "port": 1}
    with pytest.raises(InvalidRequest) as caught:
        configure(Configured, "mine", block, mesh)
    text = str(caught.value)
    assert all(key in text for key in ("limit", "ratoi", "ratio"))
    assert not any(key in text for key in ("domain", "datasets", "port"))


def test_keys_that_gymd_reads_itself_are_taken_out() -> None:
    config = Config.parse({"limit": 3, "entrypoint": "app.py", "verified": False, "num_workers": 2})
    assert config == Config(limit=3)


def test_references() -> None:
    config = AgentConfig.parse(
        {
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            "resources_server": {"name": "mcqa"},
        }
    )
    assert isinstance(config, AgentConfig)
    assert config.model_server.name == "policy_model"
    with pytest.raises(ValueError, match="responses_api_models"):
        AgentConfig.parse({"model_server": {"type": "resources_servers", "name": "mcqa"}})


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (ServerBlock("mine", "resources", "no_such"), "cannot start mine: cannot import"),
        (
            ServerBlock("mine", "resources", "x", "tests.fakes.work:Graded", {"limt": 1}),
            "cannot start mine: its configuration is wrong: limt",
        ),
    ],
)
async def test_a_host_says_which_server_cannot_start(block: ServerBlock, says: str) -> None:
    host = Host(Bootstrap("host", "", [block]))
    try:
        with pytest.raises(Exception, match=says):
            await host.start()
    finally:
        await host.stop()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    async def verify(self, answer): ...\n", "cannot start mine: TypeError: .*no value 'answer'"),
        (f"{VERIFY}    async def start(self):\n        raise OSError('no disk')\n", "OSError: no disk"),
        (f"{VERIFY}    async def start(self)\n", "cannot start mine: .*SyntaxError"),
    ],
)
async def test_mistakes_of_an_author_are_told(tmp_path: Path, body: str, says: str) -> None:
    file = tmp_path / "mistake.py"
    file.write_text(f"from gymd.sdk import ResourcesServer\nclass Mine(ResourcesServer):\n{body}")
    host = Host(Bootstrap("host", "", [ServerBlock("mine", "resources", "x", f"{file}:Mine")]))
    try:
        with pytest.raises(Exception, match=says):
            await host.start()
    finally:
        await host.stop()

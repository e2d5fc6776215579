"""The daemon's settings from their three sources, and what counts as a secret."""

from pathlib import Path

import pytest

from gymd.config import ConfigError, DaemonSettings, is_secret_key, load_config, mask, scrub, split_address

SECRET = "sk-very-private-abcd"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no settings in the environment."""
    for name in ("GYMD_LISTEN", "GYMD_STATE_DIR", "GYMD_DEADLINES_TOOL_S"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


# The daemon's settings.


def test_settings_from_file_environment_and_override(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "a.yaml").write_text(
        "gymd: {listen: '127.0.0.1:1', grace_s: 3, deadlines: {tool_s: 5, model_s: 6}}"
    )
    daemon = load_config(["a.yaml"], cwd=place).daemon
    assert (daemon.listen, daemon.grace_s, daemon.deadlines.tool_s) == ("127.0.0.1:1", 3, 5)
    monkeypatch.setenv("GYMD_LISTEN", "127.0.0.1:2")
    monkeypatch.setenv("GYMD_DEADLINES_TOOL_S", "7.5")
    daemon = load_config(["a.yaml"], cwd=place).daemon
    assert (daemon.listen, daemon.deadlines.tool_s, daemon.deadlines.model_s) == ("127.0.0.1:2", 7.5, 6)
    overrides = ["gymd.listen=[::1]:0", "+gymd.deadlines={tool_s: 9}"]
    daemon = load_config(["a.yaml"], overrides, cwd=place).daemon
    assert (daemon.listen, daemon.deadlines.tool_s) == ("[::1]:0", 9)


def test_a_bad_variable_is_blamed_itself(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYMD_DEADLINES_TOOL_S", "soon")
    (place / "a.yaml").write_text("gymd: {deadlines: {tool_s: 1}}")
    with pytest.raises(ConfigError) as caught:
        load_config(["a.yaml"], cwd=place)
    [problem] = caught.value.problems
    assert (problem.file, problem.key) == (
        "environment variable GYMD_DEADLINES_TOOL_S",
        "gymd.deadlines.tool_s",
    )


def test_the_state_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GYMD_STATE_DIR", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert DaemonSettings().state_dir == Path.home() / ".local/state/gymd"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert DaemonSettings().state_dir == tmp_path / "gymd"
    monkeypatch.setenv("GYMD_STATE_DIR", str(tmp_path / "own"))
    assert DaemonSettings().state_dir == tmp_path / "own"


def test_defaults_are_usable() -> None:
    daemon = DaemonSettings()
    assert daemon.listen == "127.0.0.1:50161"
    assert daemon.host_count >= 1
    assert DaemonSettings(pool_hosts=3).host_count == 3
    with pytest.raises(ValueError, match="must not exceed"):
        DaemonSettings(restart_backoff_min_s=9, restart_backoff_max_s=1)


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:50161", ("127.0.0.1", 50161)), ("[::1]:0", ("::1", 0)), ("host:65535", ("host", 65535))],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "::1:5", "host:-1", "host:65536", "host:x"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        split_address(address)


# Secrets.


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("policy_api_key", True),
        ("apiKey", True),
        ("hf_token", True),
        ("db-password", True),
        ("client_secret", True),
        ("Authorization", True),
        ("openai_default_headers", True),
        ("tokenizer", False),
        ("model", False),
        ("header_style", False),
        ("monkey", False),
    ],
)
def test_secret_keys(key: str, secret: bool) -> None:
    assert is_secret_key(key) is secret


def test_masking() -> None:
    tree = {
        "policy_api_key": SECRET,
        "copy": f"key={SECRET}!",
        "headers": {"X-Org": "acme", "n": 3, "list": ["a"]},
        "password": 1234,
        "api_key": None,
        "secret_flag": False,
        "max_output_tokens": 512,
        "token_id_capture": {"dir": "x"},
        "url": "postgres://user:hunter2@db/x",
        "note": "Bearer abcdefghijkl",
        "tokenizer": "some/tokenizer",
    }
    assert mask(tree) == {
        "policy_api_key": "***",
        "copy": "key=***!",
        "headers": {"X-Org": "***", "n": "***", "list": ["***"]},
        "password": "***",
        "api_key": None,
        "secret_flag": False,
        "max_output_tokens": 512,
        "token_id_capture": {"dir": "x"},
        "url": "postgres://***@db/x",
        "note": "Bearer ***",
        "tokenizer": "some/tokenizer",
    }
    assert scrub("sk-proj-12345678 and sk-short", []) == "*** and sk-short"
    # A short placeholder is no secret that would blank out ordinary words.
    assert mask({"api_key": "EMPTY", "text": "EMPTY"}) == {"api_key": "***", "text": "EMPTY"}

"""How a configuration comes together: precedence, includes, overrides, references, directives."""

from pathlib import Path

import pytest

from gymd.config import GymConfig, load_config

ENV = """
policy_base_url: https://models.example/v1
policy_api_key: sk-not-a-real-key-0001
policy_model_name: some-model
"""
MCQA = "mcqa: {resources_servers: {mcqa: {}}}\n"
MODEL = """
policy_model:
  responses_api_models:
    vllm_model: {base_url: '${policy_base_url}', api_key: '${policy_api_key}', model: '${policy_model_name}'}
"""
AZURE_MODEL = (
    "policy_model: {responses_api_models: {azure_openai_model: {k: '${oc.env:AZURE_KEY_FOR_TEST,none}'}}}"
)
BUILTIN = {
    "models/vllm_model": MODEL,
    "models/azure_openai_model": AZURE_MODEL,
    "resources/mcqa": MCQA,
    "resources/workplace_assistant": "workplace: {resources_servers: {workplace_assistant: {}}}",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory beside a set of built-in servers; no variables of the real environment."""
    for folder, config in BUILTIN.items():
        path = tmp_path / "site" / "gymservers" / folder
        path.mkdir(parents=True)
        # Importing a server to find it would be an error here.
        (path / "server.py").write_text("raise RuntimeError('imported')")
        (path / "config.yaml").write_text(config)
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in ("POLICY_BASE_URL", "POLICY_API_KEY", "POLICY_MODEL_NAME", "AZURE_KEY_FOR_TEST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def write(place: Path, **files: str) -> None:
    """Writes `name=text` as name.yaml; `__` in a name stands for a folder."""
    for name, text in files.items():
        path = place / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(config: GymConfig) -> list[str]:
    return sorted(server.name for server in config.servers)


# Order of precedence.


def test_later_files_then_env_then_overrides_win(place: Path) -> None:
    base = "m: {resources_servers: {mcqa: {a: file1, b: file1, c: file1, d: file1}}}"
    second = "m: {resources_servers: {mcqa: {b: file2, c: file2, d: file2}}}"
    env = "m: {resources_servers: {mcqa: {c: env, d: env}}}"
    write(place, one=base, two=second, env=env)
    override = "m.resources_servers.mcqa.d=line"
    config = load_config(["one.yaml", "two.yaml"], [override], cwd=place)
    assert config.server("m").config == {"a": "file1", "b": "file2", "c": "env", "d": "line"}
    origins = {k: config.origins.of(("m", "resources_servers", "mcqa", k)) for k in "abcd"}
    assert origins == {"a": "one.yaml", "b": "two.yaml", "c": "env.yaml", "d": "command line"}


def test_an_included_file_loses_to_its_includer_and_later_siblings_win(place: Path) -> None:
    def file(name: str, includes: str = "[]", keys: str = "") -> str:
        values = ", ".join(f"{key}: {name}" for key in keys)
        return f"config_paths: {includes}\nm: {{resources_servers: {{mcqa: {{{values}}}}}}}"

    write(
        place,
        top=file("top", "[first.yaml, sub/second.yaml]", "a"),
        first=file("first", keys="abc"),
        sub__second=file("second", "[deep.yaml]", "bd"),
        # Found beside the including file, not in the working directory.
        sub__deep=file("deep", keys="bcde"),
    )
    config = load_config(["top.yaml"], cwd=place)
    assert config.server("m").config == {"a": "top", "b": "second", "c": "deep", "d": "second", "e": "deep"}
    assert [path.name for path in config.files] == ["first.yaml", "deep.yaml", "second.yaml", "top.yaml"]


def test_a_file_that_was_asked_for_keeps_its_place_when_also_included(place: Path) -> None:
    write(
        place,
        a="config_paths: [b.yaml]\nm: {resources_servers: {mcqa: {x: a}}}",
        b="m: {resources_servers: {mcqa: {x: b}}}",
    )
    assert load_config(["a.yaml", "b.yaml"], cwd=place).server("m").config == {"x": "b"}
    assert load_config(["b.yaml", "a.yaml"], cwd=place).server("m").config == {"x": "a"}


def test_env_yaml_may_hold_the_list_of_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        place,
        env=f"{ENV}\nmine: [mcqa, models/vllm_model]\nunused_list: [no.yaml]\nconfig_paths: '${{mine}}'",
    )
    assert names(load_config([], cwd=place)) == ["mcqa", "policy_model"]
    assert names(load_config([], ["+config_paths=${mine}"], cwd=place)) == ["mcqa", "policy_model"]
    assert names(load_config([], ["+config_paths=[${mine},workbench]"], cwd=place)) == [
        "mcqa",
        "policy_model",
        "workplace",
    ]
    monkeypatch.setenv("LIST_FOR_TEST", "mcqa, workbench")
    assert names(load_config([], ["+config_paths=${oc.env:LIST_FOR_TEST}"], cwd=place)) == [
        "mcqa",
        "workplace",
    ]
    # The command line replaces env.yaml's list.
    assert names(load_config(["mcqa"], cwd=place)) == ["mcqa"]


def test_another_env_file_can_be_named(place: Path) -> None:
    write(place, env="policy_base_url: wrong", secrets__mine=ENV)
    config = load_config(["models/vllm_model"], cwd=place, env_file=Path("secrets/mine.yaml"))
    assert config.server("policy_model").config["base_url"] == "https://models.example/v1"


# Overrides.


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["m.resources_servers.mcqa.n=5"], {"n": 5, "l": [1, 2], "d": {"x": 1, "y": 2}}),
        (["+m.resources_servers.mcqa.new=1e-6"], {"n": 1, "l": [1, 2], "d": {"x": 1, "y": 2}, "new": 1e-6}),
        (["++m.resources_servers.mcqa.d={x: 9}"], {"n": 1, "l": [1, 2], "d": {"x": 9, "y": 2}}),
        (["m.resources_servers.mcqa.l=[3]"], {"n": 1, "l": [3], "d": {"x": 1, "y": 2}}),
        (["m.resources_servers.mcqa.l[1]=7"], {"n": 1, "l": [1, 7], "d": {"x": 1, "y": 2}}),
        (["m.resources_servers.mcqa.n=@x: y: z"], {"n": "@x: y: z", "l": [1, 2], "d": {"x": 1, "y": 2}}),
        (["m.resources_servers.mcqa.n=null"], {"n": None, "l": [1, 2], "d": {"x": 1, "y": 2}}),
        (["m.resources_servers.mcqa.n='a=b: c'"], {"n": "a=b: c", "l": [1, 2], "d": {"x": 1, "y": 2}}),
        (["~m.resources_servers.mcqa.d.x", "~m.resources_servers.mcqa.l"], {"n": 1, "d": {"y": 2}}),
        (["~m.resources_servers.mcqa.l[0]"], {"n": 1, "l": [2], "d": {"x": 1, "y": 2}}),
        (
            ["+top={v: 3}", "m.resources_servers.mcqa.n=${top.v}"],
            {"n": 3, "l": [1, 2], "d": {"x": 1, "y": 2}},
        ),
    ],
)
def test_overrides(place: Path, overrides: list[str], expected: dict[str, object]) -> None:
    write(place, a="m: {resources_servers: {mcqa: {n: 1, l: [1, 2], d: {x: 1, y: 2}}}}")
    assert load_config(["a.yaml"], overrides, cwd=place).server("m").config == expected


def test_a_whole_instance_can_be_removed(place: Path) -> None:
    write(place, a=MCQA + "other: {resources_servers: {workbench: {}}}")
    assert names(load_config(["a.yaml"], ["~mcqa"], cwd=place)) == ["other"]


# References and the environment.


def test_placeholders_come_from_the_environment_if_no_file_has_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, env="policy_base_url: http://file\npolicy_api_key: ${SOME_PROVIDER_KEY}")
    monkeypatch.setenv("SOME_PROVIDER_KEY", "with-${odd}-characters")
    monkeypatch.setenv("POLICY_MODEL_NAME", "from-environment")
    monkeypatch.setenv("POLICY_BASE_URL", "http://environment")
    config = load_config(["models/vllm_model"], cwd=place).server("policy_model").config
    assert config["base_url"] == "http://file"
    assert config["api_key"] == "with-${odd}-characters"
    assert config["model"] == "from-environment"


def test_oc_env_and_mandatory_values_from_the_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, env=ENV, a="some_url: ???\nm: {resources_servers: {mcqa: {u: '${some_url}'}}}")
    assert load_config(["azure_openai_model"], cwd=place).server("policy_model").config["k"] == "none"
    monkeypatch.setenv("AZURE_KEY_FOR_TEST", "k")
    monkeypatch.setenv("SOME_URL", "http://x")
    assert load_config(["azure_openai_model"], cwd=place).server("policy_model").config["k"] == "k"
    assert load_config(["a.yaml"], cwd=place).server("m").config == {"u": "http://x"}


def test_references_reach_other_blocks_lists_and_siblings(place: Path) -> None:
    text = """
shared: {limits: {timeout: 7}, names: [p, q]}
m:
  resources_servers:
    mcqa:
      t: ${shared.limits.timeout}
      all: ${shared.limits}
      n: ${shared.names[1]}
      me: ${.t}
      s: at ${.n}
"""
    write(place, a=text)
    config = load_config(["a.yaml"], cwd=place)
    assert config.server("m").config == {"t": 7, "all": {"timeout": 7}, "n": "q", "me": 7, "s": "at q"}
    assert config.raw["shared"]["names"] == ["p", "q"]


# Directives.


def test_inherit_from_moves_and_copy_keeps(place: Path) -> None:
    text = """
generic: {resources_servers: {mcqa: {a: 1, deep: {x: 1, y: 2}, gone: 1}}}
copied: {_copy: generic, resources_servers: {mcqa: {a: 2, deep: {y: 3}, _delete_key: 'gone, deep.x'}}}
copied_whole: ${copy:generic}
"""
    moved = "moved: ${inherit_from:generic}\n"
    write(place, a=text, b=text + moved, c=text + "moved: {_inherit_from: generic}\n")
    config = load_config(["a.yaml"], cwd=place)
    assert config.server("copied").config == {"a": 2, "deep": {"y": 3}}
    assert config.server("copied_whole").config == config.server("generic").config
    for name in ("b.yaml", "c.yaml"):
        config = load_config([name], cwd=place)
        assert names(config) == ["copied", "copied_whole", "moved"]
        assert config.server("moved").config == {"a": 1, "deep": {"x": 1, "y": 2}, "gone": 1}


def test_directives_follow_each_other_and_keep_origins(place: Path) -> None:
    write(
        place,
        a="one: {resources_servers: {mcqa: {a: 1}}}\ntwo: {_copy: one}",
        b="three: {_copy: two, resources_servers: {mcqa: {b: 2}}}",
    )
    config = load_config(["a.yaml", "b.yaml"], cwd=place)
    assert config.server("three").config == {"a": 1, "b": 2}
    block = ("three", "resources_servers", "mcqa")
    assert [config.origins.of((*block, key)) for key in "ab"] == ["a.yaml", "b.yaml"]

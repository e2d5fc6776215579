"""Every mistake of a configuration is reported at once, with file, key and advice, without its secrets."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gymd.config import ConfigError, Problem, ServerSpec, load_config

SECRET = "sk-very-private-abcd"
MODEL = """
policy_model:
  responses_api_models:
    vllm_model: {base_url: '${policy_base_url}', api_key: '${policy_api_key}', model: m}
"""
BLOCK = "m.resources_servers.mcqa"
Load = Callable[..., ConfigError]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory beside a few built-in servers; no variables of the real environment."""
    for folder in (
        "models/vllm_model",
        "agents/simple_agent",
        "resources/mcqa",
        "agents/twin",
        "models/twin",
    ):
        path = tmp_path / "site" / "gymservers" / folder
        path.mkdir(parents=True)
        (path / "server.py").touch()
        (path / "config.yaml").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in (
        "POLICY_BASE_URL",
        "POLICY_API_KEY",
        "GYMD_LISTEN",
        "GYMD_STATE_DIR",
        "GYMD_DEADLINES_TOOL_S",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def fail(place: Path) -> Load:
    """Loads a configuration that must fail: `fail(a=text, b=text, overrides=[...])`, files in this order."""

    def load(overrides: tuple[str, ...] = (), files: list[str] | None = None, **texts: str) -> ConfigError:
        for name, text in texts.items():
            (place / f"{name}.yaml").write_text(text)
        wanted = files if files is not None else [f"{name}.yaml" for name in texts if name != "env"]
        with pytest.raises(ConfigError) as caught:
            load_config(wanted, overrides, cwd=place)
        return caught.value

    return load


def only(error: ConfigError) -> Problem:
    assert len(error.problems) == 1, str(error)
    return error.problems[0]


def mcqa(keys: str) -> str:
    return f"m: {{resources_servers: {{mcqa: {{{keys}}}}}}}"


# One mistake each: the key that is blamed, and words of the message and the advice.

MISTAKES = {
    "mandatory": (mcqa("a: '???'"), f"{BLOCK}.a", "required", f"++{BLOCK}.a=<value>"),
    "mandatory in a list": (mcqa("a: [1, {b: '???'}]"), f"{BLOCK}.a[1].b", "required", f"++{BLOCK}.a[1].b="),
    "unset reference": (mcqa("a: '${nowhere_set}'"), f"{BLOCK}.a", "${nowhere_set}", "export NOWHERE_SET"),
    "unset nested reference": (mcqa("a: '${m.none}'"), f"{BLOCK}.a", "${m.none}", "env.yaml"),
    "one of two references": (mcqa("z: 1, a: 'x ${.z} ${gone}'"), f"{BLOCK}.a", "${gone} is", "env.yaml"),
    "unset variable": (mcqa("a: '${oc.env:NOT_SET_ANYWHERE}'"), f"{BLOCK}.a", "NOT_SET_ANYWHERE", "Export"),
    "unknown resolver": (mcqa("a: '${magic:x}'"), f"{BLOCK}.a", "${magic:x}", "resolver"),
    "reference circle": (mcqa("a: '${.b}', b: '${.a}'"), f"{BLOCK}.a", "back to itself", ""),
    "mandatory block": ("m: {resources_servers: {mcqa: '???'}}", BLOCK, "required", ""),
    "mandatory instance": ("m: '???'", "m", "required", ""),
    "misspelt server type": (
        "m: {resource_servers: {mcqa: {entrypoint: app.py}}}",
        "m",
        "'resource_servers' is no type",
        "resources_servers",
    ),
    "foreign server type": ("m: {tool_boxes: {x: {entrypoint: a.py}}}", "m", "almost a server", "one type"),
    "no implementation": (
        "m: {resources_servers: {}}",
        "m.resources_servers",
        "no implementation",
        "one type",
    ),
    "block is no mapping": ("m: {resources_servers: {mcqa: 3}}", BLOCK, "mapping", "<instance>"),
    "key beside the type": ("m: {resources_servers: {mcqa: {}}, host: x}", "m.host", "stands beside", "Move"),
    "unknown implementation": (
        "m: {resources_servers: {mcqq: {}}}",
        "m.resources_servers.mcqq",
        "no built-in resources server",
        "Did you mean 'mcqa'",
    ),
    "implementation of another kind": (
        "m: {responses_api_models: {mcqa: {}}}",
        "m.responses_api_models.mcqa",
        "no built-in model server",
        "package.module:Class",
    ),
    "entrypoint without a class": (
        "m: {resources_servers: {toys: {entrypoint: toys.py}}}",
        "m.resources_servers.toys",
        "no built-in resources server",
        "'toys.py' names no class",
    ),
    "bad entrypoint": (mcqa("entrypoint: 'a.b:'"), f"{BLOCK}.entrypoint", "no class", "package.module:Class"),
    "missing entrypoint": (mcqa("entrypoint: 'no.py:X'"), f"{BLOCK}.entrypoint", "no file", "Looked for"),
    "undefined server": (
        mcqa("judge: {type: responses_api_models, name: jugde}"),
        f"{BLOCK}.judge.name",
        "no model server is named 'jugde'",
        "none",
    ),
    "server of another type": (
        mcqa("judges: [{type: responses_api_models, name: m}]"),
        f"{BLOCK}.judges[0].name",
        "of another type (resources_servers)",
        "",
    ),
    "misspelt domain": (mcqa("domain: knowlege"), f"{BLOCK}.domain", "no domain", "'knowledge'"),
    "bad port": (mcqa("port: 70000"), f"{BLOCK}.port", "65535", ""),
    "bad replicas": (mcqa("num_workers: 0"), f"{BLOCK}.num_workers", "greater", ""),
    "bad placement": (mcqa("placement: moon"), f"{BLOCK}.placement", "'venv'", ""),
    "bad datasets": (mcqa("datasets: [x]"), f"{BLOCK}.datasets[0]", "mapping", "jsonl_fpath"),
    "misspelt setting": ("defualt_host: x", "defualt_host", "neither", "'default_host'"),
    "unknown setting": ("zebra: 1", "zebra", "nothing refers", "Remove"),
    "inherit from nothing": ("m: '${inherit_from:geneirc}'", "m", "no 'geneirc' to take over", ""),
    "delete nothing": (mcqa("a: 1, _delete_key: b"), f"{BLOCK}._delete_key", "no 'b'", "There are: a."),
    "bad daemon setting": ("gymd: {listen: nowhere}", "gymd.listen", "host:port", ""),
    "unknown daemon setting": ("gymd: {lsiten: x}", "gymd.lsiten", "no setting", "'listen'"),
    "unknown deadline": ("gymd: {deadlines: {tool: 1}}", "gymd.deadlines.tool", "no setting", "'tool_s'"),
    "settings are no mapping": ("gymd: 3", "gymd", "mapping", "listen"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_file_key_and_advice(fail: Load, name: str) -> None:
    text, key, message, advice = MISTAKES[name]
    error = fail(conf=text)
    problem = next((p for p in error.problems if p.key == key), None)
    assert problem is not None, str(error)
    assert problem.file == "conf.yaml"
    assert message in problem.message
    assert advice in problem.advice
    assert f"conf.yaml: {key}: " in str(error)
    # One mistake is told once.
    assert len(error.problems) == (2 if name == "reference circle" else 1), str(error)


def test_everything_is_reported_at_once(fail: Load) -> None:
    agent = """
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: nobody}
      model_server: {type: responses_api_models, name: polycy_model}
      max_steps: ???
gymd: {grace_s: -1, log_level: loud}
"""
    error = fail(model=MODEL, agent=agent, env="policy_base_ulr: http://x")
    found = {(p.file, p.key.rpartition(".")[2], p.message.split()[0]) for p in error.problems}
    assert {(file, key) for file, key, _ in found} == {
        ("model.yaml", "base_url"),
        ("model.yaml", "api_key"),
        ("agent.yaml", "max_steps"),
        ("agent.yaml", "name"),
        ("agent.yaml", "grace_s"),
        ("agent.yaml", "log_level"),
    }
    assert len(error.problems) == 7
    assert "7 problems" in str(error)
    assert "'policy_base_ulr' is set: is that a misspelling?" in str(error)
    assert "Did you mean 'policy_model'?" in str(error)


def test_one_instance_in_two_files_is_explained_with_both(fail: Load) -> None:
    two_kinds = only(fail(a=mcqa(""), b="m: {responses_api_agents: {simple_agent: {}}}"))
    assert two_kinds.key == "m"
    assert (
        "more than one server type: resources_servers (a.yaml), responses_api_agents (b.yaml)"
        in two_kinds.message
    )
    assert "another instance name" in two_kinds.advice
    two = only(
        fail(a="x: {responses_api_models: {vllm_model: {}}}", b="x: {responses_api_models: {twin: {}}}")
    )
    assert "more than one implementation: vllm_model (a.yaml), twin (b.yaml)" in two.message


def test_almost_servers_can_be_waved_through(place: Path) -> None:
    text = "error_on_almost_servers: false\nx: {resource_servers: {mcqa: {}}}\ny: {resources_servers: {}}\n"
    (place / "a.yaml").write_text(text + mcqa("domain: maths"))
    assert [server.name for server in load_config(["a.yaml"], cwd=place).servers] == ["m"]


def test_unknown_domains_of_later_releases_are_accepted(place: Path) -> None:
    (place / "a.yaml").write_text(mcqa("domain: science"))
    assert load_config(["a.yaml"], cwd=place).server("m").config["domain"] == "science"


def test_env_yaml_may_hold_values_for_other_runs(place: Path) -> None:
    (place / "env.yaml").write_text("judge_url: x\nother_paths: [a, b]")
    assert load_config([], cwd=place).servers == []


# Sources that cannot be read.


def test_a_missing_file_lists_every_location(fail: Load, place: Path) -> None:
    (place / "sub").mkdir()
    (place / "sub/a.yaml").write_text("config_paths: [none.yaml]")
    problem = only(fail(files=["sub/a.yaml"]))
    assert (problem.file, problem.key) == ("sub/a.yaml", "config_paths")
    assert str(place / "none.yaml") in problem.message
    assert str(place / "sub/none.yaml") in problem.message
    built_in = only(fail(files=["resources_servers/mcqb/configs/mcqb.yaml"]))
    assert built_in.file == "command line"
    assert "gymservers/resources/mcqb/config.yaml" in built_in.message
    assert "Did you mean 'mcqa'" in only(fail(files=["mcqq"])).advice


def test_an_ambiguous_short_name_asks_back(fail: Load) -> None:
    problem = only(fail(files=["twin"]))
    assert "agents/twin or models/twin" in problem.advice


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "did not find expected"),
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key a"),
        ("a: !!python/object:os.system x\n", 1, "could not determine a constructor"),
        (f"a: 1\n  key: {SECRET}\n", 2, "mapping values are not allowed"),
    ],
)
def test_a_syntax_error_names_the_line(fail: Load, text: str, line: int, message: str) -> None:
    problem = only(fail(bad=text))
    assert problem.file == f"bad.yaml:{line}"
    assert message in problem.message
    assert SECRET not in str(problem)


def test_files_that_are_no_configuration(fail: Load, place: Path) -> None:
    assert "mapping, not a list" in only(fail(a="- 1\n- 2")).message
    (place / "latin.yaml").write_bytes(b"a: \xff\xfe\xfa")
    assert "UTF-8" in only(fail(files=["latin.yaml"])).message
    reference = only(fail(a="x: {y: '${oops'}"))
    assert (reference.file, reference.key) == ("a.yaml", "x.y")
    with pytest.raises(ConfigError, match=r"missing\.yaml does not exist"):
        load_config([], cwd=place, env_file=Path("missing.yaml"))


def test_unreadable_sources_do_not_hide_other_mistakes_or_cause_false_ones(fail: Load) -> None:
    text = mcqa("port: x, needs: '${something}', judge: {type: responses_api_models, name: in_missing}")
    error = fail(files=["missing.yaml", "bad.yaml", "a.yaml"], bad="a: [", a=text)
    assert [(p.file, p.key) for p in error.problems] == [
        ("command line", "config_paths"),
        ("bad.yaml:2", ""),
        ("a.yaml", f"{BLOCK}.port"),
    ]


def test_files_that_include_each_other(fail: Load) -> None:
    error = fail(
        files=["a.yaml"], a="config_paths: [b.yaml]", b="config_paths: c.yaml", c="config_paths: [a.yaml]"
    )
    problem = only(error)
    assert problem.file == "c.yaml"
    assert "a.yaml -> b.yaml -> c.yaml -> a.yaml" in problem.message
    assert "a.yaml -> a.yaml" in only(fail(a="config_paths: [a.yaml]")).message


def test_config_paths_must_be_names(fail: Load) -> None:
    assert "list of file names" in only(fail(a="config_paths: {x: 1}")).message
    unset = only(fail(a="config_paths: ['${my_list}']"))
    assert (unset.file, unset.key) == ("a.yaml", "config_paths")
    assert "${my_list} is not set" in unset.message


# Overrides.


@pytest.mark.parametrize(
    ("override", "message", "advice"),
    [
        ("justaword", "'justaword' is not understood", "key=value"),
        ("=3", "not understood", "key=value"),
        (f"{BLOCK}.key=[1", "not valid YAML", "Quote"),
        (f"{BLOCK}.list[7]=1", "does not fit", "list positions"),
        (f"~{BLOCK}.lits", "nothing to delete", "'list'"),
        ("mm.resources_servers.mcqa.x=1", "no 'mm' to override", "+mm.resources_servers.mcqa.x"),
        ("gymd.listen=host:99999", "port must be", ""),
        ("+unknown_thing=1", "neither a server", ""),
    ],
)
def test_bad_overrides(fail: Load, override: str, message: str, advice: str) -> None:
    problem = only(fail(overrides=(override,), a=mcqa("list: [1, 2]")))
    assert problem.file == "command line"
    assert message in problem.message
    assert advice in problem.advice


def test_directive_circles_end(fail: Load) -> None:
    error = fail(a="x: {_copy: y}\ny: {_copy: x}\n")
    assert any("inheriting from itself" in problem.message for problem in error.problems)
    mutual = fail(a="p: {r: '${q}'}\nq: {s: '${p}'}\n" + mcqa("a: '${p}', b: '${q}'"))
    assert any("back to itself" in problem.message for problem in mutual.problems)


# The servers' own checks.


def test_servers_add_their_findings(place: Path) -> None:
    (place / "a.yaml").write_text(mcqa(f"mode: x, deep: {{n: 1}}, api_key: {SECRET}"))
    (place / "b.yaml").write_text(mcqa("deep: {n: 2}"))

    def check(servers: Sequence[ServerSpec]) -> dict[str, list[tuple[str, str]]]:
        assert [server.name for server in servers] == ["m"]
        return {"m": [("mode", f"'x' is no mode, {SECRET}"), ("deep.n", "too small")]}

    with pytest.raises(ConfigError) as caught:
        load_config(["a.yaml", "b.yaml"], cwd=place, check=check)
    assert [(p.file, p.key) for p in caught.value.problems] == [
        ("a.yaml", f"{BLOCK}.mode"),
        ("b.yaml", f"{BLOCK}.deep.n"),
    ]
    assert SECRET not in str(caught.value)
    assert load_config(["a.yaml"], cwd=place, check=lambda servers: {}).server("m").config["mode"] == "x"
    with pytest.raises(ConfigError) as caught:
        load_config(["a.yaml"], ["gymd.grace_s=-2"], cwd=place, check=check)
    assert [p.key for p in caught.value.problems] == ["gymd.grace_s", f"{BLOCK}.mode", f"{BLOCK}.deep.n"]


def test_servers_are_not_asked_about_what_is_known(place: Path) -> None:
    (place / "a.yaml").write_text(mcqa("mode: '???'"))
    with pytest.raises(ConfigError) as caught:
        load_config(["a.yaml"], cwd=place, check=lambda servers: {"m": [("mode", "is None")]})
    assert "required" in only(caught.value).message


# Secrets.


def test_nothing_shows_a_secret(place: Path) -> None:
    (place / "env.yaml").write_text("policy_base_url: http://x\npolicy_api_key: an-unusual-secret-value\n")
    (place / "a.yaml").write_text(MODEL)
    config = load_config(
        ["a.yaml"], ["policy_model.responses_api_models.vllm_model.api_key=" + SECRET], cwd=place
    )
    for text in (
        repr(config),
        str(config.servers),
        repr(config.server("policy_model")),
        str(config.masked()),
    ):
        assert SECRET not in text
        assert "an-unusual-secret-value" not in text
    assert config.raw["policy_api_key"] == "an-unusual-secret-value"
    assert config.masked()["policy_base_url"] == "http://x"


def test_no_error_shows_a_secret(fail: Load) -> None:
    # The secret stands where a name is expected, so the messages quote it.
    text = MODEL + mcqa("judge: {type: responses_api_models, name: an-unusual-secret-value}, domain: [1]")
    error = fail(a=text, env="policy_base_url: u\npolicy_api_key: an-unusual-secret-value\n")
    assert len(error.problems) == 2
    assert "an-unusual-secret-value" not in f"{error}{error!r}{error.problems}"
    assert "'***'" in str(error)

"""Loading configurations that are right: NeMo Gym's files, names and command lines."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gymd.config import ConfigError, GymConfig, builtin_folder, builtin_names, builtin_path, load_config

OPENAI_MODEL = """
openai_model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      openai_base_url: ${policy_base_url}
      openai_api_key: ${policy_api_key}
      openai_model_name: ${policy_model_name}
"""
ENV = """
policy_base_url: https://models.example/v1
policy_api_key: sk-not-a-real-key-0001
policy_model_name: some-model
"""
SIMPLE_AGENT = """
simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: ???
      model_server:
        type: responses_api_models
        name: openai_model
"""
WEATHER = """
example_single_tool_call:
  resources_servers:
    example_single_tool_call:
      entrypoint: app.py
      domain: agent
      verified: false
example_single_tool_call_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: example_single_tool_call
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
      - name: example
        type: example
        jsonl_fpath: resources_servers/example_single_tool_call/data/example.jsonl
"""
COUNTER = """
stateful_counter:
  resources_servers:
    stateful_counter:
      entrypoint: app.py
stateful_counter_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: stateful_counter}
      model_server: {type: responses_api_models, name: openai_model}
"""
MULTI_STEP = """
multineedle_resources_server:
  resources_servers:
    multineedle:
      entrypoint: app.py
multineedle_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      max_steps: 8
      resources_server:
        type: resources_servers
        name: multineedle_resources_server
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
      - {name: train, type: train, license: Apache 2.0, jsonl_fpath: data/train.jsonl}
      - {name: example, type: example, jsonl_fpath: data/example.jsonl}
"""
MCQA = """
mcqa:
  resources_servers:
    mcqa:
      entrypoint: app.py
      grading_mode: null
      domain: knowledge
      description: Multiple choice
"""
VLLM_MODEL = """
policy_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      base_url: ${policy_base_url}
      api_key: ${policy_api_key}
      model: ${policy_model_name}
      return_token_id_information: true
      num_workers: 4
      uses_reasoning_parser: true
"""
AZURE_MODEL = """
policy_model:
  responses_api_models:
    azure_openai_model:
      entrypoint: app.py
      openai_base_url: ${policy_base_url}
      openai_api_key: ${oc.env:AZURE_KEY_FOR_TEST,none}
      openai_model: ${policy_model_name}
      default_query:
        api-version: 2024-10-21
      num_concurrent_requests: 8
"""
BUILTIN = {
    "models/openai_model": OPENAI_MODEL,
    "models/vllm_model": VLLM_MODEL,
    "models/azure_openai_model": AZURE_MODEL,
    "agents/simple_agent": SIMPLE_AGENT,
    "resources/mcqa": MCQA,
    "resources/example_single_tool_call": WEATHER,
    "resources/example_session_state_mgmt": COUNTER.replace("stateful_counter", "example_session_state_mgmt"),
    "resources/example_multi_step": MULTI_STEP,
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
    variant = tmp_path / "site/gymservers/models/vllm_model/configs/vllm_model_for_training.yaml"
    variant.parent.mkdir()
    variant.write_text(VLLM_MODEL.replace("num_workers: 4", "num_workers: 1"))
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


# What users of NeMo Gym have: their files and command lines.


@pytest.mark.parametrize(
    ("yaml_text", "model", "expected"),
    [
        (WEATHER, VLLM_MODEL, {"example_single_tool_call", "example_single_tool_call_simple_agent"}),
        (WEATHER, OPENAI_MODEL, {"example_single_tool_call", "example_single_tool_call_simple_agent"}),
        (MCQA, VLLM_MODEL, {"mcqa"}),
        (COUNTER, OPENAI_MODEL, {"stateful_counter", "stateful_counter_simple_agent"}),
        (MULTI_STEP, AZURE_MODEL, {"multineedle_resources_server", "multineedle_simple_agent"}),
    ],
)
def test_nemo_gym_files_load_unchanged(place: Path, yaml_text: str, model: str, expected: set[str]) -> None:
    write(place, server=yaml_text, model=model, env=ENV)
    config = load_config(["server.yaml", "model.yaml"], cwd=place)
    assert expected <= set(names(config))
    assert config.files == [place / "server.yaml", place / "model.yaml", place / "env.yaml"]
    assert all(server.placement == "shared" for server in config.servers)


def test_a_server_is_described_in_full(place: Path) -> None:
    write(place, model=VLLM_MODEL, weather=WEATHER, env=ENV)
    config = load_config(["model.yaml", "weather.yaml"], cwd=place)
    model = config.server("policy_model")
    assert (model.kind, model.implementation, model.replicas, model.port) == ("model", "vllm_model", 4, None)
    assert model.config == {
        "base_url": "https://models.example/v1",
        "api_key": "sk-not-a-real-key-0001",
        "model": "some-model",
        "return_token_id_information": True,
        "uses_reasoning_parser": True,
    }
    assert model.source_file == "model.yaml"
    assert model.config_key == "policy_model.responses_api_models.vllm_model"
    agent = config.server("example_single_tool_call_simple_agent")
    assert agent.kind == "agent"
    assert agent.datasets[0].type == "example"
    assert "datasets" not in agent.config
    assert "placement" not in agent.model_fields_set


def test_the_first_quick_start_works_on_built_in_servers(place: Path) -> None:
    write(place, env=ENV)
    paths = (
        "resources_servers/simple_weather/configs/simple_weather.yaml,"
        "responses_api_models/openai_model/configs/openai_model.yaml,"
        "responses_api_agents/simple_agent/configs/simple_agent.yaml"
    )
    set_name = "+simple_agent.responses_api_agents.simple_agent.resources_server.name=simple_weather"
    config = load_config([], [f"+config_paths=[{paths}]", set_name], cwd=place)
    reference = config.server("simple_agent").config["resources_server"]
    assert reference["name"] == "example_single_tool_call"
    # The shipped agent points at `policy_model`; `openai_model` is its name in early model files.
    weather_agent = config.server("simple_weather_simple_agent")
    assert weather_agent.name == "example_single_tool_call_simple_agent"
    assert weather_agent.config["model_server"]["name"] == "openai_model"
    assert config.server("openai_model").config["openai_model"] == "some-model"


@pytest.mark.parametrize(
    ("path", "instance"),
    [
        ("mcqa", "mcqa"),
        ("resources/mcqa", "mcqa"),
        ("resources_servers/mcqa", "mcqa"),
        ("./resources_servers/mcqa/configs/mcqa.yaml", "mcqa"),
        ("workbench", "workplace"),
        ("resources_servers/workbench/configs/workbench.yaml", "workplace"),
        ("resources_servers/example_simple_weather/configs/simple_weather.yaml", "example_single_tool_call"),
        ("vllm_model/vllm_model_for_training", "policy_model"),
        ("responses_api_models/vllm_model/configs/vllm_model_for_training.yaml", "policy_model"),
    ],
)
def test_built_in_files_are_found_by_every_spelling(place: Path, path: str, instance: str) -> None:
    write(place, env=ENV)
    extra = ["models/vllm_model"] if instance == "example_single_tool_call" else []
    config = load_config([path, *extra], cwd=place)
    assert instance in names(config)
    if "training" in path:
        assert config.server("policy_model").replicas == 1


def test_files_of_the_working_directory_come_first(place: Path) -> None:
    own = MCQA.replace("grading_mode: null", "grading_mode: lenient_boxed")
    write(place, resources_servers__mcqa__configs__mcqa=own)
    config = load_config(["resources_servers/mcqa/configs/mcqa.yaml"], cwd=place)
    assert config.server("mcqa").config["grading_mode"] == "lenient_boxed"


def test_old_names_become_todays(place: Path) -> None:
    write(place, counter=COUNTER, model=OPENAI_MODEL, env=ENV)
    config = load_config(["counter.yaml", "model.yaml"], cwd=place)
    assert config.server("stateful_counter").implementation == "example_session_state_mgmt"
    model = config.server("policy_model")
    assert model.config["openai_model"] == "some-model"
    assert "openai_model_name" not in model.config


def test_a_users_own_server_keeps_an_old_name(place: Path) -> None:
    (place / "mine.py").write_text("")
    own = "x: {resources_servers: {workbench: {entrypoint: 'mine.py:Mine'}}}"
    write(place, own=own, package=own.replace("mine.py:Mine", "my.pkg:Mine"))
    server = load_config(["own.yaml"], cwd=place).server("x")
    assert server.implementation == "workbench"
    assert server.entrypoint == f"{place / 'mine.py'}:Mine"
    assert load_config(["package.yaml"], cwd=place).server("x").entrypoint == "my.pkg:Mine"


def test_an_entrypoint_file_may_lie_beside_its_yaml(place: Path) -> None:
    write(place, sub__own="x: {resources_servers: {own: {entrypoint: 'mine.py:Mine'}}}")
    (place / "sub/mine.py").write_text("")
    assert load_config(["sub/own.yaml"], cwd=place).server("x").entrypoint == f"{place / 'sub/mine.py'}:Mine"


def test_top_level_settings_of_nemo_gym_are_accepted_and_used(place: Path) -> None:
    text = "head_server: {host: 0.0.0.0}\nuv_cache_dir: x\ndefault_host: 10.0.0.1\nskip_verification: true\n"
    write(place, weather=WEATHER + text, model=VLLM_MODEL, env=ENV)
    config = load_config(["weather.yaml", "model.yaml"], ["+limit=5", "+dry_run=true"], cwd=place)
    assert config.server("policy_model").host == "10.0.0.1"
    assert config.server("example_single_tool_call_simple_agent").config["skip_verification"] is True
    assert "skip_verification" not in config.server("policy_model").config


def test_remote_and_placed_servers(place: Path) -> None:
    text = """
far: {resources_servers: {somebody_elses: {placement: remote, host: gpu1, port: 7000}}}
near: {resources_servers: {mcqa: {placement: venv, num_workers: 2, port: 0}}}
"""
    write(place, a=text)
    config = load_config(["a.yaml"], cwd=place)
    assert (config.server("far").placement, config.server("far").port) == ("remote", 7000)
    assert (config.server("near").placement, config.server("near").replicas) == ("venv", 2)


def test_overrides_know_old_names(place: Path) -> None:
    write(place, env=ENV)
    override = "+simple_weather.resources_servers.simple_weather.extra=1"
    config = load_config(["simple_weather", "models/vllm_model"], [override], cwd=place)
    assert config.server("example_single_tool_call").config["extra"] == 1


def test_the_policy_model_can_be_redirected_on_the_command_line(place: Path) -> None:
    write(place, env=ENV, weather=WEATHER, big=VLLM_MODEL.replace("policy_model:", "Big-Model-30B:"))
    override = "++policy_model=${inherit_from:Big-Model-30B}"
    config = load_config(["weather.yaml", "big.yaml"], [override], cwd=place)
    assert config.server("policy_model").implementation == "vllm_model"
    assert "Big-Model-30B" not in names(config)


# The result.


def test_a_dump_of_the_resolved_configuration_loads_again(place: Path) -> None:
    write(place, env=ENV, weather=WEATHER, model=VLLM_MODEL)
    config = load_config(["weather.yaml", "model.yaml"], cwd=place)
    (place / "env.yaml").unlink()
    write(place, dump=yaml.safe_dump(config.raw))
    again = load_config(["dump.yaml"], cwd=place)
    assert [s.model_copy(update={"source_file": ""}) for s in again.servers] == [
        s.model_copy(update={"source_file": ""}) for s in sorted(config.servers, key=lambda s: s.name)
    ]


def test_an_unknown_server_name_is_a_key_error_with_advice(place: Path) -> None:
    write(place, a=MCQA)
    with pytest.raises(KeyError, match="Did you mean 'mcqa'"):
        load_config(["a.yaml"], cwd=place).server("mqca")


def test_an_empty_configuration_has_no_servers(place: Path) -> None:
    write(place, a="")
    assert load_config(["a.yaml"], cwd=place).servers == []
    assert load_config([], cwd=place).servers == []


def test_built_in_servers_are_listed_without_importing_them(place: Path) -> None:
    assert {"mcqa", "example_multi_step"} <= set(builtin_names("resources"))
    folder = builtin_folder("resources", "mcqa")
    assert folder is not None
    (folder / "data").mkdir()
    (folder / "data/example.jsonl").write_text("{}")
    assert builtin_path("resources_servers/mcqa/data/example.jsonl") == folder / "data/example.jsonl"
    assert builtin_path("resources_servers/mcqa/data/none.jsonl") is None
    assert builtin_folder("agent", "mcqa") is None


def test_importing_the_package_leaves_omegaconf_and_yaml_alone() -> None:
    code = "import sys, gymd.config; assert not {'omegaconf', 'yaml', 'grpc', 'openai'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_name_in_all_exists() -> None:
    import gymd.config

    assert all(hasattr(gymd.config, name) for name in gymd.config.__all__)
    assert gymd.config.ConfigError is ConfigError

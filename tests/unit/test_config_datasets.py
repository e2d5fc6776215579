"""Dataset blocks: typed when they are right, named with file, key and advice when they are not."""

from pathlib import Path

import pytest

from gymd.config import (
    ConfigError,
    DatasetConfig,
    GitlabSource,
    HuggingfaceSource,
    Problem,
    find_data,
    load_config,
)

AGENT = """
player:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
"""
OTHERS = """
mcqa: {resources_servers: {mcqa: {domain: knowledge}}}
policy_model: {responses_api_models: {scripted_model: {}}}
"""
KEY = "player.responses_api_agents.simple_agent.datasets"
TRAIN = "name: train, type: train, jsonl_fpath: d.jsonl, license: Apache 2.0"


def load(place: Path, *blocks: str) -> list[DatasetConfig]:
    (place / "a.yaml").write_text(AGENT + "".join(f"      - {{{block}}}\n" for block in blocks) + OTHERS)
    return load_config(["a.yaml"], cwd=place).server("player").datasets


def problems(place: Path, *blocks: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load(place, *blocks)
    return caught.value.problems


def test_a_block_of_the_developer_how_to(tmp_path: Path) -> None:
    text = AGENT + (
        "      - name: train\n"
        "        type: train\n"
        "        license: Apache 2.0\n"
        "        jsonl_fpath: resources_servers/multineedle/data/train.jsonl\n"
        "        num_repeats: 4\n"
        "        start_idx: 10\n"
        "        end_idx: 20\n"
        "        gitlab_identifier:\n"
        "          dataset_name: multineedle\n"
        "          version: 0.0.1\n"
        "          artifact_fpath: multineedle/train.jsonl\n"
    )
    (tmp_path / "a.yaml").write_text(text + OTHERS)
    (dataset,) = load_config(["a.yaml"], cwd=tmp_path).server("player").datasets
    assert (dataset.name, dataset.type, dataset.num_repeats) == ("train", "train", 4)
    assert (dataset.start_idx, dataset.end_idx) == (10, 20)
    source = GitlabSource(
        dataset_name="multineedle", version="0.0.1", artifact_fpath="multineedle/train.jsonl"
    )
    assert dataset.sources == [source]


def test_defaults_and_later_keys_of_nemo_gym(tmp_path: Path) -> None:
    (dataset,) = load(
        tmp_path, "name: e, type: example, jsonl_fpath: e.jsonl, prompt_config: p.yaml, license: null"
    )
    assert (dataset.start_idx, dataset.end_idx, dataset.num_repeats, dataset.license) == (0, None, 1, None)
    assert dataset.sources == []
    (dataset,) = load(tmp_path, "name: b, type: benchmark, jsonl_fpath: b.jsonl")
    assert dataset.type == "benchmark"


def test_sources_in_both_forms(tmp_path: Path) -> None:
    (dataset,) = load(
        tmp_path,
        f"{TRAIN}, source: {{type: huggingface, repo_id: o/n, artifact_fpath: t.jsonl}}, "
        "huggingface_identifier: {repo_id: o/n, artifact_fpath: t.jsonl}, "
        "gitlab_identifier: {dataset_name: x, version: 1.2.3, artifact_fpath: t.jsonl}",
    )
    assert dataset.sources == [
        HuggingfaceSource(repo_id="o/n", artifact_fpath="t.jsonl"),
        GitlabSource(dataset_name="x", version="1.2.3", artifact_fpath="t.jsonl"),
    ]


# One mistake each: the block, the key below the block, words of the message and of the advice.
MISTAKES = {
    "no name": ("type: example, jsonl_fpath: e.jsonl", "name", "missing", "Set it"),
    "no file": ("name: e, type: example", "jsonl_fpath", "missing", "relative to the working directory"),
    "mandatory file": ("name: e, type: example, jsonl_fpath: '???'", "jsonl_fpath", "required", "++player"),
    "no type": ("name: e, jsonl_fpath: e.jsonl", "type", "missing", "validation"),
    "misspelt type": ("name: e, type: trian, jsonl_fpath: e", "type", "'trian' is no type", "'train'"),
    "foreign type": ("name: e, type: holdout, jsonl_fpath: e", "type", "no type", "train, validation"),
    "no licence": (
        "name: t, type: train, jsonl_fpath: t",
        "license",
        "needs a licence",
        "Apache 2.0, MIT",
    ),
    "no licence for validation": (
        "name: t, type: validation, jsonl_fpath: t",
        "license",
        "of type validation",
        "TBD",
    ),
    "an SPDX name": (
        "name: t, type: train, jsonl_fpath: t, license: CC-BY-4.0",
        "license",
        "'CC-BY-4.0' is no licence",
        "'Creative Commons Attribution 4.0 International'",
    ),
    "misspelt licence": (
        "name: e, type: example, jsonl_fpath: t, license: Apache-2.0",
        "license",
        "no licence",
        "'Apache 2.0'",
    ),
    "misspelt key": (
        "name: t, type: train, jsonl_fpath: t, licence: MIT",
        "licence",
        "no key",
        "'license'",
    ),
    "misspelt required key": ("name: t, type: example, jsonl_path: t", "jsonl_path", "no key", "jsonl_fpath"),
    "negative start": (f"{TRAIN}, start_idx: -1", "start_idx", "greater than or equal to 0", "from 0"),
    "empty slice": (f"{TRAIN}, start_idx: 5, end_idx: 5", "end_idx", "leaves no row", "not used any more"),
    "no repeats": (f"{TRAIN}, num_repeats: 0", "num_repeats", "greater than or equal to 1", "from 1"),
    "unknown source": (f"{TRAIN}, source: {{type: gitlba}}", "source.type", "'gitlba'", "'gitlab'"),
    "untyped source": (f"{TRAIN}, source: {{repo_id: o/n}}", "source.type", "None is no type", "huggingface"),
    "incomplete source": (
        f"{TRAIN}, source: {{type: huggingface}}",
        "source.repo_id",
        "missing",
        "organisation/name",
    ),
    "misspelt key of a source": (
        f"{TRAIN}, source: {{type: huggingface, repo_idd: o/n}}",
        "source.repo_idd",
        "no key",
        "'repo_id'",
    ),
    "version as a number": (
        f"{TRAIN}, gitlab_identifier: {{dataset_name: x, version: 1.0, artifact_fpath: f}}",
        "gitlab_identifier.version",
        "valid string, not 1.0",
        "'0.0.1'",
    ),
    "incomplete identifier": (
        f"{TRAIN}, gitlab_identifier: {{dataset_name: x, version: 1.0.0}}",
        "gitlab_identifier.artifact_fpath",
        "missing",
        "Set it",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, name: str) -> None:
    block, key, message, advice = MISTAKES[name]
    found = problems(tmp_path, block)
    assert len(found) == 1, found
    assert found[0].file == "a.yaml"
    assert found[0].key == f"{KEY}[0].{key}"
    assert message in found[0].message
    assert advice in found[0].advice


def test_every_mistake_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "type: trian, num_repeat: 2",
        TRAIN,
        "name: v, type: validation, jsonl_fpath: v, start_indx: 3",
    )
    assert [(problem.key.removeprefix(KEY), problem.message.split(" ")[-1]) for problem in found] == [
        ("[0].num_repeat", "block."),
        ("[0].name", "missing."),
        ("[0].type", "dataset."),
        ("[0].jsonl_fpath", "missing."),
        ("[2].start_indx", "block."),
        ("[2].license", "licence."),
    ]


def test_datasets_must_be_a_list(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(AGENT.rstrip() + " {name: x}\n" + OTHERS)
    with pytest.raises(ConfigError, match="must be a list of datasets"):
        load_config(["a.yaml"], cwd=tmp_path)


def test_where_a_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text("{}\n")
    assert find_data("own.jsonl", tmp_path) == tmp_path / "own.jsonl"
    assert find_data(str(tmp_path / "own.jsonl"), Path("/")) == tmp_path / "own.jsonl"
    assert find_data("other.jsonl", tmp_path) is None
    spellings = (
        "resources_servers/mcqa/data/example.jsonl",
        "resources/mcqa/data/example.jsonl",
        "servers/gymservers/resources/mcqa/data/example.jsonl",
    )
    found = {find_data(text, tmp_path) for text in spellings}
    assert len(found) == 1
    (path,) = found
    assert path is not None
    assert path.parts[-3:] == ("mcqa", "data", "example.jsonl")
    assert find_data("servers/gymservers", tmp_path) is None
    assert find_data("resources_servers/multineedle/data/example.jsonl", tmp_path) is not None


def test_a_file_beside_its_configuration_is_found_after_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "data").mkdir(parents=True)
    here.mkdir()
    block = "{name: t, type: example, jsonl_fpath: data/t.jsonl}"
    (there / "a.yaml").write_text(f"{AGENT}      - {block}\n{OTHERS}")
    monkeypatch.chdir(here)
    (dataset,) = load_config([there / "a.yaml"]).server("player").datasets
    assert dataset.find() is None
    beside = there / "data" / "t.jsonl"
    beside.write_text("{}\n")
    assert dataset.folder == there
    assert dataset.find() == beside
    assert "folder" not in dataset.model_dump()
    own = here / "data" / "t.jsonl"
    own.parent.mkdir()
    own.write_text("{}\n")
    assert dataset.find() == own
    own.unlink()
    # What the command line says is relative to where it was said.
    overrides = ["player.responses_api_agents.simple_agent.datasets[0].jsonl_fpath=data/t.jsonl"]
    (dataset,) = load_config([there / "a.yaml"], overrides).server("player").datasets
    assert dataset.folder is None
    assert dataset.find() is None
